"""Rows are split class by class, in exact numbers; validation rows are never trained on and decide no scaling."""

import numpy as np
import pytest
from case_tables import case_table

from idwbench.data.loading import load_dataset
from idwbench.data.preparation import random_stream, split_rows
from idwbench.errors import DatasetError
from idwbench.runs.datasets import NpzConfig, TwoMoonsConfig, parse_dataset

UNEVEN = np.repeat([3, 1, 7], [50, 5, 1])


def split(classes, size, seed=0):
    rest, apart = split_rows(np.asarray(classes), size, np.random.RandomState(seed))
    assert sorted([*rest, *apart]) == list(range(len(classes)))
    assert (np.diff(rest) > 0).all() and (np.diff(apart) > 0).all()
    return rest, apart


def test_a_fraction_is_rounded_for_each_class_of_which_one_row_is_in_both_parts_and_a_single_row_stays():
    assert np.bincount(UNEVEN[split(UNEVEN, 0.3)[1]], minlength=8)[[3, 1, 7]].tolist() == [15, 2, 0]
    rest, apart = split([0, 0, 1, 1, 2], 0.01)
    assert 4 in rest and len(apart) == 2
    assert len(split([0, 0, 1, 1, 2], 0.99)[0]) == 3


def test_a_number_is_met_exactly_in_proportion_to_the_classes():
    for size in range(1, 54):
        rest, apart = split(UNEVEN, size)
        assert len(apart) == size and set(UNEVEN[rest]) == {1, 3, 7}
        shares = np.bincount(UNEVEN[apart], minlength=8)[[3, 1, 7]]
        # Rounding moves a share by less than one row, and the single row of a class, which stays, moves one more.
        assert (np.abs(shares - size * np.array([50, 5, 1]) / 56) < 2).all()


def test_without_classes_the_rows_are_drawn_at_random_and_streams_of_one_seed_are_independent():
    draws = [split(np.zeros(10), 3, seed)[1] for seed in range(200)]
    assert np.bincount(np.concatenate(draws)).min() > 30 and {*map(len, draws)} == {3}
    streams = [tuple(random_stream(5, stream).randint(2**31, size=4)) for stream in (1, 2, 1)]
    assert streams[0] == streams[2] != streams[1]
    assert streams[0] != tuple(np.random.RandomState(5).randint(2**31, size=4))


def in_own_units(dataset, *splits):
    """Return sorted rows of inputs and targets, rounded: two scalings of a number differ in the last bits."""
    rows = []
    for part in (dataset.splits[name] for name in splits):
        targets = part.targets.reshape(len(part), -1)
        targets = dataset.target_scaling.invert(targets) if dataset.task == "regression" else targets
        rows.append(np.column_stack([dataset.scaling.invert(part.inputs), targets]).round(3))
    together = np.concatenate(rows)
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
        np.testing.assert_allclose(in_own_units(parts, *now), in_own_units(whole, former), atol=2e-3)
    again = with_validation(config, size)
    np.testing.assert_array_equal(parts.validation.inputs, again.validation.inputs)
    assert whole.sha256 != parts.sha256 == again.sha256 != with_validation(config, size, seed=1).sha256
    if whole.task == "classification" and size > 1:
        shares = np.bincount(whole.train.labels) * size / len(whole.train)
        assert np.abs(np.bincount(parts.validation.labels) - shares).max() < 1


def test_one_huge_row_shows_that_validation_rows_do_not_scale(tmp_path):
    # Whichever split the huge row is in, the others are scaled as if it were not there.
    path, labels = tmp_path / "own.npz", np.arange(40) % 2
    inputs = np.where(np.arange(40) == 11, 1e6, np.arange(40.0))[:, None]
    np.savez(path, X_train=inputs, y_train=labels, X_test=inputs[:4], y_test=labels[:4])
    parts = [with_validation(NpzConfig(path=str(path)), 0.5, seed=seed) for seed in range(8)]
    has_huge_row = [part.scaling.invert(part.train.inputs).max() > 1000 for part in parts]
    assert {*has_huge_row} == {True, False}
    assert [part.scaling.std.max() > 1000 for part in parts] == has_huge_row


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
def test_label_noise_gives_so_many_training_rows_another_label_and_leaves_everything_else(name):
    clean, noisy = (load_dataset(parse_dataset({"name": name, "label_noise": share})) for share in (0.0, 0.25))
    differ = noisy.train.targets != clean.train.targets
    assert differ.sum() == round(0.25 * len(differ)) and noisy.train.targets.max() == clean.train.targets.max()
    for split, other in noisy.splits.items():
        np.testing.assert_array_equal(other.inputs, clean.splits[split].inputs)
        if split != "train":
            np.testing.assert_array_equal(other.targets, clean.splits[split].targets)


@pytest.mark.parametrize("name", CORRUPTED)
def test_outliers_lie_in_three_times_the_range_keep_their_labels_and_other_rows_their_units(name):
    clean, wild = (load_dataset(parse_dataset({"name": name, "outliers": share})) for share in (0.0, 0.1))
    before, after = (one.scaling.invert(one.train.inputs) for one in (clean, wild))
    scale = np.abs(before).max() * 1e-6
    moved = (np.abs(after - before) > scale).any(1)
    assert moved.sum() == round(0.1 * len(moved))
    low, high = before.min(0), before.max(0)
    assert (after >= 2 * low - high - scale).all() and (after <= 2 * high - low + scale).all()
    assert ((after[moved] < low - scale) | (after[moved] > high + scale)).any()
    np.testing.assert_array_equal(wild.train.targets, clean.train.targets)
    np.testing.assert_allclose(
        wild.scaling.invert(wild.test.inputs), clean.scaling.invert(clean.test.inputs), atol=10 * scale
    )


def test_corruption_follows_the_seed_of_the_data_and_leaves_validation_rows_alone():
    settings = {"name": "digits", "label_noise": 0.2, "outliers": 0.1, "validation": 300}
    first, again, other = (load_dataset(parse_dataset({**settings, "seed": seed})) for seed in (3, 3, 4))
    clean = load_dataset(parse_dataset({"name": "digits", "validation": 300, "seed": 3}))
    np.testing.assert_array_equal(first.train.inputs, again.train.inputs)
    np.testing.assert_array_equal(first.train.targets, again.train.targets)
    assert not np.array_equal(first.train.targets, other.train.targets)
    np.testing.assert_array_equal(first.validation.targets, clean.validation.targets)
