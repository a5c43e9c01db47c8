"""Validation rows come from the training rows, are never trained on, and leave no trace in the scaling."""

import numpy as np
import pytest

from idwbench.data.loading import load_dataset
from idwbench.errors import DatasetError
from idwbench.runs.datasets import (
    CsvConfig,
    DiabetesConfig,
    DigitsConfig,
    Friedman1Config,
    NpzConfig,
    SineConfig,
    TwoMoonsConfig,
)

CONFIGS = [TwoMoonsConfig(), DigitsConfig(), SineConfig(), Friedman1Config(), DiabetesConfig()]


def in_own_units(dataset, split):
    """Return inputs and targets of a split, one row each, rounded: two scalings of a number differ in the last bits."""
    found = dataset.splits[split]
    targets = found.targets.reshape(len(found), -1)
    if dataset.task == "regression":
        targets = dataset.target_scaling.invert(targets)
    rows = np.column_stack([dataset.scaling.invert(found.inputs), targets]).round(3)
    return rows[np.lexsort(rows.T)]


def with_validation(config, size, **changes):
    return load_dataset(config.model_copy(update={"validation": size, **changes}))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@pytest.mark.parametrize("size", [17, 0.25])
def test_train_and_validation_are_the_former_training_rows(config, size):
    whole, parts = load_dataset(config), with_validation(config, size)
    assert len(parts.validation) == (size if size > 1 else pytest.approx(size * len(whole.train), abs=5))
    together = np.concatenate([in_own_units(parts, "train"), in_own_units(parts, "validation")])
    np.testing.assert_allclose(together[np.lexsort(together.T)], in_own_units(whole, "train"), atol=2e-3)
    np.testing.assert_allclose(in_own_units(parts, "test"), in_own_units(whole, "test"), atol=2e-3)
    assert (parts.holdout is None) == (whole.holdout is None)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_the_seed_of_the_data_decides_and_no_validation_is_the_default(config):
    assert load_dataset(config).validation is None
    first, again = (with_validation(config, 20) for _ in range(2))
    np.testing.assert_array_equal(first.validation.inputs, again.validation.inputs)
    assert first.sha256 == again.sha256 != load_dataset(config).sha256
    assert first.sha256 != with_validation(config, 20, seed=1).sha256


@pytest.mark.parametrize("config", [DigitsConfig(), TwoMoonsConfig()], ids=lambda config: config.name)
def test_classes_keep_their_shares(config):
    whole, parts = load_dataset(config), with_validation(config, 40)
    shares = np.bincount(whole.train.labels) * 40 / len(whole.train)
    assert np.abs(np.bincount(parts.validation.labels) - shares).max() < 1


@pytest.mark.parametrize("config", [Friedman1Config(), DiabetesConfig()], ids=lambda config: config.name)
def test_rows_that_are_trained_on_are_standardised_by_themselves_alone(config):
    found = with_validation(config, 0.5)
    for rows in (found.train.inputs, found.train.targets):
        np.testing.assert_allclose(rows.mean(axis=0, dtype=float), 0, atol=1e-6)
        np.testing.assert_allclose(rows.std(axis=0, dtype=float), 1, atol=1e-6)


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_a_user_file_with_one_huge_row_shows_that_validation_rows_do_not_scale(kind, tmp_path):
    # Whichever split the huge row is in, the others are scaled as if it were not there.
    inputs, labels = np.arange(40.0)[:, None], np.arange(40) % 2
    inputs[11] = 1e6
    if kind == "npz":
        config = NpzConfig(path=str(tmp_path / "own.npz"))
        np.savez(config.path, X_train=inputs, y_train=labels, X_test=inputs[:4], y_test=labels[:4])
    else:
        config = CsvConfig(path=str(tmp_path / "own.csv"))
        lines = [f"{x},{label}" for x, label in zip(inputs[:, 0], labels, strict=True)]
        (tmp_path / "own.csv").write_text("\n".join(["x,label", *lines]))
    seen = set()
    for seed in range(8):
        found = with_validation(config, 0.5, seed=seed)
        in_train = found.scaling.invert(found.train.inputs).max() > 1000
        seen.add(in_train)
        assert (found.scaling.std.max() > 1000) == in_train
    assert seen == {True, False}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (TwoMoonsConfig(validation=199), r"at most 198 rows, as one of each class of the 200 training rows"),
        (TwoMoonsConfig(validation=200), "got 200"),
        (TwoMoonsConfig(train_per_class=1, validation=0.5), "at most 0 rows"),
        (SineConfig(validation=100), r"at most 99 rows, as one of the 100 training rows"),
        (SineConfig(train_size=1, validation=0.5), "at most 0 rows"),
    ],
)
def test_more_validation_rows_than_can_be_spared_are_refused(config, message):
    with pytest.raises(DatasetError, match=message) as caught:
        load_dataset(config)
    assert caught.value.location == ("validation",)


def test_the_largest_validation_leaves_one_row_of_each_class():
    found = load_dataset(TwoMoonsConfig(validation=198))
    assert np.bincount(found.train.labels).tolist() == [1, 1]
