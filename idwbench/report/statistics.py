"""Mean and spread of a metric over seeds, bootstrap intervals, and which rows are the best."""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from idwbench.runs.metrics import METRICS

__all__ = [
    "ALPHA",
    "SPLITS",
    "Comparison",
    "Interval",
    "Statistic",
    "compare",
    "compared_splits",
    "higher_is_better",
    "interval_notes",
    "mean_interval",
    "present_splits",
    "rounded",
    "signed_rank_p_value",
    "signed_ranks",
    "statistic",
    "with_intervals",
]

# In the order of columns; some kinds of runs have others.
SPLITS = ("test", "holdout", "validation", "train")

ALPHA = 0.05
# The smallest p-value is 2/2⁵ = 0.0625 with five pairs and 2/2⁶ = 0.03125 with six.
_MIN_PAIRS = 6
_MOST_ENUMERATED = 13
# The part of the larger of two numbers that counts as a tie, since metrics have rounding errors.
_TIE = 1e-12

_LEVEL, _RESAMPLES, _MIN_VALUES = 0.95, 9_999, 3
# Limits the memory of resampling; it does not change the random numbers.
_BATCH_ELEMENTS = 2**22


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
        interval: The 95 % interval of the mean, see `mean_interval`; None if not asked for, or for n < 3.
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
    if not values:
        return None
    # Relative to the lowest value, so that equal values have no spread; with `fsum` the order does not matter.
    numbers, n = [*values.values()], len(values)
    low = min(numbers)
    mean = low + math.fsum([value - low for value in numbers]) / n
    variance = math.fsum([(value - mean) ** 2 for value in numbers]) / (n - 1) if n > 1 else None
    return Statistic(mean, None if variance is None else math.sqrt(variance), values)


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
    low, high = _bootstrap(values, "BCa")
    if math.isfinite(low) and math.isfinite(high):
        return Interval(low, high, "BCa")
    return Interval(*_bootstrap(values, "percentile"), "percentile")


