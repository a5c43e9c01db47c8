"""Outcomes of comparisons and verdicts of claims, on series without runs."""

from __future__ import annotations

import numpy as np
import pytest

from idwbench.claims.definitions import Claim, PointCheck, Remark, SeedComparison, at_least, at_most
from idwbench.claims.evidence import Evidence
from idwbench.claims.findings import correct, find
from idwbench.claims.series import Series, combine, difference, renamed
from idwbench.claims.verdicts import judge


def series(values, name="first − second"):
    return Series(name, dict(enumerate(values)))


def spread_about(mean, n=20, std=1.0):
    noise = np.random.default_rng(0).normal(size=n)
    return series(mean + std * (noise - noise.mean()) / noise.std())


def outcome(comparison, among=()):
    return correct([find(comparison), *(find(other) for other in among)])[0]


def verdict(*items):
    claim = Claim(1, "statement", "Figure 2", "test", lambda evidence: items, ("some",))
    return judge(Evidence((), lambda key: {}), [claim])[0]


@pytest.mark.parametrize(
    ("mean", "expected", "words"),
    [(5.0, "supported", ""), (0.0, "not supported", "not distinguishable from 0"), (-5.0, "not supported", "opposite")],
)
def test_a_difference_above_zero_is_supported_or_not(mean, expected, words):
    found = outcome(SeedComparison(spread_about(mean), above=0.0, unit="points"))
    assert found.outcome == expected
    assert words in found.reason
    assert found.effect == pytest.approx(mean)
    assert found.interval[0] < mean < found.interval[1]


@pytest.mark.parametrize(
    ("mean", "expected", "words"),
    [(-5.0, "supported", ""), (1.0, "not supported", "not distinguishable from 1"), (5.0, "not supported", "opposite")],
)
def test_a_difference_below_a_bound_is_supported_or_not(mean, expected, words):
    found = outcome(SeedComparison(spread_about(mean), below=1.0))
    assert found.outcome == expected
    assert words in found.reason


def test_a_small_loss_is_within_its_margin_though_it_is_certain():
    assert outcome(SeedComparison(spread_about(-0.3, std=0.01), above=-1.0)).outcome == "supported"
    assert outcome(SeedComparison(spread_about(-0.3, std=0.01), above=0.0)).outcome == "not supported"


@pytest.mark.parametrize("n", range(6))
def test_fewer_than_six_pairs_are_not_enough(n):
    found = outcome(SeedComparison(series(range(1, n + 1)), above=0.0))
    assert found.outcome == "not enough runs"
    assert found.missing == (f"first − second: {n} of 6 seeds",)
    assert found.p_value is None


def test_six_pairs_are_enough_alone_but_not_among_many_comparisons():
    six = SeedComparison(series(range(1, 7)), above=0.0)
    assert outcome(six).outcome == "supported"
    others = [SeedComparison(spread_about(0.0), above=0.0)] * 9
    found = outcome(six, others)
    assert found.outcome == "not enough runs"
    assert found.missing == ("first − second: 6 seeds cannot be significant among 10 comparisons",)


def test_the_correction_counts_every_comparison():
    weak = SeedComparison(series([1, 2, 3, 4, 5, 6, 7, -1.5]), above=0.0)
    alone, together = outcome(weak), outcome(weak, [weak] * 9)
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
    found = outcome(SeedComparison(series(values), above=87.0, below=89.0, test="every seed"))
    assert found.outcome == expected
    assert words in found.reason
    assert found.p_value is None


def test_a_check_holds_at_every_point_or_not():
    assert find(at_most("error", [1e-15, 1e-13], 1e-12)).outcome == "supported"
    failed = find(at_least("weight", [0.5, 1.0, 1.0], 0.99))
    assert failed.outcome == "not supported"
    assert failed.reason == "weight: 0.5, claimed ≥ 0.99 (at 1 of 3 points)"


def test_a_claim_holds_only_if_every_comparison_does():
    good, bad = (SeedComparison(spread_about(mean), above=0.0) for mean in (5.0, -5.0))
    few = SeedComparison(series([1.0], "few"), above=0.0)
    assert verdict(good, good).verdict == "holds"
    assert verdict(good, few).verdict == "not enough runs"
    assert verdict(good, few).reason == "few: 1 of 6 seeds"
    # One failure is enough, whatever the missing runs would show.
    assert verdict(good, few, bad).verdict == "does not hold"


def test_the_decisive_finding_speaks_most_against_the_claim_or_is_the_least_clear():
    clear, close = SeedComparison(spread_about(9.0), above=0.0), SeedComparison(spread_about(3.0), above=0.0)
    bad, worse = (SeedComparison(spread_about(mean), above=0.0) for mean in (-5.0, -7.0))
    assert verdict(clear, close).decisive.effect == pytest.approx(3.0)
    assert verdict(clear, bad, close).decisive.effect == pytest.approx(-5.0)
    assert verdict(clear, bad, worse).decisive.effect == pytest.approx(-7.0)
    assert verdict(clear, bad, worse).reason.startswith("first − second: −7 ")


def test_remarks_do_not_decide():
    judged = verdict(SeedComparison(spread_about(5.0), above=0.0), Remark("Beside."))
    assert (judged.verdict, judged.remarks, len(judged.findings)) == ("holds", ("Beside.",), 1)


def test_a_check_without_runs_says_what_is_missing():
    judged = verdict(PointCheck("cases", 0.0, "≥ 1", 0, 0, ("idw: 0 of 5 seeds",)))
    assert (judged.verdict, judged.reason) == ("not enough runs", "idw: 0 of 5 seeds")


def test_series_are_paired_by_seed_and_name_what_is_missing():
    first = Series("idw", {1: 3.0, 2: 5.0, 3: 1.0})
    second = Series("inv_dist", {2: 1.0, 3: 1.0, 4: 7.0}, "2 runs without coverage")
    both = difference("idw − inv_dist", first, second)
    assert both.values == {2: 4.0, 3: 0.0}
    assert both.missing(2) == ()
    assert both.missing(3) == ("idw − inv_dist: 2 of 3 seeds",)  # each has three, but not in common
    assert renamed("other", both).missing(4) == (
        "idw: 3 of 4 seeds",
        "inv_dist: 3 of 4 seeds (2 runs without coverage)",
    )


def test_values_that_are_not_finite_are_left_out():
    assert combine("ratio", lambda one: float("nan") if one == 1 else one, series([0.0, 1.0, 2.0])).values == {
        0: 0,
        2: 2,
    }
