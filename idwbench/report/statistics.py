"""Mean and spread of one metric over seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum, isfinite, sqrt
from typing import Any, Literal

from idwbench.results.records import ReportedRun

__all__ = ["SPLITS", "Interval", "Statistic", "present_splits", "split_statistics", "statistic"]

# In the order of columns; some kinds of runs have others.
SPLITS = ("test", "holdout", "validation", "train")


@dataclass(frozen=True)
class Interval:
    """An interval of a mean, and the bootstrap method that gave it."""

    low: float
    high: float
    method: Literal["BCa", "percentile"]


@dataclass(frozen=True)
class Statistic:
    """Mean and sample standard deviation (n − 1, None for n = 1) of a metric over n seeds.

    Attributes:
        values: The metric by seed.
        best: Whether the mean is the best, or cannot be distinguished from it.
        p_value: That of the paired test against the best mean; None if not tested.
        interval: The 95 % interval of the mean, see `idwbench.report.intervals`; None if not asked for, or for n < 3.
    """

    mean: float
    std: float | None
    values: Mapping[int, float] = field(repr=False)
    best: bool = False
    p_value: float | None = None
    interval: Interval | None = None

    @property
    def n(self) -> int:
        """Number of seeds."""
        return len(self.values)


def statistic(by_seed: Mapping[int, float | None]) -> Statistic | None:
    """Return the statistic of the finite values; None if there are none."""
    return _statistic(by_seed.keys(), [*by_seed.values()])


def _statistic(seeds: Iterable[int], found: list[Any]) -> Statistic | None:
    values = dict(zip(seeds, found, strict=True))
    if None in found or not all(map(isfinite, found)):
        values = {seed: value for seed, value in values.items() if value is not None and isfinite(value)}
    if not values:
        return None
    # Relative to the lowest value, so that equal values have no spread; with `fsum` the order does not matter.
    numbers, n = [*values.values()], len(values)
    low = min(numbers)
    mean = low + fsum([value - low for value in numbers]) / n
    variance = fsum([(value - mean) ** 2 for value in numbers]) / (n - 1) if n > 1 else None
    return Statistic(mean, None if variance is None else sqrt(variance), values)


def split_statistics(
    runs: Sequence[ReportedRun], metric: str, seed_of: Callable[[ReportedRun], int]
) -> dict[str, Statistic]:
    """Return the statistics of a metric of complete runs, which `seed_of` distinguishes, by split."""
    measured = {seed_of(run): run.metrics for run in runs}
    tables = [*measured.values()]
    columns = {split: [table.get((split, metric)) for table in tables] for split in SPLITS}
    if sum(map(len, tables)) > sum(len(column) - column.count(None) for column in columns.values()):
        others = {split for table in tables for split, name in table if name == metric}.difference(SPLITS)
        columns |= {split: [table.get((split, metric)) for table in tables] for split in sorted(others)}
    found = {split: _statistic(measured, column) for split, column in columns.items()}
    return {split: one for split, one in found.items() if one is not None}


def present_splits(rows: Iterable[Mapping[str, Statistic]]) -> tuple[str, ...]:
    """Return the splits that at least one row has, in the order of columns."""
    found = {split for row in rows for split in row}
    return (*(split for split in SPLITS if split in found), *sorted(found - set(SPLITS)))
