"""Each claim, with runs on both sides of it and in between; which runs its rule takes; and claims on formulas."""

import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from cases import CASES, DISTANCES, EDGES, SEEDS, about, cell, decay, lookups, study
from scipy.stats import spearmanr
from stored_runs import stored_run

from idwbench.attention.scores import METHODS
from idwbench.claims.formulas import EPSILON, TOLERANCE
from idwbench.claims.idw import far_influence_ratio, rank_correlation, reach
from idwbench.claims.methods import NEIGHBOURS, neighbour_distance, uniform_neighbour_distance
from idwbench.claims.verdicts import CLAIMS
from idwbench.data.loading import load_dataset
from idwbench.runs.datasets import TwoMoonsConfig
from idwbench.sweep.spec import plan, read_sweep, sweep_path


@pytest.mark.parametrize(("side", "verdict"), [(1, "holds"), (0, "undecided"), (-1, "does not hold")])
@pytest.mark.parametrize("number", [claim.number for claim in CLAIMS if claim.kind == "empirical"])
def test_each_claim_holds_or_fails_or_is_undecided(runs, number, side, verdict):
    CASES[number](runs, side)
    judged = runs.judge(number)
    assert judged.verdict == verdict, judged.reason
    assert bool(judged.reason) == (side != 1)
    # Comparisons that stay as they are in the runs of a claim; others below are about them.
    fixed = {11: "far influence", 14: "idw − "}.get(number, "none")
    outcomes = {finding.outcome for finding in judged.findings if not finding.label.startswith(fixed)}
    assert outcomes == {{1: "supported", 0: "undecided", -1: "refuted"}[side]}  # no comparison is without effect


@pytest.mark.parametrize("number", [claim.number for claim in CLAIMS if claim.kind == "empirical"])
def test_each_claim_needs_all_its_runs(runs, number):
    CASES[number](runs, 1)
    runs.runs = [run for run in runs.runs if max(run.config.seed, run.config.dataset.seed) < 4]
    judged = runs.judge(number)
    assert judged.verdict == "not enough runs" and "4 of 5 seeds" in judged.reason


def test_the_shipped_sweep_has_all_runs_of_the_claims_on_when_prototypes_form(runs):
    metrics = {("train", "key_agreement"): 1.0, ("test", "nearest_key_accuracy"): 1.0}
    runs.runs = [stored_run(config=one, metrics=metrics) for one in plan(read_sweep(sweep_path("formation_digits")))]
    assert {runs.judge(number).n for number in range(34, 41)} == {10}


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


# Runs by their name in the table, the claim, and the verdict with a part of what it says.
SAID = [
    ("above other methods on MNIST", 14, "does not hold", "idw − fc_relu, MNIST: +3.00 points"),
    ("coverage of baselines", 4, "not enough runs", "with 16 prototypes: idw 0.15, kmeans 0.125, samples 0.25."),
    ("two epsilons", 17, "holds", "Accuracy: p=1 − p=2: −9 at ε = 0.1."),
    ("rates by validation", 25, "does not hold", "idw − scaled_dot, ViT on digits: −2.00 points"),
    ("changes of heads", 30, "does not hold", "predictions changed by a patch, mlp: 1.39 % [1.39, 1.39]"),  # 5 of 360
    ("changes of heads", 30, "does not hold", "With the exact η: holds (other test predictions changed by a patch"),
]


@pytest.mark.parametrize(("case", "number", "verdict", "words"), SAID)
def test_a_verdict_says_what_decides_it_and_what_stands_beside_it(runs, case, number, verdict, words):
    CASES[case](runs, 0)
    judged = runs.judge(number)
    assert judged.verdict == verdict
    assert words in " ".join((judged.reason, *judged.remarks))


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


def test_capacities_are_compared_at_16_and_64_dimensions(runs):
    """Recall falls from 1 to 0 at once, between 8 and 16, or 64 and 128 items."""
    most = {("idw", 16): 64, ("idw", 64): 8, ("inner_product", 16): 8, ("inner_product", 64): 64}

    def recall(name, dimensions, items, seed):
        return 1.0 if items <= most[name, dimensions] else -1e-4 * seed

    lookups(runs, recall, (16, 64), (8, 16, 64, 128))
    judged = runs.judge(33)
    assert [judged.verdict, *(one.outcome for one in judged.findings)] == ["does not hold", "supported", "refuted"]
    at_16 = 64 * 2**0.01 - 8 * 2**0.01  # interpolated in log(items), 1 % of the way to the next number
    assert judged.findings[0].effect == pytest.approx(at_16, rel=1e-3)
    assert judged.remarks[0].startswith("d = 16: idw 64")


