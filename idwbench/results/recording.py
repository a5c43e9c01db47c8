"""Storage of results: states, metrics, curves and arrays of many runs in one transaction."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

import numpy as np
from sqlalchemy import Connection, Row, Table, bindparam, delete, insert, select, update

from idwbench.results.leases import Reopened, is_reopened
from idwbench.results.planning import plan_runs
from idwbench.results.processes import Owner
from idwbench.results.provenance import cpu_model
from idwbench.results.records import RESULT_STATES
from idwbench.results.rows import chunks, pack_array, package_versions
from idwbench.results.tables import arrays, curves, metrics, runs
from idwbench.runs.metrics import Metrics
from idwbench.runs.results import RunResult

__all__ = ["add_metrics", "finish_runs"]


def finish_runs(
    connection: Connection,
    results: Sequence[RunResult],
    data_sha256: str | None,
    git: Mapping[str, Any] | None,
    reopened: Reopened,
) -> list[str]:
    """Write the results of runs that have none or are reopened; return their keys in order."""
    by_key = {result.config.run_key: result for result in results}
    stored = _stored_rows(connection, list(by_key))
    missing = [result.config for key, result in by_key.items() if key not in stored]
    if missing:
        plan_runs(connection, missing)
        stored = _stored_rows(connection, list(by_key))
    rows = [stored[key] for key in by_key]
    rows = [row for row in rows if row.state not in RESULT_STATES or is_reopened(row, reopened)]
    if rows:
        owner = Owner.current()
        common = {
            "data_sha256": data_sha256,
            "git": git,
            "versions": package_versions(),
            "host": owner.host,
            "pid": owner.pid,
            "finished_at": datetime.now(UTC),
        }
        # A run that is trained again has kept its old result.
        _delete(connection, [row.id for row in rows if {row.state, row.previous_state} & set(RESULT_STATES)])
        _write(connection, {row.id: by_key[row.run_key] for row in rows}, common)
    return [row.run_key for row in rows]


def add_metrics(connection: Connection, found: Mapping[str, Metrics]) -> None:
    """Add finite metrics that complete runs do not have yet, by run key."""
    ids = {key: row.id for key, row in _stored_rows(connection, list(found)).items() if row.state == "complete"}
    known: set[tuple[Any, ...]] = set()
    for some in chunks(list(ids.values())):
        query = select(metrics.c.run_id, metrics.c.split, metrics.c.name).where(metrics.c.run_id.in_(some))
        known.update(tuple(row) for row in connection.execute(query))
    rows = [(ids[key], *name, float(v)) for key in ids for name, v in found[key].items() if math.isfinite(v)]
    _insert(connection, metrics, [row for row in rows if row[:3] not in known])


def _stored_rows(connection: Connection, run_keys: Sequence[str]) -> dict[str, Row[*tuple[Any, ...]]]:
    """Return id, state, previous state and end of the stored runs by key; the rows stay locked."""
    query = select(runs.c.run_key, runs.c.id, runs.c.state, runs.c.previous_state, runs.c.finished_at)
    query = query.order_by(runs.c.id).with_for_update()
    return {
        row.run_key: row
        for keys in chunks(run_keys)
        for row in connection.execute(query.where(runs.c.run_key.in_(keys)))
    }


def _delete(connection: Connection, run_ids: Sequence[int]) -> None:
    for ids in chunks(run_ids):
        for table in (metrics, curves, arrays):
            connection.execute(delete(table).where(table.c.run_id.in_(ids)))


def _write(connection: Connection, results: Mapping[int, RunResult], common: dict[str, Any]) -> None:
    for ids in chunks(list(results)):
        connection.execute(update(runs).where(runs.c.id.in_(ids)).values(common))
    rows = [{"row": run_id, **_outcome(result)} for run_id, result in results.items()]
    connection.execute(update(runs).where(runs.c.id == bindparam("row")), rows)
    measured = [(i, *key, float(v)) for i, run in results.items() for key, v in run.metrics.items() if math.isfinite(v)]
    _insert(connection, metrics, measured)
    _insert(connection, curves, [row for item in results.items() for row in _curve_rows(*item)])
    if packed := [row for item in results.items() for row in _array_rows(*item)]:
        connection.execute(insert(arrays), packed)


def _insert(connection: Connection, table: Table, rows: list[tuple[Any, ...]]) -> None:
    """Insert rows of numbers and text with the driver, in half the time of SQLAlchemy's insert, which converts them."""
    if rows:
        marks = ", ".join(["?" if connection.dialect.name == "sqlite" else "%s"] * len(table.columns))
        names = ", ".join(table.columns.keys())
        connection.exec_driver_sql(f"INSERT INTO {table.name} ({names}) VALUES ({marks})", rows)


def _outcome(result: RunResult) -> dict[str, Any]:
    diverged = result.state == "diverged"
    return {
        "state": result.state,
        "previous_state": None,
        "n_parameters": result.n_parameters,
        "diverged_epoch": result.diverged_epoch,
        "error": f"not finite after epoch {result.diverged_epoch}" if diverged else None,
        "engine": result.engine,
        "device": result.device,
        "threads": result.threads,
        "cpu": {"model": cpu_model(), "instruction_set": result.instruction_set},
        "seconds": result.seconds,
    }


def _curve_rows(run_id: int, result: RunResult) -> list[tuple[Any, ...]]:
    return [
        (run_id, point.epoch, *key, float(value) if math.isfinite(value) else None)
        for point in result.curve
        for key, value in point.values.items()
    ]


@cache
def _dtype_name(dtype: np.dtype[Any]) -> str:
    return str(dtype)  # cached, since it takes longer than the insert


def _array_rows(run_id: int, result: RunResult) -> list[dict[str, Any]]:
    return [
        {
            "run_id": run_id,
            "name": name,
            "dtype": _dtype_name(array.dtype),
            "shape": list(array.shape),
            "data": pack_array(name, array),
        }
        for name, array in result.arrays.items()
    ]
