"""The data sets that need no file, against scikit-learn's functions; how all data is split; and wrong settings."""

import numpy as np
import pytest
from case_tables import case_table
from scipy.spatial.distance import cdist
from sklearn import datasets
from sklearn.metrics import r2_score, root_mean_squared_error
from sklearn.preprocessing import StandardScaler

from idwbench.data.loading import LOADERS, load_dataset
from idwbench.data.preparation import split_rows
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


@pytest.mark.parametrize("name", [*TABLES, *SIZES])
def test_every_declared_data_set_has_a_loader_and_the_seed_decides(name):
    assert set(DATASETS) == set(LOADERS)
    assert load(name).sha256 == load(name).sha256 != load(name, seed=1).sha256


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


def test_splits_of_blobs_have_the_same_centres_and_holdouts_of_regressions_no_noise():
    data = load("blobs", classes=3, features=4, spread=0.01, train_size=60, test_size=30)
    splits = [in_own_units(data, split) for split in data.splits]
    means = [[inputs[labels == label].mean(0) for label in range(3)] for inputs, labels in splits]
    np.testing.assert_allclose(means[1:], [means[0]] * 2, atol=0.02)
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


def test_values_are_independent_of_keys_queries_ask_in_turn_and_each_seed_and_holdout_has_its_own_table():
    table = draw_table(LookupConfig(items=2000, dimensions=20), 5)
    n = table.values.size  # the moments of keys and noise are those that the variance of scores needs
    assert abs(table.values.mean()) < 5 / np.sqrt(n) and abs(table.values.std() - 1) < 5 / np.sqrt(2 * n)
    assert abs(np.corrcoef(table.keys.ravel(), table.values.ravel())[0, 1]) < 5 / np.sqrt(n)
    asked = LookupConfig(items=3, dimensions=2, queries=7)
    assert draw_queries(asked, 5, draw_table(asked, 5)).items.tolist() == [0, 1, 2, 0, 1, 2, 0]
    with pytest.raises(DatasetError, match=r"^queries: the data set lookup needs .* of memory"):
        load("lookup", queries=2**31 - 1)
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

WRONG = case_table("wrong_data_sets")
SETTINGS = [({"name": name, "of": of}, message) for name in ("joint", "sequence") for of, message in WRONG["parts"]]


@pytest.mark.parametrize(("settings", "message"), [*SETTINGS, *WRONG["settings"]])
def test_a_wrong_setting_is_one_line_with_its_name(settings, message):
    with pytest.raises(ConfigError) as caught:
        parse_dataset(settings)
    assert message in str(caught.value) and "\n" not in str(caught.value)


# Rows are split class by class, in exact numbers; validation rows are never trained on and decide no scaling


UNEVEN = np.repeat([3, 1, 7], [50, 5, 1])


def split(classes, size):
    rest, apart = split_rows(np.asarray(classes), size, np.random.RandomState(0))
    assert sorted([*rest, *apart]) == list(range(len(classes)))
    assert (np.diff(rest) > 0).all() and (np.diff(apart) > 0).all()
    return rest, apart


def test_rows_are_split_class_by_class_by_a_fraction_or_in_exact_numbers():
    assert np.bincount(UNEVEN[split(UNEVEN, 0.3)[1]], minlength=8)[[3, 1, 7]].tolist() == [15, 2, 0]
    rest, apart = split([0, 0, 1, 1, 2], 0.01)
    assert 4 in rest and len(apart) == 2
    assert len(split([0, 0, 1, 1, 2], 0.99)[0]) == 3
    for size in range(1, 54):
        rest, apart = split(UNEVEN, size)
        assert len(apart) == size and set(UNEVEN[rest]) == {1, 3, 7}
        shares = np.bincount(UNEVEN[apart], minlength=8)[[3, 1, 7]]
        # Rounding moves a share by less than one row, and the single row of a class, which stays, moves one more.
        assert (np.abs(shares - size * np.array([50, 5, 1]) / 56) < 2).all()


def sorted_rows(dataset, *splits):
    """Return sorted rows of inputs and targets, rounded: two scalings of a number differ in the last bits."""
    together = np.concatenate([np.column_stack(in_own_units(dataset, name)) for name in splits]).round(3)
    return together[np.lexsort(together.T)]


def with_validation(config, size, **changes):
    return load_dataset(config.model_copy(update={"validation": size, **changes}))


