"""The groups of runs of a page, their leaderboards, and the runs that charts show of them.

There is a group for each sweep and for each data set with runs outside sweeps. Charts show its best settings, so that
their number is limited.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pandas

from idwbench.errors import ConfigError
from idwbench.page.parts import Part
from idwbench.report.frame import Row, metric_names, rows, run_table
from idwbench.report.leaderboard import leaderboard
from idwbench.report.reports import select_runs
from idwbench.report.statistics import mean_order
from idwbench.results.records import RESULT_STATES, StoredRun
from idwbench.results.store import Results
from idwbench.runs.config import RunConfig
from idwbench.runs.metrics import HEADLINES, METRICS

__all__ = ["RunGroup", "best_run", "choose_grid", "choose_runs", "find_groups", "leaderboard_part", "rank_settings"]

_FAILURES = 20  # the most failures that a group shows
_STATES = ("complete", "running", "stale", "planned", "diverged", "failed")
_OF_A_METHOD, _OF_ONE_METHOD = 4, 10  # settings with one number of prototypes
_COUNTS = 4  # numbers of prototypes
_MOST = 80  # settings in all
_MOST_CELLS = 200  # of a heat map


@dataclass(frozen=True)
class RunGroup:
    """The runs of a sweep, or those of a data set that belong to no sweep.

    Attributes:
        title: The name of the sweep, or that of the data set with a word on its runs.
        runs: The table of the runs.
        counts: Number of runs by state; a ``stale`` run has lost its process and is not in ``running``.
        failures: The first failed runs.
    """

    title: str
    description: str
    runs: pandas.DataFrame
    counts: Mapping[str, int]
    failures: tuple[StoredRun, ...] = ()


def find_groups(
    results: Results, name: str | None = None, methods: Collection[str] = (), prototypes: Collection[int] = ()
) -> list[RunGroup]:
    """Return the groups of a database, or that of one sweep or data set.

    Raises:
        ConfigError: unknown name, or no run is left.
    """
    sweeps = {sweep.name: sweep.description for sweep in results.list_sweeps()}
    if name is not None:
        runs = results.run_table(**{"sweep" if name in sweeps else "dataset": name})
        chosen = select_runs(results, name, methods, prototypes).run_key
        return [_group(results, name, sweeps.get(name, ""), runs[runs.run_key.isin(chosen)])]
    tables: list[tuple[str, str | None, pandas.DataFrame]] = [
        (sweep, description, results.run_table(sweep=sweep)) for sweep, description in sweeps.items()
    ]
    in_sweeps = {key for _, _, runs in tables for key in runs.run_key}
    for dataset in results.names()[1]:
        runs = results.run_table(dataset=dataset)
        outside = runs[~runs.run_key.isin(in_sweeps)]
        tables += [] if outside.empty else [(dataset, None, outside)]

    def is_selected(config: RunConfig) -> bool:
        model = config.model
        return (not methods or model.method in methods) and (not prototypes or model.prototypes in prototypes)

    groups = [_group(results, label, words, runs[[*map(is_selected, runs.config)]]) for label, words, runs in tables]
    selected = [group for group in groups if len(group.runs)] if methods or prototypes else groups
    if groups and not selected:
        raise ConfigError("no runs have that method and number of prototypes", location=("method",))
    return selected


def _group(results: Results, name: str, description: str | None, runs: pandas.DataFrame) -> RunGroup:
    """Return a group; that of a data set, outside sweeps, has no description."""
    states = runs.state.mask(runs.stale & (runs.state == "running"), "stale")
    counts = Counter(states.tolist())
    failures = tuple(results.load_runs(runs.run_key[states == "failed"].tolist()[:_FAILURES]))
    title = f"{name}: runs outside sweeps" if description is None else name
    shown = {state: counts[state] for state in _STATES if counts[state]}
    return RunGroup(title, description or "", runs, shown, failures)


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
    return Part("leaderboard", notes=() if tables else tuple(problems), tables=tuple(tables))


def _by_metric(runs: pandas.DataFrame, metric: str | None) -> dict[str, pandas.DataFrame]:
    """Return the runs with a result by the metric that they are compared by: the given one, or that of their task.

    If no run has that of the task, as in studies of patches, it is the first metric that they have.
    """
    runs = runs[runs.state.isin(RESULT_STATES)]
    if metric is not None:
        return {metric: runs} if len(runs) else {}
    headlines = runs.config.map(lambda config: HEADLINES[config.dataset.task].name)
    chosen, order = {}, {name: place for place, name in enumerate(METRICS)}
    for headline, part in runs.groupby(headlines, sort=False):
        names = metric_names(part)
        others = sorted(names.intersection(METRICS), key=lambda name: (not name.startswith("changed_"), order[name]))
        chosen[headline] = headline if headline in names else next(iter(others), headline)
    return {str(name): part for name, part in runs.groupby(headlines.map(chosen), sort=False)}


def rank_settings(runs: pandas.DataFrame) -> list[Row]:
    """Return the settings with complete runs, the best mean of the headline metric first."""
    table = run_table(runs[runs.state == "complete"])
    found = [(row, str(name)) for name, part in table.groupby("headline", sort=False) for row in rows(part, str(name))]
    measured = [(mean_order(next(iter(row.statistics.values())), name), row) for row, name in found if row.statistics]
    return [row for _, row in sorted(measured, key=lambda one: one[0])]


def best_run(row: Row) -> StoredRun:
    """Return the run whose headline metric is best, of several that with the lowest seed."""
    metric, split = HEADLINES[row.config.dataset.task], next(iter(row.statistics))
    sign = -1 if metric.higher_is_better else 1
    measured = [(run.metric(metric.name, split), run) for run in row.complete]
    return min(measured, key=lambda one: (one[0] is None, sign * (one[0] or 0.0), one[1].seed))[1]


def choose_runs(ranked: Sequence[Row]) -> tuple[list[str], list[str]]:
    """Return the keys of runs of the best settings of each method and number of prototypes, and what is left out."""
    models = [setting.model for setting in ranked]
    table = pandas.DataFrame([(one.prototypes, one.method) for one in models], columns=["prototypes", "method"])
    limit = _OF_ONE_METHOD if table.method.nunique() == 1 else _OF_A_METHOD
    place = table.groupby(["prototypes", "method"]).cumcount().sort_values(kind="stable")
    every = sorted(table.prototypes.unique().tolist())
    # The first and the last are among them.
    counts = {every[round(place * (len(every) - 1) / (_COUNTS - 1))] for place in range(_COUNTS if every else 0)}
    kept = [ranked[one] for one in place[place < limit].index if models[one].prototypes in counts][:_MOST]
    words = f"{len(kept):,} of {len(ranked):,} settings: the best of each method and number of prototypes"
    return _keys(kept), [words] if len(kept) < len(ranked) else []


def choose_grid(ranked: Sequence[Row]) -> tuple[list[str], list[str]]:
    """Return the runs of the data set, method and number of prototypes with the most pairs of power and epsilon."""
    grids: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for setting in ranked:
        model = setting.model
        if all(isinstance(model.parameters.get(name), float) for name in ("power", "epsilon")):
            grids[setting.data, model.method, model.prototypes, setting.config.protocol.identity()].append(setting)
    words = f"not drawn: {len(grids) - 1:,} other combinations of data set, method, number of prototypes and protocol"
    return _keys(max(grids.values(), key=len, default=[])[:_MOST_CELLS]), [words] if len(grids) > 1 else []


def _keys(settings: Sequence[Row]) -> list[str]:
    return [key for setting in settings for key in setting.run_keys]
