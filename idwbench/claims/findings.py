"""Findings: what each comparison of a claim shows, before and after Holm's correction over all claims."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from idwbench.claims.definitions import Series
from idwbench.report.statistics import ALPHA, mean_interval, signed_rank_p_value

__all__ = [
    "Finding",
    "Outcome",
    "SeedTest",
    "bounded",
    "compare",
    "computed",
    "correct",
    "holm",
    "interval_label",
    "mean_label",
    "number_label",
    "remark",
]

Outcome = Literal["supported", "not supported", "not enough runs"]
SeedTest = Literal["wilcoxon", "every seed"]
# Seeds that a comparison needs: with six a one-sided signed-rank test reaches 2⁻⁶ = 0.016. MNIST is slow to train.
_MIN_PAIRS: dict[SeedTest, int] = {"wilcoxon": 6, "every seed": 5}
# Differences of stored metrics have rounding errors, which must not break ties.
_TIE = 1e-12
# Units that are written with two decimals, and whether with a sign, as differences are.
_DECIMAL_UNITS = {"points": True, "%": False}


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


def compare(
    series: Series,
    above: float | None = None,
    below: float | None = None,
    unit: str = "",
    test: SeedTest = "wilcoxon",
) -> Finding:
    """Return what a quantity, with one value for each seed, shows of the claim that it lies above or below a bound.

    Args:
        series: The values, usually differences of two models with the same seed; its name is the label.
        above: The claimed lower bound, or None.
        below: The claimed upper bound, or None; with ``wilcoxon`` exactly one of the two is given.
        unit: Unit of values and bounds, such as ``points``.
        test: ``wilcoxon``: a one-sided signed-rank test of value − bound, which `correct` completes. ``every seed``:
            the bounds hold in each of at least 5 seeds (a sign test with p = 2⁻ⁿ, not corrected).
    """
    values = np.array([*series.values.values()])
    sides = [(sign, number) for sign, number in ((1, above), (-1, below)) if number is not None]
    bound = " and ".join(f"{'>' if sign > 0 else '<'} {number:g}" for sign, number in sides)
    margins = [sign * (values - number) for sign, number in sides]
    estimate = mean_interval(series.values)
    mean = sum(series.values.values()) / len(values) if len(values) else None
    interval = clearance = None
    if estimate is not None:
        interval = (estimate.low, estimate.high)
        distances = [sign * ((estimate.low if sign > 0 else estimate.high) - number) for sign, number in sides]
        clearance = min(distances) / max(estimate.high - estimate.low, 1e-12)
    facts = (series.name, test, len(values), mean, interval, unit, bound)
    finding = Finding(*facts, "not supported", clearance=clearance)
    if finding.n < _MIN_PAIRS[test]:
        return replace(finding, outcome="not enough runs", missing=series.missing(_MIN_PAIRS[test]))
    if test == "wilcoxon":
        p_value = signed_rank_p_value(margins[0].tolist(), _TIE, "greater")
        return replace(finding, reason=_doubt(finding, *sides[0]), p_value=p_value)
    n_agree = int((np.min(margins, axis=0) > 0).sum())
    if n_agree == finding.n:
        return replace(finding, outcome="supported")
    claimed = f"{finding.label}: {number_label(mean, unit)}, claimed {bound}"
    return replace(finding, reason=f"{claimed}: so in {n_agree} of {finding.n} seeds")


def _doubt(finding: Finding, sign: int, bound: float) -> str:
    """Return the reason that holds if the test is not significant."""
    assert finding.interval is not None  # by the number of seeds
    mean = f"{finding.label}: {number_label(finding.effect, finding.unit)}"
    if all(sign * end < sign * bound for end in finding.interval):
        return f"{mean} {interval_label(finding.interval, finding.unit)}, claimed {finding.bound}: the opposite"
    limit = number_label(bound, finding.unit).removeprefix("+") if bound else "0"
    return f"{mean}, not distinguishable from {limit}"


def bounded(label: str, numbers: Iterable[float], sign: str, bound: float) -> Finding:
    """Return whether all numbers are at most (``≤``) or at least (``≥``) `bound`."""
    points = np.fromiter(numbers, np.float64)
    extreme, passes = (points.max(), points <= bound) if sign == "≤" else (points.min(), points >= bound)
    return computed(label, float(extreme), f"{sign} {bound:g}", int(passes.sum()), len(points))


def computed(label: str, extreme: float, bound: str, passed: int, n: int, missing: tuple[str, ...] = ()) -> Finding:
    """Return the finding of a bound on a computed number.

    Args:
        label: What is computed.
        extreme: The number that is nearest to the bound or farthest beyond it.
        bound: As text, such as ``≤ 1e-12``.
        passed: At how many points the bound holds.
        n: Number of points.
        missing: What is missing if there are not enough runs; otherwise empty.
    """
    if missing:
        return Finding(label, "computed", 0, None, None, "", bound, "not enough runs", missing=missing)
    finding = Finding(label, "computed", n, extreme, None, "", bound, "supported")
    if passed == n:
        return finding
    reason = f"{label}: {number_label(extreme)}, claimed {bound} (at {n - passed:,} of {n:,} points)"
    return replace(finding, outcome="not supported", reason=reason)


def correct(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings of all claims with Holm's correction of their p-values, and the outcomes that follow.

    A comparison is supported if its adjusted p-value is at most 0.05. If not, it is not supported, unless so few seeds
    could not have given such a p-value whatever their values: then there are not enough runs. The smallest one-sided
    p-value of n pairs is 2⁻ⁿ, that of positive differences.
    """
    tested = [(place, finding.p_value) for place, finding in enumerate(findings) if finding.p_value is not None]
    p_values = [p_value for _, p_value in tested]
    result = list(findings)
    for number, ((place, _), adjusted) in enumerate(zip(tested, holm(p_values), strict=True)):
        finding = replace(findings[place], adjusted_p_value=adjusted)
        if adjusted <= ALPHA:
            result[place] = replace(finding, outcome="supported", reason="")
        elif holm([*p_values[:number], 0.5**finding.n, *p_values[number + 1 :]])[number] > ALPHA:
            missing = f"{finding.label}: {finding.n} seeds cannot be significant among {len(tested)} comparisons"
            result[place] = replace(finding, outcome="not enough runs", reason="", missing=(missing,))
        else:
            result[place] = replace(finding, reason=f"{finding.reason} (n = {finding.n}, p = {adjusted:.2g})")
    return tuple(result)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return the p-values adjusted by Holm's step-down method, in their order.

    For the i-th smallest of m: max over j ≤ i of min(1, (m − j + 1)·p_(j)). It bounds the probability of any wrong
    rejection, whatever the dependence of the tests (Holm 1979, *A simple sequentially rejective multiple test
    procedure*).
    """
    order = np.argsort(p_values, kind="stable")
    factors = len(p_values) - np.arange(len(p_values))
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.maximum.accumulate(np.minimum(1.0, factors * np.asarray(p_values)[order]))
    return tuple(adjusted.tolist())


def number_label(number: float | None, unit: str = "") -> str:
    """Return ``+0.86 points``, ``88.20 %``, or three significant digits without unit."""
    return "" if number is None else f"{_plain(number, unit)} {unit}".rstrip()


def interval_label(interval: tuple[float, float] | None, unit: str = "") -> str:
    """Return ``[0.48, 1.31]``, or an empty text without an interval."""
    return "" if interval is None else f"[{', '.join(_plain(end, unit).removeprefix('+') for end in interval)}]"


def mean_label(series: Series, *, sign: bool = False) -> str:
    """Return the mean with three significant digits, with `sign` as a difference."""
    mean = sum(series.values.values()) / len(series.values)
    return ("+" if sign and mean > 0 else "") + _plain(mean, "")


def remark(
    title: str, template: str, series: Mapping[str, Series], separator: str = ", ", *, sign: bool = False
) -> list[str]:
    """Return one text with the means of the series that have values, each with its name in `template`, or none."""
    means = {name: mean_label(one, sign=sign) for name, one in series.items() if one.values}
    shown = separator.join(template.format(name=name, mean=mean) for name, mean in means.items())
    return [f"{title}: {shown}."] if shown else []


def _plain(number: float, unit: str) -> str:
    """Return two decimals, or three significant digits: ``0.0834``, ``−12.3``, ``2,540``, ``4.3e-15``."""
    if unit in _DECIMAL_UNITS:
        return (f"{number:+.2f}" if _DECIMAL_UNITS[unit] else f"{number:.2f}").replace("-", "−")
    if number and not 1e-4 <= abs(number) < 1e6:
        return f"{number:.2g}"
    digits = 2 - math.floor(math.log10(abs(number))) if number else 0
    text = f"{round(number, digits):,.{max(0, digits)}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text).replace("-", "−")
