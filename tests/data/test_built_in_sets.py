"""What every data set that needs no file promises."""

from __future__ import annotations

import numpy as np
import pytest

from idwbench.data.loading import LOADERS, load_dataset
from idwbench.runs.datasets import DATASETS, parse_dataset

BUILT_IN = ["two_moons", "digits", "sine", "friedman1", "diabetes", "iris", "wine", "breast_cancer"]
BUILT_IN += ["circles", "blobs", "hypercube", "gaussian_quantiles", "hastie_10_2"]
SIZES = {name: ("train_size", "test_size", "holdout_size") for name in BUILT_IN[2:4] + BUILT_IN[8:]}
SIZES["two_moons"] = ("train_per_class", "test_per_class", "holdout_per_class")


def load(name: str, **settings: object):
    return load_dataset(parse_dataset({"name": name, **settings}))


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_seed_decides_and_arrays_are_contiguous_and_of_the_promised_types(name):
    found = load(name)
    assert found.sha256 == load(name).sha256 != load(name, seed=1).sha256
    for split in found.splits.values():
        assert split.inputs.dtype == np.float32 and split.inputs.flags.c_contiguous
        assert split.targets.dtype == (np.float32 if found.task == "regression" else np.int64)
        assert split.targets.flags.c_contiguous


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_those_asked_for_and_the_holdout_may_be_left_out(name):
    train, test, holdout = SIZES[name]
    found = load(name, **{train: 50, test: 40, holdout: 0})
    classes = 2 if name == "two_moons" else 1
    assert found.holdout is None
    assert (len(found.train), len(found.test)) == (50 * classes, 40 * classes)


@pytest.mark.parametrize("name", ["two_moons", "sine", "friedman1"])
def test_the_holdout_is_a_sample_of_its_own_that_does_not_depend_on_the_sizes(name):
    train, test, _ = SIZES[name]
    one, other = load(name), load(name, **{train: 50, test: 7})
    inputs = [found.scaling.invert(found.holdout.inputs) for found in (one, other)]
    np.testing.assert_allclose(*inputs, atol=1e-6)
    assert not (one.holdout.inputs[: len(one.train)] == one.train.inputs).all(axis=1).any()
    assert not np.array_equal(one.holdout.inputs, load(name, seed=1).holdout.inputs)


def test_every_declared_data_set_has_a_loader():
    assert set(DATASETS) == set(LOADERS)
