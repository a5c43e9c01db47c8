"""Leaderboards: all settings of a selection in one table, sorted by a metric."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from idwbench.errors import ConfigError, did_you_mean
from idwbench.report import frame, tables
from idwbench.report.frame import Row, Runs, rows
from idwbench.report.labels import constants_title, count_label, sortable, varying_settings
from idwbench.report.statistics import Statistic, compare, mean_order, with_intervals
from idwbench.report.tables import Column, Table
from idwbench.runs.metrics import HEADLINES, METRICS, UNKNOWN_METRIC

__all__ = ["best_by_validation", "leaderboard"]


def leaderboard(
    runs: Runs,
    metric: str | None = None,
    *,
    split: str | None = None,
    top: int | None = None,
    best_over: Iterable[str] = (),
    intervals: bool = False,
) -> Table:
    """Return all settings of `runs` in one list, sorted by the mean of a metric over seeds.

    Rows without a mean, and then rows of diverged runs only, come last. Rows on different data are not compared.

    Args are those of `idwbench.report.reports.leaderboard`, for stored runs in any state, such as those from
    `select_runs`; a run that is given twice counts once.

    Raises:
        ConfigError: no run has the metric, or none on that split; the tasks differ and no metric is given; an unknown
            setting in `best_over`, or no validation metric to choose by; `top` below 1.
    """
    if top is not None and top < 1:
        raise ConfigError(f"expected a number of rows from 1, got {top}", location=("top",))
    table = frame.run_table(runs)
    if metric is not None:
        frame.check_metric(table, metric)
    name = metric or frame.one_metric(table.headline)
    table = frame.with_metric(table, name)
    every = rows(table[table.is_shown], name)
    varying = varying_settings([row.settings for row in every])
    chosen, choice = best_by_validation(every, varying, best_over, name)
    marked, tests = compare([(row.data, row.statistics) for row in chosen], name)
    compared = [replace(row, statistics=one) for row, one in zip(chosen, marked, strict=True)]
    by = frame.chosen_split(compared, name, split)
    ranked = _ranked(compared, by, name, varying)
    board = ranked[:top]
    if intervals:
        bounded, more = with_intervals([row.statistics for _, row in board], (by,))
        board = [(rank, replace(row, statistics=one)) for (rank, row), one in zip(board, bounded, strict=True)]
        tests += more
    pooled = ["dataset_seed"] if any(table.data_seeds) else []
    title = constants_title([row.config for row in chosen] or [*table.config[:1]], (*varying, *pooled))
    notes = (
        *([f"The first {len(board):,} of {len(ranked):,} rows."] if len(board) < len(ranked) else []),
        *([] if name in METRICS else [f"Whether a higher {name} is better is not known."]),
        *choice,
        *frame.run_notes(compared, table, name),
        *tests,
    )
    shown = [row for _, row in board]
    ranks = [tables.MISSING if rank is None else str(rank) for rank, _ in board]
    first = "highest" if METRICS.get(name, UNKNOWN_METRIC).higher_is_better else "lowest"
    return tables.row_table(
        shown,
        name,
        (
            Column("rank", "rank", ranks, numeric=True),
            *tables.setting_columns(_shown_settings(varying, chosen), shown),
            *tables.row_columns(shown, tables.N_RUNS, tables.DIVERGED),
        ),
        (),
        " on the same data" if len({row.data for row in compared}) > 1 else "",
        split=by,
        order=f"; sorted by {by}, {first} first",
        title=title,
        groups=(None,) * len(board),
        notes=notes,
        records=lambda: [{"rank": rank, **row.settings, **tables.row_record(row, name)} for rank, row in board],
    )


def _shown_settings(varying: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """Return the settings with a column: those that vary, the kind of the model only if one method has several."""
    kinds = {(row.settings["method"], row.settings["model"]) for row in rows}
    is_told = len(kinds) == len({method for method, _ in kinds})
    return [name for name in varying if name != "model" or not is_told]


def _ranked(rows: Sequence[Row], split: str, metric: str, varying: Sequence[str]) -> list[tuple[int | None, Row]]:
    """Return the rows with their ranks, from 1; equal means share a rank, and rows without a mean have none."""
    names = dict.fromkeys(("dataset", "method", *varying))
    scores = {row.number: (mean_order(row.statistics.get(split), metric), row.n == 0) for row in rows}

    def order(row: Row) -> tuple[object, ...]:
        return scores[row.number], sortable({name: row.settings.get(name) for name in names})

    ranked = sorted(rows, key=order)
    first: dict[Any, int] = {}
    for place, row in enumerate(ranked, start=1):
        first.setdefault(scores[row.number], place)
    return [(first[scores[row.number]] if split in row.statistics else None, row) for row in ranked]


def best_by_validation(
    found: Sequence[Row], varying: Collection[str], best_over: Iterable[str], metric: str
) -> tuple[list[Row], list[str]]:
    """Keep, for each combination of the other varying settings, the values of `best_over` that are best by validation.

    The metric is `metric`, or the headline metric of the task where `metric` is not measured on the validation split;
    compared are its means over seeds. Of equal means the first in the order of `best_over` is kept. Settings whose runs
    all diverged are kept only if nothing else is left.

    Args:
        found: The rows of a table to choose from.
        varying: The names of settings that vary.
        best_over: The names of settings to choose; without any, all rows are kept.
        metric: The metric of the table.

    Returns:
        The rows that were kept, and notes on how they were chosen.

    Raises:
        ConfigError: an unknown setting, or a complete run has no validation metric.
    """
    axes = tuple(dict.fromkeys(best_over))
    if not axes:
        return [*found], []
    known = {name for row in found for name in row.settings if name != "dataset" and not name.startswith("dataset_")}
    for axis in axes:
        if axis not in known:
            problem = f"no setting of models or protocols is called '{axis}'"
            raise ConfigError(problem, location=("best_over",), hint=did_you_mean(axis, known))
    name, means = _validation_means(found, metric, axes)
    candidates: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in found:
        candidates[tuple(row.settings.get(setting) for setting in varying if setting not in axes)].append(row)

    def order(row: Row) -> tuple[object, ...]:
        return mean_order(means[row.number], name), sortable({axis: row.settings.get(axis) for axis in axes})

    best = {min(own, key=order).number for own in candidates.values()}
    kept = [row for row in found if row.number in best]
    notes = [
        f"{', '.join(axes)}: chosen by the mean over seeds of {name.replace('_', ' ')} on the validation split, not by "
        f"test; {len(kept):,} of {count_label(len(found), 'setting')} kept.",
        *(f"{axis} does not vary." for axis in axes if axis not in varying),
    ]
    counts = [{one.n for row in own if (one := means[row.number]) is not None} for own in candidates.values()]
    if unequal := [n for several in counts if len(several) > 1 for n in several]:
        low, high = min(unequal), max(unequal)
        notes.append(f"Some were chosen among settings with different numbers of seeds ({low} to {high}).")
    return kept, notes


def _validation_means(
    found: Sequence[Row], metric: str, axes: Sequence[str]
) -> tuple[str, Mapping[int, Statistic | None]]:
    """Return the metric to choose by, with its means by row: the one given, or the headline metric if no run has it."""
    n_runs = sum(row.n for row in found)
    for name in (metric, HEADLINES[found[0].config.dataset.task].name):
        means = {row.number: row.statistics.get("validation") for row in rows(found[0].table, name)}
        lacking = {row.number: row.n - (one.n if (one := means[row.number]) else 0) for row in found}
        n_lacking = sum(lacking.values())
        if n_lacking < n_runs or not n_runs:
            break
    if n_lacking:
        # A study of patches has no such metric, whatever its data.
        has_split = any(row.config.dataset.validation for row in found if lacking[row.number])
        raise ConfigError(
            f"{n_lacking:,} of {count_label(n_runs, 'complete run')} have no validation {name}, by which "
            f"{', '.join(axes)} would be chosen",
            location=("best_over",),
            hint="" if has_split else "add `validation: 0.1` to the data set of the sweep",
        )
    return name, means
