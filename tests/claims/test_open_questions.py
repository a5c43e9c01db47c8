"""The questions that the paper leaves open, judged by runs with chosen results."""

import pytest
from claimed_runs import jitter

SEEDS = range(10)
DIGITS = {"name": "digits", "validation": 0.2}
VIT = {"kind": "network", "encoder": "vit_tiny", "dataset": DIGITS, "seeds": SEEDS}
TEXT = {"kind": "transformer_lm", "dataset": "aesop", "seeds": SEEDS}


def accuracies(mean, name, validation=None):
    """Return test and validation accuracies about a mean, none of them equal."""
    return {
        ("test", "accuracy"): lambda seed: mean + jitter(seed, name),
        ("validation", "accuracy"): mean if validation is None else validation,
    }


def vit(runs, attention, mean, validation=None, **settings):
    power = {"attention_power": 2.0, "attention_epsilon": 1e-3} if attention == "idw" else {}
    runs.add(accuracies(mean, attention, validation), **VIT, attention=attention, **{**power, **settings})


def test_the_learning_rate_is_that_of_the_best_validation_and_not_of_the_best_test(runs):
    vit(runs, "scaled_dot", 0.96)
    vit(runs, "idw", 0.94, validation=0.97, learning_rate=0.01)
    vit(runs, "idw", 0.99, validation=0.90, learning_rate=0.001)
    runs.add(accuracies(0.99, "idw", 0.99), **{**VIT, "seeds": [0]}, attention="idw", learning_rate=0.1)  # few seeds
    assert runs.judge(25).verdict == "does not hold"


def test_the_share_of_changed_predictions_is_that_of_all_other_test_inputs(runs):
    """A patch changes 5 of 342 right test predictions on average; 18 of 360 inputs are wrong."""
    for encoder in ("mlp", "conv"):
        metrics = {("test", "accuracy"): 0.95, ("cases", "patched"): 18, ("test", "changed_authors"): 5.0}
        settings = {"kind": "network", "dataset": DIGITS, "seeds": SEEDS, "encoder": encoder, "head": "idw"}
        runs.add({**metrics, ("test", "changed_exact"): 0.01}, prototypes=20, **settings)
    judged = runs.judge(30)
    assert judged.decisive.effect == pytest.approx(100 * 5 / 360)
    assert judged.remarks[0].startswith("With the exact η: holds (other test predictions changed by a patch")


def test_a_power_that_costs_accuracy_in_depth_is_found(runs):
    for power, mean in ((2.0, 0.96), (4.0, 0.96), (8.0, 0.90)):
        vit(runs, "idw", mean, attention_power=power)
    judged = runs.judge(31)
    assert judged.verdict == "does not hold"
    assert "p = 8" in judged.reason
    assert "p = 4" not in judged.reason


def test_costs_are_ratios_of_runs_with_the_same_seed(runs):
    for method, factor in (("scaled_dot", 1.0), ("idw", 1.8)):
        costs = {
            ("train", "seconds_per_step"): lambda seed, f=factor: f * (0.001 + 1e-5 * seed),
            ("train", "activation_memory"): factor,
        }
        vit_settings = {"attention_power": 2.0, "attention_epsilon": 1e-3} if method == "idw" else {}
        runs.add(costs, **VIT, attention=method, **vit_settings, epochs=12)
        runs.add(costs, **TEXT, method=method, epochs=3)
        longer = {**costs, ("train", "seconds_per_step"): 1.0 if method == "idw" else 0.001}
        runs.add(longer, **{**TEXT, "seeds": range(20)}, method=method, epochs=10)
    judged = runs.judge(32)
    assert judged.verdict == "holds"
    assert all(finding.effect == pytest.approx(1.8) for finding in judged.findings)


def test_capacities_are_compared_at_16_and_64_dimensions(runs):
    """Recall falls from 1 to 0 at once, between 8 and 16, or 64 and 128 items."""
    tables = (("idw", "none", {16: 64, 64: 8}), ("inner_product", "sqrt_dimensions", {16: 8, 64: 64}))
    for similarity, scaling, recalled in tables:
        for dimensions, most in recalled.items():
            for items in (8, 16, 64, 128):
                data = {"name": "lookup", "items": items, "dimensions": dimensions, "noise": 0.2}
                recall = {("test", "recall"): lambda seed, n=items, m=most: float(n <= m) - 1e-4 * seed * (n > m)}
                runs.add(recall, dataset=data, kind="hash_table", similarity=similarity, scaling=scaling, seeds=SEEDS)
    judged = runs.judge(33)
    assert judged.verdict == "does not hold"
    assert [finding.outcome for finding in judged.findings] == ["supported", "refuted"]
    at_16 = 64 * 2**0.01 - 8 * 2**0.01  # interpolated in log(items), 1 % of the way to the next number
    assert judged.findings[0].effect == pytest.approx(at_16, rel=1e-3)
    assert judged.remarks[0].startswith("d = 16: idw 64")


def test_tables_of_which_no_seed_has_every_number_of_items_have_no_capacity(runs):
    """And tables with other numbers of queries do not count beside those with more runs."""
    for similarity, scaling in (("idw", "none"), ("inner_product", "sqrt_dimensions")):
        settings = {"kind": "hash_table", "similarity": similarity, "scaling": scaling}
        for items in (8, 16):
            data = {"name": "lookup", "items": items, "dimensions": 4, "noise": 0.2}
            runs.add({("test", "recall"): 1.0}, dataset=data, seeds=[items], **settings)
            runs.add({("test", "recall"): 1.0}, dataset={**data, "queries": 512}, seeds=[items], **settings)
    judged = runs.judge(33)
    assert (judged.verdict, judged.remarks) == ("not enough runs", ())
