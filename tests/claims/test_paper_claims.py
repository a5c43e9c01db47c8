"""The claims on methods, power and epsilon, and patches: data for each verdict; and on formulas, which need no runs.

Without runs the others lack them, see `test_findings`.
"""

import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from claimed_runs import SIX_METHODS, jitter
from scipy.stats import spearmanr

from idwbench.attention.scores import METHODS
from idwbench.claims.idw import EPSILONS, POWERS, far_influence_ratio, rank_correlation, reach
from idwbench.claims.methods import NEIGHBOURS, neighbour_distance, uniform_neighbour_distance
from idwbench.data.loading import load_dataset
from idwbench.runs.datasets import TwoMoonsConfig

EQUAL = dict.fromkeys(SIX_METHODS, 0.9)
TABLE_1 = {"fc_relu": 0.96, "scaled_dot": 0.93, "neg_dist": 0.84, "gaussian": 0.11, "inv_dist": 0.12, "idw": 0.88}
HALF = dict.fromkeys(SIX_METHODS, 0.5)
FAR = dict.fromkeys(SIX_METHODS, 17.0)
SECOND = EQUAL | {"inv_dist": 0.95, "idw": 0.99}


# Methods


@pytest.mark.parametrize(
    ("number", "metric", "prototypes", "means", "verdict", "words"),
    [
        (1, "accuracy", [16], EQUAL | {"idw": 0.99}, "holds", ""),
        (1, "accuracy", [16], EQUAL | {"idw": 0.99, "inv_dist": 0.99}, "does not hold", "idw − inv_dist, 16"),
        (1, "accuracy", [16], EQUAL | {"idw": 0.99, "neg_dist": None}, "not enough runs", "neg_dist, 16 prototypes: 0"),
        (2, "accuracy", [128], EQUAL | {"idw": 0.99}, "holds", ""),
        (2, "accuracy", [128], EQUAL, "does not hold", "128 prototypes"),
        (3, "accuracy", [2, 16, 128], SECOND, "holds", ""),
        (3, "accuracy", [16, 128], SECOND, "not enough runs", "2 prototypes: 0 of 6 seeds"),
        (3, "accuracy", [2, 16, 128], EQUAL | {"inv_dist": 0.8}, "does not hold", "the opposite"),
        (4, "coverage", [16, 128], HALF | {"idw": 0.15}, "holds", ""),
        (4, "coverage", [16, 128], HALF | {"idw": 0.15, "inv_dist": 0.15}, "does not hold", "inv_dist"),
        (4, "coverage", [16], HALF | {"idw": 0.15}, "not enough runs", "idw, 128 prototypes: 0 of 6 seeds"),
    ],
)
def test_methods_are_compared_on_two_moons(runs, number, metric, prototypes, means, verdict, words):
    for method, value in (("kmeans", 0.125), ("samples", 0.25)):
        runs.add({("train", "coverage"): value}, kind="baseline", method=method, prototypes=16)
    judged = runs.measured(metric, means, prototypes).judge(number)
    assert judged.verdict == verdict
    assert words in judged.reason
    if number == 4:
        assert "Mean coverage with 16 prototypes: idw 0.15, kmeans 0.125, samples 0.25." in judged.remarks


@pytest.mark.parametrize(
    ("number", "metric", "means", "words"),
    [
        (14, "accuracy", TABLE_1, ""),
        (14, "accuracy", TABLE_1 | {"idw": 0.91}, "91"),
        (14, "accuracy", TABLE_1 | {"fc_relu": 0.87}, "idw − fc_relu"),
        (15, "accuracy", TABLE_1, ""),
        (15, "accuracy", TABLE_1 | {"neg_dist": 0.875}, "idw − neg_dist, MNIST"),
        (16, "key_distance", FAR | {"idw": 9.0}, ""),
        (16, "key_distance", FAR | {"idw": 60.0}, "key distance: idw − "),
    ],
)
def test_methods_are_compared_on_mnist_in_every_seed(runs, number, metric, means, words):
    few = runs.measured(metric, means, [20], dataset="mnist", seeds=range(4)).judge(number)
    assert few.verdict == "not enough runs"
    assert "idw, 20 prototypes, MNIST: 4 of 5 seeds" in few.reason
    judged = runs.measured(metric, means, [20], dataset="mnist", seeds=[4]).judge(number)
    assert judged.verdict == ("does not hold" if words else "holds")
    assert words in judged.reason


