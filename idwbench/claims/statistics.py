"""The tests of the claims: signed-rank test and Holm's correction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["ALPHA", "best_p_value", "holm", "one_sided_p_value"]

ALPHA = 0.05
# Differences of stored metrics have rounding errors, which must not break ties.
_DECIMALS = 12


def one_sided_p_value(values: Sequence[float]) -> float:
    """Return the p-value of Wilcoxon's signed-rank test of a symmetric distribution about 0 against a larger median.

    W⁺ = Σ R_i over positive values, with R_i the rank of |value|, and p = P(W ≥ W⁺) where each value has either sign
    with probability ½. Zeros are dropped. It is `scipy.stats.wilcoxon` with ``method="auto"``: exact without ties and
    zeros or up to 13 values, the normal approximation otherwise (Wilcoxon 1945, *Individual comparisons by ranking
    methods*). The p-value is 1 if all values are zero.
    """
    from scipy.stats import wilcoxon

    rounded = np.round(np.asarray(values, np.float64), _DECIMALS)
    rounded = rounded[rounded != 0]
    return float(wilcoxon(rounded, alternative="greater").pvalue) if len(rounded) else 1.0


def best_p_value(n: int) -> float:
    """Return 2⁻ⁿ, the p-value of `one_sided_p_value` for n positive values: the smallest that n pairs can give."""
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
