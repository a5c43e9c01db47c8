from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from blob_data import make_dataset, make_regression

from idwbench.data.dataset import Dataset, Split, feature_moments
from idwbench.errors import ConfigError
from idwbench.models.initialisation import initial_prototypes
from idwbench.runs.config import run_config


def begin(dataset: Dataset, way: str, prototypes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    model = run_config(dataset.config, method="idw", prototypes=prototypes, initialisation=way).model
    moments = feature_moments(dataset.train.inputs)
    return initial_prototypes(model, dataset, moments, np.random.default_rng(seed))


def with_train(inputs: np.ndarray, labels: np.ndarray, n_classes: int) -> Dataset:
    split = Split(inputs.astype(np.float32), labels)
    return replace(make_dataset(n_classes=n_classes), train=split, test=split, holdout=None)


@pytest.mark.parametrize("way", ["samples", "kmeans"])
def test_each_class_gives_as_many_prototypes_but_for_one_and_what_a_small_class_lacks_the_others_give(way):
    for prototypes in (1, 7):
        keys, values = begin(make_dataset(60, 3, 3), way, prototypes)
        assert (keys.shape, keys.dtype, values.dtype) == ((prototypes, 3), np.float32, np.float32)
        np.testing.assert_array_equal(np.sort(values, axis=1), np.tile([0, 0, 1], (prototypes, 1)))
        assert np.ptp(values.sum(0)) <= 1
    labels = np.repeat([0, 1, 2], [1, 20, 20])
    dataset = with_train(np.random.default_rng(0).normal(size=(41, 2)), labels, 4)
    np.testing.assert_array_equal(begin(dataset, way, 9)[1].sum(0), [1, 4, 4, 0])


@pytest.mark.parametrize("dataset", [make_dataset(30), make_regression(30)], ids=["classes", "numbers"])
def test_samples_are_different_training_inputs_with_their_labels_or_targets(dataset):
    keys, values = begin(dataset, "samples", 30)
    rows = [int(np.flatnonzero((dataset.train.inputs == key).all(1))[0]) for key in keys]
    assert sorted(rows) == list(range(30))
    expected = dataset.train.targets if dataset.task == "regression" else np.eye(3)[dataset.train.labels]
    np.testing.assert_array_equal(values, expected[rows])


@pytest.mark.parametrize("dataset", [make_dataset(60), make_regression(60)], ids=["classes", "numbers"])
def test_one_centre_of_k_means_is_the_mean_input_of_its_class_or_of_all_with_the_mean_target(dataset):
    classes = dataset.train.labels if dataset.task == "classification" else np.zeros(60, int)
    keys, values = begin(dataset, "kmeans", len(set(classes)))
    order = values.argmax(1).argsort() if len(keys) > 1 else [0]
    parts = [classes == number for number in range(len(keys))]
    # Sums of up to 60 numbers in float32, after a shift by the mean of all.
    bound = 64 * 2**-24 * np.abs(dataset.train.inputs).max()
    means = [dataset.train.inputs[part].mean(0, dtype=np.float64) for part in parts]
    np.testing.assert_allclose(keys[order], means, rtol=0, atol=bound)
    if dataset.task == "regression":
        np.testing.assert_allclose(values[0], dataset.train.targets.mean(0, dtype=np.float64), rtol=2**-23)


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
def test_k_means_needs_distinct_inputs_that_it_can_separate():
    inputs = np.repeat([[0, 0], [0, 1], [2, 3], [4, 5], [6, 7], [8, 9]], [5, 1, 1, 1, 1, 1], axis=0)
    dataset = with_train(inputs, np.repeat([0, 1], 5), 2)
    np.testing.assert_array_equal(begin(dataset, "kmeans", 6)[1].sum(0), [1, 5])
    with pytest.raises(ConfigError, match="expected at most 6, the number of distinct training inputs, got 7"):
        begin(dataset, "kmeans", 7)
    dataset = make_dataset(60, 3, 3)
    rows = dataset.groups[1]
    dataset.train.inputs[rows] = 0.0
    dataset.train.inputs[rows[0]] = -0.0
    with pytest.raises(ConfigError, match="expected at most 1 of one class, the number of clusters that k-means can"):
        begin(dataset, "kmeans", 6)
