"""Which runs have a metric, and what is said of those that lack it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from idwbench.errors import ConfigError, did_you_mean
from idwbench.report.labels import count_label
from idwbench.results.records import ReportedRun
from idwbench.runs.metrics import METRICS, headline_metric

__all__ = ["availability_notes", "check_metric", "has_metric", "is_shown", "kinds_with", "lacking"]

# Their runs have the same metrics, so that one that lacks a metric can be measured.
_NETWORKS = {"prototypes", "baseline"}


def check_metric(runs: Sequence[ReportedRun], metric: str) -> None:
    """Check that some of `runs` has a metric, or that it is the headline metric of a task.

    Raises:
        ConfigError: no run has it; the message says whether it is a known metric and how many runs lack it.
    """
    known = {name for run in runs for _, name in run.metrics}
    known |= {headline_metric(run.setting.dataset.task).name for run in runs}
    if metric in known:
        return
    if metric not in METRICS:
        hint = did_you_mean(metric, known | set(METRICS))
        raise ConfigError(f"no run has a metric '{metric}'", location=("metric",), hint=hint)
    n = sum(run.state == "complete" for run in runs)
    hint = f"they have: {', '.join(sorted(known))}"
    lack = "the only complete run lacks" if n == 1 else f"all {n:,} complete runs lack"
    raise ConfigError(f"{lack} the metric '{metric}'", location=("metric",), hint=hint)


def kinds_with(runs: Iterable[ReportedRun], metric: str) -> set[str]:
    """Return the kinds of runs that have a metric.

    Prototype networks and baselines have the same metrics: those that lack one were trained before it existed.
    """
    kinds: set[str] = set()
    for run in runs:
        if (kind := run.setting.model.kind) not in kinds and has_metric(run, metric):
            kinds.add(kind)
    return kinds | _NETWORKS if not kinds or kinds & _NETWORKS else kinds


def has_metric(run: ReportedRun, metric: str) -> bool:
    """Return whether the run has the metric on some split."""
    return ("test", metric) in run.metrics or metric in [name for _, name in run.metrics]


def is_shown(runs: Sequence[ReportedRun], metric: str) -> bool:
    """Return whether runs of one setting have a row: one has the metric, or they are prototype networks."""
    return runs[0].setting.model.kind == "prototypes" or any(has_metric(run, metric) for run in runs)


def lacking(runs: Iterable[ReportedRun], metric: str, kinds: Collection[str]) -> list[ReportedRun]:
    """Return the complete runs of `kinds` without the metric."""
    return [
        run
        for run in runs
        if run.state == "complete" and run.setting.model.kind in kinds and not has_metric(run, metric)
    ]


def availability_notes(runs: Sequence[ReportedRun], metric: str, kinds: Collection[str]) -> list[str]:
    """Return notes on complete runs of `kinds` without the metric, and on runs of other kinds.

    If there are no others, the notes name the metrics that they have.
    """
    n = len(lacking(runs, metric, kinds))
    notes = [f"{count_label(n, 'complete run')} without the metric '{metric}'; not in the means."] if n else []
    others: dict[str, list[ReportedRun]] = defaultdict(list)
    for run in runs:
        if run.setting.model.kind not in kinds:
            others[run.setting.model.kind].append(run)
    shown = sum(map(len, others.values())) < len(runs)
    for kind, left_out in sorted(others.items()):
        note = f"{count_label(len(left_out), 'run')} of kind {kind}, which has no metric '{metric}'; not shown."
        names = sorted({name for run in left_out for _, name in run.metrics})
        notes.append(note if shown or not names else f"{note} Its metrics: {', '.join(names)}.")
    return notes
