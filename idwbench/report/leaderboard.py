"""Leaderboards: all settings of a selection in one table, sorted by a metric."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas

from idwbench.errors import ConfigError, did_you_mean
from idwbench.report.frame import Row, ended, replication_notes, rows, run_table
from idwbench.report.labels import count_label
from idwbench.report.notes import availability_notes, check_metric, count_notes, kinds_with, seed_notes, shown
from idwbench.report.settings import constants_title, method_order, setting_names, sortable, varying_settings
from idwbench.report.statistics import (
    SPLITS,
    Statistic,
    compare,
    higher_is_better,
    interval_notes,
    present_splits,
    rounded,
    statistic,
    with_intervals,
)
from idwbench.report.tables import (
    MISSING,
    ROW_COLUMNS,
    Table,
    marked_words,
    metric_words,
    nonempty,
    removable,
    row_fields,
    row_record,
    setting_column,
    split_columns,
    text_column,
)
from idwbench.results.records import StoredRun
from idwbench.runs.metrics import METRICS, headline_metric

__all__ = ["Choice", "best_by_validation", "leaderboard"]

_Ranked = list[tuple[int | None, Row]]


def leaderboard(
    runs: Sequence[StoredRun],
    metric: str | None = None,
    *,
    split: str | None = None,
    top: int | None = None,
    best_over: Iterable[str] = (),
    intervals: bool = False,
) -> Table:
    """Return all settings of `runs` in one list, sorted by the mean of a metric over seeds.

    Rows without a mean, and then rows of diverged runs only, come last. Rows on different data are not compared.

    Args:
        runs: Stored runs in any state, such as those from `select_runs`; a run that is given twice counts once.
        metric: The name of a metric, by default the headline metric of the task.
        split: The split to sort by, by default ``test``, or the first that has the metric.
        top: The number of rows; None for all. Marks, tests and counts are those of all rows.
        best_over: Settings of the model or the protocol: of their values only those with the best validation metric are
            kept, for each combination of the other settings; see `best_by_validation`.
        intervals: Whether to compute 95 % intervals of the means, see `idwbench.report.statistics.mean_interval`.

    Raises:
        ConfigError: no run has the metric, or none on that split; the tasks differ and no metric is given; an unknown
            setting in `best_over`, or no validation metric to choose by; `top` below 1.
    """
    if top is not None and top < 1:
        raise ConfigError(f"expected a number of rows from 1, got {top}", location=("top",))
    table = run_table(runs)
    name = _metric(table, metric)
    kinds = kinds_with(table, name)
    found = shown(ended(table), name, kinds)
    choice, varying = _chosen(rows(found, name), best_over, name)
    comparison = compare([(row.data, row.statistics) for row in choice.rows], name)
    compared = [replace(row, statistics=s) for row, s in zip(choice.rows, comparison.statistics, strict=True)]
    by = _split(compared, split, name)
    ranked = _ranked(compared, by, name, varying)
    board, lines = _with_intervals(ranked[:top], by) if intervals else (ranked[:top], ())
    notes = (
        *([f"The first {len(board):,} of {len(ranked):,} rows."] if len(board) < len(ranked) else []),
        *([] if name in METRICS else [f"Whether a higher {name} is better is not known."]),
        *choice.notes,
        *replication_notes(found),
        *comparison.notes,
        *lines,
        *seed_notes(compared),
        *count_notes(compared, table),
        *availability_notes(table, name, kinds),
    )
    pooled = ("dataset_seed",) if any(table.data_seeds) else ()
    first = [row.runs[0] for row in choice.rows] or [*table.run[:1]]
    among = " on the same data" if len({row.data for row in compared}) > 1 else ""
    return replace(
        _table(board, name, by, _columns(varying, choice.rows)),
        title=constants_title(first, (*varying, *pooled)),
        marked=marked_words([row for _, row in board], comparison.is_tested, among),
        notes=notes,
    )


def _metric(table: pandas.DataFrame, metric: str | None) -> str:
    if metric is not None:
        check_metric(table, metric)
        return metric
    names = sorted({headline_metric(task).name for task in {run.setting.dataset.task for run in table.run}})
    if len(names) != 1:
        problem = "the tasks of these runs have different metrics; give one" if names else "there are no runs"
        raise ConfigError(problem, location=("metric",), hint=f"one of: {', '.join(names)}" if names else "")
    return names[0]


def _split(found: Iterable[Row], split: str | None, metric: str) -> str:
    present = present_splits(row.statistics for row in found)
    if split is None:
        return present[0] if present else SPLITS[0]
    if split not in (present or SPLITS):
        problem = f"no run has {metric} on a split '{split}'"
        raise ConfigError(problem, location=("split",), hint=did_you_mean(split, present or SPLITS))
    return split


def _ranked(found: Sequence[Row], split: str, metric: str, varying: Sequence[str]) -> list[tuple[int | None, Row]]:
    """Return the rows with their ranks, from 1; equal means share a rank, and rows without a mean have none."""
    sign = -1 if higher_is_better(metric) else 1

    def score(row: Row) -> tuple[int, float]:
        one = row.statistics.get(split)
        if one is None:
            return (1 if row.n else 2, 0.0)
        return (0, sign * rounded(one.mean))

    def ties(row: Row) -> tuple[object, ...]:
        others = {name: row.settings.get(name) for name in varying if name != "method"}
        return (row.settings["dataset"], method_order(row.settings["method"]), sortable(others))

    ranked = sorted(found, key=lambda row: (score(row), ties(row)))
    first: dict[tuple[int, float], int] = {}
    for place, row in enumerate(ranked, start=1):
        first.setdefault(score(row), place)
    return [(None if score(row)[0] else first[score(row)], row) for row in ranked]


def _with_intervals(board: _Ranked, split: str) -> tuple[_Ranked, tuple[str, ...]]:
    """Return the rows with intervals, also of the split that sorts them, and notes on these."""
    statistics = with_intervals([row.statistics for _, row in board], (split,))
    found = [(rank, replace(row, statistics=one)) for (rank, row), one in zip(board, statistics, strict=True)]
    return found, interval_notes(statistics)


def _columns(varying: Sequence[str], found: Sequence[Row]) -> tuple[str, ...]:
    """Return the settings to show: the kind only if one method has several."""
    kinds = {(row.settings["method"], row.settings["model"]) for row in found}
    several = len(kinds) > len({method for method, _ in kinds})
    return tuple(name for name in varying if name != "model" or several)


def _table(board: Sequence[tuple[int | None, Row]], metric: str, split: str, settings: Sequence[str]) -> Table:
    found = [row for _, row in board]
    statistics = [row.statistics for row in found]
    splits = (split, *(other for other in present_splits(statistics) if other != split))
    n, diverged, *facts = (column.column(found) for column in ROW_COLUMNS)
    ranks = text_column("rank", "rank", (MISSING if rank is None else str(rank) for rank, _ in board), numeric=True)
    columns = [
        *(setting_column(name, [row.settings.get(name, MISSING) for row in found]) for name in settings),
        *(n, diverged, *split_columns(splits, metric, found), *facts),
    ]
    names = ("rank", *setting_names([row.settings for row in found]), *row_fields(statistics))
    order = "highest" if higher_is_better(metric) else "lowest"

    def records(nested: bool) -> list[dict[str, Any]]:
        full = ({"rank": rank, **row.settings, **row_record(row, metric)} for rank, row in board)
        return [{name: record.get(name) for name in names} for record in full]

    return Table(
        title="",
        columns=(ranks, *nonempty(columns, {split, "n", *settings})),
        groups=(None,) * len(board),
        metric=f"{metric_words(metric, found)}; sorted by {split}, {order} first",
        removable=tuple(name for name in removable(splits) if name.split()[0] != split),
        fields=tuple(dict.fromkeys(names)),
        records=records,
    )


@dataclass(frozen=True)
class Choice:
    """The settings that were kept, and notes on how they were chosen."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...]


