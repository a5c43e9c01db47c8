"""Runs of kernel regression against scikit-learn and the function `kernel_regression`."""

from __future__ import annotations

import numpy as np
import pytest
from blob_data import make_dataset, make_regression
from engine_runs import train_run
from sklearn.metrics import r2_score, root_mean_squared_error
from sklearn.neighbors import KNeighborsClassifier

import idwbench
from idwbench.data.dataset import Dataset
from idwbench.errors import ConfigError
from idwbench.models.kernel_regression import scott_bandwidth
from idwbench.runs.config import run_config
from idwbench.runs.results import RunResult


def evaluated(dataset: Dataset, **settings) -> RunResult:
    config = run_config(dataset.config, kind="kernel_regression", **settings)
    return train_run(config, dataset)


def test_a_tiny_bandwidth_is_the_nearest_neighbour_on_every_split():
    dataset = make_dataset(validation=True)
    result = evaluated(dataset, bandwidth=1e-3)
    neighbours = KNeighborsClassifier(1).fit(dataset.train.inputs, dataset.train.labels)
    for name, split in dataset.splits.items():
        assert result.metric("accuracy", name) == neighbours.score(split.inputs, split.labels)
        assert result.metric("queries_without_neighbours", name) == 0
    assert (result.state, result.curve, result.arrays, result.n_parameters) == ("complete", (), {}, 0)


@pytest.mark.parametrize("settings", [{"bandwidth": 0.7}, {"kernel": "shepard", "power": 3.0, "epsilon": 0.1}])
def test_metrics_of_a_regression_are_in_the_units_of_the_targets(settings):
    dataset = make_regression()
    result = evaluated(dataset, **settings)
    found = idwbench.kernel_regression(
        dataset.test.inputs, dataset.train.inputs, dataset.train.targets, **{"kernel": "gaussian", **settings}
    )
    truth, predicted = dataset.test.targets * 3.0 + 5, found * 3 + 5
    # The root of the mean over all outputs.
    rmse = root_mean_squared_error(truth.ravel(), predicted.ravel())
    assert result.metric("rmse") == pytest.approx(rmse, rel=1e-5)
    assert result.metric("r2") == pytest.approx(r2_score(truth, predicted, multioutput="variance_weighted"), rel=1e-4)


def test_queries_without_neighbours_get_the_class_prior_and_are_counted():
    dataset = make_dataset(n_train=23, n_classes=3)  # 8, 8 and 7 rows: the first class is the prior's answer
    result = evaluated(dataset, kernel="boxcar", bandwidth=1e-9)
    for name, split in dataset.splits.items():
        alone = 0 if name == "train" else len(split)
        assert result.metric("queries_without_neighbours", name) == alone
    assert result.metric("accuracy") == (dataset.test.labels == 0).mean()


def test_targets_without_neighbours_are_predicted_by_the_mean_target():
    dataset = make_regression()
    result = evaluated(dataset, kernel="epanechnikov", bandwidth=1e-9)
    mean = np.tile(dataset.train.targets.mean(0), (11, 1))
    expected = root_mean_squared_error(dataset.test.targets.ravel() * 3, mean.ravel() * 3)
    assert result.metric("rmse") == pytest.approx(expected, rel=1e-5)
    assert result.metric("queries_without_neighbours") == 11


@pytest.mark.parametrize("rule", ["scott", "loo"])
def test_a_chosen_bandwidth_is_a_metric_and_a_learned_parameter(rule):
    dataset = make_regression()
    result = evaluated(dataset, bandwidth=rule)
    chosen = result.metric("bandwidth", "train")
    assert chosen is not None and chosen > 0
    assert rule == "loo" or chosen == pytest.approx(scott_bandwidth(dataset.train.inputs))
    assert result.n_parameters == 1
    fixed = evaluated(dataset, bandwidth=chosen)
    assert fixed.metrics == result.metrics


def test_a_chosen_power_is_a_metric_and_a_learned_parameter():
    dataset = make_regression()
    result = evaluated(dataset, kernel="shepard", power="loo", epsilon=0.1)
    chosen = result.metric("power", "train")
    assert result.n_parameters == 1
    fixed = evaluated(dataset, kernel="shepard", power=chosen, epsilon=0.1)
    assert fixed.metrics == {key: value for key, value in result.metrics.items() if key != ("train", "power")}


def test_shepard_has_no_bandwidth():
    result = evaluated(make_regression(), kernel="shepard")
    assert result.metric("bandwidth", "train") is None
    assert result.metric("rmse", "train") == pytest.approx(0, abs=1e-6)


def test_equal_inputs_have_no_chosen_bandwidth():
    dataset = make_regression(n_train=3)
    dataset.train.inputs[:] = 1
    with pytest.raises(ConfigError, match="bandwidth: leave-one-out needs at least two distinct keys"):
        evaluated(dataset, bandwidth="loo")
