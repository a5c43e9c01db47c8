from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from benchmarks.attribution.measures import (
    ceiling,
    detection,
    linear_datamodeling_scores,
    mean_with_interval,
    random_halves,
    rank_correlations,
    top_rows,
)


@pytest.fixture
def regression():
    """Rows and queries of a linear regression without noise in its inputs."""
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(200, 3))
    targets = inputs @ [1.0, -2.0, 0.5] + generator.normal(size=200)
    return inputs, targets, generator.normal(size=(8, 3))


def answers_without(inputs, targets, queries, subsets):
    """The answers of least squares on each subset."""
    return np.stack([queries @ np.linalg.lstsq(inputs[rows], targets[rows], rcond=None)[0] for rows in subsets])


def test_the_exact_influence_on_a_linear_regression_has_a_score_near_1(regression):
    inputs, targets, queries = regression
    subsets = random_halves(len(inputs), 40, np.random.default_rng(1))
    outputs = answers_without(inputs, targets, queries, subsets)
    residuals = targets - inputs @ np.linalg.lstsq(inputs, targets, rcond=None)[0]
    influence = queries @ np.linalg.inv(inputs.T @ inputs) @ (inputs * residuals[:, None]).T
    assert linear_datamodeling_scores(influence, subsets, outputs).min() > 0.95
    assert linear_datamodeling_scores(-influence, subsets, outputs).max() < -0.95
    chance = np.random.default_rng(2).normal(size=influence.shape)
    assert abs(linear_datamodeling_scores(chance, subsets, outputs).mean()) < 0.2


def test_rank_correlations_are_those_of_scipy_and_0_for_a_constant():
    generator = np.random.default_rng(0)
    first, second = generator.integers(0, 5, size=(2, 30, 4))  # with ties
    expected = [spearmanr(first[:, column], second[:, column]).statistic for column in range(4)]
    np.testing.assert_allclose(rank_correlations(first, second), expected, atol=1e-12)
    assert rank_correlations(np.ones((30, 4)), second).tolist() == [0, 0, 0, 0]


def test_halves_have_half_of_the_rows_and_differ():
    halves = random_halves(11, 6, np.random.default_rng(0))
    assert halves.sum(1).tolist() == [5] * 6
    assert len(np.unique(halves, axis=0)) > 1


def test_the_ceiling_is_the_correlation_of_the_truth_with_noisy_outputs():
    generator = np.random.default_rng(0)
    truth = generator.normal(size=(400, 5))
    outputs = truth + 2 * generator.normal(size=(8, 400, 5))
    reached = rank_correlations(truth, outputs.mean(0))
    np.testing.assert_allclose(ceiling(outputs).mean(), reached.mean(), atol=0.05)
    np.testing.assert_allclose(ceiling(np.stack([truth] * 4)), 1)


def test_a_mean_has_an_interval_that_is_the_same_each_time():
    values = np.random.default_rng(0).normal(size=100)
    found = mean_with_interval(values)
    assert found == mean_with_interval(values)
    assert found.value == values.mean()
    error = values.std(ddof=1) / 10
    np.testing.assert_allclose([found.low, found.high], values.mean() + error * np.array([-1.96, 1.96]), atol=0.05)
    assert str(mean_with_interval(np.full(3, 0.5))) == "0.500 [0.500, 0.500]"


def test_detection_is_1_when_all_flipped_rows_come_first_and_a_half_by_ties():
    flipped = np.array([True, False, False, True])
    assert detection(np.array([3.0, 1.0, 0.0, 2.0]), flipped) == 1
    assert detection(np.array([0.0, 2.0, 3.0, 1.0]), flipped) == 0
    assert detection(np.zeros(4), flipped) == 0.5


def test_top_rows_are_the_highest_scores_and_ties_go_by_row():
    assert top_rows(np.array([1.0, 3.0, 2.0, 3.0, 0.0]), 3).tolist() == [1, 3, 2]
