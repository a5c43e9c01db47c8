"""Holm's correction of the tests of the claims."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["best_p_value", "holm"]


def best_p_value(n: int) -> float:
    """Return 2⁻ⁿ, the smallest one-sided p-value of a signed-rank test of n pairs: that of positive differences."""
    return 0.5**n


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return the p-values adjusted by Holm's step-down method, in their order.

    For the i-th smallest of m: max over j ≤ i of min(1, (m − j + 1)·p_(j)). It bounds the probability of any wrong
    rejection, whatever the dependence of the tests (Holm 1979, *A simple sequentially rejective multiple test
    procedure*).
    """
    m = len(p_values)
    adjusted = [0.0] * m
    largest = 0.0
    for rank, place in enumerate(sorted(range(m), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (m - rank) * p_values[place]))
        adjusted[place] = largest
    return tuple(adjusted)
