"""Storage of results: states, metrics, curves and arrays of many runs in one transaction."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, delete, select, update

from idwbench.errors import ConfigError, ResultsError
from idwbench.results.contents import pack_array
from idwbench.results.leases import Reopened, is_reopened
from idwbench.results.planning import plan_runs
from idwbench.results.provenance import Provenance
from idwbench.results.reading import attempt_of
from idwbench.results.records import RESULT_STATES
from idwbench.results.statements import chunks, insert_rows
from idwbench.results.tables import arrays, curves, metrics, runs
from idwbench.runs.metrics import Metrics
from idwbench.runs.results import RunResult

if TYPE_CHECKING:
    import numpy as np

__all__ = ["add_metrics", "finish_runs", "note_runs", "tag_runs"]


def finish_runs(
    connection: Connection,
    results: Sequence[RunResult],
    data_sha256: str | None,
    provenance: Provenance,
    reopened: Reopened,
) -> list[str]:
    """Write the results of runs that have none or are reopened; return their keys in order.

    `provenance` is that of the process that trained, which need not be this one, which holds the leases.
    """
    by_key = {result.config.run_key: result for result in results}
    stored = _stored_rows(connection, list(by_key))
    missing = [result.config for key, result in by_key.items() if key not in stored]
    if missing:
        plan_runs(connection, missing)
        stored = _stored_rows(connection, list(by_key))
    rows = [stored[key] for key in by_key]
    rows = [row for row in rows if row.state not in RESULT_STATES or is_reopened(row, reopened)]
    if rows:
        common = {
            "data_sha256": data_sha256,
            "git": provenance["git"],
            "versions": provenance["versions"],
            "platform": provenance["platform"],
            "host": provenance["host"],
            "pid": provenance["pid"],
            "finished_at": datetime.now(UTC),
        }
        # A run that is trained again has kept its old result.
        _delete(connection, [row.id for row in rows if {row.state, row.previous_state} & set(RESULT_STATES)])
        written = {row.id: by_key[row.run_key] for row in rows}
        # A result without a lease was started, too.
        attempts = {row.id: attempt_of(row) + (row.state != "running") for row in rows}
        _write(connection, written, common, attempts, provenance["cpu"])
    return [row.run_key for row in rows]


def add_metrics(connection: Connection, found: Mapping[str, Metrics]) -> None:
    """Add finite metrics that complete runs do not have yet, by run key."""
    ids = {key: row.id for key, row in _stored_rows(connection, list(found)).items() if row.state == "complete"}
    known: set[tuple[Any, ...]] = set()
    for some in chunks(list(ids.values())):
        query = select(metrics.c.run_id, metrics.c.split, metrics.c.name).where(metrics.c.run_id.in_(some))
        known.update(tuple(row) for row in connection.execute(query))
    rows = [(ids[key], *name, float(v)) for key in ids for name, v in found[key].items() if math.isfinite(v)]
    insert_rows(connection, metrics, [row for row in rows if row[:3] not in known])


def tag_runs(connection: Connection, run_keys: Sequence[str], tag: str, remove: bool) -> None:
    """Give runs a tag, or take it from them."""
    word = tag.strip()
    if not word or "," in word or not word.isprintable():
        raise ConfigError("a tag is a text without commas", location=("tag",))
    stored = _stored_rows(connection, run_keys)
    _check_keys(run_keys, stored)
    for row in stored.values():
        others = [one for one in (row.tags or "").split(", ") if one and one != word]
        tags = ", ".join(sorted([*others, *([] if remove else [word])])) or None
        connection.execute(update(runs).where(runs.c.id == row.id).values(tags=tags))


def note_runs(connection: Connection, run_keys: Sequence[str], text: str) -> None:
    """Replace the note of runs; an empty text removes it."""
    if not text.isprintable():
        raise ConfigError("a note is one line of text", location=("text",))
    _check_keys(run_keys, _stored_rows(connection, run_keys))
    for keys in chunks(run_keys):
        connection.execute(update(runs).where(runs.c.run_key.in_(keys)).values(note=text.strip() or None))


def _check_keys(run_keys: Sequence[str], stored: Collection[str]) -> None:
    for key in run_keys:
        if key not in stored:
            raise ResultsError(f"no run has the key '{key}'")


def _stored_rows(connection: Connection, run_keys: Sequence[str]) -> dict[str, Row[*tuple[Any, ...]]]:
    """Return id, states, end and lease of the stored runs by key; the rows stay locked."""
    query = select(runs.c.run_key, runs.c.id, runs.c.state, runs.c.previous_state, runs.c.finished_at)
    query = query.add_columns(runs.c.attempt, runs.c.tags)
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


def _write(
    connection: Connection,
    results: Mapping[int, RunResult],
    common: dict[str, Any],
    attempts: Mapping[int, int],
    cpu: str,
) -> None:
    # The results of a stack have few different outcomes: one statement for each is faster than one for each run.
    outcomes: dict[tuple[Any, ...], list[int]] = {}
    for run_id, result in results.items():
        outcomes.setdefault((attempts[run_id], *_outcome_key(result)), []).append(run_id)
    for alike in outcomes.values():
        values = {**common, "attempt": attempts[alike[0]], **_outcome(results[alike[0]], cpu)}
        for ids in chunks(alike):
            connection.execute(update(runs).where(runs.c.id.in_(ids)).values(values))
    for table, rows_of in ((metrics, _metric_rows), (curves, _curve_rows), (arrays, _array_rows)):
        insert_rows(connection, table, [row for item in results.items() for row in rows_of(*item)])


def _outcome_key(result: RunResult) -> tuple[Any, ...]:
    """Return what is equal for results with the same `_outcome`."""
    process = result.engine, result.device, result.threads, result.instruction_set
    durations = tuple(result.durations.items())
    return (result.state, result.n_parameters, result.diverged_epoch, *process, result.seconds, durations)


def _outcome(result: RunResult, cpu: str) -> dict[str, Any]:
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
        "cpu": {"model": cpu, "instruction_set": result.instruction_set},
        "seconds": result.seconds,
        "durations": dict(result.durations) or None,
    }


def _metric_rows(run_id: int, result: RunResult) -> list[tuple[Any, ...]]:
    return [(run_id, *key, float(value)) for key, value in result.metrics.items() if math.isfinite(value)]


def _curve_rows(run_id: int, result: RunResult) -> list[tuple[Any, ...]]:
    return [
        (run_id, point.epoch, *key, float(value) if math.isfinite(value) else None)
        for point in result.curve
        for key, value in point.values.items()
    ]


@cache
def _dtype_name(dtype: np.dtype[Any]) -> str:
    return str(dtype)  # cached, since it takes longer than the insert


def _array_rows(run_id: int, result: RunResult) -> list[tuple[Any, ...]]:
    return [
        (run_id, name, _dtype_name(array.dtype), _shape_json(array.shape), pack_array(name, array))
        for name, array in result.arrays.items()
    ]


@lru_cache(maxsize=64)
def _shape_json(shape: tuple[int, ...]) -> str:
    return json.dumps(shape, separators=(",", ":"))
