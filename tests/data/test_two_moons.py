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
