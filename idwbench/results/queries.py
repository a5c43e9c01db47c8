"""Reading runs, sweeps, curves and tensors, each with a number of queries that does not grow with the runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Row, Text, cast, select

from idwbench.errors import ResultsError, did_you_mean
from idwbench.results.models import curves, runs, sweep_runs, sweeps, tensors
from idwbench.results.ownership import Owner, is_stale
from idwbench.results.records import CurvePoint, RunState, StoredRun, StoredSweep, SweepStatus
from idwbench.results.rows import STORED_RUN_COLUMNS, stored_run
from idwbench.results.tensors import TENSOR_NAMES, unpack_tensor

__all__ = [
    "dataset_labels",
    "find_run",
    "find_runs",
    "list_sweeps",
    "load_curve",
    "load_tensors",
    "sweep_status",
]

# The configuration as text: a damaged one is then told with its run, and parsed once.
_STORED_RUN = [
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
    """Return the runs that meet all conditions, in the order of the sweep or else of planning."""
    query = select(*_STORED_RUN)
    if sweep is None:
        query = query.order_by(runs.c.id)
    else:
        sweep_id = _sweep_id(connection, sweep)
        query = query.join(sweep_runs, sweep_runs.c.run_id == runs.c.id)
        query = query.where(sweep_runs.c.sweep_id == sweep_id).order_by(sweep_runs.c.position)
    if dataset is not None:
        query = query.where(runs.c.dataset == dataset)
    if states is not None:
        query = query.where(runs.c.state.in_(states))
    if methods is not None:
        query = query.where(runs.c.method.in_(methods))
    return [stored_run(row) for row in connection.execute(query)]


def find_run(connection: Connection, run_key: str) -> StoredRun:
    """Return the run whose key begins with `run_key`."""
    beginning = run_key.strip().lower()
    query = select(*_STORED_RUN).where(runs.c.run_key.startswith(beginning, autoescape=True))
    found = connection.execute(query.order_by(runs.c.run_key).limit(3)).all() if beginning else []
    if not found:
        raise ResultsError(f"no run has a key that begins with '{run_key}'")
    if len(found) > 1:
        some = ", ".join(row.run_key[:_SHORT] for row in found)
        raise ResultsError(f"several runs have a key that begins with '{run_key}' ({some}, …): give more of it")
    return stored_run(found[0])


def load_curve(connection: Connection, run_key: str) -> list[CurvePoint]:
    """Return the learning curve of a run, by epoch."""
    query = select(curves.c.epoch, curves.c.learning_rate, curves.c.train_loss, curves.c.test_accuracy)
    query = query.where(curves.c.run_id == _run(connection, run_key)[0]).order_by(curves.c.epoch)
    return [
        CurvePoint(epoch, rate, math.nan if loss is None else loss, accuracy)
        for epoch, rate, loss, accuracy in connection.execute(query)
    ]


def load_tensors(connection: Connection, run_key: str) -> dict[str, NDArray[np.generic]]:
    """Return the arrays of a run by name; a complete run has all of them."""
    run_id, state = _run(connection, run_key)
    query = select(tensors.c.name, tensors.c.data).where(tensors.c.run_id == run_id).order_by(tensors.c.name)
    try:
        arrays = {name: unpack_tensor(name, data) for name, data in connection.execute(query)}
    except ResultsError as error:
        raise ResultsError(f"run {run_key[:_SHORT]}: {error}") from None
    missing = [name for name in TENSOR_NAMES if name not in arrays]
    if state == "complete" and missing:
        names = " and ".join(missing)
        raise ResultsError(f"run {run_key[:_SHORT]} is complete, but the database lacks its {names}: train it again")
    return arrays


def sweep_status(connection: Connection, name: str) -> SweepStatus:
    """Return how many runs of a sweep are in each state."""
    query = select(runs.c.state, runs.c.host, runs.c.pid, runs.c.heartbeat_at)
    query = query.join(sweep_runs, sweep_runs.c.run_id == runs.c.id)
    found = connection.execute(query.where(sweep_runs.c.sweep_id == _sweep_id(connection, name))).all()
    observer, now = Owner.current(), datetime.now(UTC)
    counts = Counter(_state(row, observer, now) for row in found)
    return SweepStatus(
        total=len(found),
        planned=counts["planned"],
        running=counts["running"],
        stale=counts["stale"],
        complete=counts["complete"],
        diverged=counts["diverged"],
        failed=counts["failed"],
    )


def list_sweeps(connection: Connection) -> list[StoredSweep]:
    """Return all sweeps by name."""
    query = select(sweeps.c.name, sweeps.c.description, sweeps.c.spec, sweeps.c.created_at, sweeps.c.updated_at)
    return [StoredSweep(*row) for row in connection.execute(query.order_by(sweeps.c.name))]


def dataset_labels(connection: Connection) -> list[str]:
    """Return the labels of all data sets that runs were planned on, sorted."""
    return list(connection.execute(select(runs.c.dataset).distinct().order_by(runs.c.dataset)).scalars())


def _state(row: Row[*tuple[Any, ...]], observer: Owner, now: datetime) -> str:
    if row.state == "running" and is_stale(row.host, row.pid, row.heartbeat_at, observer=observer, now=now):
        return "stale"
    return str(row.state)


def _sweep_id(connection: Connection, name: str) -> int:
    ids = {found: sweep_id for sweep_id, found in connection.execute(select(sweeps.c.id, sweeps.c.name))}
    if name not in ids:
        raise ResultsError(f"no sweep '{name}' is stored" + did_you_mean(name, ids))
    return int(ids[name])


def _run(connection: Connection, run_key: str) -> tuple[int, str]:
    """Return the id and the state of the run with that key."""
    found = connection.execute(select(runs.c.id, runs.c.state).where(runs.c.run_key == run_key)).one_or_none()
    if found is None:
        raise ResultsError(f"no run has the key '{run_key}'")
    return found.id, found.state