@pytest.mark.parametrize(
    ("dead_keys", "spacing", "verdict"), [(7.0, 0.2, "holds"), (7.0, 0.4, "does not hold"), (2.0, 0.2, "does not hold")]
)
def test_clumps_have_dead_keys_and_a_small_spacing(runs, dead_keys, spacing, verdict):
    for n, (method, dead, apart) in product((16, 128), (("inv_dist", dead_keys, spacing), ("idw", 2.0, 0.4))):
        metrics = {
            ("train", "dead_keys"): lambda seed, dead=dead: dead + seed % 3,
            ("train", "key_spacing"): lambda seed, apart=apart: apart + 0.001 * seed,
        }
        runs.add(metrics, method=method, prototypes=n)
    assert runs.judge(5).verdict == verdict


@pytest.mark.parametrize(("idw", "verdict"), [(0.5, "holds"), (2.1, "does not hold")])
def test_two_keys_cluster_if_they_are_nearer_than_two_centres(runs, idw, verdict):
    runs.measured("key_spacing", {"idw": idw}, [2]).measured("key_spacing", {"kmeans": 1.5}, [2], kind="baseline")
    assert runs.judge(23).verdict == verdict


@pytest.fixture(scope="module")
def moons():
    return load_dataset(TwoMoonsConfig()).train.inputs.astype(np.float64)


@pytest.mark.parametrize(
    ("where", "verdict"), [("data", "holds"), ("corner", "does not hold"), ("", "not enough runs")]
)
def test_keys_on_the_data_are_where_it_is_dense(runs, moons, where, verdict):
    def keys(seed):
        generator = np.random.default_rng(seed)
        chosen = moons[generator.choice(len(moons), 16, replace=False)]
        return {"keys": chosen if where == "data" else generator.normal(moons.max(0), 0.05, (16, 2))}

    for prototypes in (16, 128):
        runs.add(arrays=keys if where else None, method="idw", prototypes=prototypes)
    judged = runs.judge(22)
    assert judged.verdict == verdict
    assert where or "20 runs without keys" in judged.reason


def test_the_measure_of_density_is_the_distance_to_the_tenth_neighbour(moons):
    points = np.random.default_rng(3).normal(size=(7, 2))
    distances = np.sort(np.sqrt(((points[:, None] - moons) ** 2).sum(-1)), axis=1)
    assert neighbour_distance(points, moons) == pytest.approx(np.median(distances[:, NEIGHBOURS - 1]), abs=1e-12)
    square = np.random.default_rng(0).uniform(size=(2000, 2))
    assert uniform_neighbour_distance(square) == pytest.approx(np.sqrt(10 / (np.pi * 2000)), rel=0.1)


# Power and epsilon


def cell(runs, accuracy, coverage, power=2.0, epsilon=1e-3, seeds=10, spread=0.001):
    def around(mean):
        return lambda seed: mean + spread * jitter(seed, f"{power} {epsilon}") / 0.002

    metrics = {("holdout", "accuracy"): around(accuracy), ("train", "coverage"): around(coverage)}
    return runs.add(metrics, seeds=range(seeds), method="idw", prototypes=16, power=power, epsilon=epsilon)


