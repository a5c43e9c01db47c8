"""Digits: scikit-learn's 1,797 images of 8 x 8 pixels; no download."""

from pathlib import Path

import numpy as np

from idwbench.data.preparation import RawData, RawSplit
from idwbench.data.splits import split_rows
from idwbench.runs.datasets import DigitsConfig

__all__ = ["load_digits"]


def load_digits(config: DigitsConfig, folder: Path) -> RawData:
    """Return the digits, pixels 0 to 16, split by class; scaled by one mean and standard deviation over all pixels."""
    from sklearn import datasets

    found = datasets.load_digits()
    whole = RawSplit(np.asarray(found.data, np.float64), np.asarray(found.target, np.int64))
    train, test = split_rows(whole.targets, config.test_fraction, np.random.RandomState(config.seed))
    return RawData(
        whole.rows(train),
        whole.rows(test),
        class_names=tuple(str(digit) for digit in range(10)),
        image_shape=(8, 8),
        scaling="pixels",
    )
