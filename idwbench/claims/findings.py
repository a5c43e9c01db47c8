"""What a claim is, the series of numbers that its rule compares, and what comparisons show."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from idwbench.report.statistics import ALPHA

if TYPE_CHECKING:
    from idwbench.claims.evidence import Evidence

__all__ = [
    "Claim",
    "Comparison",
    "Finding",
    "Publication",
    "Series",
    "bounded",
    "claim",
    "combine",
    "difference",
    "findings",
    "mean_label",
    "other_verdict",
    "outcome_label",
    "remark",
    "t_interval",
    "telling",
]

_Origin = Literal["paper", "review", "open question"]
_Kind = Literal["empirical", "by formula"]
Publication = Literal["paper", "family", "prototypes"]
_Outcome = Literal["refuted", "not enough runs", "undecided", "supported"]
# The first outcome that a finding of a claim has decides.
_ORDER: tuple[_Outcome, ...] = ("refuted", "not enough runs", "undecided", "supported")
_MIN_SEEDS = 5
# Differences of stored metrics have rounding errors, which must not decide where all values are at the bound.
_TIE = 1e-12
# Units that are written with two decimals, and whether with a sign, as differences are.
_DECIMAL_UNITS = {"points": True, "%": False}
# Returns comparisons and findings, all of which must support the claim, and remarks, which do not affect the verdict.
_Rule = Callable[["Evidence"], "Sequence[Comparison | Finding | str]"]
_PREFIXES: dict[str, _Origin] = {"review": "review", "open": "open question"}


@dataclass(frozen=True)
class Claim:
    """One claim of the paper or of a review of it, or one answer to a question that they leave open.

    Attributes:
        number: From 1, in the order of tables.
        statement: The claim in one sentence.
        source: Where in arXiv 2310.18805 it stands; ``review: …`` or ``open: …`` of others.
        test: How it is judged, in one or two sentences.
        rule: Returns comparisons, findings and remarks.
        sweeps: Names of the sweeps that supply its runs; empty if it is computed from formulas.
        publication: The publication that has its verdict, and the folder of its sweeps.
    """

    number: int
    statement: str
    source: str
    test: str
    rule: _Rule
    sweeps: tuple[str, ...] = ()
    publication: Publication = "paper"

    @property
    def origin(self) -> _Origin:
        """Whose claim it is."""
        return _PREFIXES.get(self.source.partition(":")[0], "paper")

    @property
    def kind(self) -> _Kind:
        """Whether it is about the results of training, or follows from formulas, whatever is trained."""
        return "empirical" if self.sweeps else "by formula"

    @property
    def sweep_files(self) -> tuple[str, ...]:
        """The files of the sweeps, relative to the repository."""
        return tuple(f"sweeps/{self.publication}/{name}.yaml" for name in self.sweeps)


def claim(number: int, source: str, *sweeps: str, publication: Publication | None = None) -> Callable[[_Rule], Claim]:
    """Return a decorator that makes a claim of its rule; by default the family has the open questions.

    The first paragraph of the rule's docstring is the statement of the claim, the second says how it is judged. There
    a name in braces stands for a constant of the module.
    """

    def decorate(rule: _Rule) -> Claim:
        text = (inspect.getdoc(rule) or "\n\n").format_map(vars(sys.modules[rule.__module__]))
        statement, test = (" ".join(part.split()) for part in text.split("\n\n", 1))
        place = publication or ("family" if source.startswith("open") else "paper")
        return Claim(number, statement, source, test, rule, sweeps, place)

    return decorate


@dataclass(frozen=True)
class Series:
    """The finite values of one quantity by seed.

    Attributes:
        name: What was measured, such as ``idw, 16 prototypes``.
        lack: Why values are missing, such as ``10 runs without coverage``; may be empty.
        parts: The series that it was computed from.
    """

    name: str
    values: Mapping[int, float]
    lack: str = ""
    parts: tuple[Series, ...] = ()

    def missing(self, minimum: int) -> tuple[str, ...]:
        """Return what is missing for `minimum` values, one text for each series that was measured."""
        if self.parts:
            texts = dict.fromkeys(text for part in self.parts for text in part.missing(minimum))
            if texts or len(self.values) >= minimum:
                return tuple(texts)
        elif len(self.values) >= minimum:
            return ()
        has = f"{self.name}: {len(self.values)} of {minimum} seeds"
        return (f"{has} ({self.lack})" if self.lack else has,)


def combine(name: str, function: Callable[..., float], *parts: Series) -> Series:
    """Return the function of the parts' values for each seed that all of them have."""
    seeds = sorted(set.intersection(*(set(part.values) for part in parts)))
    values = {seed: function(*(part.values[seed] for part in parts)) for seed in seeds}
    return Series(name, {seed: value for seed, value in values.items() if math.isfinite(value)}, parts=parts)


def difference(name: str, first: Series, second: Series) -> Series:
    """Return first − second for each common seed."""
    return combine(name, lambda one, other: one - other, first, second)


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
    outcome: _Outcome
    reason: str = ""
    missing: tuple[str, ...] = ()
    clearance: float | None = None
    level: float | None = None

    @property
    def text(self) -> str:
        """What it shows: ``idw − inv_dist: +0.86 points [0.48, 1.31]``; the label alone without data."""
        if self.effect is None:
            return self.label
        effect = f"{self.label}: {_plain(self.effect, self.unit)} {self.unit}".rstrip()
        ends = ", ".join(_plain(end, self.unit).removeprefix("+") for end in self.interval or ())
        return f"{effect} [{ends}]" if ends else effect


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
        if len(values) < _MIN_SEEDS:
            return replace(finding, missing=self.series.missing(_MIN_SEEDS))
        low, high = interval = t_interval(values, level)
        clearance = min(low - self.above, self.below - high)
        outcome: _Outcome = "supported" if clearance > _TIE else "undecided"
        if high <= self.above + _TIE or low >= self.below - _TIE:
            outcome = "refuted"
        clearance /= max(high - low, _TIE)
        finding = replace(finding, interval=interval, outcome=outcome, clearance=clearance, level=level)
        allows = ", and the interval allows both" * (outcome == "undecided")
        reason = f"{finding.text}, claimed {self.bound}{allows}"
        return finding if outcome == "supported" else replace(finding, reason=reason)


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
    reason = f"{finding.text}, claimed {finding.bound} ({where})"
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
    return [f"{title}: {outcome_label(first.outcome)} ({first.text})."]


def outcome_label(outcome: _Outcome) -> str:
    """Return the verdict on a claim that an outcome decides."""
    return {"refuted": "does not hold", "supported": "holds"}.get(outcome, outcome)


def mean_label(series: Series, *, sign: bool = False) -> str:
    """Return the mean with three significant digits, with `sign` as a difference."""
    mean = sum(series.values.values()) / len(series.values)
    return ("+" if sign and mean > 0 else "") + _plain(mean, "")


def remark(title: str, template: str, series: Mapping[str, Series], *, sign: bool = False) -> list[str]:
    """Return one text with the means of the series that have values, each with its name in `template`, or none."""
    means = {name: mean_label(one, sign=sign) for name, one in series.items() if one.values}
    shown = ", ".join(template.format(name=name, mean=mean) for name, mean in means.items())
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
