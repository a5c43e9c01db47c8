"""The leaderboards of a group of runs, one for each task."""

from __future__ import annotations

from collections.abc import Sequence

from idwbench.errors import ConfigError
from idwbench.page.groups import RunGroup
from idwbench.page.parts import Part
from idwbench.report.leaderboard import leaderboard
from idwbench.results.records import RESULT_STATES, ReportedRun
from idwbench.runs.metrics import METRICS, headline_metric

__all__ = ["leaderboard_part"]


def leaderboard_part(group: RunGroup, metric: str | None, top: int) -> Part:
    """Return the section with all settings of a group, best first, at most `top` rows for each table."""
    tables, problems = [], []
    for name, runs in _by_metric(group.runs, metric).items():
        try:
            board = leaderboard(runs, name, top=top)
        except ConfigError as error:
            problems.append(f"{error.problem}.")
            continue
        if board.groups:
            tables.append(board)
        problems += [] if board.groups else board.notes
    if not tables and not problems:
        problems = ["No run has ended yet."]
    return Part("leaderboard", "Leaderboard", notes=() if tables else tuple(problems), tables=tuple(tables))


def _by_metric(runs: Sequence[ReportedRun], metric: str | None) -> dict[str, list[ReportedRun]]:
    """Return the runs with a result by the metric that they are compared by."""
    found: dict[str, list[ReportedRun]] = {}
    for run in runs:
        if run.state in RESULT_STATES:
            found.setdefault(metric or headline_metric(run.setting.dataset.task).name, []).append(run)
    if metric is not None:
        return found
    chosen: dict[str, list[ReportedRun]] = {}
    for name, part in found.items():
        chosen.setdefault(_present(part, name), []).extend(part)
    return chosen


def _present(runs: Sequence[ReportedRun], headline: str) -> str:
    """Return the headline metric, or if no run has it, as in studies of patches, the first metric that they have."""
    names = {name for run in runs for _, name in run.metrics}
    others = [name for name in METRICS if name in names]
    of_patches = [name for name in others if name.startswith("changed_")]
    return headline if headline in names else next(iter([*of_patches, *others]), headline)
