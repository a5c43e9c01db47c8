"""Mean and spread of a metric over seeds, bootstrap intervals, and which rows are the best."""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Literal, NamedTuple

import numpy as np

from idwbench.report.labels import range_label
from idwbench.runs.metrics import METRICS, UNKNOWN_METRIC

__all__ = [
    "ALPHA",
    "SPLITS",
    "Interval",
    "Statistic",
    "compare",
    "mean_interval",
    "mean_order",
    "present_splits",
    "rounded",
    "signed_rank_p_value",
    "statistic",
    "with_intervals",
]

# In the order of columns: first the rows to choose by, where there are some. Some kinds of runs have others.
SPLITS = ("validation", "test", "holdout", "train")

ALPHA = 0.05
# The smallest p-value is 2/2⁵ = 0.0625 with five pairs and 2/2⁶ = 0.03125 with six.
_MIN_PAIRS = 6
_MOST_ENUMERATED = 13
_TEST = (
    f"Test: two-sided Wilcoxon signed-rank test against the best mean, paired by seed, α = {ALPHA}, not corrected for "
    "the number of comparisons."
)
# The part of the larger of two numbers that counts as a tie, since metrics have rounding errors.
_TIE = 1e-12

_LEVEL, _RESAMPLES, _MIN_VALUES = 0.95, 9_999, 3
# Limits the memory of resampling; it does not change the random numbers.
_BATCH_ELEMENTS = 2**22


class Interval(NamedTuple):
    """An interval of a mean, and the bootstrap method that gave it."""

    low: float
    high: float
    method: Literal["BCa", "percentile"]


@dataclass(frozen=True)
class Statistic:
    """Mean and sample standard deviation (n − 1, None for n = 1) of a metric over n seeds.

    Attributes:
        n: Number of seeds.
        values: The metric by seed.
        best: Whether the mean is the best, or cannot be distinguished from it.
        p_value: That of the paired test against the best mean; None if not tested.
        interval: The 95 % interval of the mean, see `mean_interval`; None if not asked for, or for n < 3.
    """

    mean: float
    std: float | None
    n: int
    values: Mapping[int, float] = field(repr=False)
    best: bool = False
    p_value: float | None = None
    interval: Interval | None = None


def statistic(by_seed: Mapping[int, float | None]) -> Statistic | None:
    """Return the statistic of the finite values; None if there are none."""
    values = {seed: value for seed, value in by_seed.items() if value is not None and math.isfinite(value)}
    if not values:
        return None
    # Relative to the lowest value, so that equal values have no spread; with `fsum` the order does not matter.
    numbers, n = [*values.values()], len(values)
    low = min(numbers)
    mean = low + math.fsum([value - low for value in numbers]) / n
    variance = math.fsum([(value - mean) ** 2 for value in numbers]) / (n - 1) if n > 1 else None
    return Statistic(mean, None if variance is None else math.sqrt(variance), n, values)


def present_splits(rows: Iterable[Mapping[str, Statistic]]) -> tuple[str, ...]:
    """Return the splits that at least one row has, in the order of columns."""
    found = {split for row in rows for split in row}
    return (*(split for split in SPLITS if split in found), *sorted(found - set(SPLITS)))


def mean_interval(by_seed: Mapping[int, float]) -> Interval | None:
    """Return the 95 % bootstrap interval of the mean of finite values; None for fewer than 3.

    The interval is BCa (bias-corrected and accelerated; Efron 1987, *Better bootstrap confidence intervals*) over 9,999
    resamples, or the percentile interval where BCa is undefined, such as for equal values. It depends on values and
    seeds only: each call resamples with the same generator.
    """
    values = [by_seed[seed] for seed in sorted(by_seed)]
    if len(values) < _MIN_VALUES:
        return None
    if min(values) == max(values):  # the mean of all resamples, but for rounding
        return Interval(values[0], values[0], "percentile")
    from scipy.stats import bootstrap  # slow to import

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the distribution is degenerate: BCa is undefined, and NaN is returned
        found = bootstrap(
            (np.array(values),),
            np.mean,
            n_resamples=_RESAMPLES,
            batch=max(1, _BATCH_ELEMENTS // len(values)),
            confidence_level=_LEVEL,
            random_state=np.random.default_rng(0),  # `rng` in newer versions of SciPy
        )
    low, high = map(float, found.confidence_interval)
    if math.isfinite(low) and math.isfinite(high):
        return Interval(low, high, "BCa")
    low, high = np.quantile(found.bootstrap_distribution, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]).tolist()
    return Interval(low, high, "percentile")


def with_intervals(
    rows: Sequence[Mapping[str, Statistic]], chosen: Iterable[str] = ()
) -> tuple[list[dict[str, Statistic]], list[str]]:
    """Return the statistics of each row with intervals, and notes on how these are computed and where they lack.

    Intervals are on test and holdout, or on all splits if there are neither, and on splits in `chosen`.
    """
    present = present_splits(rows)
    splits = {*([split for split in present if split in ("test", "holdout")] or present), *chosen}
    found = [dict(row) for row in rows]
    for row in found:
        row |= {split: replace(row[split], interval=mean_interval(row[split].values)) for split in splits & row.keys()}
    methods = {one.interval.method for row in found for one in row.values() if one.interval is not None}
    where = "; percentile method where BCa is undefined, such as for equal values" * ("percentile" in methods)
    how = f"95 % interval: of the mean over seeds, BCa bootstrap with {_RESAMPLES:,} resamples (SciPy){where}."
    notes = [how] if methods else []
    if any(one.n < _MIN_VALUES for row in found for one in row.values()):
        notes.append(f"n < {_MIN_VALUES}: no interval.")
    return found, notes