@pytest.mark.parametrize(
    ("number", "powers", "accuracy", "coverage", "verdict"),
    [
        (17, [1.0], 0.96, 0.15, "holds"),
        (17, [1.0], 0.99, 0.15, "does not hold"),
        (18, [8.0, 16.0], 0.985, 0.4, "holds"),
        (18, [8.0], 0.985, 0.4, "not enough runs"),
        (18, [8.0], 0.97, 0.4, "does not hold"),
        (18, [8.0], 0.985, 0.15, "does not hold"),
    ],
)
def test_powers_are_compared_with_power_two(runs, number, powers, accuracy, coverage, verdict):
    """Large powers keep accuracy within a point and lose coverage."""
    cell(runs, 0.99, 0.15)
    for power in powers:
        cell(runs, accuracy, coverage, power=power)
    assert runs.judge(number).verdict == verdict


def test_other_epsilons_are_remarks(runs):
    for power, epsilon in product((1.0, 2.0), (1e-3, 0.1)):
        cell(runs, 0.99 if power == 2 else 0.9, 0.15, power, epsilon)
    (remark,) = runs.judge(17).remarks
    assert re.fullmatch(r"Accuracy: p=1 − p=2: −(9|8\.\d+|9\.\d+) at ε = 0\.1\.", remark)


@pytest.mark.parametrize(("spread", "verdict"), [(0.1, "holds"), (0.001, "does not hold")])
def test_training_is_unstable_if_seeds_differ_more(runs, spread, verdict):
    cell(runs, 0.9, 0.15)
    for epsilon in (0.0, 1e-6):
        cell(runs, 0.9, 0.15, epsilon=epsilon, spread=spread)
    assert runs.judge(21).verdict == verdict


def test_diverged_runs_count_as_unstable_and_are_reported(runs):
    cell(runs, 0.99, 0.15)
    for epsilon in (0.0, 1e-6):
        settings = {"method": "idw", "prototypes": 16, "power": 2.0, "epsilon": epsilon}
        metrics = {("holdout", "accuracy"): lambda seed: 0.99 - 0.01 * seed}
        runs.add(metrics, seeds=range(6), **settings).add(seeds=range(6, 10), state="diverged", **settings)
    judged = runs.judge(21)
    assert judged.decisive.n == 10
    assert "at ε = 0 (4 of 10)" in judged.remarks[0]
    assert judged.decisive.effect > 10  # points: diverged runs count with 50 %


@pytest.mark.parametrize(("slope", "verdict"), [(0.05, "holds"), (0.0, "does not hold")])
def test_interpretability_costs_if_worse_coverage_goes_with_accuracy_in_every_cell(runs, slope, verdict):
    for place, (power, epsilon) in [*enumerate(product(POWERS, EPSILONS))][::-1]:
        if place == 0:
            assert runs.judge(24).reason == "idw, 16 prototypes, p=1, ε=0.001: 0 of 6 seeds"
        coverage = 0.1 + 0.1 * (place * 7 % 20)
        cell(runs, 0.9 + slope * coverage, coverage, power, epsilon, seeds=6)
    assert runs.judge(24).verdict == verdict


def test_the_correlation_is_spearmans():
    first, second = [0.1, 0.4, 0.2, 0.9, 0.3], [0.5, 0.5, 0.1, 0.7, 0.9]
    assert rank_correlation(first, second) == pytest.approx(spearmanr(first, second)[0])
    assert np.isnan(rank_correlation([1.0, 1.0], [1.0, 2.0]))


# Patches

EDGES = np.array([0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0])
SHORT = (0.4, 0.4, 0.2, 0.1, 0.02, np.nan)


def study(
    runs, prototypes=16, dataset="two_moons", seeds=20, changed=3, loss=0.001, influence=SHORT, smallest=1.0, **p
):
    """Add studies of three patched cases and three that need none."""
    split = "test" if dataset == "mnist" else "holdout"
    eta = np.full((3, 6), np.nan)
    eta[:, ::2] = 0.1

    def arrays(seed):
        counts, accuracy = np.full((3, 6), -1), np.full((3, 6), 0.99)
        counts[:, ::2] = [0, changed + seed % 2, 1]
        accuracy[:, ::2] -= loss + 1e-5 * seed
        decay = np.tile(np.asarray(influence) * (1 + 0.001 * seed), (3, 1))
        measured = {f"changed_{split}": counts, f"accuracy_{split}": accuracy}
        return {"eta": eta, **measured, "influence_edges": EDGES, "influence": decay}

    metrics = {("cases", "smallest_eta"): smallest, ("cases", "patched"): 3.0, (split, "accuracy_before"): 0.99}
    cases = "wrong" if dataset == "mnist" else "special"
    settings = {"kind": "patch_study", "method": "idw", "prototypes": prototypes, "dataset": dataset, "cases": cases}
    return runs.add(metrics, seeds=range(seeds), arrays=arrays, **settings, **p)