def _bootstrap(values: list[float], method: str) -> tuple[float, float]:
    from scipy.stats import bootstrap  # slow to import

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the distribution is degenerate: BCa is undefined, and NaN is returned
        found = bootstrap(
            (np.array(values),),
            np.mean,
            n_resamples=_RESAMPLES,
            batch=max(1, _BATCH_ELEMENTS // len(values)),
            confidence_level=_LEVEL,
            method=method,
            random_state=np.random.default_rng(0),  # `rng` in newer versions of SciPy
        ).confidence_interval
    return float(found.low), float(found.high)


def with_intervals(
    rows: Iterable[Mapping[str, Statistic]], chosen: Iterable[str] = ()
) -> tuple[dict[str, Statistic], ...]:
    """Return the statistics of each row with intervals on test and holdout, or on all splits if there are neither.

    Splits in `chosen` have intervals too.
    """
    rows = tuple(rows)
    present = present_splits(rows)
    splits = {*([split for split in present if split in ("test", "holdout")] or present), *chosen}
    return tuple(
        {
            split: replace(one, interval=mean_interval(one.values)) if split in splits else one
            for split, one in row.items()
        }
        for row in rows
    )


def interval_notes(rows: Iterable[Mapping[str, Statistic]]) -> tuple[str, ...]:
    """Return the name of the method, and which means have no interval, for statistics from `with_intervals`."""
    statistics = [one for row in rows for one in row.values()]
    methods = {one.interval.method for one in statistics if one.interval is not None}
    notes = []
    if methods:
        where = "; percentile method where BCa is undefined, such as for equal values" * ("percentile" in methods)
        notes.append(
            f"95 % interval: of the mean over seeds, BCa bootstrap with {_RESAMPLES:,} resamples (SciPy){where}."
        )
    if any(one.n < _MIN_VALUES for one in statistics):
        notes.append(f"n < {_MIN_VALUES}: no interval.")
    return tuple(notes)


def signed_ranks(differences: Sequence[float], tie: float) -> tuple[float, ...]:
    """Return the rank of the size of each difference, with its sign, in increasing order; zeros are dropped.

    Sizes that differ by at most `tie` share the mean of their ranks; up to `tie` is zero.
    """
    kept = sorted((d for d in differences if abs(d) > tie), key=abs)
    ranks: list[float] = []
    start = 0
    for place, difference in enumerate(kept, start=1):
        if place == len(kept) or abs(kept[place]) - abs(difference) > tie:
            ranks += [(start + 1 + place) / 2] * (place - start)
            start = place
    return tuple(math.copysign(rank, difference) for rank, difference in zip(ranks, kept, strict=True))


def signed_rank_p_value(ranks: Sequence[float], alternative: Literal["two-sided", "greater"] = "two-sided") -> float:
    """Return the p-value of Wilcoxon's signed-rank test for `signed_ranks`; 1 if there are none.

    W⁺ is the sum of the positive ranks, each of which has either sign with probability ½. Of up to 13 ranks, with ties
    or without, it is compared with all 2ⁿ sums: importing SciPy takes longer than a table. Beyond it is
    `scipy.stats.wilcoxon`: exact up to 50 ranks without ties, and the normal approximation otherwise (Wilcoxon 1945,
    *Individual comparisons by ranking methods*).
    """
    if len(ranks) > _MOST_ENUMERATED:
        from scipy.stats import wilcoxon

        return float(wilcoxon(ranks, alternative=alternative).pvalue)
    sums = np.zeros(1)
    for rank in map(abs, ranks):
        sums = np.concatenate([sums, sums + rank])
    positive = sum(rank for rank in ranks if rank > 0)
    above, below = float((sums >= positive).mean()), float((sums <= positive).mean())
    return above if alternative == "greater" else min(1.0, 2 * min(above, below))


@dataclass(frozen=True)
class Comparison:
    """The result of comparing the rows of a table.

    Attributes:
        statistics: The statistics of each row by split, with `Statistic.best` and `Statistic.p_value`.
        is_tested: Whether at least one row was tested.
        notes: The name of the test, and the numbers of seeds that were too low.
    """

    statistics: tuple[Mapping[str, Statistic], ...]
    is_tested: bool
    notes: tuple[str, ...]


def compare(rows: Sequence[tuple[Hashable, Mapping[str, Statistic]]], metric: str) -> Comparison:
    """Mark the best rows of each group and split.

    Marked are the best mean, means equal to it, and means with p > 0.05 in a two-sided Wilcoxon signed-rank test of the
    differences from the best, paired by seed. Rows that share fewer than 6 seeds with the best are not tested. P-values
    are not corrected for multiple comparisons. For an unknown metric nothing is marked.

    Args:
        rows: The group of each row, such as its number of prototypes, and its statistics by split.
        metric: The name of the metric.
    """
    splits = compared_splits({split for _, by_split in rows for split in by_split}) if metric in METRICS else set()
    columns: dict[tuple[Hashable, str], list[int]] = defaultdict(list)
    for place, (group, by_split) in enumerate(rows):
        for split in by_split:
            if split in splits:
                columns[group, split].append(place)
    marked = [dict(by_split) for _, by_split in rows]
    n_tested, too_few, known = 0, set[int](), dict[Hashable, float]()
    for (_, split), places in columns.items():
        column = [marked[place][split] for place in places]
        best = _best(column, METRICS[metric].higher_is_better)
        for place, (found, n_common) in zip(places, _against(best, column, known), strict=True):
            marked[place][split] = found
            if n_common is not None:
                n_tested += n_common >= _MIN_PAIRS
                too_few |= {n_common} if n_common < _MIN_PAIRS else set()
    return Comparison(tuple(marked), n_tested > 0, _test_notes(n_tested > 0, too_few))


def compared_splits(splits: Iterable[str]) -> set[str]:
    """Return the splits on which rows are compared: all but ``train``, which is compared only if it is alone."""
    found = set(splits)
    return found - {"train"} or found


def higher_is_better(metric: str) -> bool:
    """Return whether a higher value is better; an unknown metric counts as such."""
    return metric not in METRICS or METRICS[metric].higher_is_better


def rounded(mean: float) -> float:
    """Return a mean for sorting, without rounding errors of different sums."""
    return float(f"{mean:.12g}")


def _best(column: list[Statistic], higher_is_better: bool) -> Statistic:
    """Return the best mean of a column; among equal means that with the most seeds."""
    sign = 1 if higher_is_better else -1
    top = max(sign * statistic.mean for statistic in column)
    equal = [statistic for statistic in column if _is_equal(sign * statistic.mean, top)]
    return max(equal, key=lambda statistic: statistic.n)


def _is_equal(first: float, second: float) -> bool:
    return abs(first - second) <= _TIE * max(abs(first), abs(second))


def _against(
    best: Statistic, column: list[Statistic], known: dict[Hashable, float]
) -> Iterator[tuple[Statistic, int | None]]:
    """Yield each statistic with its mark, and the number of seeds that it shares with the best; None for the best.

    `known` has the p-values of earlier sums of ranks, of which large tables have few different ones.
    """
    for other in column:
        if other is best:
            yield replace(other, best=True), None
            continue
        pairs = [(value, other.values[seed]) for seed, value in best.values.items() if seed in other.values]
        p_value = _paired_p_value(pairs, known) if len(pairs) >= _MIN_PAIRS else None
        is_best = _is_equal(best.mean, other.mean) or (p_value is not None and p_value > ALPHA)
        yield Statistic(other.mean, other.std, other.values, is_best, p_value, other.interval), len(pairs)


def _paired_p_value(pairs: Sequence[tuple[float, float]], known: dict[Hashable, float]) -> float:
    tie = _TIE * max(abs(value) for pair in pairs for value in pair)
    ranks = signed_ranks([first - second for first, second in pairs], tie)
    key = tuple(map(abs, ranks)), sum(rank for rank in ranks if rank > 0)
    if key not in known:
        known[key] = signed_rank_p_value(ranks)
    return known[key]


def _test_notes(is_tested: bool, too_few: set[int]) -> tuple[str, ...]:
    notes = []
    if is_tested:
        notes.append(
            f"Test: two-sided Wilcoxon signed-rank test against the best mean, paired by seed, α = {ALPHA}, not "
            "corrected for the number of comparisons."
        )
    if too_few:
        low, high = min(too_few), max(too_few)
        n = f"n = {low}" if low == high else f"n = {low} to {high}"
        notes.append(f"{n}: too few seeds for a paired test ({_MIN_PAIRS} are needed).")
    return tuple(notes)
