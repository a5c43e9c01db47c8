"""Comparisons of a claim, and findings: what each of them shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from idwbench.claims.definitions import Series
from idwbench.report.statistics import ALPHA

__all__ = [
    "MIN_SEEDS",
    "Comparison",
    "Finding",
    "Outcome",
    "bounded",
    "findings",
    "interval_label",
    "mean_label",
    "number_label",
    "other_verdict",
    "outcome_label",
    "remark",
    "t_interval",
    "telling",
]

Outcome = Literal["refuted", "not enough runs", "undecided", "supported"]
# The first outcome that a finding of a claim has decides.
_ORDER: tuple[Outcome, ...] = ("refuted", "not enough runs", "undecided", "supported")
MIN_SEEDS = 5
# Differences of stored metrics have rounding errors, which must not decide where all values are at the bound.
_TIE = 1e-12
# Units that are written with two decimals, and whether with a sign, as differences are.
_DECIMAL_UNITS = {"points": True, "%": False}


@dataclass(frozen=True)
class Finding:
    """What one comparison or computation shows.

    Attributes:
        label: What is compared.
        test: ``mean``: that of a quantity by seed; ``computed``: numbers without seeds.
        n: Number of seeds, or of points.
        effect: The mean over seeds, or the number that is nearest to the bound; None without data.
        interval: That of the mean, or None.
        unit: Unit of effect and interval.
        bound: The claimed bounds, such as ``> 0``.
        outcome: ``supported`` if the interval lies within the bounds, ``refuted`` if it lies beyond one of them,
            ``undecided`` if it contains one.
        reason: Why the claim is not supported; empty if it is.
        missing: What is missing, one text for each model; empty with enough runs.
        clearance: Distance of the interval from the bound, in widths of the interval; None without an interval.
        level: The confidence level of the interval; None without an interval.
    """

    label: str
    test: Literal["mean", "computed"]
    n: int
    effect: float | None
    interval: tuple[float, float] | None
    unit: str
    bound: str
    outcome: Outcome
    reason: str = ""
    missing: tuple[str, ...] = ()
    clearance: float | None = None
    level: float | None = None


@dataclass(frozen=True)
class Comparison:
    """The claim that the mean over seeds of a quantity lies between two bounds.

    Attributes:
        series: One value for each seed, usually a difference of two models with the same seed; its name is the label.
        above: The lower bound; the mean at the bound refutes.
        below: The upper bound, likewise.
        unit: Unit of values and bounds, such as ``points``.
    """

    series: Series
    above: float = -math.inf
    below: float = math.inf
    unit: str = ""

    @property
    def bound(self) -> str:
        """The bounds as text, such as ``> 87 and < 89``."""
        finite = ((">", self.above), ("<", self.below))
        return " and ".join(f"{sign} {number:g}" for sign, number in finite if math.isfinite(number))

    def finding(self, level: float) -> Finding:
        """Return what the interval of the mean at a confidence level shows."""
        values = [*self.series.values.values()]
        mean = math.fsum(values) / len(values) if values else None
        finding = Finding(self.series.name, "mean", len(values), mean, None, self.unit, self.bound, "not enough runs")
        if len(values) < MIN_SEEDS:
            return replace(finding, missing=self.series.missing(MIN_SEEDS))
        low, high = interval = t_interval(values, level)
        clearance = min(low - self.above, self.below - high)
        outcome: Outcome = "supported" if clearance > _TIE else "undecided"
        if high <= self.above + _TIE or low >= self.below - _TIE:
            outcome = "refuted"
        where = f"{finding.label}: {number_label(mean, self.unit)} {interval_label(interval, self.unit)}"
        allows = ", and the interval allows both" * (outcome == "undecided")
        return replace(
            finding,
            interval=interval,
            outcome=outcome,
            reason="" if outcome == "supported" else f"{where}, claimed {self.bound}{allows}",
            clearance=clearance / max(high - low, _TIE),
            level=level,
        )


def t_interval(values: Sequence[float], level: float) -> tuple[float, float]:
    """Return Student's interval of the mean, x̄ ± t(level, n − 1)·s/√n; of equal values these themselves."""
    from scipy.special import stdtrit

    mean, n = math.fsum(values) / len(values), len(values)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    half = float(stdtrit(n - 1, (1 + level) / 2)) * deviation / math.sqrt(n)
    return mean - half, mean + half


def bounded(label: str, numbers: Iterable[float], sign: str, bound: float) -> Finding:
    """Return whether all computed numbers are at most (``≤``) or at least (``≥``) `bound`."""
    points = np.fromiter(numbers, np.float64)
    extreme, passes = (points.max(), points <= bound) if sign == "≤" else (points.min(), points >= bound)
    finding = Finding(label, "computed", len(points), float(extreme), None, "", f"{sign} {bound:g}", "supported")
    if passes.all():
        return finding
    where = f"at {(~passes).sum():,} of {finding.n:,} points"
    reason = f"{label}: {number_label(finding.effect)}, claimed {finding.bound} ({where})"
    return replace(finding, outcome="refuted", reason=reason)


def findings(shown: Iterable[Comparison | Finding | str]) -> tuple[Finding, ...]:
    """Return the findings of a claim, whose intervals contain all means at once with a confidence of 95 %.

    With k comparisons the level of each is 1 − 0.05/k (Bonferroni), whatever the dependence between them.
    """
    items = [item for item in shown if not isinstance(item, str)]
    n_comparisons = sum(isinstance(item, Comparison) for item in items)
    return tuple(item.finding(1 - ALPHA / n_comparisons) if isinstance(item, Comparison) else item for item in items)


def telling(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that decide a claim, the least clear ones first.

    These are the ones against it, or else those without runs, or undecided ones, or all. The first is the one whose
    interval is nearest to its bound or farthest beyond it.
    """
    every = [*findings]
    by_outcome = ([one for one in every if one.outcome == outcome] for outcome in _ORDER)
    return sorted(next(filter(None, by_outcome)), key=lambda finding: finding.clearance or 0.0)


def other_verdict(title: str, comparisons: Sequence[Comparison]) -> list[str]:
    """Return what comparisons show that do not count for the verdict on a claim, one text; none without runs."""
    first = telling(findings(comparisons))[0]
    if first.outcome == "not enough runs":
        return []
    numbers = f"{number_label(first.effect, first.unit)} {interval_label(first.interval, first.unit)}"
    return [f"{title}: {outcome_label(first.outcome)} ({first.label}: {numbers})."]


def outcome_label(outcome: Outcome) -> str:
    """Return the verdict on a claim that an outcome decides."""
    return {"refuted": "does not hold", "supported": "holds"}.get(outcome, outcome)


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
