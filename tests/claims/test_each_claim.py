"""Each empirical claim, with runs on both sides of it and in between; and which runs its rule takes."""

import pytest
from cases import CASES, SEEDS, decay, study

from idwbench.claims.verdicts import CLAIMS

# Comparisons that stay as they are in the runs of a claim; others below are about them.
FIXED = {11: "far influence", 14: "idw − "}


@pytest.mark.parametrize(("side", "verdict"), [(1, "holds"), (0, "undecided"), (-1, "does not hold")])
@pytest.mark.parametrize("number", [claim.number for claim in CLAIMS if claim.kind == "empirical"])
def test_each_claim_holds_or_fails_or_is_undecided(runs, number, side, verdict):
    CASES[number](runs, side)
    judged = runs.judge(number)
    assert judged.verdict == verdict, judged.reason
    assert bool(judged.reason) == (side != 1)
    fixed = FIXED.get(number, "none")
    outcomes = {finding.outcome for finding in judged.findings if not finding.label.startswith(fixed)}
    assert outcomes == {{1: "supported", 0: "undecided", -1: "refuted"}[side]}  # no comparison is without effect


@pytest.mark.parametrize("number", [claim.number for claim in CLAIMS if claim.kind == "empirical"])
def test_each_claim_needs_all_its_runs(runs, number):
    CASES[number](runs, 1)
    runs.runs = [run for run in runs.runs if max(run.config.seed, run.config.dataset.seed) < 4]
    judged = runs.judge(number)
    assert judged.verdict == "not enough runs"
    assert "4 of 5 seeds" in judged.reason


@pytest.mark.parametrize("power", [4, 8])
def test_each_power_in_depth_counts(runs, power):
    CASES[31](runs, 1)
    runs.runs = [run for run in runs.runs if run.config.model.parameters["attention_power"] != power]
    assert runs.judge(31).verdict == "not enough runs"


def test_influence_far_from_a_patch_refutes_a_sharp_decay(runs):
    decay(runs, 1)
    study(runs, influence=(1,), far=0.1, seeds=SEEDS)
    judged = runs.judge(11)
    assert (judged.verdict, judged.decisive.label) == ("does not hold", "far influence / largest, ε=0.001")
    assert judged.decisive.effect == pytest.approx(0.25)


def test_idw_must_be_below_other_methods_on_mnist(runs):
    CASES["above other methods on MNIST"](runs, 0)
    assert "idw − fc_relu, MNIST: +3.00 points" in runs.judge(14).reason


@pytest.mark.parametrize(("number", "what"), [(11, "influence"), (13, "changed"), (19, "loss")])
def test_patches_of_each_size_are_judged_and_the_verdict_is_that_of_the_authors(runs, number, what):
    """The exact η, of place 0, fails; that of the authors' code holds."""
    CASES[number](runs, 1)
    good = {run.run_key: runs.stored_arrays[run.run_key] for run in runs.runs}
    bad = type(runs)()
    CASES[number](bad, -1)
    for run, other in zip(runs.runs, bad.runs, strict=True):
        own, failing = good[run.run_key], bad.stored_arrays[other.run_key]
        for name in set(own) - {"influence_edges", "eta"}:
            own[name][0] = failing[name][2]
    judged = runs.judge(number)
    assert judged.verdict == "holds"
    assert judged.remarks[-2].startswith("With the exact η: does not hold (")
    assert judged.remarks[-1].startswith("With a logit margin of 1: ")


def test_the_learning_rate_is_that_of_the_best_validation_and_not_of_the_best_test(runs):
    CASES["rates by validation"](runs, 0)
    assert runs.judge(25).verdict == "does not hold"


def test_the_share_of_changed_predictions_is_that_of_all_other_test_inputs(runs):
    CASES["changes of heads"](runs, 0)
    judged = runs.judge(30)
    assert judged.decisive.effect == pytest.approx(100 * 5 / 360)
    assert judged.remarks[0].startswith("With the exact η: holds (other test predictions changed by a patch")


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
