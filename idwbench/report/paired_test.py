"""The Wilcoxon signed-rank test of two settings over common seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

__all__ = ["ALPHA", "MIN_PAIRS", "signed_rank_p_value", "signed_rank_p_values"]

ALPHA = 0.05
# The smallest p-value is 2/2⁵ = 0.0625 with five pairs and 2/2⁶ = 0.03125 with six.
MIN_PAIRS = 6
# Largest number of differences for the exact distribution.
_EXACT_PAIRS = 200
_EXACT_SUMS = 52  # bits of a double
# Relative difference that counts as a tie, since metrics have rounding errors.
_RELATIVE_TIE = 1e-12


def signed_rank_p_value(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the two-sided p-value of the Wilcoxon signed-rank test on the differences of pairs.

    With D_i = first_i − second_i and R_i the rank of |D_i|: W⁺ = Σ R_i over D_i > 0, and p = 2·P(W ≤ min(W⁺, W⁻)) where
    each D_i has either sign with probability ½. Zero differences are dropped, ties have the mean of their ranks, and
    the distribution is exact, or above 200 differences its normal approximation. The p-value is 1 if all differences
    are zero. `first` and `second` have finite values for the same seeds (Wilcoxon 1945, *Individual comparisons by
    ranking methods*).
    """
    tie = _RELATIVE_TIE * max(map(abs, (*first, *second)), default=0.0)
    differences = [d for a, b in zip(first, second, strict=True) if abs(d := a - b) > tie]
    doubled = _doubled_ranks([*map(abs, differences)], tie)
    positive = sum([rank for rank, difference in zip(doubled, differences, strict=True) if difference > 0])
    smaller = min(positive, sum(doubled) - positive)
    if len(doubled) > _EXACT_PAIRS:
        # Mean Σr/2 and variance Σr²/4 of the doubled statistic, whose steps are 2: its continuity correction is 1.
        distance = (smaller + 1 - sum(doubled) / 2) / math.sqrt(sum(rank * rank for rank in doubled) / 4)
        return min(1.0, math.erfc(-distance / math.sqrt(2)))
    # Up to 52 ranks all sums are exact, in any order, and large tables have few different ones.
    ranks = sorted(doubled) if len(doubled) <= _EXACT_SUMS else doubled
    return min(1.0, 2 * _probability(tuple(ranks), smaller))


def signed_rank_p_values(best: Sequence[float], others: Sequence[Sequence[float]]) -> list[float]:
    """Return `signed_rank_p_value` of `best` and each of `others`, which all have its number of values, at once."""
    if len(best) > _EXACT_SUMS:
        return [signed_rank_p_value(best, other) for other in others]
    first, second = np.array(best), np.array(others)
    tie = _RELATIVE_TIE * np.maximum(np.abs(first).max(), np.abs(second).max(1))[:, None]
    differences = first - second
    sizes = np.abs(differences)
    sizes[sizes <= tie] = np.inf  # dropped, after all others
    order = sizes.argsort(1, kind="stable")
    ordered, place = np.take_along_axis(sizes, order, 1), np.arange(len(best))
    with np.errstate(invalid="ignore"):
        is_first = np.pad(~(np.diff(ordered) <= tie), ((0, 0), (1, 0)), constant_values=True)
    is_last = np.pad(is_first[:, 1:], ((0, 0), (0, 1)), constant_values=True)
    start = np.maximum.accumulate(np.where(is_first, place, 0), 1)
    end = np.minimum.accumulate(np.where(is_last, place, len(best))[:, ::-1], 1)[:, ::-1]
    doubled = np.where(np.isfinite(ordered), start + end + 2, 0)
    positive = (doubled * (np.take_along_axis(differences, order, 1) > 0)).sum(1)
    smaller = np.minimum(positive, doubled.sum(1) - positive)
    counts = np.isfinite(ordered).sum(1)
    return [
        min(1.0, 2 * _probability(tuple(ranks[:n]), least))
        for ranks, n, least in zip(doubled.tolist(), counts.tolist(), smaller.tolist(), strict=True)
    ]


@lru_cache(maxsize=10_000)
def _probability(doubled: tuple[int, ...], smaller: int) -> float:
    """Return the probability of a sum of doubled ranks, each counted with probability ½, up to `smaller`."""
    probabilities = np.zeros(smaller + 1)
    probabilities[0] = 1.0
    for rank in doubled:
        shifted = probabilities[: max(0, smaller + 1 - rank)].copy()
        probabilities /= 2
        probabilities[rank : rank + len(shifted)] += shifted / 2
    return float(probabilities.sum())


def _doubled_ranks(magnitudes: Sequence[float], tie: float) -> list[int]:
    """Return twice the rank of each magnitude, from 1, with mean ranks for ties; these are integers."""
    order = sorted(range(len(magnitudes)), key=magnitudes.__getitem__)
    ranks = [0] * len(order)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and magnitudes[order[end + 1]] - magnitudes[order[end]] <= tie:
            end += 1
        for place in order[start : end + 1]:
            ranks[place] = start + end + 2
        start = end + 1
    return ranks