def test_tables_of_which_no_seed_has_every_number_of_items_have_no_capacity(runs):
    """And tables with other numbers of queries do not count beside those with more runs."""
    for items, queries in product((8, 16), (256, 512)):
        lookups(runs, lambda *_: 1.0, (4,), (items,), seeds=[items], queries=queries)
    judged = runs.judge(33)
    assert (judged.verdict, judged.remarks) == ("not enough runs", ())


@pytest.fixture(scope="module")
def moons():
    return load_dataset(TwoMoonsConfig()).train.inputs.astype(np.float64)


def test_random_training_points_are_not_where_the_data_is_dense(runs, moons):
    """They are nearer to their neighbours than uniformly random positions."""

    def keys(seed):
        return {"keys": moons[np.random.default_rng(seed).choice(len(moons), 128, replace=False)]}

    for prototypes in (16, 128):
        runs.add(seeds=range(20), arrays=keys, method="idw", prototypes=prototypes)
    judged = runs.judge(22)
    assert judged.verdict == "undecided"
    at_points, at_random = map(float, re.findall(r"[\d.]+(?= from)", judged.remarks[0]))
    assert at_points < at_random
    # The measure of density is the distance to the tenth neighbour.
    points = np.random.default_rng(3).normal(size=(7, 2))
    distances = np.sort(np.sqrt(((points[:, None] - moons) ** 2).sum(-1)), axis=1)
    assert neighbour_distance(points, moons) == pytest.approx(np.median(distances[:, NEIGHBOURS - 1]), abs=1e-12)
    square = np.random.default_rng(0).uniform(size=(2000, 2))
    assert uniform_neighbour_distance(square) == pytest.approx(np.sqrt(10 / (np.pi * 2000)), rel=0.1)


def test_diverged_runs_count_as_unstable_and_are_reported(runs):
    cell(runs, about(0.99))
    for epsilon in (0.0, 1e-6):
        settings = {"method": "idw", "prototypes": 16, "power": 2.0, "epsilon": epsilon}
        metrics = {("holdout", "accuracy"): lambda seed: 0.99 - 0.01 * seed}
        runs.add(metrics, seeds=range(6), **settings).add(seeds=range(6, 10), state="diverged", **settings)
    judged = runs.judge(21)
    assert judged.decisive.n == 10 and "at ε = 0 (4 of 10)" in judged.remarks[0]
    assert judged.decisive.effect > 10  # points: diverged runs count with 50 %


def test_pooling_over_epsilon_does_not_decide_what_interpretability_costs(runs):
    """Within each ε accuracy grows with coverage; over all it falls, since ε lowers the one and raises the other."""
    for (place, power), (step, epsilon) in product(enumerate((1, 2, 4, 8, 16)), enumerate((1e-3, 1e-2, 1e-1, 1.0))):
        accuracy, coverage = 0.95 - 0.1 * step + 0.01 * place, 0.1 + 0.2 * step + 0.01 * place
        cell(runs, about(accuracy, 0.001), about(coverage), float(power), epsilon)
    for power, accuracy, agreement, coverage in ((2.0, 0.88, 0.9, 23.0), (64.0, 0.93, 0.5, 25.0)):
        quality = {("train", "key_agreement"): agreement, ("train", "coverage"): coverage}
        metrics = {("test", "accuracy"): accuracy, **quality}
        runs.add(metrics, seeds=SEEDS, method="idw", prototypes=20, dataset="mnist", power=power)
    judged = runs.judge(24)
    assert judged.verdict == "holds" and "which mixes the effects of both: does not hold (" in judged.remarks[-1]


