"""What a claim is: its record, and the comparisons that its rule returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from idwbench.claims.series import Series

if TYPE_CHECKING:
    from idwbench.claims.evidence import Evidence

__all__ = [
    "MIN_PAIRS",
    "Claim",
    "Origin",
    "PointCheck",
    "Remark",
    "Rule",
    "SeedComparison",
    "SeedTest",
    "at_least",
    "at_most",
]

Origin = Literal["paper", "open question"]
SeedTest = Literal["wilcoxon", "every seed"]
# Seeds that a comparison needs: with six a one-sided signed-rank test reaches 2⁻⁶ = 0.016. MNIST is slow to train.
MIN_PAIRS: dict[SeedTest, int] = {"wilcoxon": 6, "every seed": 5}


@dataclass(frozen=True)
class SeedComparison:
    """The claim that a quantity lies above or below a bound, with one value for each seed.

    Attributes:
        series: The values, usually differences of two models with the same seed; its name is the label.
        above: The claimed lower bound, or None.
        below: The claimed upper bound, or None; with ``wilcoxon`` exactly one of the two is given.
        unit: Unit of values and bounds, such as ``points``.
        test: ``wilcoxon``: a one-sided signed-rank test of value − bound, corrected over all claims. ``every seed``:
            the bounds hold in each of at least 5 seeds (a sign test with p = 2⁻ⁿ, not corrected).
    """

    series: Series
    above: float | None = None
    below: float | None = None
    unit: str = ""
    test: SeedTest = "wilcoxon"

    @property
    def minimum(self) -> int:
        """The number of seeds that is needed."""
        return MIN_PAIRS[self.test]


@dataclass(frozen=True)
class PointCheck:
    """The claim that a computed number is within a bound at each of n points.

    Attributes:
        extreme: The number that is nearest to the bound or farthest beyond it.
        bound: As text, such as ``≤ 1e-12``.
        passed: At how many points the bound holds.
        n: Number of points.
        missing: What is missing if there are not enough runs; otherwise empty.
    """

    label: str
    extreme: float
    bound: str
    passed: int
    n: int
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Remark:
    """A sentence beside the verdict, which does not depend on it."""

    text: str


def at_most(label: str, numbers: Iterable[float], bound: float) -> PointCheck:
    """Return the check that all numbers are at most `bound`."""
    found = np.fromiter(numbers, np.float64)
    return PointCheck(label, float(found.max()), f"≤ {bound:g}", int((found <= bound).sum()), len(found))


def at_least(label: str, numbers: Iterable[float], bound: float) -> PointCheck:
    """Return the check that all numbers are at least `bound`."""
    found = np.fromiter(numbers, np.float64)
    return PointCheck(label, float(found.min()), f"≥ {bound:g}", int((found >= bound).sum()), len(found))


Rule = Callable[["Evidence"], Sequence[SeedComparison | PointCheck | Remark]]


@dataclass(frozen=True)
class Claim:
    """One claim of the paper, or one answer to a question that it leaves open.

    Attributes:
        number: From 1, in the order of tables.
        statement: The claim in one sentence.
        source: Where in arXiv 2310.18805 it stands, or that it is a question.
        test: How it is judged, in one or two sentences.
        rule: Returns the comparisons, all of which must hold, and remarks.
        sweeps: Names of the sweeps that supply its runs; empty if it is computed from formulas.
        origin: Whether it is a claim of the paper.
    """

    number: int
    statement: str
    source: str
    test: str
    rule: Rule
    sweeps: tuple[str, ...] = ()
    origin: Origin = "paper"

    @property
    def sweep_files(self) -> tuple[str, ...]:
        """The files of the sweeps, relative to the repository."""
        folder = "paper" if self.origin == "paper" else "family"
        return tuple(f"sweeps/{folder}/{name}.yaml" for name in self.sweeps)