@pytest.mark.parametrize("name", ["two_moons", "digits", "sine", "diabetes"])
@pytest.mark.parametrize("size", [40, 0.25])
def test_train_and_validation_are_the_former_training_rows_by_the_seed_of_the_data(name, size):
    config = parse_dataset(name)
    whole, parts = load_dataset(config), with_validation(config, size)
    assert whole.validation is None and (parts.holdout is None) == (whole.holdout is None)
    assert len(parts.validation) == (size if size > 1 else pytest.approx(size * len(whole.train), abs=5))
    for former, now in (("train", ("train", "validation")), ("test", ("test",))):
        np.testing.assert_allclose(sorted_rows(parts, *now), sorted_rows(whole, former), atol=2e-3)
    again = with_validation(config, size)
    np.testing.assert_array_equal(parts.validation.inputs, again.validation.inputs)
    assert whole.sha256 != parts.sha256 == again.sha256 != with_validation(config, size, seed=1).sha256
    if whole.task == "classification" and size > 1:
        shares = np.bincount(whole.train.labels) * size / len(whole.train)
        assert np.abs(np.bincount(parts.validation.labels) - shares).max() < 1


@pytest.mark.parametrize(("settings", "message"), case_table("wrong_inputs")["validation_rows"])
def test_more_validation_rows_than_can_be_spared_are_refused(settings, message):
    with pytest.raises(DatasetError, match=message) as caught:
        load_dataset(parse_dataset(settings))
    assert caught.value.location == ("validation",)
    largest = load_dataset(TwoMoonsConfig(validation=198))
    assert np.bincount(largest.train.labels).tolist() == [1, 1]


# The data of old runs is the same bit for bit: these checksums were recorded with version 0.1.0.

TABLE = "width,kind,height\n" + "".join(f"{i / 7:.3f},{'oak' if i % 4 else 'elm'},{i * i}\n" for i in range(20))


@pytest.mark.parametrize(("settings", "sha256"), case_table("data_checksums"))
def test_data_has_the_recorded_checksum(settings, sha256, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.csv").write_text(TABLE)
    random, names = np.random.RandomState(0), ("X_train", "y_train", "X_test", "y_test")
    train, test = random.normal(5, 3, (40, 3)), random.normal(5, 3, (10, 3))
    np.savez("rows.npz", **dict(zip(names, (train, np.arange(40) % 3, test, np.arange(10) % 3), strict=True)))
    train, test = (random.randint(0, 256, (n, 5, 4)).astype("u1") for n in (40, 8))
    labels = [np.array(list("abcd" * n)) for n in (10, 2)]
    np.savez("images.npz", **dict(zip(names, (train, labels[0], test, labels[1]), strict=True)))
    assert load_dataset(parse_dataset(settings)).sha256 == sha256


CORRUPTED = ["two_moons", "digits", "iris", "blobs", "hastie_10_2"]


@pytest.mark.parametrize("name", CORRUPTED)
def test_so_many_training_rows_get_another_label_or_lie_in_three_times_the_range_and_all_else_stays(name):
    both = {"label_noise": 0.25, "outliers": 0.1}
    clean, noisy, wild, *twice = (
        load(name, validation=30, **change) for change in ({}, {"label_noise": 0.25}, {"outliers": 0.1}, both, both)
    )
    differ = noisy.train.targets != clean.train.targets
    assert differ.sum() == round(0.25 * len(differ)) and noisy.train.targets.max() == clean.train.targets.max()
    np.testing.assert_array_equal(wild.train.targets, clean.train.targets)
    for split, other in noisy.splits.items():
        np.testing.assert_array_equal(other.inputs, clean.splits[split].inputs)
        if split != "train":
            np.testing.assert_array_equal(other.targets, clean.splits[split].targets)
    before, after = (in_own_units(one, "train")[0] for one in (clean, wild))
    scale = np.abs(before).max() * 1e-6
    moved = (np.abs(after - before) > scale).any(1)
    assert moved.sum() == round(0.1 * len(moved))
    low, high = before.min(0), before.max(0)
    assert (after >= 2 * low - high - scale).all() and (after <= 2 * high - low + scale).all()
    assert ((after[moved] < low - scale) | (after[moved] > high + scale)).any()
    for split in {*clean.splits} - {"train"}:
        np.testing.assert_allclose(in_own_units(wild, split)[0], in_own_units(clean, split)[0], atol=10 * scale)
    assert twice[0].sha256 == twice[1].sha256
    other = [load(name, validation=30, seed=1, **change).train.targets for change in ({}, {"label_noise": 0.25})]
    assert ((other[0] != other[1]) != differ).any()
