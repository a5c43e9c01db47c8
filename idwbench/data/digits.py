"""Digits: scikit-learn's 1,797 images of 8 x 8 pixels, which need no download."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from idwbench.config import DigitsConfig
from idwbench.data.dataset import Dataset, Scaling, Split, array_sha256
from idwbench.data.splitting import stratified_split

__all__ = ["load_digits"]


def load_digits(config: DigitsConfig) -> Dataset:
    """Return the digits, split by class and scaled as MNIST is: (x/16 − m) / s.

    m and s are mean and standard deviation of x/16 over all pixels of the training images, one number each (m
    near 0.305, s near 0.376). The data's own units are 0 … 16, in which the scaling has mean 16 m and std 16 s.
    """
    from sklearn import datasets

    found = datasets.load_digits()
    pixels = np.asarray(found.data, np.float64)
    labels = np.asarray(found.target, np.int64)
    train_rows, test_rows = stratified_split(labels, config.test_fraction, config.seed)
    scaling = Scaling(np.asarray(pixels[train_rows].mean()), np.asarray(pixels[train_rows].std()))

    def split(rows: NDArray[np.int64]) -> Split:
        return Split(scaling.apply(pixels[rows]), np.ascontiguousarray(labels[rows]))

    train, test = split(train_rows), split(test_rows)
    return Dataset(
        config=config,
        train=train,
        test=test,
        holdout=None,
        scaling=scaling,
        image_shape=(8, 8),
        class_names=tuple(str(digit) for digit in range(10)),
        sha256=array_sha256(train.inputs, train.labels, test.inputs, test.labels),
    )
