"""Which runs have a metric, and notes on those that lack it, on counts and on states."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import pandas

from idwbench.errors import ConfigError, did_you_mean
from idwbench.report.frame import Row, measured, metric_names
from idwbench.report.labels import count_label
from idwbench.runs.metrics import METRICS, headline_metric

__all__ = [
    "availability_notes",
    "check_metric",
    "count_notes",
    "headlines",
    "kinds_with",
    "lacking",
    "seed_notes",
    "shown",
]

# Their runs have the same metrics, so that one that lacks a metric can be measured.
_NETWORKS = {"prototypes", "baseline"}


def headlines(table: pandas.DataFrame) -> list[str]:
    """Return the headline metric of each task of the runs, sorted."""
    return sorted({headline_metric(task).name for task in {config.dataset.task for config in table.config}})


def check_metric(table: pandas.DataFrame, metric: str) -> None:
    """Check that some runs have a metric, or that it is the headline metric of a task.

    Raises:
        ConfigError: no run has it; the message says whether it is a known metric and how many runs lack it.
    """
    known = metric_names(table) | {*headlines(table)}
    if metric in known:
        return
    if metric not in METRICS:
        hint = did_you_mean(metric, known | set(METRICS))
        raise ConfigError(f"no run has a metric '{metric}'", location=("metric",), hint=hint)
    n = int((table.state == "complete").sum())
    hint = f"they have: {', '.join(sorted(known))}"
    lack = "the only complete run lacks" if n == 1 else f"all {n:,} complete runs lack"
    raise ConfigError(f"{lack} the metric '{metric}'", location=("metric",), hint=hint)


def _has(table: pandas.DataFrame, metric: str) -> pandas.Series[bool]:
    """Return whether runs have a metric on some split."""
    return measured(table, metric).notna().any(axis=1)


def kinds_with(table: pandas.DataFrame, metric: str) -> set[str]:
    """Return the kinds of runs that have a metric.

    Prototype networks and baselines have the same metrics: those that lack one were trained before it existed.
    """
    kinds = {*table.kind[_has(table, metric)]}
    return kinds | _NETWORKS if not kinds or kinds & _NETWORKS else kinds


def shown(table: pandas.DataFrame, metric: str, kinds: Collection[str]) -> pandas.DataFrame:
    """Return the runs that have a row: of `kinds`, and of rows with the metric or of prototype networks."""
    has_row = (table.kind == "prototypes") | _has(table, metric).groupby(table.row).transform("any")
    return table[table.kind.isin(kinds) & has_row]


def lacking(table: pandas.DataFrame, metric: str, kinds: Collection[str]) -> pandas.DataFrame:
    """Return the complete runs of `kinds` without the metric."""
    return table[(table.state == "complete") & table.kind.isin(kinds) & ~_has(table, metric)]


def availability_notes(table: pandas.DataFrame, metric: str, kinds: Collection[str]) -> Iterator[str]:
    """Yield notes on complete runs of `kinds` without the metric, and on runs of other kinds.

    If there are no others, the notes name the metrics that they have.
    """
    if n := len(lacking(table, metric, kinds)):
        yield f"{count_label(n, 'complete run')} without the metric '{metric}'; not in the means."
    others = table[~table.kind.isin(kinds)]
    for kind, left_out in others.groupby("kind"):
        names = sorted(metric_names(left_out)) if len(others) == len(table) else []
        note = f"{count_label(len(left_out), 'run')} of kind {kind}, which has no metric '{metric}'; not shown."
        yield f"{note} Its metrics: {', '.join(names)}." if names else note


def count_notes(rows: Sequence[Row], table: pandas.DataFrame) -> Iterator[str]:
    """Yield notes on rows of one run, and on diverged, failed and unfinished runs."""
    if any(row.n == 1 for row in rows):
        yield "n = 1: no spread."
    states = table.state.value_counts()
    for n, text in (
        (sum(row.n_diverged for row in rows), "diverged; not in the means."),
        (states.get("failed", 0), "failed; not shown."),
        (states.get("planned", 0) + states.get("running", 0), "not finished; not shown."),
    ):
        if n:
            yield f"{count_label(n, 'run')} {text}"


def seed_notes(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a note if some rows have fewer complete runs than others."""
    most = max((row.n for row in rows), default=0)
    if fewer := sum(0 < row.n < most for row in rows):
        yield f"{count_label(fewer, 'row')} of {len(rows):,} with fewer than {most:,} seeds; see n."
