"""Outcomes of comparisons, their statistics, and verdicts of claims, on series without runs."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests
from stored_runs import Runs

from idwbench.claims.definitions import Claim, Series, combine, difference
from idwbench.claims.findings import bounded, compare, computed, correct, holm
from idwbench.claims.verdicts import judge
from idwbench.report.statistics import signed_rank_p_value


def series(values, name="first − second"):
    return Series(name, dict(enumerate(values)))


def spread_about(mean, n=20, std=1.0):
    noise = np.random.default_rng(0).normal(size=n)
    return series(mean + std * (noise - noise.mean()) / noise.std())


def verdict(*items):
    claim = Claim(1, "statement", "Figure 2", "test", lambda evidence: items, ("some",))
    return judge(Runs().evidence, [claim])[0]


@pytest.mark.parametrize(
    ("mean", "bounds", "expected", "words"),
    [
        (5.0, {"above": 0.0, "unit": "points"}, "supported", ""),
        (0.0, {"above": 0.0, "unit": "points"}, "not supported", "not distinguishable from 0"),
        (-5.0, {"above": 0.0, "unit": "points"}, "not supported", "opposite"),
        (-5.0, {"below": 1.0}, "supported", ""),
        (1.0, {"below": 1.0}, "not supported", "not distinguishable from 1"),
        (5.0, {"below": 1.0}, "not supported", "opposite"),
        (-0.3, {"above": -1.0}, "supported", ""),  # a certain loss, but within its margin
    ],
)
def test_a_difference_beyond_a_bound_is_supported_or_not(mean, bounds, expected, words):
    (found,) = correct([compare(spread_about(mean, std=0.01 if mean == -0.3 else 1.0), **bounds)])
    assert found.outcome == expected
    assert words in found.reason
    assert found.effect == pytest.approx(mean)
    assert found.interval[0] < mean < found.interval[1]


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_fewer_than_six_pairs_are_not_enough(n):
    (found,) = correct([compare(series(range(1, n + 1)), above=0.0)])
    assert found.outcome == "not enough runs"
    assert found.missing == (f"first − second: {n} of 6 seeds",)
    assert found.p_value is None


def test_six_pairs_are_enough_alone_but_not_among_many_comparisons():
    six = compare(series(range(1, 7)), above=0.0)
    assert correct([six])[0].outcome == "supported"
    found = correct([six, *[compare(spread_about(0.0), above=0.0)] * 9])[0]
    assert found.outcome == "not enough runs"
    assert found.missing == ("first − second: 6 seeds cannot be significant among 10 comparisons",)


def test_the_correction_counts_every_comparison():
    weak = compare(series([1, 2, 3, 4, 5, 6, 7, -1.5]), above=0.0)
    alone, together = correct([weak])[0], correct([weak] * 10)[0]
    assert alone.outcome == "supported"
    assert together.adjusted_p_value == pytest.approx(10 * alone.p_value)
    assert together.outcome != "supported"


@pytest.mark.parametrize(
    ("values", "expected", "words"),
    [
        ([88.1, 87.9, 88.0, 88.2, 87.5], "supported", ""),
        ([88.1, 87.9, 88.0, 88.2, 86.9], "not supported", "in 4 of 5 seeds"),
        ([88.1, 87.9, 88.0, 89.2, 88.0], "not supported", "in 4 of 5 seeds"),
        ([95.0] * 5, "not supported", "in 0 of 5 seeds"),
        ([88.0] * 4, "not enough runs", ""),
    ],
)
def test_a_bound_for_every_seed_needs_five_that_agree(values, expected, words):
    found = compare(series(values), above=87.0, below=89.0, test="every seed")
    assert (found.outcome, found.p_value) == (expected, None)
    assert words in found.reason


def test_a_check_holds_at_every_point_or_not():
    assert bounded("error", [1e-15, 1e-13], "≤", 1e-12).outcome == "supported"
    failed = bounded("weight", [0.5, 1.0, 1.0], "≥", 0.99)
    assert failed.outcome == "not supported"
    assert failed.reason == "weight: 0.5, claimed ≥ 0.99 (at 1 of 3 points)"


def test_a_claim_holds_only_if_every_comparison_does_and_remarks_do_not_decide():
    good, bad = (compare(spread_about(mean), above=0.0) for mean in (5.0, -5.0))
    few = compare(series([1.0], "few"), above=0.0)
    judged = verdict(good, good, "Beside.")
    assert (judged.verdict, judged.remarks, len(judged.findings)) == ("holds", ("Beside.",), 2)
    judged = verdict(good, few)
    assert (judged.verdict, judged.reason) == ("not enough runs", "few: 1 of 6 seeds")
    # One failure is enough, whatever the missing runs would show.
    assert verdict(good, few, bad).verdict == "does not hold"
    judged = verdict(computed("cases", 0.0, "≥ 1", 0, 0, ("idw: 0 of 5 seeds",)))
    assert (judged.verdict, judged.reason) == ("not enough runs", "idw: 0 of 5 seeds")


def test_the_decisive_finding_speaks_most_against_the_claim_or_is_the_least_clear():
    clear, close = compare(spread_about(9.0), above=0.0), compare(spread_about(3.0), above=0.0)
    bad, worse = (compare(spread_about(mean), above=0.0) for mean in (-5.0, -7.0))
    for items, effect in (((clear, close), 3.0), ((clear, bad, close), -5.0), ((clear, bad, worse), -7.0)):
        assert verdict(*items).decisive.effect == pytest.approx(effect)
    assert verdict(clear, bad, worse).reason.startswith("first − second: −7 ")


def test_series_are_paired_by_seed_and_name_what_is_missing():
    first = Series("idw", {1: 3.0, 2: 5.0, 3: 1.0})
    second = Series("inv_dist", {2: 1.0, 3: 1.0, 4: 7.0}, "2 runs without coverage")
    both = difference("idw − inv_dist", first, second)
    assert both.values == {2: 4.0, 3: 0.0}
    assert both.missing(2) == ()
    assert both.missing(3) == ("idw − inv_dist: 2 of 3 seeds",)  # each has three, but not in common
    assert combine("other", float, both).missing(4) == (
        "idw: 3 of 4 seeds",
        "inv_dist: 3 of 4 seeds (2 runs without coverage)",
    )
    ratio = combine("ratio", lambda one: float("nan") if one == 1 else one, series([0.0, 1.0, 2.0]))
    assert ratio.values == {0: 0, 2: 2}


@pytest.mark.parametrize("n", [5, 6, 20])
def test_no_values_give_a_smaller_p_value_than_the_best(n):
    assert signed_rank_p_value(np.arange(1.0, n + 1).tolist(), 1e-12, "greater") == pytest.approx(0.5**n)


def test_holm_is_that_of_statsmodels_and_the_calculation_by_hand():
    # 4 · 0.005, 3 · 0.01, 2 · 0.03, and 1 · 0.04 raised to the one before
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert (holm([0.6, 0.5]), holm([])) == ((1.0, 1.0), ())
    generator = np.random.default_rng(0)
    for _ in range(20):
        p_values = generator.uniform(0, 0.1, 8).tolist()
        assert holm(p_values) == pytest.approx(multipletests(p_values, method="holm")[1])
