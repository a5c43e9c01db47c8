"""Each empirical claim, with runs on both sides of it and in between."""

import pytest
from cases import CASES, SEEDS, accuracies, decay, study

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
    runs.runs = [run for run in runs.runs if run.config.seed < 4]
    judged = runs.judge(number)
    assert judged.verdict == "not enough runs"
    assert "4 of 5 seeds" in judged.reason


def test_influence_far_from_a_patch_refutes_a_sharp_decay(runs):
    decay(runs, 1)
    study(runs, influence=(1,), far=0.1, seeds=SEEDS)
    judged = runs.judge(11)
    assert (judged.verdict, judged.decisive.label) == ("does not hold", "far influence / largest, ε=0.001")
    assert judged.decisive.effect == pytest.approx(0.25)


def test_idw_must_be_below_other_methods_on_mnist(runs):
    accuracies(runs, "idw", ["fc_relu", "scaled_dot"], [20], 0.88, 0.002, "mnist", 0.85)
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
