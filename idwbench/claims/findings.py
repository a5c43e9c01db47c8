"""Findings: what each comparison of a claim shows, before and after Holm's correction over all claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from idwbench.claims.definitions import PointCheck, SeedComparison, SeedTest
from idwbench.claims.labels import interval_label, number_label, p_value_label
from idwbench.report.statistics import ALPHA, mean_interval, signed_rank_p_value, signed_ranks

__all__ = ["Finding", "Outcome", "best_p_value", "correct", "find", "holm"]

# Differences of stored metrics have rounding errors, which must not break ties.
_TIE = 1e-12
Outcome = Literal["supported", "not supported", "not enough runs"]


@dataclass(frozen=True)
class Finding:
    """What one comparison shows.

    Attributes:
        label: What is compared.
        test: ``wilcoxon``, ``every seed`` or ``computed``.
        n: Number of seeds, or of points.
        effect: The mean over seeds, or the number that is nearest to the bound; None without data.
        interval: 95 % bootstrap interval of the mean, or None.
        unit: Unit of effect and interval.
        bound: The claimed bounds, such as ``> 0``.
        p_value: That of the signed-rank test, not corrected; None if not tested.
        adjusted_p_value: The same after Holm's correction.
        reason: Why the comparison does not support the claim; empty if it does.
        missing: What is missing, one text for each model; empty with enough runs.
        clearance: Distance of the interval from the bound, in widths of the interval; None without an interval.
    """

    label: str
    test: SeedTest | Literal["computed"]
    n: int
    effect: float | None
    interval: tuple[float, float] | None
    unit: str
    bound: str
    outcome: Outcome
    reason: str = ""
    p_value: float | None = None
    adjusted_p_value: float | None = None
    missing: tuple[str, ...] = ()
    clearance: float | None = None


def find(item: SeedComparison | PointCheck) -> Finding:
    """Return the finding of one comparison; a signed-rank test still needs `correct`."""
    return _at_points(item) if isinstance(item, PointCheck) else _over_seeds(item)


def correct(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings of all claims with Holm's correction of their p-values, and the outcomes that follow.

    A comparison is supported if its adjusted p-value is at most 0.05. If not, it is not supported, unless so few seeds
    could not have given such a p-value whatever their values: then there are not enough runs.
    """
    tested = [(place, finding.p_value) for place, finding in enumerate(findings) if finding.p_value is not None]
    p_values = [p_value for _, p_value in tested]
    result = list(findings)
    for number, ((place, _), adjusted) in enumerate(zip(tested, holm(p_values), strict=True)):
        found = replace(findings[place], adjusted_p_value=adjusted)
        if adjusted <= ALPHA:
            result[place] = replace(found, outcome="supported", reason="")
        elif holm([*p_values[:number], best_p_value(found.n), *p_values[number + 1 :]])[number] > ALPHA:
            missing = f"{found.label}: {found.n} seeds cannot be significant among {len(tested)} comparisons"
            result[place] = replace(found, outcome="not enough runs", reason="", missing=(missing,))
        else:
            result[place] = replace(found, reason=f"{found.reason} (n = {found.n}, p = {p_value_label(adjusted)})")
    return tuple(result)


def _at_points(check: PointCheck) -> Finding:
    passed = check.passed == check.n
    effect = None if check.missing else check.extreme
    finding = Finding(check.label, "computed", check.n, effect, None, "", check.bound, "supported")
    if check.missing:
        return replace(finding, outcome="not enough runs", missing=check.missing)
    if passed:
        return finding
    where = f"at {check.n - check.passed:,} of {check.n:,} points"
    reason = f"{check.label}: {number_label(check.extreme)}, claimed {check.bound} ({where})"
    return replace(finding, outcome="not supported", reason=reason)


def _over_seeds(comparison: SeedComparison) -> Finding:
    values = list(comparison.series.values.values())
    n = len(values)
    found = mean_interval(comparison.series.values)
    interval = None if found is None else (found.low, found.high)
    finding = Finding(
        label=comparison.series.name,
        test=comparison.test,
        n=n,
        effect=sum(values) / n if n else None,
        interval=interval,
        unit=comparison.unit,
        bound=_bound(comparison),
        outcome="not enough runs",
        clearance=None if interval is None else _clearance(comparison, interval),
    )
    if n < comparison.minimum:
        return replace(finding, missing=comparison.series.missing(comparison.minimum))
    if comparison.test == "every seed":
        return _unanimous(comparison, finding)
    above, below = comparison.above, comparison.below
    margins = [value - above for value in values] if above is not None else [(below or 0.0) - value for value in values]
    p_value = signed_rank_p_value(signed_ranks(margins, _TIE), "greater")
    return replace(finding, outcome="not supported", reason=_doubt(comparison, finding), p_value=p_value)


def _unanimous(comparison: SeedComparison, finding: Finding) -> Finding:
    n_agree = sum(_is_within(comparison, value) for value in comparison.series.values.values())
    if n_agree == finding.n:
        return replace(finding, outcome="supported")
    mean = number_label(finding.effect, finding.unit)
    reason = f"{finding.label}: {mean}, claimed {finding.bound}: so in {n_agree} of {finding.n} seeds"
    return replace(finding, outcome="not supported", reason=reason)


def _is_within(comparison: SeedComparison, value: float) -> bool:
    above, below = comparison.above, comparison.below
    return (above is None or value > above) and (below is None or value < below)


def _doubt(comparison: SeedComparison, finding: Finding) -> str:
    """Return the reason that holds if the test is not significant."""
    interval, bound = finding.interval, comparison.above if comparison.above is not None else comparison.below
    assert interval is not None and bound is not None  # by the number of seeds, and by the definition
    mean = number_label(finding.effect, finding.unit)
    beyond = interval[1] < bound if comparison.above is not None else interval[0] > bound
    if beyond:
        shown = interval_label(interval, finding.unit)
        return f"{finding.label}: {mean} {shown}, claimed {finding.bound}: the opposite"
    limit = number_label(bound, finding.unit).removeprefix("+") if bound else "0"
    return f"{finding.label}: {mean}, not distinguishable from {limit}"


def _clearance(comparison: SeedComparison, interval: tuple[float, float]) -> float:
    low, high = interval
    distances = [low - comparison.above] if comparison.above is not None else []
    distances += [comparison.below - high] if comparison.below is not None else []
    return min(distances) / max(high - low, 1e-12)


def _bound(comparison: SeedComparison) -> str:
    bounds = ((">", comparison.above), ("<", comparison.below))
    return " and ".join(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)


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
