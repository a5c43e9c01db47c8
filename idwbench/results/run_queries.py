"""Queries for runs with their metrics; their number does not depend on the number of runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, Text, and_, case, cast, select

from idwbench.errors import ResultsError
from idwbench.results.configurations import Configurations
from idwbench.results.garbage import paused_collection
from idwbench.results.queries import plain_rows, sweep_id
from idwbench.results.records import RESULT_STATES, MeasuredRun, RunState, StoredRun
from idwbench.results.rows import STORED_RUN_QUERY, StoredRunReader, chunks
from idwbench.results.tables import checked_number, metrics, runs, sweep_runs
from idwbench.runs.metrics import QUALITY_METRICS, SPLITS, headline_metric

__all__ = ["find_reported_runs", "find_run", "find_runs", "load_runs"]

# The state of the result: a run that is trained again keeps its result until a new one replaces it.
_RESULT_STATE = case(
    (and_(runs.c.state == "running", runs.c.previous_state.in_(RESULT_STATES)), runs.c.previous_state),
    else_=runs.c.state,
)
_REPORTED_RUN_QUERY = select(
    *(runs.c.run_key, cast(runs.c.config, Text), runs.c.seed, runs.c.dataset, _RESULT_STATE, runs.c.n_parameters)
)
_SHORT = 12
_AT_ONCE = 5_000

# Kinds of runs whose metrics are on the splits of their data alone.
_ON_SPLITS = {"prototypes", "baseline"}

_Values = dict[tuple[str, str], float]


@paused_collection()
def find_runs(
    connection: Connection,
    dataset: str | None,
    sweep: str | None,
    states: Collection[RunState] | None,
    methods: Collection[str] | None,
) -> list[StoredRun]:
    """Return the runs that meet all conditions, in the order of the sweep or of planning."""
    conditions = [column.in_(v) for column, v in ((_RESULT_STATE, states), (runs.c.method, methods)) if v is not None]
    return _stored_runs(connection, _selection(connection, STORED_RUN_QUERY, dataset, sweep, conditions))


def find_run(connection: Connection, run_key: str) -> StoredRun:
    """Return the run whose key starts with `run_key`."""
    beginning = run_key.strip().lower()
    begins_so = runs.c.run_key.startswith(beginning, autoescape=True)
    query = select(runs.c.id, runs.c.run_key).where(begins_so).order_by(runs.c.run_key).limit(3)
    found = connection.execute(query).all() if beginning else []
    if not found:
        raise ResultsError(f"no run has a key that begins with '{run_key}'")
    if len(found) > 1:
        some = ", ".join(row.run_key[:_SHORT] for row in found)
        problem = f"several runs have a key that begins with '{run_key}' ({some}, …)"
        raise ResultsError(problem, hint="give more of the key")
    selection = _selection(connection, STORED_RUN_QUERY, None, None, [runs.c.id == found[0].id])
    return _stored_runs(connection, selection)[0]


def load_runs(connection: Connection, run_keys: Sequence[str]) -> list[StoredRun]:
    """Return the runs with these keys, in their order."""
    found: dict[str, StoredRun] = {}
    for part in chunks(run_keys):
        selection = _selection(connection, STORED_RUN_QUERY, None, None, [runs.c.run_key.in_(part)])
        found.update((run.run_key, run) for run in _stored_runs(connection, selection))
    for key in run_keys:
        if key not in found:
            raise ResultsError(f"no run has the key '{key}'")
    return [found[key] for key in run_keys]


@paused_collection()
def find_reported_runs(
    connection: Connection, dataset: str | None, sweep: str | None, metric: str | None
) -> list[MeasuredRun]:
    """Return what reports need of the runs of a data set or sweep, in the order of the sweep or of planning.

    Read are `metric` and the headline metrics. Runs of kinds without them have all their metrics, for messages.
    """
    query, ids, order = _selection(connection, _REPORTED_RUN_QUERY, dataset, sweep, [])
    setting_of, found = Configurations().setting, []
    by_id: dict[int, _Values] = {}
    for key, text, seed, label, state, n_parameters, run_id in plain_rows(connection, query):
        measured: _Values = {}
        by_id[run_id] = measured
        found.append(MeasuredRun(key, setting_of(key, text, seed), seed, label, state, measured, n_parameters))
    settings = {id(run.setting): run.setting for run in found}.values()
    headlines = {task: headline_metric(task).name for task in {setting.dataset.task for setting in settings}}
    # The coverage of a run tells whether its quality was measured.
    names = {*headlines.values(), *([] if metric is None else [metric])}
    names |= {"coverage"} if metric in QUALITY_METRICS else set()
    _read_splits(connection, by_id.values(), ids, order, [(split, name) for split in SPLITS for name in sorted(names)])
    if {setting.model.kind for setting in settings} - _ON_SPLITS:
        others = metrics.c.name.in_(sorted(names)), metrics.c.split.not_in(SPLITS)
        _read_metrics(connection, by_id, metrics.c.run_id.in_(ids), *others)
    without = {run.setting.model.kind for run in found if _lacks(run, metric or headlines[run.setting.dataset.task])}
    if without:
        of_kinds = select(runs.c.id).where(runs.c.model.in_(sorted(without)))
        _read_metrics(connection, by_id, metrics.c.run_id.in_(ids), metrics.c.run_id.in_(of_kinds))
    return found


def _lacks(run: MeasuredRun, metric: str) -> bool:
    return run.state == "complete" and ("test", metric) not in run.metrics and metric not in {n for _, n in run.metrics}


def _read_splits(
    connection: Connection,
    measured: Collection[_Values],
    ids: Select[*tuple[Any, ...]],
    order: ColumnElement[int],
    pairs: Sequence[tuple[str, str]],
) -> None:
    """Add metrics to the mappings of runs, which are in `order`: a row for each run, a column for each of `pairs`."""
    (run_id,) = ids.selected_columns
    columns = [
        select(metrics.c.value)
        .where(metrics.c.run_id == run_id, metrics.c.split == split, metrics.c.name == name)
        .scalar_subquery()
        for split, name in pairs
    ]
    query = ids.with_only_columns(*columns, maintain_column_froms=True).order_by(order)
    for pair, column in zip(pairs, zip(*plain_rows(connection, query), strict=True), strict=False):
        if not {*map(type, column)} <= {float, type(None)}:
            column = tuple(map(checked_number, column))
        for values, value in zip(measured, column, strict=True):
            if value is not None:
                values[pair] = value


class _Selection(NamedTuple):
    """A query of runs with their ID in order, a query of the IDs alone, and the column that orders them."""

    query: Select[*tuple[Any, ...]]
    ids: Select[*tuple[Any, ...]]
    order: ColumnElement[int]


def _selection(
    connection: Connection,
    query: Select[*tuple[Any, ...]],
    dataset: str | None,
    sweep: str | None,
    conditions: Sequence[ColumnElement[bool]],
) -> _Selection:
    """Return the selection of the runs that meet all conditions; `query` gets the ID as its last column."""
    conditions = [*conditions, *([] if dataset is None else [runs.c.dataset == dataset])]
    query, ids = query.add_columns(runs.c.id).where(*conditions), select(runs.c.id).where(*conditions)
    if sweep is None:
        return _Selection(query.order_by(runs.c.id), ids, runs.c.id)
    in_sweep = sweep_runs.c.sweep_id == sweep_id(connection, sweep)
    query, ids = (one.join(sweep_runs, sweep_runs.c.run_id == runs.c.id).where(in_sweep) for one in (query, ids))
    alone = ids if conditions else select(sweep_runs.c.run_id).where(in_sweep)
    return _Selection(query.order_by(sweep_runs.c.position), alone, sweep_runs.c.position)


def _stored_runs(connection: Connection, selection: _Selection) -> list[StoredRun]:
    """Return the runs of a selection of `STORED_RUN_QUERY` with all their metrics."""
    values: dict[int, _Values] = {}
    reader, found = StoredRunReader(), []
    for part in connection.execute(selection.query).partitions(_AT_ONCE):
        for *row, run_id in part:
            measured: _Values = {}
            values[run_id] = measured
            found.append(reader.run(row, measured))
    _read_metrics(connection, values, metrics.c.run_id.in_(selection.ids))
    return found


def _read_metrics(connection: Connection, values: Mapping[int, _Values], *conditions: ColumnElement[bool]) -> None:
    """Add the metrics that meet the conditions to the mappings in `values`, by ID of the run."""
    query = select(metrics.c.run_id, metrics.c.split, metrics.c.name, metrics.c.value).where(*conditions)
    names: dict[tuple[str, str], tuple[str, str]] = {}  # one object for all runs
    for run_id, split, name, value in plain_rows(connection, query):
        if value.__class__ is not float:
            value = checked_number(value)
        pair = (split, name)
        values[run_id][names.setdefault(pair, pair)] = value
