"""Queries for runs, sweeps, curves and arrays; their number does not depend on the number of runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Row, Select, Text, cast, select

from idwbench.errors import ResultsError, did_you_mean
from idwbench.results.processes import Owner, is_stale
from idwbench.results.records import RUN_STATES, RunState, StoredRun, StoredSweep, SweepStatus
from idwbench.results.rows import STORED_RUN_COLUMNS, chunks, stored_run, unpack_array
from idwbench.results.tables import arrays, curves, metrics, runs, sweep_runs, sweeps
from idwbench.runs.models import MODELS
from idwbench.runs.results import CurvePoint

__all__ = [
    "dataset_labels",
    "find_run",
    "find_runs",
    "list_sweeps",
    "load_arrays",
    "load_curve",
    "load_curves",
    "sweep_status",
]

# The configuration is read as text: it is parsed once, and an error can name the run.
_STORED_RUN = [runs.c.id] + [
    cast(runs.c.config, Text).label("config") if name == "config" else runs.c[name] for name in STORED_RUN_COLUMNS
]
_SHORT = 12


def find_runs(
    connection: Connection,
    dataset: str | None,
    sweep: str | None,
    states: Collection[RunState] | None,
    methods: Collection[str] | None,
) -> list[StoredRun]:
    """Return the runs that meet all conditions, in the order of the sweep or of planning."""
    conditions = [] if dataset is None else [runs.c.dataset == dataset]
    conditions += [column.in_(v) for column, v in ((runs.c.state, states), (runs.c.method, methods)) if v is not None]
    query = select(*_STORED_RUN).where(*conditions)
    ids = select(runs.c.id).where(*conditions)
    if sweep is None:
        return _stored_runs(connection, query.order_by(runs.c.id), ids)
    in_sweep = sweep_runs.c.sweep_id == _sweep_id(connection, sweep)
    query, ids = (q.join(sweep_runs, sweep_runs.c.run_id == runs.c.id).where(in_sweep) for q in (query, ids))
    return _stored_runs(connection, query.order_by(sweep_runs.c.position), ids)


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
    ids = select(runs.c.id).where(runs.c.id == found[0].id)
    return _stored_runs(connection, select(*_STORED_RUN).where(runs.c.id == found[0].id), ids)[0]


def _stored_runs(
    connection: Connection, query: Select[*tuple[Any, ...]], ids: Select[*tuple[Any, ...]]
) -> list[StoredRun]:
    """Return the runs of a query of `_STORED_RUN`, with the metrics of the runs that `ids` selects."""
    measured: dict[int, dict[tuple[str, str], float]] = {}
    values = select(metrics.c.run_id, metrics.c.split, metrics.c.name, metrics.c.value)
    for run_id, split, name, value in connection.execute(values.where(metrics.c.run_id.in_(ids))):
        measured.setdefault(run_id, {})[split, name] = value
    return [stored_run(row, measured.get(run_id, {})) for run_id, *row in connection.execute(query)]


def load_curve(connection: Connection, run_key: str) -> list[CurvePoint]:
    """Return the learning curve of a run; values that were not finite are NaN."""
    query = select(curves.c.epoch, curves.c.split, curves.c.name, curves.c.value)
    points: dict[int, dict[tuple[str, str], float]] = {}
    found = connection.execute(query.where(curves.c.run_id == _run(connection, run_key).id).order_by(curves.c.epoch))
    for epoch, split, name, value in found:
        points.setdefault(epoch, {})[split, name] = math.nan if value is None else value
    return [CurvePoint(epoch, values) for epoch, values in points.items()]


def load_curves(connection: Connection, run_keys: Sequence[str]) -> dict[str, list[CurvePoint]]:
    """Return the learning curves of runs by key, in a query for every 900 runs."""
    query = select(runs.c.run_key, curves.c.epoch, curves.c.split, curves.c.name, curves.c.value)
    query = query.join(curves, curves.c.run_id == runs.c.id).order_by(runs.c.id, curves.c.epoch)
    points: dict[str, dict[int, dict[tuple[str, str], float]]] = {key: {} for key in run_keys}
    for part in chunks(list(points)):
        for key, epoch, split, name, value in connection.execute(query.where(runs.c.run_key.in_(part))):
            points[key].setdefault(epoch, {})[split, name] = math.nan if value is None else value
    return {key: [CurvePoint(epoch, values) for epoch, values in found.items()] for key, found in points.items()}


def load_arrays(connection: Connection, run_key: str) -> dict[str, NDArray[np.generic]]:
    """Return the arrays of a run by name."""
    run = _run(connection, run_key)
    query = select(arrays.c.name, arrays.c.data).where(arrays.c.run_id == run.id).order_by(arrays.c.name)
    try:
        found = {name: unpack_array(name, data) for name, data in connection.execute(query)}
    except ResultsError as error:
        raise ResultsError(f"run {run_key[:_SHORT]}: {error.problem}") from None
    required: Sequence[str] = MODELS[run.model].array_names if run.model in MODELS else ()
    missing = [name for name in required if name not in found]
    if run.state == "complete" and missing:
        problem = f"run {run_key[:_SHORT]} is complete, but the database lacks its {' and '.join(missing)}"
        raise ResultsError(problem, hint="train it again")
    return found


def sweep_status(connection: Connection, name: str) -> SweepStatus:
    """Return how many runs of a sweep are in each state."""
    query = select(runs.c.state, runs.c.host, runs.c.pid, runs.c.heartbeat_at)
    query = query.join(sweep_runs, sweep_runs.c.run_id == runs.c.id)
    found = connection.execute(query.where(sweep_runs.c.sweep_id == _sweep_id(connection, name))).all()
    observer, now = Owner.current(), datetime.now(UTC)
    counts = Counter(_state(row, observer, now) for row in found)
    return SweepStatus(total=len(found), **{state: counts[state] for state in ("stale", *RUN_STATES)})


def list_sweeps(connection: Connection) -> list[StoredSweep]:
    """Return all sweeps by name."""
    query = select(sweeps.c.name, sweeps.c.description, sweeps.c.spec, sweeps.c.created_at, sweeps.c.updated_at)
    return [StoredSweep(*row) for row in connection.execute(query.order_by(sweeps.c.name))]


def dataset_labels(connection: Connection) -> list[str]:
    """Return the labels of the data sets of all runs, sorted."""
    return list(connection.execute(select(runs.c.dataset).distinct().order_by(runs.c.dataset)).scalars())


def _state(row: Row[*tuple[Any, ...]], observer: Owner, now: datetime) -> str:
    if row.state == "running" and is_stale(row.host, row.pid, row.heartbeat_at, observer=observer, now=now):
        return "stale"
    return str(row.state)


def _sweep_id(connection: Connection, name: str) -> int:
    ids = {found: sweep_id for sweep_id, found in connection.execute(select(sweeps.c.id, sweeps.c.name))}
    if name not in ids:
        raise ResultsError(f"no sweep '{name}' is stored", hint=did_you_mean(name, ids))
    return int(ids[name])


def _run(connection: Connection, run_key: str) -> Row[*tuple[Any, ...]]:
    """Return id, state and model of the run with that key."""
    query = select(runs.c.id, runs.c.state, runs.c.model).where(runs.c.run_key == run_key)
    found = connection.execute(query).one_or_none()
    if found is None:
        raise ResultsError(f"no run has the key '{run_key}'")
    return found
