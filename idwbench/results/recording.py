"""Writing what came of runs: states, metrics, curves and tensors of many in one transaction."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from idwbench.results.claims import Reopened, is_reopened
from idwbench.results.models import curves, runs, tensors
from idwbench.results.ownership import Owner
from idwbench.results.planning import plan_runs
from idwbench.results.records import RESULT_STATES, FinishedRun
from idwbench.results.rows import chunks, package_versions
from idwbench.results.tensors import TENSOR_NAMES, pack_tensor

__all__ = ["finish_runs"]


def finish_runs(
    connection: Connection,
    results: Sequence[FinishedRun],
    data_sha256: str | None,
    git: Mapping[str, Any] | None,
    reopened: Reopened,
) -> list[str]:
    """Write results of runs that are not complete or diverged yet, or reopened, and return their keys in order."""
    by_key = {result.config.run_key: result for result in results}
    ids = _open_ids(connection, list(by_key), reopened)
    missing = [result.config for key, result in by_key.items() if key not in ids]
    if missing:
        plan_runs(connection, missing)
        ids = _open_ids(connection, list(by_key), reopened)
    writable = {run_id: by_key[key] for key, run_id in ids.items() if run_id is not None}
    if writable:
        owner = Owner.current()
        common = {
            "data_sha256": data_sha256,
            "git": git,
            "versions": package_versions(),
            "host": owner.host,
            "pid": owner.pid,
        }
        _write(connection, writable, common)
    return [key for key in by_key if ids[key] is not None]


def _open_ids(connection: Connection, run_keys: Sequence[str], reopened: Reopened) -> dict[str, int | None]:
    """Return the ids of the runs that are there, None for those that have their result."""
    ids = {}
    for keys in chunks(run_keys):
        query = select(runs.c.run_key, runs.c.id, runs.c.state, runs.c.finished_at).where(runs.c.run_key.in_(keys))
        for row in connection.execute(query.order_by(runs.c.id).with_for_update()):
            is_open = row.state not in RESULT_STATES or is_reopened(row, reopened)
            ids[row.run_key] = row.id if is_open else None
    return ids


def _write(connection: Connection, results: Mapping[int, FinishedRun], common: dict[str, Any]) -> None:
    now = datetime.now(UTC)
    rows = [{"row": run_id, **_metrics(result), **common, "finished_at": now} for run_id, result in results.items()]
    # A run that is trained again keeps what it had until here.
    for table in (curves, tensors):
        connection.execute(delete(table).where(table.c.run_id == bindparam("row")), [{"row": i} for i in results])
    connection.execute(update(runs).where(runs.c.id == bindparam("row")), rows)
    points = [row for run_id, result in results.items() for row in _curve_rows(run_id, result)]
    if points:
        connection.execute(insert(curves), points)
    arrays = [row for run_id, result in results.items() for row in _tensor_rows(run_id, result)]
    if arrays:
        connection.execute(insert(tensors), arrays)


def _metrics(result: FinishedRun) -> dict[str, Any]:
    diverged = result.state == "diverged"
    return {
        "state": result.state,
        "previous_state": None,
        "train_accuracy": result.train_accuracy,
        "test_accuracy": result.test_accuracy,
        "holdout_accuracy": result.holdout_accuracy,
        "n_features": None if result.keys is None else result.keys.shape[1],
        "n_classes": None if result.values is None else result.values.shape[1],
        "diverged_epoch": result.diverged_epoch,
        "error": f"not finite after epoch {result.diverged_epoch}" if diverged else None,
        "engine": result.engine,
        "device": result.device,
        "threads": result.threads,
        "seconds": result.seconds,
    }


def _curve_rows(run_id: int, result: FinishedRun) -> list[dict[str, Any]]:
    return [
        {
            "run_id": run_id,
            "epoch": point.epoch,
            "learning_rate": point.learning_rate,
            "train_loss": point.train_loss if math.isfinite(point.train_loss) else None,
            "test_accuracy": point.test_accuracy,
        }
        for point in result.curve
    ]


def _tensor_rows(run_id: int, result: FinishedRun) -> list[dict[str, Any]]:
    return [
        {
            "run_id": run_id,
            "name": name,
            "dtype": str(array.dtype),
            "shape": list(array.shape),
            "data": pack_tensor(name, array),
        }
        for name, array in zip(TENSOR_NAMES, (result.keys, result.values), strict=True)
        if array is not None
    ]
