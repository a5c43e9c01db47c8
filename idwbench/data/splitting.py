"""Split rows into train and test, class by class."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["stratified_split"]


def stratified_split(
    labels: NDArray[np.int64], test_fraction: float, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of train and of test, each in ascending order, drawn from each class separately.

    Of n rows of a class, round(n · test_fraction) go to test, at least one and at most n − 1; the only row of a
    class goes to train, so that every class can be learned.
    """
    # RandomState, not Generator: its streams are frozen, so a seed means the same rows under every NumPy.
    random = np.random.RandomState(seed)
    is_test = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        rows = random.permutation(np.flatnonzero(labels == label))
        wanted = max(1, round(len(rows) * test_fraction))
        is_test[rows[: min(wanted, len(rows) - 1)]] = True
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)
