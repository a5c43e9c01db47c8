"""The questions that the paper leaves open, judged by runs with chosen results."""

from itertools import product

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


@pytest.mark.parametrize(("idw", "verdict"), [(0.955, "holds"), (0.94, "does not hold")])
def test_attention_may_lose_less_than_a_point_of_accuracy(runs, idw, verdict):
    vit(runs, "idw", idw)
    vit(runs, "scaled_dot", 0.956)
    judged = runs.judge(25)
    assert judged.verdict == verdict
    assert judged.decisive.effect == pytest.approx(100 * (idw - 0.956), abs=0.3)


def test_the_learning_rate_is_that_of_the_best_validation_and_not_of_the_best_test(runs):
    vit(runs, "scaled_dot", 0.96)
    vit(runs, "idw", 0.94, validation=0.97, learning_rate=0.01)
    vit(runs, "idw", 0.99, validation=0.90, learning_rate=0.001)
    runs.add(accuracies(0.99, "idw", 0.99), **{**VIT, "seeds": [0]}, attention="idw", learning_rate=0.1)  # few seeds
    assert runs.judge(25).verdict == "does not hold"


@pytest.mark.parametrize(("mean", "verdict"), [(2.02, "holds"), (2.10, "does not hold")])
def test_a_language_model_may_lose_a_twentieth_of_a_bit(runs, mean, verdict):
    for method, bits in (("scaled_dot", 2.0), ("idw", mean)):
        metrics = {("test", "bits_per_character"): lambda seed, b=bits, m=method: b + jitter(seed, m) / 10}
        runs.add(metrics, **TEXT, method=method)
    assert runs.judge(26).verdict == verdict


def key_metrics(distance):
    """Return metrics of keys; coverage 4 is twice the distance between neighbours, which is 2."""
    shared = {("train", "coverage"): 4.0, ("train", "relative_coverage"): 2.0}
    agreement = {("train", "key_agreement"): lambda seed: 0.97 + jitter(seed, "idw") / 10}
    return {**shared, **agreement, ("train", "key_distance"): lambda seed: distance + jitter(seed, "idw")}


def coverages(mean, name):
    return {("train", "relative_coverage"): lambda seed: mean + jitter(seed, name)}


def changes(mean):
    """Return how many of 342 right test predictions a patch changes; 18 of 360 inputs are wrong."""
    changed = {("test", "changed_exact"): lambda seed: mean + abs(jitter(seed, "idw"))}
    return {("test", "accuracy"): 0.95, ("cases", "patched"): 18, **changed}


@pytest.mark.parametrize(
    ("number", "metrics", "verdict"),
    [
        (27, {"idw": accuracies(0.961, "idw"), "linear": accuracies(0.96, "linear")}, "holds"),
        (27, {"idw": accuracies(0.93, "idw"), "linear": accuracies(0.96, "linear")}, "does not hold"),
        (28, {"idw": key_metrics(1.0)}, "holds"),
        (28, {"idw": key_metrics(4.0)}, "does not hold"),
        (29, {"idw": coverages(1.5, "idw"), "scaled_dot": coverages(3.0, "scaled_dot")}, "holds"),
        (30, {"idw": changes(0.01)}, "holds"),
        (30, {"idw": changes(5.0)}, "does not hold"),
    ],
)
def test_heads_are_judged_with_both_encoders(runs, number, metrics, verdict):
    for encoder, (name, measured) in product(("mlp", "conv"), metrics.items()):
        prototypes = {} if name == "linear" else {"prototypes": 20}
        runs.add(measured, kind="network", dataset=DIGITS, seeds=SEEDS, encoder=encoder, head=name, **prototypes)
    judged = runs.judge(number)
    assert judged.verdict == verdict
    if number == 30 and verdict == "does not hold":
        assert judged.decisive.effect == pytest.approx(100 * 5.0 / 360, rel=0.1)


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
    assert [finding.outcome for finding in judged.findings] == ["supported", "not supported"]
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
