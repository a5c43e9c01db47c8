"""The data sets that need no file, against scikit-learn's functions, what all of them promise, and wrong settings."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from blob_data import make_dataset
from case_tables import case_table
from scipy.spatial.distance import cdist
from sklearn import datasets
from sklearn.metrics import r2_score, root_mean_squared_error
from sklearn.preprocessing import StandardScaler

from idwbench.data.dataset import Split
from idwbench.data.loading import LOADERS, load_dataset
from idwbench.data.synthetic import draw_queries, draw_table, draw_two_moons
from idwbench.errors import ConfigError, DatasetError
from idwbench.runs.datasets import DATASETS, LookupConfig, TwoMoonsConfig, parse_dataset

TABLES = {
    "digits": datasets.load_digits,
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "breast_cancer": datasets.load_breast_cancer,
    "diabetes": lambda: datasets.load_diabetes(scaled=False),
}
# Names of functions of scikit-learn, their arguments, and of how many rows a sample is: the training rows or all.
SAMPLES = {
    "friedman1": ("make_friedman1", {"noise": 0.5}, 40),
    "circles": ("make_circles", {"noise": 0.05, "factor": 0.3}, 40),
    "hastie_10_2": ("make_hastie_10_2", {}, 40),
    "hypercube": ("make_classification", {"n_features": 10, "n_informative": 5, "n_redundant": 0, "n_classes": 3}, 90),
    "gaussian_quantiles": ("make_gaussian_quantiles", {"n_classes": 3}, 90),
}
SIZES = {name: ("train_size", "test_size", "holdout_size") for name in (*SAMPLES, "sine", "blobs")}
SIZES["two_moons"] = ("train_per_class", "test_per_class", "holdout_per_class")


def load(name, **settings):
    return load_dataset(parse_dataset({"name": name, **settings}))


def in_own_units(data, name):
    """Return inputs, and labels or targets, of a split."""
    split = data.splits[name]
    targets = data.target_scaling.invert(split.targets)[:, 0] if data.task == "regression" else split.labels
    return data.scaling.invert(split.inputs), targets


def all_rows(data):
    return [np.concatenate(part) for part in zip(*(in_own_units(data, split) for split in data.splits), strict=True)]


def test_every_declared_data_set_has_a_loader():
    assert set(DATASETS) == set(LOADERS)


@pytest.mark.parametrize("name", [*TABLES, *SIZES])
def test_the_seed_decides_and_arrays_are_contiguous_and_of_the_promised_types(name):
    data = load(name)
    assert data.sha256 == load(name).sha256 != load(name, seed=1).sha256
    for split in data.splits.values():
        assert split.inputs.dtype == np.float32 and split.inputs.flags.c_contiguous
        assert split.targets.dtype == (np.float32 if data.task == "regression" else np.int64)
        assert split.targets.flags.c_contiguous


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_those_asked_for_and_the_holdout_is_left_out_or_does_not_depend_on_them(name):
    train, test, holdout = SIZES[name]
    whole, data = load(name), load(name, **{train: 50, test: 7, holdout: 0})
    classes = 2 if name == "two_moons" else 1
    assert data.holdout is None
    assert (len(data.train), len(data.test)) == (50 * classes, 7 * classes)
    if name in ("two_moons", "sine", "friedman1"):
        other = load(name, **{train: 50, test: 7})
        np.testing.assert_allclose(in_own_units(whole, "holdout")[0], in_own_units(other, "holdout")[0], atol=1e-6)
        assert not (whole.holdout.inputs[: len(whole.train)] == whole.train.inputs).all(axis=1).any()
    with pytest.raises(DatasetError, match=f"{train}: the data set {name} needs .* of memory"):
        load(name, **{train: 2**31 - 1})


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


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_class_of_an_output_is_its_argmax_also_with_ties_and_nan(n_classes):
    numbers = [0.0, -0.0, 1.0, -np.inf, np.inf, np.nan]
    logits = np.array([*itertools.product(numbers, repeat=n_classes)], np.float32)
    dataset, labels = make_dataset(n_classes=n_classes), np.arange(len(logits)) % n_classes
    labelled = replace(dataset, test=Split(np.zeros((len(logits), dataset.n_features), np.float32), labels))
    expected = np.mean([int(np.argmax(row)) == label for row, label in zip(logits, labels, strict=True)])
    assert labelled.metrics("test", logits) == {("test", "accuracy"): pytest.approx(expected, abs=1e-12)}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_holds_every_row_once_split_by_class_and_standardised(name):
    data, own = load(name, test_fraction=0.25, seed=2), TABLES[name]()
    inputs, targets = all_rows(data)
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


@pytest.mark.parametrize("seed", [0, 12345, 2**32 - 1])
@pytest.mark.parametrize(("per_class", "noise"), [(1, 0.1), (2, 0.0), (1001, 2.5)])
def test_points_of_two_moons_are_bit_identical_to_scikit_learns(seed, per_class, noise):
    drawn = draw_two_moons(TwoMoonsConfig(noise=noise), per_class, np.random.RandomState(seed))
    points, labels = datasets.make_moons((per_class, per_class), shuffle=False, noise=noise, random_state=seed)
    np.testing.assert_array_equal(drawn.inputs, points)
    np.testing.assert_array_equal(drawn.targets, labels)


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_those_of_scikit_learn_and_splits_of_one_sample_its_rows_in_order(name):
    function, options, n = SAMPLES[name]
    settings = {key: value for key, value in options.items() if key in ("noise", "factor")}
    data = load(name, train_size=40, test_size=30, holdout_size=20, seed=3, **settings)
    inputs, targets = getattr(datasets, function)(n_samples=n, random_state=3, **options)
    expected = targets if data.task == "regression" else np.maximum(targets, 0)  # the classes of Hastie are -1 and 1
    for own, drawn in zip(all_rows(data), (inputs, expected), strict=True):
        np.testing.assert_allclose(own[:n], drawn, rtol=1e-6, atol=1e-5)


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
    x, y = in_own_units(sine, "holdout")
    np.testing.assert_allclose(y, np.sin(x[:, 0]), atol=1e-6)
    x, y = in_own_units(sine, "train")
    assert x.shape == (4000, 1) and np.abs(x).max() <= np.pi
    # The standard error of a standard deviation of n numbers is 1/√(2n) of it: 0.0034; of their mean 0.0047.
    residuals = y - np.sin(x[:, 0])
    assert residuals.std() == pytest.approx(0.3, abs=5 * 0.0034)
    assert residuals.mean() == pytest.approx(0, abs=5 * 0.0047)


# Lookups: random tables and noisy queries


def test_keys_values_and_noise_have_the_declared_moments():
    config = LookupConfig(items=2000, dimensions=20, queries=4000, noise=0.3, mean=2.0, std=1.5)
    table = draw_table(config, 5)
    queries = draw_queries(config, 5, table)
    noise = queries.inputs - table.keys[queries.items]
    for numbers, mean, std in ((table.keys, 2, 1.5), (table.values, 0, 1), (noise, 0, 0.3)):
        n = numbers.size
        assert abs(numbers.mean() - mean) < 5 * std / np.sqrt(n)
        assert abs(numbers.std() - std) < 5 * std / np.sqrt(2 * n)
    assert abs(np.corrcoef(table.keys.ravel(), table.values.ravel())[0, 1]) < 5 / np.sqrt(table.keys.size)
    assert queries.items.tolist() == [*range(2000)] * 2  # in turn
    with pytest.raises(DatasetError, match=r"^queries: the data set lookup needs .* of memory"):
        load("lookup", queries=2**31 - 1)


def test_each_seed_has_its_own_table_the_holdout_is_another_and_a_larger_one_begins_with_the_smaller():
    config, larger = LookupConfig(items=4, dimensions=3), LookupConfig(items=9, dimensions=3)
    other = LookupConfig(items=4, dimensions=3, seed=1)
    tables = [draw_table(config, 0), draw_table(config, 1), draw_table(other, 0), draw_table(config, 0, holdout=True)]
    assert len({table.keys.tobytes() for table in tables}) == 4
    for keys, start in zip(vars(draw_table(larger, 1)).values(), vars(tables[1]).values(), strict=True):
        np.testing.assert_array_equal(keys[:4], start)


def test_other_kinds_train_on_the_pairs_and_recall_counts_the_queries_whose_value_is_nearest(monkeypatch):
    config = LookupConfig(items=4, dimensions=3, queries=4, validation=2)
    data, table = load_dataset(config), draw_table(config, 0)
    assert data.task == "regression"
    assert (data.train.inputs == table.keys).all() and (data.train.targets == table.values).all()
    sizes = {name: len(split) for name, split in data.splits.items()}
    assert sizes == {"train": 4, "validation": 2, "test": 4, "holdout": 4}
    outputs = data.train.targets.copy()
    assert data.metrics("test", outputs)["test", "recall"] == 1
    outputs[0], outputs[1, 0], outputs[2, 1] = data.train.targets[1], np.nan, np.inf
    for at_once in (2**20, 12):
        monkeypatch.setattr("idwbench.data.dataset._NUMBERS_AT_ONCE", at_once)
        assert data.metrics("test", outputs)["test", "recall"] == 0.25


# Wrong settings

TABLE = case_table("wrong_data_sets")
SETTINGS = [({"name": name, "of": of}, message) for name in ("joint", "sequence") for of, message in TABLE["parts"]]


@pytest.mark.parametrize(("settings", "message"), [*SETTINGS, *TABLE["settings"]])
def test_a_wrong_setting_is_one_line_with_its_name(settings, message):
    with pytest.raises(ConfigError) as caught:
        parse_dataset(settings)
    assert message in str(caught.value) and "\n" not in str(caught.value)
