"""The paired test, the bootstrap interval and the marks, against SciPy and counting."""

from itertools import product

import numpy as np
import pytest

from idwbench.report.statistics import ALPHA, mean_interval, signed_rank_p_value

TIE = 1e-12


def p_value(first, second) -> float:
    return signed_rank_p_value([a - b for a, b in zip(first, second, strict=True)], TIE)


def by_enumeration(differences: list[float]) -> float:
    """The two-sided p-value, 2 · min(P(W ≤ w), P(W ≥ w)), over all signs of the ranks, each as likely as another."""
    from scipy import stats

    present = np.array([difference for difference in differences if difference != 0])
    ranks = stats.rankdata(abs(present))
    observed = ranks[present > 0].sum()
    sums = np.array([ranks[np.array(signs)].sum() for signs in product((False, True), repeat=len(ranks))])
    return float(min(1, 2 * min((sums <= observed).mean(), (sums >= observed).mean())))


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 5, 6, 10, 13, 14, 25, 50])
@pytest.mark.parametrize("alternative", ["two-sided", "greater"])
def test_without_ties_it_is_scipys_exact_test(n, alternative):
    from scipy import stats

    generator = np.random.default_rng(n)
    for shift in (0.0, 0.3, 2.0):
        differences = generator.normal(shift, 1, n)
        expected = stats.wilcoxon(differences, method="exact", alternative=alternative).pvalue
        assert signed_rank_p_value(differences.tolist(), TIE, alternative) == pytest.approx(expected, rel=1e-9)


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
def test_with_ties_and_zeros_it_counts_all_signs(differences):
    # Accuracies on 40 points: the differences of fractions are equal only up to rounding.
    second = [(20 + place) / 40 for place in range(len(differences))]
    first = [(20 + place + difference) / 40 for place, difference in enumerate(differences)]
    expected = by_enumeration([float(difference) for difference in differences])
    assert p_value(first, second) == pytest.approx(expected, rel=1e-12)
    assert p_value(second, first) == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
def test_many_pairs_follow_scipys_normal_approximation():
    from scipy import stats

    first, second = np.round(8 * np.random.default_rng(0).normal(0, 1, (2, 51))) / 8  # with exact ties and zeros
    expected = stats.wilcoxon(first, second, method="asymptotic", correction=False).pvalue
    assert p_value(first.tolist(), second.tolist()) == pytest.approx(expected, abs=2e-3)


def test_six_pairs_are_the_fewest_that_can_differ_and_equal_values_have_p_value_one():
    assert p_value(range(1, 7), [0.0] * 6) == 2 / 2**6 < ALPHA < p_value(range(1, 6), [0.0] * 5)
    assert p_value([0.9] * 8, [0.9] * 8) == p_value([], []) == 1


def scipys_interval(values: list[float], method: str) -> tuple[float, float]:
    from scipy import stats

    found = stats.bootstrap(
        (values,), np.mean, n_resamples=9_999, confidence_level=0.95, method=method, rng=np.random.default_rng(0)
    )
    return found.confidence_interval.low, found.confidence_interval.high


@pytest.mark.parametrize("n", [3, 10, 20])
def test_the_interval_of_a_mean_is_scipys_bca_interval_in_any_order(n):
    values = np.random.default_rng(n).beta(20, 2, n).tolist()
    found = mean_interval(dict(enumerate(values)))
    assert found is not None
    assert (found.low, found.high) == pytest.approx(scipys_interval(values, "BCa"), rel=1e-12)
    assert found.method == "BCa"
    assert found.low < np.mean(values) < found.high
    assert mean_interval(dict([*enumerate(values)][::-1])) == found


def test_where_bca_is_undefined_the_percentile_interval_takes_its_place():
    equal = mean_interval({0: 0.1, 1: 0.1, 2: 0.1})
    assert equal is not None and (equal.low, equal.high, equal.method) == (0.1, 0.1, "percentile")
    # The difference is below the rounding of the means: SciPy returns NaN for BCa.
    values = [1e16, 1e16, 1e16 + 2]
    found = mean_interval(dict(enumerate(values)))
    assert found is not None
    assert (found.low, found.high, found.method) == (*scipys_interval(values, "percentile"), "percentile")
