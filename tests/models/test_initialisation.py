from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from blob_data import make_dataset, make_regression
from threadpoolctl import threadpool_limits

from idwbench.data.dataset import Dataset, Split, feature_moments
from idwbench.errors import ConfigError
from idwbench.models.initialisation import initial_prototypes
from idwbench.runs.config import run_config


def begin(dataset: Dataset, way: str, prototypes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    model = run_config(dataset.config, method="idw", prototypes=prototypes, initialisation=way).model
    moments = feature_moments(dataset.train.inputs)
    return initial_prototypes(model, dataset, moments, np.random.default_rng(seed))


def uneven(sizes: tuple[int, ...]) -> Dataset:
    """Return classes of these sizes."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    inputs = np.random.default_rng(0).normal(size=(len(labels), 2)).astype(np.float32)
    split = Split(inputs, labels)
    return replace(make_dataset(), train=split, test=split, holdout=None, class_names=tuple("abcdefgh"[: len(sizes)]))


@pytest.mark.parametrize("way", ["samples", "kmeans"])
@pytest.mark.parametrize("prototypes", [1, 2, 3, 7, 20])
def test_each_class_gives_as_many_prototypes_but_for_one(way, prototypes):
    dataset = make_dataset(60, 3, 3)
    keys, values = begin(dataset, way, prototypes)
    assert keys.shape == (prototypes, 3)
    assert keys.dtype == values.dtype == np.float32
    np.testing.assert_array_equal(np.sort(values, axis=1), np.tile([0, 0, 1], (prototypes, 1)))
    assert np.ptp(values.sum(0)) <= 1


@pytest.mark.parametrize("way", ["samples", "kmeans"])
def test_what_a_small_class_lacks_the_others_give(way):
    _, values = begin(uneven((1, 20, 20, 0)), way, 9)
    np.testing.assert_array_equal(values.sum(0), [1, 4, 4, 0])


def test_samples_are_different_training_inputs_with_their_labels():
    dataset = make_dataset(30)
    keys, values = begin(dataset, "samples", 30)
    rows = [int(np.flatnonzero((dataset.train.inputs == key).all(1))[0]) for key in keys]
    assert sorted(rows) == list(range(30))
    np.testing.assert_array_equal(values.argmax(1), dataset.train.labels[rows])


def test_samples_of_a_regression_are_training_inputs_with_their_targets():
    dataset = make_regression(30)
    keys, values = begin(dataset, "samples", 5)
    for key, value in zip(keys, values, strict=True):
        row = int(np.flatnonzero((dataset.train.inputs == key).all(1))[0])
        np.testing.assert_array_equal(value, dataset.train.targets[row])


def test_one_centre_of_k_means_is_the_mean_of_its_class():
    dataset = make_dataset(60, 3, 3)
    keys, values = begin(dataset, "kmeans", 3)
    means = [dataset.train.inputs[dataset.train.labels == label].mean(0, dtype=np.float64) for label in range(3)]
    # Sums of 20 numbers in float32, after a shift by the mean of all.
    bound = 24 * 2**-24 * np.abs(dataset.train.inputs).max()
    np.testing.assert_allclose(keys[values.argmax(1).argsort()], means, rtol=0, atol=bound)


def test_one_centre_of_a_regression_has_the_mean_input_and_target():
    dataset = make_regression(60)
    keys, values = begin(dataset, "kmeans", 1)
    bound = 64 * 2**-24 * np.abs(dataset.train.inputs).max()
    np.testing.assert_allclose(keys[0], dataset.train.inputs.mean(0, dtype=np.float64), rtol=0, atol=bound)
    np.testing.assert_allclose(values[0], dataset.train.targets.mean(0, dtype=np.float64), rtol=2**-23)


def test_k_means_needs_distinct_inputs():
    inputs = np.zeros((10, 2), np.float32)
    inputs[5:] = np.arange(10).reshape(5, 2)
    split = Split(inputs, np.repeat(np.arange(2), 5))
    dataset = replace(make_dataset(n_classes=2), train=split, test=split, holdout=None)
    _, values = begin(dataset, "kmeans", 6)
    np.testing.assert_array_equal(values.sum(0), [1, 5])
    with pytest.raises(ConfigError, match="expected at most 6, the number of distinct training inputs, got 7"):
        begin(dataset, "kmeans", 7)


@pytest.mark.slow
def test_kmeans_does_not_depend_on_the_number_of_threads():
    dataset = make_regression(6000)
    begun = []
    for n_threads in (1, 2, 4):
        with threadpool_limits(n_threads, user_api="openmp"):
            begun.append(begin(dataset, "kmeans", 20)[0])
    np.testing.assert_array_equal(begun[0], begun[1])
    np.testing.assert_array_equal(begun[0], begun[2])


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
def test_a_class_that_k_means_cannot_separate_is_refused():
    dataset = make_dataset(60, 3, 3)
    rows = dataset.groups[1]
    dataset.train.inputs[rows] = 0.0
    dataset.train.inputs[rows[0]] = -0.0
    with pytest.raises(ConfigError, match="expected at most 1 of one class, the number of clusters that k-means can"):
        begin(dataset, "kmeans", 6)
