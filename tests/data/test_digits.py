import numpy as np
import pytest

from idwbench.data.loading import load_dataset
from idwbench.runs.datasets import DigitsConfig


def sklearn_digits():
    from sklearn import datasets

    return datasets.load_digits()


def test_the_two_splits_hold_every_image_once():
    found = load_dataset(DigitsConfig())
    raw = np.concatenate([found.scaling.invert(split.inputs) for split in (found.train, found.test)])
    labels = np.concatenate([found.train.labels, found.test.labels])
    expected = sklearn_digits()
    rows = np.column_stack([labels, np.rint(raw)])
    wanted = np.column_stack([expected.target, expected.data])
    np.testing.assert_array_equal(rows[np.lexsort(rows.T)], wanted[np.lexsort(wanted.T)])


def test_scaling_is_that_of_mnist_with_the_constants_of_the_training_images():
    found = load_dataset(DigitsConfig())
    share = found.scaling.invert(found.train.inputs).round() / 16
    np.testing.assert_allclose(found.train.inputs, (share - share.mean()) / share.std(), atol=1e-6)
    assert found.train.inputs.mean(dtype=float) == pytest.approx(0, abs=1e-6)
    assert found.train.inputs.std(dtype=float) == pytest.approx(1, abs=1e-6)
    assert found.scaling.mean == pytest.approx(16 * 0.305, rel=0.01)


def test_classes_keep_their_shares():
    found = load_dataset(DigitsConfig(test_fraction=0.25, seed=4))
    whole = np.bincount(sklearn_digits().target)
    assert np.abs(np.bincount(found.test.labels) - whole * 0.25).max() <= 0.5
    assert found.image_shape == (8, 8) and found.n_features == 64 and found.n_outputs == 10
