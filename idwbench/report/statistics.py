"""Mean and spread of one metric over seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

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
    values = {seed: value for seed, value in by_seed.items() if value is not None and math.isfinite(value)}
    n = len(values)
    if not n:
        return None
    # Relative to the lowest value, so that equal values have no spread; with `fsum` the order does not matter.
    found = [*values.values()]
    low = min(found)
    mean = low + math.fsum([value - low for value in found]) / n
    variance = math.fsum([(value - mean) ** 2 for value in found]) / (n - 1) if n > 1 else None
    return Statistic(mean, None if variance is None else math.sqrt(variance), values)


def split_statistics(
    runs: Sequence[ReportedRun], metric: str, seed_of: Callable[[ReportedRun], int]
) -> dict[str, Statistic]:
    """Return the statistics of a metric of complete runs, which `seed_of` distinguishes, by split."""
    seeds, measured = [*map(seed_of, runs)], [run.metrics for run in runs]
    splits = {split for metrics in measured for split, name in metrics if name == metric}
    found = {}
    for split in (*SPLITS, *sorted(splits - set(SPLITS))):
        if split in splits:
            key = (split, metric)
            found[split] = statistic({seed: metrics.get(key) for seed, metrics in zip(seeds, measured, strict=True)})
    return {split: one for split, one in found.items() if one is not None}


def present_splits(rows: Iterable[Mapping[str, Statistic]]) -> tuple[str, ...]:
    """Return the splits that at least one row has, in the order of columns."""
    found = {split for row in rows for split in row}
    return (*(split for split in SPLITS if split in found), *sorted(found - set(SPLITS)))
