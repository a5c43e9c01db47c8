"""Leaderboards: all settings of a selection in one table, sorted by a metric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from idwbench.errors import ConfigError, did_you_mean
from idwbench.report.availability import availability_notes, check_metric, is_shown, kinds_with
from idwbench.report.comparisons import compare, higher_is_better, rounded
from idwbench.report.counts import count_notes, seed_notes
from idwbench.report.intervals import interval_notes, with_intervals
from idwbench.report.replication import Replication, distinct_runs, replication_notes, replication_of
from idwbench.report.settings import (
    SettingRuns,
    constants_title,
    group_by_setting,
    method_order,
    sortable,
    varying_settings,
)
from idwbench.report.statistics import SPLITS, Statistic, present_splits, split_statistics
from idwbench.report.validation import Choice, best_by_validation, check_axes
from idwbench.results.records import ReportedRun
from idwbench.runs.config import RunConfig
from idwbench.runs.metrics import METRICS, headline_metric

__all__ = ["BoardRow", "Leaderboard", "leaderboard"]


@dataclass(frozen=True)
class BoardRow:
    """One setting, over seeds.

    Attributes:
        rank: From 1; equal means share a rank. None without a mean on the split of the leaderboard.
        settings: All settings but the seed by name, as the columns of `Results.to_frame`.
        config: The configuration of one of its runs.
        n: Number of complete runs.
        n_diverged: Number of diverged runs, which are in no statistic.
        statistics: The metric by split.
        n_parameters: Number of learned parameters; None if no run is complete.
    """

    rank: int | None
    settings: Mapping[str, Any]
    config: RunConfig
    n: int
    n_diverged: int
    statistics: Mapping[str, Statistic]
    n_parameters: int | None


@dataclass(frozen=True)
class Leaderboard:
    """All settings of a selection of runs, best first.

    Attributes:
        title: The settings that all runs share.
        metric: The name of the metric.
        split: The split that rows are sorted by.
        order: Which values come first; ``highest`` for an unknown metric.
        settings: The names of the settings that vary.
        rows: Sorted; rows without a mean, and then rows of diverged runs only, come last.
        n_rows: The number of rows before `top` was applied.
        is_tested: Whether marks are based on a paired test; otherwise only the best mean is marked.
        has_several_datasets: Whether data sets or their settings differ; rows on different data are not compared.
        notes: Lines below the table.
    """

    title: str
    metric: str
    split: str
    order: Literal["highest", "lowest"]
    settings: tuple[str, ...]
    rows: tuple[BoardRow, ...]
    n_rows: int
    is_tested: bool
    has_several_datasets: bool
    notes: tuple[str, ...]


def leaderboard(
    runs: Sequence[ReportedRun],
    metric: str | None = None,
    *,
    split: str | None = None,
    top: int | None = None,
    best_over: Iterable[str] = (),
    intervals: bool = False,
) -> Leaderboard:
    """Return all settings of `runs` in one list, sorted by the mean of a metric over seeds.

    Args:
        runs: Stored runs in any state, such as those from `select_runs`; a run that is given twice counts once.
        metric: The name of a metric, by default the headline metric of the task.
        split: The split to sort by, by default ``test``, or the first that has the metric.
        top: The number of rows; None for all. Marks, tests and counts are those of all rows.
        best_over: Settings of the model or the protocol: of their values only those with the best validation metric are
            kept, for each combination of the other settings; see `idwbench.report.validation.best_by_validation`.
        intervals: Whether to compute 95 % intervals of the means, see `idwbench.report.intervals`.

    Raises:
        ConfigError: no run has the metric, or none on that split; the tasks differ and no metric is given; an unknown
            setting in `best_over`, or no validation metric to choose by; `top` below 1.
    """
    if top is not None and top < 1:
        raise ConfigError(f"expected a number of rows from 1, got {top}", location=("top",))
    runs = distinct_runs(runs)
    replication = replication_of(runs)
    name = _metric(runs, metric)
    kinds = kinds_with(runs, name)
    ended = (run for run in runs if run.state in ("complete", "diverged") and run.setting.model.kind in kinds)
    groups = [group for group in group_by_setting(ended, replication) if is_shown(group.runs, name)]
    varying = varying_settings([group.settings for group in groups])
    chosen = _chosen(groups, varying, best_over, name)
    rows, is_tested, test_notes = _compared(
        [_row(group, name, replication) for group in chosen.groups], name, replication
    )
    by = _split([row.statistics for row in rows], split, name)
    shown = (ranked := _ranked(rows, by, name, varying))[:top]
    if intervals:
        shown, interval_lines = _with_intervals(shown, by)
    return Leaderboard(
        title=constants_title([group.runs[0] for group in groups] or runs[:1], (*varying, *_pooled_names(replication))),
        metric=name,
        split=by,
        order="highest" if higher_is_better(name) else "lowest",
        settings=_columns(varying, groups),
        rows=tuple(shown),
        n_rows=len(ranked),
        is_tested=is_tested,
        has_several_datasets=len({replication.data_key(row.config.dataset) for row in rows}) > 1,
        notes=(
            *([f"The first {len(shown):,} of {len(ranked):,} rows."] if len(shown) < len(ranked) else []),
            *([] if name in METRICS else [f"Whether a higher {name} is better is not known."]),
            *chosen.notes,
            *replication_notes([run for group in groups for run in group.runs], replication),
            *test_notes,
            *(interval_lines if intervals else ()),
            *seed_notes(rows),
            *count_notes(rows, runs),
            *availability_notes(runs, name, kinds),
        ),
    )


def _metric(runs: Sequence[ReportedRun], metric: str | None) -> str:
    if metric is not None:
        check_metric(runs, metric)
        return metric
    names = sorted({headline_metric(run.setting.dataset.task).name for run in runs})
    if len(names) != 1:
        problem = "the tasks of these runs have different metrics; give one" if names else "there are no runs"
        raise ConfigError(problem, location=("metric",), hint=f"one of: {', '.join(names)}" if names else "")
    return names[0]


def _chosen(groups: list[SettingRuns], varying: tuple[str, ...], best_over: Iterable[str], metric: str) -> Choice:
    axes = check_axes(best_over, groups)
    return best_by_validation(groups, varying, axes, metric) if axes else Choice(tuple(groups), ())


def _pooled_names(replication: Replication) -> tuple[str, ...]:
    """Return the setting that a title does not show since runs are pooled over it."""
    return ("dataset_seed",) if replication.pooled else ()


def _row(group: SettingRuns, metric: str, replication: Replication) -> BoardRow:
    complete = group.complete
    return BoardRow(
        rank=None,
        settings=group.settings,
        config=group.runs[0].config,
        n=len(complete),
        n_diverged=len(group.runs) - len(complete),
        statistics=split_statistics(complete, metric, replication.seed),
        n_parameters=next((run.n_parameters for run in complete if run.n_parameters is not None), None),
    )


def _compared(
    rows: list[BoardRow], metric: str, replication: Replication
) -> tuple[list[BoardRow], bool, tuple[str, ...]]:
    """Return rows with their marks among rows on the same data, whether any was tested, and notes on the test."""
    found = compare([(replication.data_key(row.config.dataset), row.statistics) for row in rows], metric)
    marked = [replace(row, statistics=one) for row, one in zip(rows, found.statistics, strict=True)]
    return marked, found.is_tested, found.notes


def _with_intervals(rows: list[BoardRow], split: str) -> tuple[list[BoardRow], tuple[str, ...]]:
    statistics = with_intervals([row.statistics for row in rows], (split,))
    found = [replace(row, statistics=one) for row, one in zip(rows, statistics, strict=True)]
    return found, interval_notes(statistics)


def _split(rows: Sequence[Mapping[str, Statistic]], split: str | None, metric: str) -> str:
    found = present_splits(rows)
    if split is None:
        return found[0] if found else SPLITS[0]
    if split not in (found or SPLITS):
        problem = f"no run has {metric} on a split '{split}'"
        raise ConfigError(problem, location=("split",), hint=did_you_mean(split, found or SPLITS))
    return split


def _ranked(rows: list[BoardRow], split: str, metric: str, varying: Sequence[str]) -> list[BoardRow]:
    sign = -1 if higher_is_better(metric) else 1

    def score(row: BoardRow) -> tuple[int, float]:
        found = row.statistics.get(split)
        if found is None:
            return (1 if row.n else 2, 0.0)
        return (0, sign * rounded(found.mean))

    def ties(row: BoardRow) -> tuple[object, ...]:
        others = {name: row.settings.get(name) for name in varying if name != "method"}
        return (row.settings["dataset"], method_order(row.settings["method"]), sortable(others))

    ranked = sorted(rows, key=lambda row: (score(row), ties(row)))
    first: dict[tuple[int, float], int] = {}
    for place, row in enumerate(ranked, start=1):
        first.setdefault(score(row), place)
    return [replace(row, rank=None if score(row)[0] else first[score(row)]) for row in ranked]


def _columns(varying: tuple[str, ...], groups: Sequence[SettingRuns]) -> tuple[str, ...]:
    """Return the settings to show: the kind only if one method has several."""
    kinds = {(group.settings["method"], group.settings["model"]) for group in groups}
    several = len(kinds) > len({method for method, _ in kinds})
    return tuple(name for name in varying if name != "model" or several)