def _chosen(found: Sequence[Row], best_over: Iterable[str], metric: str) -> tuple[Choice, tuple[str, ...]]:
    """Return the rows that a leaderboard shows, and the settings that vary among all."""
    varying = varying_settings([row.settings for row in found])
    known = {name for row in found for name in row.settings if name != "dataset" and not name.startswith("dataset_")}
    axes = tuple(dict.fromkeys(best_over))
    for axis in axes:
        if axis not in known:
            problem = f"no setting of models or protocols is called '{axis}'"
            raise ConfigError(problem, location=("best_over",), hint=did_you_mean(axis, known))
    return best_by_validation(found, varying, axes, metric) if axes else Choice(tuple(found), ()), varying


def best_by_validation(found: Sequence[Row], varying: Collection[str], axes: Sequence[str], metric: str) -> Choice:
    """Keep, for each combination of the other varying settings, the values of `axes` with the best validation metric.

    The metric is `metric`, or the headline metric of the task where `metric` is not measured on the validation split;
    compared are its means over seeds. Of equal means the first in the order of `axes` is kept. Settings whose runs all
    diverged are kept only if nothing else is left.

    Args:
        found: The settings to choose from, with their runs.
        varying: The names of settings that vary.
        axes: The names of settings to choose.
        metric: The metric of the table.

    Raises:
        ConfigError: a complete run has no validation metric.
    """
    name = _measured([run for row in found for run in row.complete], metric, axes)
    values = ({place: run.metric(name, "validation") for place, run in enumerate(row.complete)} for row in found)
    means = [*map(statistic, values)]
    candidates: dict[tuple[object, ...], list[int]] = defaultdict(list)
    others = [setting for setting in varying if setting not in axes]
    for place, row in enumerate(found):
        candidates[tuple(row.settings.get(setting) for setting in others)].append(place)
    sign = -1 if higher_is_better(name) else 1

    def order(place: int) -> tuple[object, ...]:
        mean, settings = means[place], found[place].settings
        values = sortable({axis: settings.get(axis) for axis in axes})
        return (mean is None, 0.0 if mean is None else sign * rounded(mean.mean), values)

    kept = sorted(min(places, key=order) for places in candidates.values())
    notes = [
        f"{', '.join(axes)}: chosen by the mean over seeds of {name.replace('_', ' ')} on the validation split, not by "
        f"test; {len(kept):,} of {count_label(len(found), 'setting')} kept.",
        *(f"{axis} does not vary." for axis in axes if axis not in varying),
        *_unequal(candidates.values(), means),
    ]
    return Choice(tuple(found[place] for place in kept), tuple(notes))


