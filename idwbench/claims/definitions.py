"""What a claim is, and the series of numbers that its rule compares."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from idwbench.claims.evidence import Evidence
    from idwbench.claims.findings import Comparison, Finding

__all__ = ["Claim", "Kind", "Origin", "Publication", "Rule", "Series", "claim", "combine", "difference"]

Origin = Literal["paper", "review", "open question"]
Kind = Literal["empirical", "by formula"]
Publication = Literal["paper", "family", "prototypes"]
# Returns comparisons and findings, all of which must support the claim, and remarks, which do not affect the verdict.
Rule = Callable[["Evidence"], "Sequence[Comparison | Finding | str]"]
_PREFIXES: dict[str, Origin] = {"review": "review", "open": "open question"}


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
    rule: Rule
    sweeps: tuple[str, ...] = ()
    publication: Publication = "paper"

    @property
    def origin(self) -> Origin:
        """Whose claim it is."""
        return _PREFIXES.get(self.source.partition(":")[0], "paper")

    @property
    def kind(self) -> Kind:
        """Whether it is about the results of training, or follows from formulas, whatever is trained."""
        return "empirical" if self.sweeps else "by formula"

    @property
    def sweep_files(self) -> tuple[str, ...]:
        """The files of the sweeps, relative to the repository."""
        return tuple(f"sweeps/{self.publication}/{name}.yaml" for name in self.sweeps)


def claim(number: int, source: str, *sweeps: str, publication: Publication | None = None) -> Callable[[Rule], Claim]:
    """Return a decorator that makes a claim of its rule; by default the family has the open questions.

    The first paragraph of the rule's docstring is the statement of the claim, the second says how it is judged. There
    a name in braces stands for a constant of the module.
    """

    def decorate(rule: Rule) -> Claim:
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
