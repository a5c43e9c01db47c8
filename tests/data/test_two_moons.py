import numpy as np
import pytest

from idwbench.data.loading import load_dataset
from idwbench.data.synthetic import draw_two_moons
from idwbench.runs.datasets import TwoMoonsConfig


def make_moons(*arguments, **options):
    from sklearn import datasets

    return datasets.make_moons(*arguments, **options)


def test_train_and_test_are_drawn_in_this_order_from_one_generator():
    found = load_dataset(TwoMoonsConfig(seed=3))
    random = np.random.RandomState(3)
    train, train_labels = make_moons((100, 100), shuffle=False, noise=0.1, random_state=random)
    test, test_labels = make_moons((20, 20), shuffle=False, noise=0.1, random_state=random)
    np.testing.assert_array_equal(found.train.inputs, train.astype(np.float32))
    np.testing.assert_array_equal(found.train.labels, train_labels)
    np.testing.assert_array_equal(found.test.inputs, test.astype(np.float32))
    np.testing.assert_array_equal(found.test.labels, test_labels)


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**32 - 1])
@pytest.mark.parametrize(("per_class", "noise"), [(1, 0.1), (2, 0.0), (7, 0.3), (100, 0.1), (1001, 2.5)])
def test_points_are_bit_identical_to_scikit_learns(seed, per_class, noise):
    found = draw_two_moons(TwoMoonsConfig(noise=noise), per_class, np.random.RandomState(seed))
    points, labels = make_moons(
        (per_class, per_class), shuffle=False, noise=noise, random_state=np.random.RandomState(seed)
    )
    np.testing.assert_array_equal(found.inputs, points)
    np.testing.assert_array_equal(found.targets, labels)


def test_without_noise_the_points_lie_on_two_half_circles():
    split = load_dataset(TwoMoonsConfig(noise=0.0, train_per_class=50)).train
    upper = split.inputs[split.labels == 0].astype(float)
    lower = split.inputs[split.labels == 1].astype(float)
    np.testing.assert_allclose(np.hypot(upper[:, 0], upper[:, 1]), 1, atol=1e-6)
    np.testing.assert_allclose(np.hypot(lower[:, 0] - 1, lower[:, 1] - 0.5), 1, atol=1e-6)
    assert (upper[:, 1] >= -1e-6).all() and (lower[:, 1] <= 0.5 + 1e-6).all()


def test_the_holdout_does_not_depend_on_the_sizes_of_train_and_test():
    one = load_dataset(TwoMoonsConfig())
    other = load_dataset(TwoMoonsConfig(train_per_class=50, test_per_class=10))
    assert len(one.holdout) == 4000
    np.testing.assert_array_equal(one.holdout.inputs, other.holdout.inputs)
    assert len(other.train) == 100 and len(other.test) == 20


def test_the_holdout_is_a_fresh_sample_that_follows_the_seed():
    one = load_dataset(TwoMoonsConfig(train_per_class=2000))
    other = load_dataset(TwoMoonsConfig(train_per_class=2000, seed=1))
    assert not (one.holdout.inputs == one.train.inputs).all(axis=1).any()
    assert not np.array_equal(one.holdout.inputs, other.holdout.inputs)


def test_a_holdout_of_zero_is_none():
    found = load_dataset(TwoMoonsConfig(holdout_per_class=0))
    assert found.holdout is None


def test_the_same_config_gives_the_same_checksum_and_another_seed_another():
    config = TwoMoonsConfig(holdout_per_class=5)
    assert load_dataset(config).sha256 == load_dataset(config).sha256
    assert load_dataset(config).sha256 != load_dataset(config.model_copy(update={"seed": 1})).sha256


@pytest.mark.parametrize("split", ["train", "test", "holdout"])
def test_arrays_are_contiguous_and_of_the_promised_types(split):
    found = getattr(load_dataset(TwoMoonsConfig()), split)
    assert found.inputs.dtype == np.float32 and found.labels.dtype == np.int64
    assert found.inputs.flags.c_contiguous and found.labels.flags.c_contiguous


def test_the_scaling_changes_nothing():
    found = load_dataset(TwoMoonsConfig())
    np.testing.assert_array_equal(found.scaling.apply(found.train.inputs), found.train.inputs)
