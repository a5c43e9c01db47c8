"""Digits: scikit-learn's 1,797 images of 8 x 8 pixels, which need no download."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from idwbench.data.preparation import RawData, RawSplit
from idwbench.data.splits import split_rows
from idwbench.runs.datasets import DigitsConfig

__all__ = ["load_digits"]


def load_digits(config: DigitsConfig, folder: Path) -> RawData:
    """Return the digits, 0 … 16 a pixel, split by class.

    They are scaled as MNIST is: by one mean and one standard deviation over all pixels of the training images (near
    4.88 and 6.02).
    """
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
