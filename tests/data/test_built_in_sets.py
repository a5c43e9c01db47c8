"""The data sets that need no file, against scikit-learn's own functions, and what all of them promise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn import datasets
from sklearn.metrics import r2_score, root_mean_squared_error
from sklearn.preprocessing import StandardScaler

from idwbench.data.dataset import Dataset
from idwbench.data.loading import LOADERS, load_dataset
from idwbench.data.synthetic import draw_two_moons
from idwbench.errors import DatasetError
from idwbench.runs.datasets import DATASETS, TwoMoonsConfig, parse_dataset

TABLES = {
    "digits": datasets.load_digits,
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "breast_cancer": datasets.load_breast_cancer,
    "diabetes": lambda: datasets.load_diabetes(scaled=False),
}
DRAWN = ["sine", "friedman1", "circles", "blobs", "hypercube", "gaussian_quantiles", "hastie_10_2"]
SIZES = {name: ("train_size", "test_size", "holdout_size") for name in DRAWN}
SIZES["two_moons"] = ("train_per_class", "test_per_class", "holdout_per_class")


def load(name: str, **settings: object) -> Dataset:
    return load_dataset(parse_dataset({"name": name, **settings}))


def in_own_units(data: Dataset, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs, and labels or targets, of a split."""
    split = data.splits[name]
    targets = data.target_scaling.invert(split.targets)[:, 0] if data.task == "regression" else split.labels
    return data.scaling.invert(split.inputs), targets


def assert_drawn(data: Dataset, name: str, inputs: np.ndarray, targets: np.ndarray, atol: float = 0) -> None:
    own = in_own_units(data, name)
    np.testing.assert_allclose(own[0], inputs.astype(np.float32), rtol=0, atol=atol)
    np.testing.assert_allclose(own[1], targets, rtol=0, atol=10 * atol)


# What all promise


@pytest.mark.parametrize("name", [*TABLES, *SIZES])
def test_the_seed_decides_and_arrays_are_contiguous_and_of_the_promised_types(name):
    data = load(name)
    assert data.sha256 == load(name).sha256 != load(name, seed=1).sha256
    for split in data.splits.values():
        assert split.inputs.dtype == np.float32 and split.inputs.flags.c_contiguous
        assert split.targets.dtype == (np.float32 if data.task == "regression" else np.int64)
        assert split.targets.flags.c_contiguous


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_those_asked_for_and_the_holdout_may_be_left_out(name):
    train, test, holdout = SIZES[name]
    data = load(name, **{train: 50, test: 40, holdout: 0})
    classes = 2 if name == "two_moons" else 1
    assert data.holdout is None
    assert (len(data.train), len(data.test)) == (50 * classes, 40 * classes)


@pytest.mark.parametrize("name", ["two_moons", "sine", "friedman1"])
def test_the_holdout_is_a_sample_of_its_own_that_does_not_depend_on_the_sizes(name):
    train, test, _ = SIZES[name]
    one, other = load(name), load(name, **{train: 50, test: 7})
    inputs = [data.scaling.invert(data.holdout.inputs) for data in (one, other)]
    np.testing.assert_allclose(*inputs, atol=1e-6)
    assert not (one.holdout.inputs[: len(one.train)] == one.train.inputs).all(axis=1).any()
    assert not np.array_equal(one.holdout.inputs, load(name, seed=1).holdout.inputs)


def test_every_declared_data_set_has_a_loader():
    assert set(DATASETS) == set(LOADERS)


@pytest.mark.parametrize("name", ["friedman1", "diabetes", "sine"])
def test_targets_are_standardised_by_the_training_rows_and_measured_in_the_units_of_the_data(name):
    data = load(name)
    assert data.task == "regression" and data.n_outputs == 1 and data.class_names == ()
    for split in data.splits:
        targets = [in_own_units(data, part)[1][:, None] for part in ("train", split)]
        expected = StandardScaler().fit(targets[0]).transform(targets[1])
        np.testing.assert_allclose(data.splits[split].targets, expected, atol=1e-5)
    outputs = np.random.default_rng(0).normal(size=data.test.targets.shape).astype(np.float32)
    truth, guess = in_own_units(data, "test")[1], data.target_scaling.invert(outputs)
    expected = {"rmse": root_mean_squared_error(truth, guess), "r2": r2_score(truth, guess)}
    assert data.metrics("test", outputs) == pytest.approx({("test", name): metric for name, metric in expected.items()})


# Tables


