"""`Series`: one quantity by seed, which knows what it lacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

__all__ = ["Series", "combine", "difference", "renamed"]


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


def renamed(name: str, series: Series) -> Series:
    """Return the series with another name."""
    return Series(name, series.values, parts=(series,))
