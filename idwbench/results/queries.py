"""Queries for sweeps, curves and arrays; their number does not depend on the number of runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, Select, func, select

from idwbench.errors import ResultsError, did_you_mean
from idwbench.results.processes import Owner, is_stale
from idwbench.results.records import RUN_STATES, StoredSweep, SweepStatus
from idwbench.results.rows import chunks, unpack_array
from idwbench.results.tables import arrays, curves, diffs, runs, sweep_runs, sweeps
from idwbench.runs.kinds.models import MODELS
from idwbench.runs.results import CurvePoint

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "dataset_labels",
    "list_sweeps",
    "load_arrays",
    "load_changes",
    "load_curve",
    "load_curves",
    "plain_rows",
    "run_row",
    "sweep_id",
    "sweep_status",
]

_SHORT = 12
_CURVE_ORDER = (curves.c.epoch, curves.c.split, curves.c.name)


def load_curve(connection: Connection, run_key: str) -> list[CurvePoint]:
    """Return the learning curve of a run; values that were not finite are NaN."""
    query = select(curves.c.epoch, curves.c.split, curves.c.name, curves.c.value)
    points: dict[int, dict[tuple[str, str], float]] = {}
    found = connection.execute(query.where(curves.c.run_id == run_row(connection, run_key).id).order_by(*_CURVE_ORDER))
    for epoch, split, name, value in found:
        points.setdefault(epoch, {})[split, name] = math.nan if value is None else value
    return [CurvePoint(epoch, values) for epoch, values in points.items()]


def load_curves(connection: Connection, run_keys: Sequence[str]) -> dict[str, list[CurvePoint]]:
    """Return the learning curves of runs by key, in a query for every 900 runs."""
    query = select(runs.c.run_key, curves.c.epoch, curves.c.split, curves.c.name, curves.c.value)
    query = query.join(curves, curves.c.run_id == runs.c.id).order_by(runs.c.id, *_CURVE_ORDER)
    points: dict[str, dict[int, dict[tuple[str, str], float]]] = {key: {} for key in run_keys}
    for part in chunks(list(points)):
        for key, epoch, split, name, value in connection.execute(query.where(runs.c.run_key.in_(part))):
            points[key].setdefault(epoch, {})[split, name] = math.nan if value is None else value
    return {key: [CurvePoint(epoch, values) for epoch, values in found.items()] for key, found in points.items()}


def load_arrays(connection: Connection, run_key: str) -> dict[str, NDArray[np.generic]]:
    """Return the arrays of a run by name."""
    run = run_row(connection, run_key)
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


def load_changes(connection: Connection, run_key: str) -> str | None:
    """Return how the checkout that trained a run differed from its commit."""
    git = connection.execute(select(runs.c.git).where(runs.c.id == run_row(connection, run_key).id)).scalar_one()
    query = select(diffs.c.content).where(diffs.c.sha256 == (git or {}).get("diff", ""))
    return connection.execute(query).scalar_one_or_none()


def sweep_status(connection: Connection, name: str) -> SweepStatus:
    """Return how many runs of a sweep are in each state."""
    in_sweep = sweep_runs.c.sweep_id == sweep_id(connection, name)
    planned = runs.join(sweep_runs, sweep_runs.c.run_id == runs.c.id)
    counted = select(runs.c.state, func.count()).select_from(planned).where(in_sweep).group_by(runs.c.state)
    counts = Counter({state: n for state, n in connection.execute(counted)})
    if counts["running"]:
        leased = select(runs.c.host, runs.c.pid, runs.c.heartbeat_at).select_from(planned)
        observer, now = Owner.current(), datetime.now(UTC)
        for row in connection.execute(leased.where(in_sweep, runs.c.state == "running")):
            if is_stale(*row, observer=observer, now=now):
                counts.update({"running": -1, "stale": 1})
    return SweepStatus(total=counts.total(), **{state: counts[state] for state in ("stale", *RUN_STATES)})


def list_sweeps(connection: Connection) -> list[StoredSweep]:
    """Return all sweeps by name."""
    query = select(sweeps.c.name, sweeps.c.description, sweeps.c.spec, sweeps.c.created_at, sweeps.c.updated_at)
    return [StoredSweep(*row) for row in connection.execute(query.order_by(sweeps.c.name))]


def dataset_labels(connection: Connection) -> list[str]:
    """Return the labels of the data sets of all runs, sorted."""
    return list(connection.execute(select(runs.c.dataset).distinct().order_by(runs.c.dataset)).scalars())


def sweep_id(connection: Connection, name: str) -> int:
    """Return the number of a sweep; raises `ResultsError` if none has that name."""
    ids = {found: sweep_id for sweep_id, found in connection.execute(select(sweeps.c.id, sweeps.c.name))}
    if name not in ids:
        raise ResultsError(f"no sweep '{name}' is stored", hint=did_you_mean(name, ids))
    return int(ids[name])


def run_row(connection: Connection, run_key: str) -> Row[*tuple[Any, ...]]:
    """Return id, state and model of the run with that key."""
    query = select(runs.c.id, runs.c.state, runs.c.model).where(runs.c.run_key == run_key)
    found = connection.execute(query).one_or_none()
    if found is None:
        raise ResultsError(f"no run has the key '{run_key}'")
    return found


def plain_rows(connection: Connection, query: Select[*tuple[Any, ...]]) -> Iterable[Any]:
    """Return the rows of texts and numbers as the driver gives them, which is faster."""
    cursor: Any = connection.execute(query).cursor
    rows: Iterable[Any] = cursor
    return rows