def signed_rank_p_value(differences: Iterable[float], tie: float) -> float:
    """Return the p-value of Wilcoxon's two-sided signed-rank test; 1 if all differences are zero.

    Sizes that differ by at most `tie` share the mean of their ranks; up to `tie` is zero. W⁺ is the sum of the positive
    ranks, each of which has either sign with probability ½. Of up to 13 ranks, with ties or without, it is compared
    with all 2ⁿ sums: importing SciPy takes longer than a table. Beyond it is `scipy.stats.wilcoxon`: exact up to 50
    ranks without ties, and the normal approximation otherwise (Wilcoxon 1945, *Individual comparisons by ranking
    methods*).
    """
    kept = sorted((d for d in differences if abs(d) > tie), key=abs)
    ranks: list[float] = []
    for place, difference in enumerate(kept, start=1):
        if place == len(kept) or abs(kept[place]) - abs(difference) > tie:
            ranks += [(len(ranks) + 1 + place) / 2] * (place - len(ranks))
    if len(ranks) > _MOST_ENUMERATED:
        from scipy.stats import wilcoxon

        return float(wilcoxon(np.copysign(ranks, kept)).pvalue)
    sums, positive = np.zeros(1), sum(rank for rank, d in zip(ranks, kept, strict=True) if d > 0)
    for rank in ranks:
        sums = np.concatenate([sums, sums + rank])
    return min(1.0, 2 * float(min((sums >= positive).mean(), (sums <= positive).mean())))


def compare(
    rows: Sequence[tuple[Hashable, Mapping[str, Statistic]]], metric: str
) -> tuple[list[dict[str, Statistic]], list[str]]:
    """Mark the best rows of each group and split, and return notes on the test.

    Marked are the best mean, means equal to it, and means with p > 0.05 in a two-sided Wilcoxon signed-rank test of the
    differences from the best, paired by seed. Rows that share fewer than 6 seeds with the best are not tested. P-values
    are not corrected for multiple comparisons. For an unknown metric and one without a best value nothing is marked.

    Args:
        rows: The group of each row, such as its number of prototypes, and its statistics by split.
        metric: The name of the metric.

    Returns:
        The statistics of each row, with `Statistic.best` and `Statistic.p_value`; and the name of the test, if any row
        was tested, and the numbers of seeds that were too low.
    """
    present = {split for _, by_split in rows for split in by_split}
    # Training data are compared only if they are alone.
    definition = METRICS.get(metric, UNKNOWN_METRIC)
    splits = (present - {"train"} or present) if definition.has_best else set()
    columns: dict[tuple[Hashable, str], list[int]] = defaultdict(list)
    for place, (group, by_split) in enumerate(rows):
        for split in splits & by_split.keys():
            columns[group, split].append(place)
    sign = 1 if definition.higher_is_better else -1
    marked, n_pairs = [dict(by_split) for _, by_split in rows], set[int]()
    for (_, split), places in columns.items():
        column = [rows[place][1][split] for place in places]
        top = max(sign * one.mean for one in column)
        # Of equal means that with the most seeds.
        best = max((one for one in column if math.isclose(sign * one.mean, top, rel_tol=_TIE)), key=attrgetter("n"))
        for place, one in zip(places, column, strict=True):
            pairs = [(value, one.values[seed]) for seed, value in best.values.items() if seed in one.values]
            n_pairs |= {len(pairs)} if one is not best else set()
            p_value = None
            if one is not best and len(pairs) >= _MIN_PAIRS:
                tie = _TIE * max(max(abs(first), abs(second)) for first, second in pairs)
                p_value = signed_rank_p_value((first - second for first, second in pairs), tie)
            is_best = math.isclose(best.mean, one.mean, rel_tol=_TIE) or (p_value is not None and p_value > ALPHA)
            marked[place][split] = replace(one, best=is_best, p_value=p_value)
    notes = [_TEST] if max(n_pairs, default=0) >= _MIN_PAIRS else []
    if too_few := [n for n in n_pairs if n < _MIN_PAIRS]:
        notes.append(f"n = {range_label(too_few)}: too few seeds for a paired test ({_MIN_PAIRS} are needed).")
    return marked, notes


def rounded(mean: float) -> float:
    """Return a mean for sorting, without rounding errors of different sums."""
    return float(f"{mean:.12g}")


def mean_order(one: Statistic | None, metric: str) -> tuple[bool, float]:
    """Return a key that sorts means, the best first and a missing one last."""
    sign = -1 if METRICS.get(metric, UNKNOWN_METRIC).higher_is_better else 1
    return one is None, 0.0 if one is None else sign * rounded(one.mean)
