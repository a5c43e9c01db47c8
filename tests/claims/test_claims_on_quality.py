"""The claims on prototypes: data for each verdict, and the measure of density."""

from __future__ import annotations

import numpy as np
import pytest
from stored_runs import METHODS

from idwbench.claims.quality import NEIGHBOURS, neighbour_distance, uniform_neighbour_distance
from idwbench.data.loading import load_dataset
from idwbench.runs.datasets import TwoMoonsConfig


def coverage(runs, prototypes=(16, 128), **means):
    for number in prototypes:
        for method in METHODS:
            runs.quality("coverage", method, means.get(method, 0.5), number)
    return runs


def test_idws_keys_recapitulate_if_they_cover_the_data_best(runs):
    judged = coverage(runs, idw=0.15).judge(4)
    assert judged.verdict == "holds"
    assert len(judged.findings) == 10


def test_a_rival_that_covers_as_well_refutes_only(runs):
    judged = coverage(runs, idw=0.15, inv_dist=0.15).judge(4)
    assert judged.verdict == "does not hold"
    assert "inv_dist" in judged.reason


def test_both_numbers_of_prototypes_are_needed(runs):
    judged = coverage(runs, prototypes=(16,), idw=0.15).judge(4)
    assert judged.verdict == "not enough runs"
    assert "idw, 128 prototypes: 0 of 6 seeds" in judged.reason


def test_runs_without_the_metric_are_counted(runs):
    for method in METHODS:
        runs.accuracy(method, 0.9, 16)
    judged = runs.judge(4)
    assert judged.verdict == "not enough runs"
    assert "0 of 6 seeds (20 runs without coverage)" in judged.reason


def test_the_yardsticks_stand_beside_the_verdict(runs):
    coverage(runs, idw=0.15)
    for method, value in (("kmeans", 0.125), ("samples", 0.25)):
        runs.add({("train", "coverage"): value}, kind="baseline", method=method, prototypes=16)
    assert "Mean coverage with 16 prototypes: idw 0.15, kmeans 0.125, samples 0.25." in runs.judge(4).remarks


def clumps(runs, dead_keys, key_spacing, prototypes=(16, 128)):
    for number in prototypes:
        for method, dead, spacing in (("inv_dist", dead_keys, key_spacing), ("idw", 2.0, 0.4)):
            runs.add(
                {
                    ("train", "dead_keys"): lambda seed, dead=dead: dead + seed % 3,
                    ("train", "key_spacing"): lambda seed, spacing=spacing: spacing + 0.001 * seed,
                },
                method=method,
                prototypes=number,
            )
    return runs


@pytest.mark.parametrize(
    ("dead_keys", "key_spacing", "verdict"),
    [(7.0, 0.2, "holds"), (7.0, 0.4, "does not hold"), (2.0, 0.2, "does not hold"), (1.0, 0.5, "does not hold")],
)
def test_clumps_have_dead_keys_and_a_small_spacing(runs, dead_keys, key_spacing, verdict):
    assert clumps(runs, dead_keys, key_spacing).judge(5).verdict == verdict


def test_clumps_need_both_numbers_of_prototypes(runs):
    assert clumps(runs, 7.0, 0.2, prototypes=(128,)).judge(5).verdict == "not enough runs"


@pytest.mark.parametrize(
    ("idw", "seeds", "verdict"), [(9.0, 5, "holds"), (60.0, 5, "does not hold"), (9.0, 4, "not enough runs")]
)
def test_keys_that_look_like_digits_are_nearest_to_images(runs, idw, seeds, verdict):
    for method in METHODS:
        value = idw if method == "idw" else 17.0
        runs.quality("key_distance", method, value, 20, dataset="mnist", seeds=range(seeds))
    assert runs.judge(16).verdict == verdict


@pytest.mark.parametrize(
    ("idw", "kmeans", "verdict"), [(0.5, 1.5, "holds"), (2.1, 1.5, "does not hold"), (0.5, None, "not enough runs")]
)
def test_two_keys_cluster_if_they_are_nearer_than_two_centres(runs, idw, kmeans, verdict):
    runs.quality("key_spacing", "idw", idw, 2)
    if kmeans is not None:
        runs.add({("train", "key_spacing"): kmeans}, kind="baseline", method="kmeans", prototypes=2)
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
    if not where:
        assert "20 runs without keys" in judged.reason


def test_the_measure_of_density_is_the_distance_to_the_tenth_neighbour(moons):
    generator = np.random.default_rng(3)
    points = generator.normal(size=(7, 2))
    distances = np.sort(np.sqrt(((points[:, None] - moons) ** 2).sum(-1)), axis=1)
    assert neighbour_distance(points, moons) == pytest.approx(np.median(distances[:, NEIGHBOURS - 1]), abs=1e-12)


def test_uniform_data_are_as_dense_as_uniform_positions():
    square = np.random.default_rng(0).uniform(size=(2000, 2))
    assert uniform_neighbour_distance(square) == pytest.approx(np.sqrt(10 / (np.pi * 2000)), rel=0.1)
