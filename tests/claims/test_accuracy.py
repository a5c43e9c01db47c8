"""The claims on accuracy: data for each verdict."""

from __future__ import annotations

import pytest
from stored_runs import METHODS

TABLE_1 = {"fc_relu": 0.96, "scaled_dot": 0.93, "neg_dist": 0.84, "gaussian": 0.11, "inv_dist": 0.12, "idw": 0.88}


def moons(runs, prototypes=16, **means):
    for method in METHODS:
        if means.get(method, 0.9) is not None:
            runs.accuracy(method, means.get(method, 0.9), prototypes)
    return runs


def mnist(runs, seeds=5, **means):
    for method, mean in {**TABLE_1, **means}.items():
        runs.accuracy(method, mean, 20, dataset="mnist", seeds=range(seeds))
    return runs


@pytest.mark.parametrize(("number", "prototypes"), [(1, 16), (2, 128)])
def test_idw_is_best_if_it_is_above_each_other_method(runs, number, prototypes):
    judged = moons(runs, prototypes, idw=0.99).judge(number)
    assert judged.verdict == "holds"
    assert len(judged.findings) == 5
    assert judged.decisive.n == 20
    assert judged.decisive.effect == pytest.approx(9.0, abs=0.2)


@pytest.mark.parametrize(("number", "prototypes"), [(1, 16), (2, 128)])
def test_idw_is_not_best_beside_an_equal(runs, number, prototypes):
    judged = moons(runs, prototypes, idw=0.99, inv_dist=0.99).judge(number)
    assert judged.verdict == "does not hold"
    assert judged.decisive.label == f"idw − inv_dist, {prototypes} prototypes"


def test_the_40_test_points_do_not_count(runs):
    for method in METHODS:
        extra = {"scale": "prototypes"} if method == "scaled_dot" else {}
        runs.add({("test", "accuracy"): 0.99 if method == "idw" else 0.9}, method=method, prototypes=16, **extra)
    assert runs.judge(1).verdict == "not enough runs"


def test_a_missing_method_is_named(runs):
    judged = moons(runs, idw=0.99, neg_dist=None).judge(1)
    assert judged.verdict == "not enough runs"
    assert judged.reason == "neg_dist, 16 prototypes: 0 of 6 seeds"


def test_inverse_distance_is_compared_for_each_number_of_prototypes(runs):
    for prototypes in (2, 16, 128):
        moons(runs, prototypes, inv_dist=0.95, idw=0.99)
    judged = runs.judge(3)
    assert judged.verdict == "holds"
    assert len(judged.findings) == 12


def test_inverse_distance_that_loses_with_2_prototypes_is_refuted(runs):
    for prototypes in (16, 128):
        moons(runs, prototypes, inv_dist=0.95, idw=0.99)
    assert runs.judge(3).verdict == "not enough runs"
    judged = moons(runs, 2, inv_dist=0.8).judge(3)
    assert judged.verdict == "does not hold"
    assert all("2 prototypes" in reason for reason in judged.reason.split("; ")[:3])


def test_idw_reaches_88_percent_below_the_two(runs):
    assert mnist(runs).judge(14).verdict == "holds"


@pytest.mark.parametrize(
    ("means", "words"),
    [({"idw": 0.91}, "91"), ({"fc_relu": 0.87}, "idw − fc_relu"), ({"scaled_dot": 0.8}, "idw − scaled_dot")],
)
def test_another_accuracy_or_order_on_mnist_refutes_the_claim(runs, means, words):
    judged = mnist(runs, **means).judge(14)
    assert judged.verdict == "does not hold"
    assert words in judged.reason


@pytest.mark.parametrize("number", [14, 15])
def test_four_seeds_on_mnist_are_not_enough(runs, number):
    judged = mnist(runs, seeds=4).judge(number)
    assert judged.verdict == "not enough runs"
    assert "idw, 20 prototypes, MNIST: 4 of 5 seeds" in judged.reason


def test_idw_is_substantially_better_by_a_point_in_every_seed(runs):
    assert mnist(runs).judge(15).verdict == "holds"


@pytest.mark.parametrize("neg_dist", [0.939, 0.875])
def test_idw_is_not_substantially_better_than_a_close_or_better_rival(runs, neg_dist):
    judged = mnist(runs, neg_dist=neg_dist).judge(15)
    assert judged.verdict == "does not hold"
    assert judged.decisive.label == "idw − neg_dist, MNIST"


def test_another_protocol_on_mnist_does_not_count(runs):
    for method, mean in TABLE_1.items():
        runs.accuracy(method, mean, 20, dataset="mnist", seeds=range(5), epochs=2)
    assert runs.judge(14).verdict == "not enough runs"
