import numpy as np

from idwbench.claims.evidence import MNIST, PAPER_METHODS, RIVALS, TWO_MOONS, Evidence

ACCURACY = {("holdout", "accuracy"): 0.9, ("test", "accuracy"): 0.8}
IDW = {"method": "idw", "prototypes": 16}


def seeds_of(runs, **model):
    return set(runs.evidence.metric(TWO_MOONS, "accuracy", **{**IDW, **model}).values)


def test_the_methods_are_those_of_table_1():
    assert PAPER_METHODS == ("fc_relu", "scaled_dot", "neg_dist", "gaussian", "inv_dist", "idw")
    assert PAPER_METHODS[:-1] == RIVALS


def test_runs_with_other_settings_do_not_count(runs):
    runs.add(ACCURACY, seeds=[1], **IDW)
    for other in (
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
        {"method": "scaled_dot"},
        {"kind": "patch_study"},
        {"kind": "baseline", "method": "kmeans"},
    ):
        runs.add(ACCURACY, seeds=[2], **{**IDW, **other})
        assert seeds_of(runs) == {1}, other


def test_what_is_given_selects_other_runs_than_its_default(runs):
    for method in ("kmeans", "samples"):
        runs.add(ACCURACY, seeds=[1], **{**IDW, "kind": "baseline", "method": method})
    runs.add(ACCURACY, seeds=[2], **IDW, power=4.0).add(ACCURACY, seeds=[3], **IDW, kind="patch_study", cases="wrong")
    for scale, seed in (("prototypes", 4), ("features", 5)):
        runs.add(ACCURACY, seeds=[seed], **{**IDW, "method": "scaled_dot", "scale": scale})
    for model, seed in (
        ({"kind": "baseline", "method": "kmeans"}, 1),
        ({"power": 4.0}, 2),
        ({"kind": "patch_study", "cases": "wrong"}, 3),
        ({"method": "scaled_dot"}, 4),  # with the scale of the authors
    ):
        assert seeds_of(runs, **model) == {seed}


def test_of_studies_with_one_seed_that_with_the_most_cases_counts(runs):
    study = {"dataset": "mnist", "kind": "patch_study", "cases": "wrong", **IDW}
    for cases in (300, 100):
        runs.add({("cases", "patched"): cases}, seeds=[0], n_cases=cases, **study)
    del study["dataset"]
    assert runs.evidence.metric(MNIST, "patched", "cases", **study).values == {0: 300}


def test_the_split_is_that_of_many_points(runs):
    runs.add(ACCURACY, seeds=[0], **IDW).add(ACCURACY, seeds=[0], dataset="mnist", **IDW)
    assert runs.evidence.metric(TWO_MOONS, "accuracy", **IDW).values == {0: 90.0}
    assert runs.evidence.metric(MNIST, "accuracy", **IDW).values == {0: 80.0}


def test_older_runs_lack_a_metric_or_arrays_and_say_so(runs):
    runs.add(ACCURACY, seeds=range(3), **IDW)
    runs.add({("train", "dead_keys"): 2}, seeds=[3], arrays=lambda seed: {"keys": np.ones((1, 1))}, **IDW)
    series = runs.evidence.metric(TWO_MOONS, "dead_keys", **IDW)
    assert series.values == {3: 2.0}
    assert series.missing(6) == ("idw, 16 prototypes: 1 of 6 seeds (3 runs without dead keys)",)
    series = runs.evidence.from_arrays(TWO_MOONS, "keys", lambda arrays: 1.0 if "keys" in arrays else None, **IDW)
    assert (series.values, series.lack) == ({3: 1.0}, "3 runs without keys")


def test_diverged_runs_are_finished_but_have_no_values_and_evidence_can_be_that_of_some_runs(runs):
    runs.add(ACCURACY, seeds=[0], **IDW).add(seeds=[1], state="diverged", **IDW).add(ACCURACY, seeds=[2], **IDW)
    assert seeds_of(runs) == {0, 2}
    assert runs.evidence.finished(TWO_MOONS, **IDW).seed.tolist() == [0, 1, 2]
    some = Evidence(runs, [runs.runs[2].run_key])
    assert set(some.metric(TWO_MOONS, "accuracy", **IDW).values) == {2}
