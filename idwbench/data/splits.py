"""Split rows into two parts, class by class, and draw from reproducible streams of random numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["HOLDOUT_STREAM", "VALIDATION_STREAM", "random_stream", "split_rows"]

HOLDOUT_STREAM = 1
VALIDATION_STREAM = 2

Rows = NDArray[np.int64]


def random_stream(seed: int, stream: int) -> np.random.RandomState:
    """Return a generator that is independent of ``RandomState(seed)`` and of the other streams of this seed.

    `RandomState`, not `Generator`: its streams are frozen, so a seed means the same data with every version of NumPy.
    """
    return np.random.RandomState(np.random.MT19937(np.random.SeedSequence(seed, spawn_key=(stream,))))


def split_rows(classes: NDArray[np.generic], size: int | float, random: np.random.RandomState) -> tuple[Rows, Rows]:
    """Return the rows that stay and the rows that are set apart, each in ascending order, drawn class by class.

    Every class keeps at least one row, so that it can be learned. A fraction sets apart round(n · size) of the n rows
    of each class, but at least one of two or more. A number sets apart exactly that many rows in all, shared between
    the classes in proportion to their sizes; it may be at most the number of rows less that of classes.

    Args:
        classes: The class of each row, (n,); all alike where there are none.
        size: A number of rows, or a fraction between 0 and 1.
        random: Draws one permutation for each class, in ascending order of classes.
    """
    names, counts = np.unique(classes, return_counts=True)
    shares = _shares(counts, size) if isinstance(size, int) else _fractions(counts, size)
    is_apart = np.zeros(len(classes), dtype=bool)
    for name, share in zip(names, shares, strict=True):
        is_apart[random.permutation(np.flatnonzero(classes == name))[:share]] = True
    return np.flatnonzero(~is_apart), np.flatnonzero(is_apart)


def _fractions(counts: Rows, fraction: float) -> list[int]:
    return [min(max(1, round(count * fraction)), count - 1) for count in counts.tolist()]


def _shares(counts: Rows, size: int) -> Rows:
    """Return whole shares that sum to `size`: what is left after rounding down goes where most was cut off."""
    total = counts.sum()
    shares: Rows = size * counts // total
    for _ in range(size - int(shares.sum())):
        cut_off = np.where(shares < counts - 1, size * counts - shares * total, -total)
        shares[cut_off.argmax()] += 1
    return shares
