"""Which runs have a metric, and notes on those that lack it, on counts and on states."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pandas

from idwbench.errors import ConfigError, did_you_mean
from idwbench.report.frame import Row, has_metric
from idwbench.report.labels import count_label
from idwbench.runs.metrics import METRICS, headline_metric

__all__ = [
    "availability_notes",
    "check_metric",
    "count_notes",
    "headline",
    "kinds_with",
    "lacking",
    "seed_notes",
    "shown",
]

# Their runs have the same metrics, so that one that lacks a metric can be measured.
_NETWORKS = {"prototypes", "baseline"}


def headline(table: pandas.DataFrame) -> str:
    """Return the headline metric of the task of the first run."""
    return headline_metric(table.run.iloc[0].setting.dataset.task).name


def check_metric(table: pandas.DataFrame, metric: str) -> None:
    """Check that some runs have a metric, or that it is the headline metric of a task.

    Raises:
        ConfigError: no run has it; the message says whether it is a known metric and how many runs lack it.
    """
    known = {column[1] for column in table.columns if isinstance(column, tuple)}
    known |= {headline_metric(task).name for task in {run.setting.dataset.task for run in table.run}}
    if metric in known:
        return
    if metric not in METRICS:
        hint = did_you_mean(metric, known | set(METRICS))
        raise ConfigError(f"no run has a metric '{metric}'", location=("metric",), hint=hint)
    n = int((table.state == "complete").sum())
    hint = f"they have: {', '.join(sorted(known))}"
    lack = "the only complete run lacks" if n == 1 else f"all {n:,} complete runs lack"
    raise ConfigError(f"{lack} the metric '{metric}'", location=("metric",), hint=hint)


def kinds_with(table: pandas.DataFrame, metric: str) -> set[str]:
    """Return the kinds of runs that have a metric.

    Prototype networks and baselines have the same metrics: those that lack one were trained before it existed.
    """
    kinds = {*table.kind[has_metric(table, metric)]}
    return kinds | _NETWORKS if not kinds or kinds & _NETWORKS else kinds


def shown(table: pandas.DataFrame, metric: str, kinds: Collection[str]) -> pandas.DataFrame:
    """Return the runs that have a row: of `kinds`, and of settings with the metric or of prototype networks."""
    has_row = (table.kind == "prototypes") | has_metric(table, metric).groupby(table.setting).transform("any")
    return table[table.kind.isin(kinds) & has_row]


def lacking(table: pandas.DataFrame, metric: str, kinds: Collection[str]) -> pandas.DataFrame:
    """Return the complete runs of `kinds` without the metric."""
    return table[(table.state == "complete") & table.kind.isin(kinds) & ~has_metric(table, metric)]


def availability_notes(table: pandas.DataFrame, metric: str, kinds: Collection[str]) -> list[str]:
    """Return notes on complete runs of `kinds` without the metric, and on runs of other kinds.

    If there are no others, the notes name the metrics that they have.
    """
    n = len(lacking(table, metric, kinds))
    notes = [f"{count_label(n, 'complete run')} without the metric '{metric}'; not in the means."] if n else []
    others = table[~table.kind.isin(kinds)]
    for kind, left_out in others.groupby("kind"):
        note = f"{count_label(len(left_out), 'run')} of kind {kind}, which has no metric '{metric}'; not shown."
        names = sorted({name for run in left_out.run for _, name in run.metrics})
        notes.append(note if len(others) < len(table) or not names else f"{note} Its metrics: {', '.join(names)}.")
    return notes


def count_notes(rows: Sequence[Row], table: pandas.DataFrame) -> list[str]:
    """Return notes on rows of one run, and on diverged, failed and unfinished runs."""
    states = table.state.value_counts()
    counts = (
        (sum(row.n_diverged for row in rows), "diverged; not in the means."),
        (states.get("failed", 0), "failed; not shown."),
        (states.get("planned", 0) + states.get("running", 0), "not finished; not shown."),
    )
    notes = ["n = 1: no spread."] if any(row.n == 1 for row in rows) else []
    return notes + [f"{count_label(n, 'run')} {text}" for n, text in counts if n]


def seed_notes(rows: Sequence[Row]) -> list[str]:
    """Return a note if some rows have fewer complete runs than others."""
    most = max((row.n for row in rows), default=0)
    fewer = sum(0 < row.n < most for row in rows)
    return [f"{count_label(fewer, 'row')} of {len(rows):,} with fewer than {most:,} seeds; see n."] if fewer else []
