"""The claims on power and epsilon: data for each verdict."""

from __future__ import annotations

import re
from itertools import product

import pytest
from scipy.stats import spearmanr
from stored_runs import jitter

from idwbench.claims.grid import EPSILONS, POWERS, rank_correlation


def cell(runs, accuracy, coverage, power=2.0, epsilon=1e-3, seeds=10, spread=0.001):
    def about(mean):
        return lambda seed: mean + spread * jitter(seed, f"{power} {epsilon}") / 0.002

    metrics = {("holdout", "accuracy"): about(accuracy), ("train", "coverage"): about(coverage)}
    return runs.add(metrics, seeds=range(seeds), method="idw", prototypes=16, power=power, epsilon=epsilon)


@pytest.mark.parametrize(("accuracy", "verdict"), [(0.96, "holds"), (0.99, "does not hold"), (0.995, "does not hold")])
def test_power_one_is_compared_with_power_two(runs, accuracy, verdict):
    cell(runs, 0.99, 0.15)
    assert runs.judge(17).verdict == "not enough runs"
    assert cell(runs, accuracy, 0.15, power=1.0).judge(17).verdict == verdict


@pytest.mark.parametrize(
    ("accuracy", "coverage", "verdict"),
    [
        (0.985, 0.4, "holds"),
        (0.97, 0.4, "does not hold"),
        (0.985, 0.15, "does not hold"),
        (0.985, 0.1, "does not hold"),
    ],
)
def test_large_powers_keep_accuracy_within_a_point_and_lose_coverage(runs, accuracy, coverage, verdict):
    cell(runs, 0.99, 0.15)
    cell(runs, accuracy, coverage, power=8.0)
    assert cell(runs, accuracy, coverage, power=16.0).judge(18).verdict == verdict


def test_other_epsilons_are_remarks(runs):
    for power, epsilon in product((1.0, 2.0), (1e-3, 0.1)):
        cell(runs, 0.99 if power == 2 else 0.9, 0.15, power, epsilon)
    (remark,) = runs.judge(17).remarks
    assert re.fullmatch(r"Accuracy: p=1 − p=2: −(9|8\.\d+|9\.\d+) at ε = 0\.1\.", remark)


@pytest.mark.parametrize(("spread", "verdict"), [(0.1, "holds"), (0.001, "does not hold"), (1e-4, "does not hold")])
def test_training_is_unstable_if_seeds_differ_more(runs, spread, verdict):
    cell(runs, 0.9, 0.15)
    assert runs.judge(21).verdict == "not enough runs"
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


@pytest.mark.parametrize(
    ("accuracy", "verdict"),
    [
        (lambda coverage: 0.9 + 0.05 * coverage, "holds"),
        (lambda coverage: 0.9 - 0.05 * coverage, "does not hold"),
        (lambda coverage: 0.9, "does not hold"),
    ],
)
def test_interpretability_costs_if_worse_coverage_goes_with_accuracy(runs, accuracy, verdict):
    for place, (power, epsilon) in enumerate(product(POWERS, EPSILONS)):
        coverage = 0.1 + 0.1 * (place * 7 % 20)
        cell(runs, accuracy(coverage), coverage, power, epsilon, seeds=6)
    judged = runs.judge(24)
    assert judged.verdict == verdict
    assert -1 <= judged.decisive.effect <= 1


def test_every_cell_of_the_grid_is_needed(runs):
    for power, epsilon in [*product(POWERS, EPSILONS)][1:]:
        cell(runs, 0.9, 0.2, power, epsilon, seeds=6)
    judged = runs.judge(24)
    assert judged.verdict == "not enough runs"
    assert judged.reason == "idw, 16 prototypes, p=1, ε=0.001: 0 of 6 seeds"


def test_large_powers_need_both_of_them(runs):
    cell(runs, 0.99, 0.15)
    cell(runs, 0.99, 0.4, power=8.0)
    assert runs.judge(18).verdict == "not enough runs"


def test_the_correlation_is_spearmans():
    first, second = [0.1, 0.4, 0.2, 0.9, 0.3], [0.5, 0.5, 0.1, 0.7, 0.9]
    assert rank_correlation(first, second) == pytest.approx(spearmanr(first, second)[0])
    assert rank_correlation([1.0, 1.0], [1.0, 2.0]) != rank_correlation([1.0, 1.0], [1.0, 2.0])  # NaN
