"""Baselines against scikit-learn: a nearest-neighbour classifier on the keys, and k-means itself."""

from __future__ import annotations

import numpy as np
import pytest
from blob_data import make_dataset, make_regression
from engine_runs import train_run
from sklearn.cluster import KMeans
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from idwbench.data.dataset import Dataset
from idwbench.errors import ConfigError
from idwbench.runs.config import run_config
from idwbench.runs.results import RunResult


def fitted(dataset: Dataset, method: str, n: int = 5, seed: int = 0) -> RunResult:
    config = run_config(dataset.config, kind="baseline", method=method, prototypes=n, seed=seed)
    return train_run(config, dataset)


@pytest.mark.parametrize("method", ["kmeans", "samples"])
def test_the_accuracy_is_that_of_the_nearest_neighbour_among_the_keys(method):
    dataset = make_dataset(validation=True)
    result = fitted(dataset, method)
    keys, values = result.arrays["keys"], result.arrays["values"]
    assert keys.dtype == values.dtype == np.float32
    neighbours = KNeighborsClassifier(1).fit(keys, values.argmax(1))
    for name, split in dataset.splits.items():
        assert result.metric("accuracy", name) == neighbours.score(split.inputs, split.labels)
    assert result.state == "complete"
    assert result.curve == ()


@pytest.mark.parametrize("method", ["kmeans", "samples"])
def test_a_regression_predicts_the_target_of_the_nearest_key_in_its_own_units(method):
    dataset = make_regression()
    result = fitted(dataset, method)
    neighbours = KNeighborsRegressor(1).fit(result.arrays["keys"], result.arrays["values"])
    error = (neighbours.predict(dataset.test.inputs) - dataset.test.targets) * dataset.target_scaling.std
    assert result.metric("rmse") == pytest.approx(np.sqrt((error**2).mean()), rel=1e-6)


def test_the_centres_are_those_of_scikit_learn_with_the_class_frequencies_of_their_clusters():
    dataset = make_dataset()
    result = fitted(dataset, "kmeans", seed=3)
    clusters = KMeans(5, n_init="auto", random_state=3).fit(dataset.train.inputs)
    np.testing.assert_array_equal(result.arrays["keys"], clusters.cluster_centers_)
    for value, label in zip(result.arrays["values"], range(5), strict=True):
        own = dataset.train.labels[clusters.labels_ == label]
        assert value.tolist() == pytest.approx([(own == c).mean() for c in range(3)], rel=1e-6)


def test_samples_are_different_training_inputs_with_their_labels():
    dataset = make_dataset()
    result = fitted(dataset, "samples", n=len(dataset.train))
    order = np.lexsort(result.arrays["keys"].T), np.lexsort(dataset.train.inputs.T)
    np.testing.assert_array_equal(result.arrays["keys"][order[0]], dataset.train.inputs[order[1]])
    np.testing.assert_array_equal(result.arrays["values"][order[0]], np.eye(3)[dataset.train.labels[order[1]]])
    assert result.metric("accuracy", "train") == 1


@pytest.mark.parametrize("method", ["kmeans", "samples"])
def test_the_seed_determines_the_bytes(method, blobs):
    first, same, other = (fitted(blobs, method, seed=seed) for seed in (7, 7, 8))
    for name in ("keys", "values"):
        assert first.arrays[name].tobytes() == same.arrays[name].tobytes()
    assert first.arrays["keys"].tobytes() != other.arrays["keys"].tobytes()


@pytest.mark.parametrize(("method", "which"), [("samples", "training inputs"), ("kmeans", "distinct training inputs")])
def test_too_many_prototypes_are_refused_in_one_line(method, which, blobs):
    with pytest.raises(ConfigError) as caught:
        fitted(blobs, method, n=24)
    assert str(caught.value) == f"prototypes: expected at most 23, the number of {which}, got 24"


def test_k_means_counts_equal_inputs_once():
    dataset = make_dataset()
    dataset.train.inputs[:] = dataset.train.inputs[np.arange(23) % 4]
    assert len(fitted(dataset, "kmeans", n=4).arrays["keys"]) == 4
    assert len(fitted(dataset, "samples", n=5).arrays["keys"]) == 5
    with pytest.raises(ConfigError, match="expected at most 4, the number of distinct training inputs, got 5"):
        fitted(dataset, "kmeans", n=5)


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
def test_inputs_that_k_means_cannot_separate_are_refused():
    dataset = make_dataset(constant_feature=False)
    dataset.train.inputs[:] = 0.0
    dataset.train.inputs[0] = -0.0
    with pytest.raises(ConfigError, match="expected at most 1, the number of clusters that k-means can separate"):
        fitted(dataset, "kmeans", n=2)
