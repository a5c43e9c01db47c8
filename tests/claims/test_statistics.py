from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from idwbench.claims.findings import best_p_value, holm
from idwbench.report.statistics import signed_rank_p_value, signed_ranks


@pytest.fixture(autouse=True)
def few_resamples():
    """Here all of them are drawn."""


def one_sided_p_value(values):
    return signed_rank_p_value(signed_ranks(values, 1e-12), "greater")


def enumerated(values):
    """P(W⁺ as large as observed) over all signs of the ranks."""
    kept = [value for value in values if value]
    order = sorted(abs(value) for value in kept)
    ranks = [order.index(abs(value)) + order.count(abs(value)) / 2 + 0.5 for value in kept]
    observed = sum(rank for rank, value in zip(ranks, kept, strict=True) if value > 0)
    sums = [sum(r for r, sign in zip(ranks, signs, strict=True) if sign) for signs in product((0, 1), repeat=len(kept))]
    return float(np.mean([total >= observed - 1e-9 for total in sums]))


@pytest.mark.parametrize(
    "values",
    [
        [1, 2, 3, 4, 5, 6],
        [-1, 2, 3, -4, 5, 6, 7],
        [-1, -2, -3, -4, -5, -6],
        [1, 1, 1, -1, 2, 2, 3],
        [0, 0, 1, 2, 3, -1, 5],
        [5.0],
    ],
)
def test_the_one_sided_p_value_is_that_of_all_signs(values):
    assert one_sided_p_value(values) == pytest.approx(enumerated(values), abs=1e-12)


def test_equal_values_show_nothing():
    assert one_sided_p_value([0.0] * 10) == 1.0


def test_rounding_errors_do_not_break_ties():
    lower = np.array([0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8])
    noisy = (lower + 0.1) - lower  # not all equal in float64
    assert len(set(noisy)) > 1
    noisy[0] *= -1
    assert one_sided_p_value(noisy) == one_sided_p_value([-0.1, *[0.1] * 6])


@pytest.mark.parametrize("n", [5, 6, 10, 20])
def test_no_values_give_a_smaller_p_value_than_the_best(n):
    assert one_sided_p_value(np.arange(1.0, n + 1)) == pytest.approx(best_p_value(n))


def test_holm_is_the_calculation_by_hand():
    # 4 · 0.005, 3 · 0.01, 2 · 0.03, and 1 · 0.04 raised to the one before
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.5]) == (1.0, 1.0)
    assert holm([]) == ()


def test_holm_rejects_what_its_sequence_of_tests_rejects():
    generator = np.random.default_rng(0)
    for _ in range(200):
        p_values = generator.uniform(0, 0.1, 8)
        rejected = set()
        for rank, place in enumerate(np.argsort(p_values)):
            if p_values[place] > 0.05 / (8 - rank):
                break
            rejected.add(place)
        assert {place for place, adjusted in enumerate(holm(list(p_values))) if adjusted <= 0.05} == rejected
