from itertools import product

import numpy as np
import pytest

from idwbench.report.paired_test import ALPHA, MIN_PAIRS, signed_rank_p_value


def by_enumeration(differences: list[float]) -> float:
    """The two-sided p-value, 2 · min(P(W ≤ w), P(W ≥ w)), over all signs of the ranks, each as likely as another."""
    from scipy import stats

    present = np.array([difference for difference in differences if difference != 0])
    ranks = stats.rankdata(abs(present))
    observed = ranks[present > 0].sum()
    sums = np.array([ranks[np.array(signs)].sum() for signs in product((False, True), repeat=len(ranks))])
    return float(min(1, 2 * min((sums <= observed).mean(), (sums >= observed).mean())))


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 5, 6, 10, 25, 50])
def test_without_ties_it_is_scipys_exact_test(n: int) -> None:
    from scipy import stats

    generator = np.random.default_rng(n)
    for shift in (0.0, 0.3, 2.0):
        first, second = generator.normal(shift, 1, n), generator.normal(0, 1, n)
        expected = stats.wilcoxon(first, second, method="exact").pvalue
        assert signed_rank_p_value(first.tolist(), second.tolist()) == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "differences",
    [
        [1, 1, 1, 1, 1, 1],
        [1, 1, -1, 2, 2, 3, 3, 3],
        [1, -1, 2, -2, 3, -3],
        [0, 0, 1, 2, 2, -4, 0, 5],
        [3, 3, 3, -1, -1, 2, 0, 0, 4],
    ],
)
def test_with_ties_and_zeros_it_counts_all_signs(differences: list[int]) -> None:
    # Accuracies on 40 points: the differences of fractions are equal only up to rounding.
    second = [(20 + place) / 40 for place in range(len(differences))]
    first = [(20 + place + difference) / 40 for place, difference in enumerate(differences)]
    expected = by_enumeration([float(difference) for difference in differences])
    assert signed_rank_p_value(first, second) == pytest.approx(expected, rel=1e-12)
    assert signed_rank_p_value(second, first) == pytest.approx(expected, rel=1e-12)


def test_equal_values_have_p_value_one() -> None:
    assert signed_rank_p_value([0.9] * 8, [0.9] * 8) == 1
    assert signed_rank_p_value([], []) == 1


def test_six_pairs_are_the_fewest_that_can_differ() -> None:
    def most_extreme(n: int) -> float:
        return signed_rank_p_value([float(place + 1) for place in range(n)], [0.0] * n)

    assert most_extreme(MIN_PAIRS) == 2 / 2**MIN_PAIRS < ALPHA < most_extreme(MIN_PAIRS - 1)


@pytest.mark.slow
def test_many_pairs_follow_the_normal_approximation() -> None:
    from scipy import stats

    generator = np.random.default_rng(0)
    first, second = np.round(8 * generator.normal(0, 1, (2, 500))) / 8  # with exact ties and zeros
    expected = stats.wilcoxon(first, second, method="asymptotic", correction=True).pvalue
    assert signed_rank_p_value(first.tolist(), second.tolist()) == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_the_exact_test_and_the_approximation_agree_where_one_takes_over() -> None:
    from scipy import stats

    generator = np.random.default_rng(1)
    first, second = generator.normal(0.1, 1, 201), generator.normal(0, 1, 201)
    exact = signed_rank_p_value(first[:200].tolist(), second[:200].tolist())
    approximate = stats.wilcoxon(first[:200], second[:200], method="asymptotic", correction=True).pvalue
    assert exact == pytest.approx(approximate, abs=0.005)
    expected = stats.wilcoxon(first, second, method="asymptotic", correction=True).pvalue
    assert signed_rank_p_value(first.tolist(), second.tolist()) == pytest.approx(expected, rel=1e-9)
