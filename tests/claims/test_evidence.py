from __future__ import annotations

import pytest

from idwbench.claims.evidence import MNIST, PAPER_METHODS, RIVALS, TWO_MOONS

ACCURACY = {("holdout", "accuracy"): 0.9, ("test", "accuracy"): 0.8}
IDW = {"method": "idw", "prototypes": 16}


def found(runs):
    return set(runs.evidence.accuracy(TWO_MOONS, **IDW).values)


def test_the_methods_are_those_of_table_1():
    assert PAPER_METHODS == ("fc_relu", "scaled_dot", "neg_dist", "gaussian", "inv_dist", "idw")
    assert PAPER_METHODS[:-1] == RIVALS


@pytest.mark.parametrize(
    "other",
    [
        {"dataset": {"name": "two_moons", "noise": 0.2}},
        {"dataset": {"name": "two_moons", "seed": 1}},
        {"dataset": {"name": "two_moons", "validation": 20}},
        {"dataset": "digits"},
        {"epochs": 26},
        {"batch_size": 20},
        {"optimizer": "adam"},
        {"initialisation": "kmeans"},
        {"epsilon": 0.01},
        {"prototypes": 17},
        {"state": "failed"},
        {"state": "planned"},
    ],
    ids=str,
)
def test_runs_with_other_settings_do_not_count(runs, other):
    runs.add(ACCURACY, seeds=[1], **IDW)
    runs.add(ACCURACY, seeds=[2], **{**IDW, **other})
    assert found(runs) == {1}


def test_the_split_is_that_of_many_points(runs):
    runs.add(ACCURACY, seeds=[0], **IDW)
    runs.add(ACCURACY, seeds=[0], dataset="mnist", **IDW)
    assert runs.evidence.accuracy(TWO_MOONS, **IDW).values == {0: 90.0}
    assert runs.evidence.accuracy(MNIST, **IDW).values == {0: 80.0}


def test_scaled_dot_is_that_of_the_authors(runs):
    for seed, scale in enumerate(("features", "prototypes")):
        runs.add(ACCURACY, seeds=[seed], method="scaled_dot", prototypes=16, scale=scale)
    assert set(runs.evidence.accuracy(TWO_MOONS, method="scaled_dot", prototypes=16).values) == {1}


def test_a_parameter_selects_other_runs_than_its_default(runs):
    runs.add(ACCURACY, seeds=[1], **IDW).add(ACCURACY, seeds=[2], power=4, **IDW)
    assert set(runs.evidence.accuracy(TWO_MOONS, power=4.0, **IDW).values) == {2}
    assert found(runs) == {1}


def test_kinds_of_runs_are_kept_apart(runs):
    runs.add(ACCURACY, seeds=[1], **IDW)
    runs.add(ACCURACY, seeds=[2], kind="patch_study", **IDW)
    runs.add(ACCURACY, seeds=[3], kind="baseline", method="kmeans", prototypes=16)
    runs.add(ACCURACY, seeds=[4], kind="patch_study", cases="wrong", **IDW)
    assert found(runs) == {1}
    study = {"kind": "patch_study", "cases": "special", **IDW}
    assert set(runs.evidence.accuracy(TWO_MOONS, **study).values) == {2}
    kmeans = {"kind": "baseline", "method": "kmeans", "prototypes": 16}
    assert set(runs.evidence.accuracy(TWO_MOONS, **kmeans).values) == {3}


def test_older_runs_lack_a_metric_and_say_so(runs):
    runs.add(ACCURACY, seeds=range(3), **IDW).add({("train", "dead_keys"): 2}, seeds=[3], **IDW)
    series = runs.evidence.metric(TWO_MOONS, "dead_keys", **IDW)
    assert series.values == {3: 2.0}
    assert series.missing(6) == ("idw, 16 prototypes: 1 of 6 seeds (3 runs without dead keys)",)


def test_arrays_that_cannot_be_read_count_as_missing(runs):
    runs.add(seeds=[0], **IDW).add(seeds=[1], arrays=lambda seed: {"keys": [[1.0]]}, **IDW)
    series = runs.evidence.from_arrays(TWO_MOONS, "keys", lambda arrays: 1.0 if "keys" in arrays else None, **IDW)
    assert series.values == {1: 1.0}
    assert series.lack == "1 run without keys"


def test_diverged_runs_are_finished_but_have_no_values(runs):
    runs.add(ACCURACY, seeds=[0], **IDW).add(seeds=[1], state="diverged", **IDW)
    assert found(runs) == {0}
    assert len(runs.evidence.finished(TWO_MOONS, **IDW)) == 2
