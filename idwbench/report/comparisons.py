"""Comparison of rows: the best mean, and rows that a paired test over seeds does not distinguish from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from idwbench.report.paired_test import ALPHA, MIN_PAIRS, signed_rank_p_values
from idwbench.report.statistics import Statistic
from idwbench.runs.metrics import METRICS

__all__ = ["Comparison", "compare", "compared_splits", "higher_is_better", "rounded"]

# Relative difference of means that counts as a tie, and the significant digits that it leaves.
_TIE = 1e-12
_DIGITS = 12


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
    n_tested, too_few = 0, set()
    for (_, split), places in columns.items():
        column = [marked[place][split] for place in places]
        best = _best(column, METRICS[metric].higher_is_better)
        for place, (statistic, n_common) in zip(places, _against(best, column), strict=True):
            marked[place][split] = statistic
            if n_common is not None:
                n_tested += n_common >= MIN_PAIRS
                too_few |= {n_common} if n_common < MIN_PAIRS else set()
    return Comparison(tuple(marked), n_tested > 0, _notes(n_tested > 0, too_few))


def compared_splits(splits: Iterable[str]) -> set[str]:
    """Return the splits on which rows are compared: all but ``train``, which is compared only if it is alone."""
    found = set(splits)
    return found - {"train"} or found


def higher_is_better(metric: str) -> bool:
    """Return whether a higher value is better; an unknown metric counts as such."""
    return metric not in METRICS or METRICS[metric].higher_is_better


def rounded(mean: float) -> float:
    """Return a mean for sorting, without rounding errors of different sums."""
    return float(f"{mean:.{_DIGITS}g}")


def _best(column: list[Statistic], higher_is_better: bool) -> Statistic:
    """Return the best mean of a column; among equal means that with the most seeds."""
    sign = 1 if higher_is_better else -1
    top = max(sign * statistic.mean for statistic in column)
    equal = [statistic for statistic in column if _is_equal(sign * statistic.mean, top)]
    return max(equal, key=lambda statistic: statistic.n)


def _is_equal(first: float, second: float) -> bool:
    return abs(first - second) <= _TIE * max(abs(first), abs(second))


def _against(best: Statistic, column: list[Statistic]) -> Iterator[tuple[Statistic, int | None]]:
    """Yield each statistic with its mark, and the number of seeds that it shares with the best; None for the best."""
    paired: dict[tuple[int, ...], list[int]] = defaultdict(list)  # rows with these common seeds
    ours, all_ours = best.values, tuple(sorted(best.values))
    for place, other in enumerate(column):
        theirs = other.values.keys()
        paired[all_ours if ours.keys() == theirs else tuple(sorted(ours.keys() & theirs))].append(place)
    p_values: dict[int, float] = {}
    n_common: dict[int, int] = {}
    for seeds, places in paired.items():
        n_common |= dict.fromkeys(places, len(seeds))
        if len(seeds) >= MIN_PAIRS:
            rows = [[values[seed] for seed in seeds] for values in (column[place].values for place in places)]
            p_values |= zip(places, signed_rank_p_values([ours[seed] for seed in seeds], rows), strict=True)
    for place, other in enumerate(column):
        if other is best:
            yield replace(other, best=True), None
        else:
            p_value = p_values.get(place)
            is_best = _is_equal(best.mean, other.mean) or (p_value is not None and p_value > ALPHA)
            yield Statistic(other.mean, other.std, other.values, is_best, p_value, other.interval), n_common[place]


def _notes(is_tested: bool, too_few: set[int]) -> tuple[str, ...]:
    notes = []
    if is_tested:
        notes.append(
            f"Test: two-sided Wilcoxon signed-rank test against the best mean, paired by seed, α = {ALPHA}, not "
            "corrected for the number of comparisons."
        )
    if too_few:
        low, high = min(too_few), max(too_few)
        n = f"n = {low}" if low == high else f"n = {low} to {high}"
        notes.append(f"{n}: too few seeds for a paired test ({MIN_PAIRS} are needed).")
    return tuple(notes)