def test_the_correlation_is_spearmans_and_reach_and_far_influence_are_read_from_the_bins():
    first, second = [0.1, 0.4, 0.2, 0.9, 0.3], [0.5, 0.5, 0.1, 0.7, 0.9]
    assert rank_correlation(first, second) == pytest.approx(spearmanr(first, second)[0])
    assert rank_correlation([1.0, 1.0], [1.0, 2.0]) == 0
    arrays = {"influence_edges": EDGES, "influence": np.tile([0.4, np.nan, 0.2, 0.1, 0.02, np.nan], (3, 1))}
    assert reach(arrays, 0) == 0.5
    assert far_influence_ratio(arrays, 0) == pytest.approx(0.05)
    nothing = {"influence_edges": EDGES, "influence": np.full((3, 6), np.nan)}
    for function in (reach, far_influence_ratio):
        assert not np.isfinite(function(nothing, 0))
        with pytest.raises(KeyError):  # which counts as a run without influence
            function({}, 0)


def altered(name, monkeypatch, change):
    """Register a score that is `change` of the true one."""
    method = METHODS[name]

    def score(inputs, keys, **parameters):
        return change(method.score, inputs, keys, parameters)

    monkeypatch.setitem(METHODS, name, replace(method, score=score))


@pytest.mark.parametrize(("number", "factor"), [(6, 0.9), (7, -1), (8, 0.9), (9, 0.5)])
def test_the_identities_and_limits_hold_for_their_score_alone(runs, number, factor, monkeypatch):
    judged = runs.judge(number)
    assert (judged.verdict, judged.claim.sweeps) == ("holds", ())
    assert judged.n >= 10
    if number == 7:  # the order of the limits is part of the verdict
        assert any("all d < 1" in finding.label for finding in judged.findings)
        assert "Only in this order" in judged.remarks[0]
    if number == 9:  # a third score that reaches weight one refutes "only"
        with monkeypatch.context() as patched:
            altered("gaussian", patched, lambda score, inputs, keys, given: 100 * score(inputs, keys, **given))
            assert "gaussian" in runs.judge(9).reason
    altered("idw", monkeypatch, lambda score, inputs, keys, given: factor * score(inputs, keys, **given))
    assert runs.judge(number).verdict == "does not hold"


def test_the_gradient_is_judged_where_epsilon_and_distance_weigh_the_same(runs, monkeypatch):
    judged, idw = runs.judge(10), METHODS["idw"].score
    assert judged.verdict == "holds"
    d, expected = EPSILON**0.5, 1 / EPSILON**0.5  # 2d/(ε + d²)
    assert judged.findings[0].effect == pytest.approx(expected)
    assert f"d = {d:.2g}" in judged.findings[0].label
    nearest, flat = map(float, re.search(r"from d = (\S+) to (\S+)\.", judged.remarks[0]).groups())
    assert [2 * nearest / EPSILON, 2 * flat] == pytest.approx([0.1, 0.1], rel=0.1)  # of idw and neg_dist
    for name in DISTANCES:
        with monkeypatch.context() as patched:  # another score with the gradient of idw
            altered(name, patched, lambda score, inputs, keys, given: idw(inputs, keys, power=2.0, epsilon=EPSILON))
            assert name in runs.judge(10).reason
    altered("idw", monkeypatch, lambda score, inputs, keys, given: 0.001 * score(inputs, keys, **given))
    assert runs.judge(10).verdict == "does not hold"


def test_eta_as_printed_is_too_large_and_without_its_power_the_smallest(runs, monkeypatch):
    judged = runs.judge(12)
    assert (judged.verdict, judged.claim.kind) == ("does not hold", "by formula")
    assert judged.decisive.effect == pytest.approx(2)
    assert "0.1 % at p = 2 and ε = 0.001" in judged.remarks[0]
    assert float(re.search(r"the smallest, to (\S+)\. ", judged.remarks[0]).group(1)) < TOLERANCE
    # Weights of which the new key has none of ε^p more than the formula without it says: then it is too small.
    altered("idw", monkeypatch, lambda score, inputs, keys, given: 1.1 * score(inputs, keys, **given))
    assert runs.judge(12).verdict == "does not hold"
    monkeypatch.undo()
    monkeypatch.setattr("idwbench.claims.formulas.SMALLEST", 2.1)
    assert runs.judge(12).verdict == "holds"


def test_the_printed_expansion_is_a_misprint(runs):
    judged = runs.judge(20)
    assert judged.verdict == "does not hold" and judged.decisive.effect > 1
    assert "with −2qᵀk the largest deviation is" in judged.remarks[0]
    assert float(judged.remarks[0].split()[-1].rstrip(".")) < 1e-12
