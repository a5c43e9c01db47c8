"""The groups of runs of a page, one for each sweep and for each data set with runs outside sweeps, and their boards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from idwbench.errors import ConfigError
from idwbench.page.parts import Part
from idwbench.report.leaderboard import leaderboard
from idwbench.report.selection import select_runs
from idwbench.results.records import RESULT_STATES, FailedRun, StoredRun
from idwbench.runs.metrics import METRICS, headline_metric

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["FAILURES", "RunGroup", "find_groups", "leaderboard_part"]

FAILURES = 20  # the most failures that a group shows
_STATES = ("complete", "running", "stale", "planned", "diverged", "failed")


@dataclass(frozen=True)
class RunGroup:
    """The runs of a sweep, or those of a data set that belong to no sweep.

    Attributes:
        counts: Number of runs by state; a ``stale`` run has lost its process and is not in ``running``.
        failures: The first failed runs.
    """

    name: str
    is_sweep: bool
    description: str
    runs: Sequence[StoredRun]
    counts: Mapping[str, int]
    failures: tuple[FailedRun, ...] = ()

    @property
    def title(self) -> str:
        """The name of the sweep, or that of the data set with a word on its runs."""
        return self.name if self.is_sweep else f"{self.name}: runs outside sweeps"


def find_groups(
    results: Results,
    name: str | None = None,
    methods: Collection[str] = (),
    prototypes: Collection[int] = (),
    metric: str | None = None,
) -> list[RunGroup]:
    """Return the groups of a database, or that of one sweep or data set.

    Raises:
        ConfigError: unknown name, or no run is left.
    """
    sweeps = {sweep.name: sweep.description for sweep in results.list_sweeps()}
    if name is not None:
        runs = results.load_runs([*select_runs(results, name, methods, prototypes).run_key])
        return [_group(results, name, name in sweeps, sweeps.get(name, ""), runs)]
    groups = []
    in_sweeps: set[str] = set()
    for sweep, description in sweeps.items():
        runs = [*results.find_runs(sweep=sweep)]
        in_sweeps.update(run.run_key for run in runs)
        groups.append(_group(results, sweep, True, description, _selected(runs, methods, prototypes)))
    for dataset in results.dataset_labels():
        found = results.find_runs(dataset=dataset)
        runs = [run for run in found if run.run_key not in in_sweeps]
        if runs:
            groups.append(_group(results, dataset, False, "", _selected(runs, methods, prototypes)))
    selected = [group for group in groups if group.runs] if methods or prototypes else groups
    if groups and not selected:
        raise ConfigError("no runs have that method and number of prototypes", location=("method",))
    return selected


def _selected(runs: Sequence[StoredRun], methods: Collection[str], prototypes: Collection[int]) -> Sequence[StoredRun]:
    return [
        run
        for run in runs
        if (not methods or run.setting.model.method in methods)
        and (not prototypes or run.setting.model.prototypes in prototypes)
    ]


def _group(results: Results, name: str, is_sweep: bool, description: str, runs: Sequence[StoredRun]) -> RunGroup:
    counts = Counter(str(run.state) for run in runs)
    if counts["running"]:
        states = results.run_states([run.run_key for run in runs if run.state == "running"])
        stale = sum(state == "stale" for state in states.values())
        counts.update(running=-stale, stale=stale)
    failed = [run.run_key for run in runs if run.state == "failed"][:FAILURES]
    failures = tuple(map(FailedRun.of, results.load_runs(failed)))
    shown = {state: counts[state] for state in _STATES if counts[state] > 0}
    return RunGroup(name, is_sweep, description, runs, shown, failures)


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


def _by_metric(runs: Sequence[StoredRun], metric: str | None) -> dict[str, list[StoredRun]]:
    """Return the runs with a result by the metric that they are compared by."""
    found: dict[str, list[StoredRun]] = {}
    for run in runs:
        if run.state in RESULT_STATES:
            found.setdefault(metric or headline_metric(run.setting.dataset.task).name, []).append(run)
    if metric is not None:
        return found
    chosen: dict[str, list[StoredRun]] = {}
    for name, part in found.items():
        chosen.setdefault(_present(part, name), []).extend(part)
    return chosen


def _present(runs: Sequence[StoredRun], headline: str) -> str:
    """Return the headline metric, or if no run has it, as in studies of patches, the first metric that they have."""
    names = {name for run in runs for _, name in run.metrics}
    others = [name for name in METRICS if name in names]
    of_patches = [name for name in others if name.startswith("changed_")]
    return headline if headline in names else next(iter([*of_patches, *others]), headline)