@pytest.mark.parametrize("name", TABLES)
def test_a_table_holds_every_row_once_split_by_class_and_standardised(name):
    data, own = load(name, test_fraction=0.25, seed=2), TABLES[name]()
    splits = [in_own_units(data, split) for split in data.splits]
    inputs, targets = (np.concatenate(part) for part in zip(*splits, strict=True))
    distances = cdist(inputs / data.scaling.std, own.data / data.scaling.std, "chebyshev")
    assert len(inputs) == len(own.data) and max(distances.min(0).max(), distances.min(1).max()) < 1e-5
    np.testing.assert_allclose(targets, own.target[distances.argmin(1)], rtol=1e-5)
    if data.task == "classification":
        shares = 0.25 * np.bincount(own.target)
        assert np.abs(np.bincount(data.test.labels) - shares).max() <= 0.5
        assert data.class_names == tuple(map(str, own.target_names))
    axis = None if name == "digits" else 0  # pixels by two numbers
    np.testing.assert_allclose(data.train.inputs.mean(axis, dtype=float), 0, atol=1e-5)
    np.testing.assert_allclose(data.train.inputs.std(axis, dtype=float), 1, atol=1e-5)
    assert data.image_shape == ((8, 8) if name == "digits" else None)


# Samples


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**32 - 1])
@pytest.mark.parametrize(("per_class", "noise"), [(1, 0.1), (2, 0.0), (7, 0.3), (1001, 2.5)])
def test_points_of_two_moons_are_bit_identical_to_scikit_learns(seed, per_class, noise):
    drawn = draw_two_moons(TwoMoonsConfig(noise=noise), per_class, np.random.RandomState(seed))
    sizes = (per_class, per_class)
    points, labels = datasets.make_moons(sizes, shuffle=False, noise=noise, random_state=np.random.RandomState(seed))
    np.testing.assert_array_equal(drawn.inputs, points)
    np.testing.assert_array_equal(drawn.targets, labels)


def test_train_and_test_are_drawn_in_this_order_from_one_generator():
    random = np.random.RandomState(3)
    moons = load("two_moons", seed=3)
    for split, n in (("train", 100), ("test", 20)):
        assert_drawn(moons, split, *datasets.make_moons((n, n), shuffle=False, noise=0.1, random_state=random))
    friedman1 = load("friedman1", train_size=60, test_size=30, noise=0.5, seed=4)
    random = np.random.RandomState(4)
    for split, n in (("train", 60), ("test", 30)):
        assert_drawn(friedman1, split, *datasets.make_friedman1(n, noise=0.5, random_state=random), atol=1e-6)
    circles = load("circles", train_size=30, test_size=20, noise=0.05, factor=0.3, seed=4)
    random = np.random.RandomState(4)
    for split, n in (("train", 30), ("test", 20)):
        assert_drawn(circles, split, *datasets.make_circles(n, noise=0.05, factor=0.3, random_state=random))
    hastie = load("hastie_10_2", train_size=50, test_size=20)
    inputs, signs = datasets.make_hastie_10_2(50, random_state=np.random.RandomState(0))
    assert_drawn(hastie, "train", inputs, signs > 0)
    assert hastie.class_names == ("inner", "outer")


@pytest.mark.parametrize("name", ["hypercube", "gaussian_quantiles"])
def test_splits_of_one_sample_are_its_rows_in_order(name):
    data = load(name, train_size=40, test_size=30, holdout_size=20, seed=3)
    if name == "hypercube":
        sizes = {"n_features": 10, "n_informative": 5, "n_redundant": 0}
        inputs, labels = datasets.make_classification(90, **sizes, n_classes=3, random_state=3)
    else:
        inputs, labels = datasets.make_gaussian_quantiles(n_samples=90, n_classes=3, random_state=3)
    for split, rows in (("train", slice(40)), ("test", slice(40, 70)), ("holdout", slice(70, 90))):
        assert_drawn(data, split, inputs[rows], labels[rows], atol=1e-5)


def test_all_splits_of_blobs_have_the_same_centres():
    data = load("blobs", classes=3, features=4, spread=0.01, train_size=60, test_size=30)
    splits = [in_own_units(data, split) for split in data.splits]
    means = [[inputs[labels == label].mean(0) for label in range(3)] for inputs, labels in splits]
    np.testing.assert_allclose(means[1:], [means[0]] * 2, atol=0.02)


def test_the_holdouts_of_regressions_are_their_functions_without_noise():
    x, y = in_own_units(load("friedman1", holdout_size=50), "holdout")
    expected = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    np.testing.assert_allclose(y, expected, atol=1e-4)
    sine = load("sine", train_size=4000, noise=0.3)
    x, y = in_own_units(sine, "train")
    assert x.shape == (4000, 1) and np.abs(x).max() <= np.pi
    residuals = y - np.sin(x[:, 0])
    # The standard error of a standard deviation of n numbers is 1/√(2n) of it: 0.0034; of their mean 0.0047.
    assert residuals.std() == pytest.approx(0.3, abs=5 * 0.0034)
    assert residuals.mean() == pytest.approx(0, abs=5 * 0.0047)
    x, y = in_own_units(sine, "holdout")
    np.testing.assert_allclose(y, np.sin(x[:, 0]), atol=1e-6)


@pytest.mark.parametrize("name", ["circles", "blobs", "hypercube", "gaussian_quantiles", "hastie_10_2"])
def test_a_sample_that_cannot_fit_into_memory_is_refused(name):
    with pytest.raises(DatasetError, match=f"train_size: the data set {name} needs .* of memory"):
        load(name, train_size=2**31 - 1)