LONG = (0.4, 0.4, 0.4, 0.4, 0.1, 0.1)


@pytest.mark.parametrize(
    ("near", "verdict", "words"),
    [
        (SHORT, "holds", ""),
        ((0.4, 0.4, 0.4, 0.4, 0.02, np.nan), "does not hold", "reach"),
        ((0.4, 0.1, 0.1, 0.1, 0.1, 0.1), "does not hold", "far influence"),
    ],
)
def test_influence_decays_sharply_if_it_reaches_less_far_and_ends(runs, near, verdict, words):
    study(runs, influence=near)
    for epsilon in (0.01, 0.1, 1.0):
        study(runs, influence=LONG, epsilon=epsilon)
    judged = runs.judge(11)
    assert judged.verdict == verdict
    assert judged.reason.startswith(words)


def test_reach_and_far_influence_are_read_from_the_bins():
    arrays = {"influence_edges": EDGES, "influence": np.tile([0.4, np.nan, 0.2, 0.1, 0.02, np.nan], (3, 1))}
    assert reach(arrays) == 0.5
    assert far_influence_ratio(arrays) == pytest.approx(0.05)
    nothing = {"influence_edges": EDGES, "influence": np.full((3, 6), np.nan)}
    assert [function(one) for function in (reach, far_influence_ratio) for one in (nothing, {})] == [None] * 4


@pytest.mark.parametrize(
    ("number", "usual", "on_mnist", "verdict"),
    [
        (12, {}, {}, "holds"),
        (12, {}, {"smallest": 2 / 3}, "does not hold"),
        (13, {}, {}, "holds"),
        (13, {"changed": 300}, {}, "does not hold"),
        (13, {}, {"changed": 300}, "does not hold"),
        (19, {"loss": 0.0}, {}, "holds"),
        (19, {"loss": 0.03}, {}, "does not hold"),
    ],
)
def test_patches_are_judged_in_the_plane_and_on_mnist(runs, number, usual, on_mnist, verdict):
    for prototypes in (2, 16, 128):
        study(runs, prototypes, **usual)
    if number != 19 and not usual:
        assert runs.judge(number).verdict == "not enough runs"
    judged = study(runs, 20, "mnist", seeds=5, **on_mnist).judge(number)
    assert judged.verdict == verdict
    if number == 12:
        assert judged.n == 3 * (20 * 3 + 5)


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


def test_the_gradient_of_idw_vanishes_at_a_key_with_power_two(runs, monkeypatch):
    judged = runs.judge(10)
    assert judged.verdict == "does not hold"
    assert judged.decisive.label == "idw, p = 2: gradient as d → 0"
    assert judged.decisive.effect == pytest.approx(2e-9 / 1e-3, rel=1e-6)
    assert "1,000 and 0.2" in judged.remarks[0]
    for name in ("idw", "inv_dist"):  # with power one that of idw alone is kept
        altered(name, monkeypatch, lambda score, inputs, keys, given: score(inputs, keys, **{**given, "power": 1.0}))
    assert runs.judge(10).verdict == "holds"


def test_the_printed_expansion_is_a_misprint(runs):
    judged = runs.judge(20)
    assert judged.verdict == "does not hold"
    assert judged.decisive.effect > 1
    assert "with −2qᵀk the largest deviation is" in judged.remarks[0]
    assert float(judged.remarks[0].split()[-1].rstrip(".")) < 1e-12
