"""Stratified splits, and reproducible streams of random numbers."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["HOLDOUT_STREAM", "VALIDATION_STREAM", "random_stream", "split_rows"]

HOLDOUT_STREAM = 1
VALIDATION_STREAM = 2

Rows = NDArray[np.int64]


def random_stream(seed: int, stream: int) -> np.random.RandomState:
    """Return a generator that is independent of ``RandomState(seed)`` and of the other streams of this seed.

    The numbers of a `RandomState`, unlike those of a `Generator`, are the same in every version of NumPy.
    """
    return np.random.RandomState(np.random.MT19937(np.random.SeedSequence(seed, spawn_key=(stream,))))


def split_rows(classes: NDArray[np.generic], size: int | float, random: np.random.RandomState) -> tuple[Rows, Rows]:
    """Return the indices of the remaining and of the split-off rows, each ascending, stratified by class.

    A fraction splits off round(n · size) of the n rows of each class, but at least one of two or more. A number is
    distributed over the classes in proportion to their sizes. Every class keeps at least one row.

    Args:
        classes: The class of each row, (n,).
        size: A fraction between 0 and 1, or a number of rows, at most the number of rows less that of classes.
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
    """Return integer shares that sum to `size`: the remainder goes to the classes with the largest fractions."""
    total = counts.sum()
    shares: Rows = size * counts // total
    for _ in range(size - int(shares.sum())):
        cut_off = np.where(shares < counts - 1, size * counts - shares * total, -total)
        shares[cut_off.argmax()] += 1
    return shares
