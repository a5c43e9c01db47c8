"""The data sets that scikit-learn ships or draws, against its own functions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from sklearn import datasets

from idwbench.data.loading import load_dataset
from idwbench.errors import DatasetError
from idwbench.runs.datasets import parse_dataset

TABLES = {"iris": datasets.load_iris, "wine": datasets.load_wine, "breast_cancer": datasets.load_breast_cancer}
DRAWN = ("circles", "blobs", "hypercube", "gaussian_quantiles", "hastie_10_2")


def loaded(name: str, **settings):
    return load_dataset(parse_dataset({"name": name, **settings}))


@pytest.mark.parametrize("name", TABLES)
def test_a_table_holds_every_row_once_split_by_class_and_standardised(name):
    found, own = loaded(name, test_fraction=0.25, seed=2), TABLES[name]()
    rows = np.concatenate([split.inputs for split in found.splits.values()])
    labels = np.concatenate([split.labels for split in found.splits.values()])
    distances = np.abs(rows[:, None] - (own.data - found.scaling.mean) / found.scaling.std).max(2)
    places, nearest = linear_sum_assignment(distances)
    assert distances[places, nearest].max() < 1e-5
    np.testing.assert_array_equal(labels[places], own.target[nearest])
    sizes = np.bincount(own.target)
    assert np.bincount(found.test.labels).tolist() == [round(0.25 * size) for size in sizes.tolist()]
    assert found.class_names == tuple(own.target_names)
    np.testing.assert_allclose(found.train.inputs.mean(0, dtype=float), 0, atol=1e-5)
    np.testing.assert_allclose(found.train.inputs.std(0, dtype=float), 1, atol=1e-5)


def test_circles_and_hastie_are_train_and_test_from_one_generator():
    circles = loaded("circles", train_size=30, test_size=20, noise=0.05, factor=0.3, seed=4)
    random = np.random.RandomState(4)
    for split, size in ((circles.train, 30), (circles.test, 20)):
        inputs, labels = datasets.make_circles(size, noise=0.05, factor=0.3, random_state=random)
        np.testing.assert_array_equal(split.inputs, inputs.astype(np.float32))
        np.testing.assert_array_equal(split.labels, labels)
    radii = np.linalg.norm(circles.holdout.inputs, axis=1)
    assert radii[circles.holdout.labels == 0].min() > radii[circles.holdout.labels == 1].max()
    hastie = loaded("hastie_10_2", train_size=50, test_size=20)
    inputs, signs = datasets.make_hastie_10_2(50, random_state=np.random.RandomState(0))
    np.testing.assert_array_equal(hastie.train.inputs, inputs.astype(np.float32))
    np.testing.assert_array_equal(hastie.train.labels, signs > 0)
    assert hastie.class_names == ("inner", "outer")


def test_all_splits_of_blobs_have_the_same_centres():
    found = loaded("blobs", classes=3, features=4, spread=0.01, train_size=60, test_size=30)
    means = [
        [found.scaling.invert(split.inputs)[split.labels == label].mean(0) for label in range(3)]
        for split in found.splits.values()
    ]
    np.testing.assert_allclose(means[1], means[0], atol=0.02)
    np.testing.assert_allclose(means[2], means[0], atol=0.02)


@pytest.mark.parametrize("name", ["hypercube", "gaussian_quantiles"])
def test_splits_of_one_sample_are_its_rows_in_order(name):
    found = loaded(name, train_size=40, test_size=30, holdout_size=20, seed=3)
    if name == "hypercube":
        inputs, labels = datasets.make_classification(
            90, n_features=10, n_informative=5, n_redundant=0, n_classes=3, random_state=3
        )
    else:
        inputs, labels = datasets.make_gaussian_quantiles(n_samples=90, n_classes=3, random_state=3)
    own = np.concatenate([found.scaling.invert(split.inputs) for split in found.splits.values()])
    np.testing.assert_allclose(own, inputs, atol=1e-5)
    np.testing.assert_array_equal(np.concatenate([split.labels for split in found.splits.values()]), labels)
    assert [len(split) for split in found.splits.values()] == [40, 30, 20]


@pytest.mark.parametrize("name", DRAWN)
def test_a_sample_that_cannot_fit_into_memory_is_refused(name):
    with pytest.raises(DatasetError, match=f"train_size: the data set {name} needs .* of memory"):
        loaded(name, train_size=2**31 - 1)