def _measured(runs: Sequence[StoredRun], metric: str, axes: Sequence[str]) -> str:
    """Return the metric to choose by; `runs` are complete."""
    name = metric
    if runs and all(run.metric(metric, "validation") is None for run in runs):
        name = headline_metric(runs[0].setting.dataset.task).name
    lacking = [run for run in runs if run.metric(name, "validation") is None]
    if lacking:
        # A study of patches has no such metric, whatever its data.
        has_split = any(run.setting.dataset.validation for run in lacking)
        raise ConfigError(
            f"{len(lacking):,} of {count_label(len(runs), 'complete run')} have no validation {name}, by which "
            f"{', '.join(axes)} would be chosen",
            location=("best_over",),
            hint="" if has_split else "add `validation: 0.1` to the data set of the sweep",
        )
    return name


def _unequal(candidates: Iterable[Sequence[int]], means: Sequence[Statistic | None]) -> list[str]:
    """Return a note if settings with different numbers of seeds were compared."""
    counts = [{one.n for place in places if (one := means[place]) is not None} for places in candidates]
    unequal = [n for n in counts if len(n) > 1]
    if not unequal:
        return []
    low, high = min(map(min, unequal)), max(map(max, unequal))
    return [f"Some were chosen among settings with different numbers of seeds ({low} to {high})."]
