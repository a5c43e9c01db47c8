"""Storage and removal of results: states, metrics, curves and arrays of many runs in one transaction."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from typing import Any

from sqlalchemy import Connection, bindparam, case, delete, select, update

from idwbench.errors import ConfigError, ResultsError
from idwbench.results.leases import PROCESS, Reopened, is_reopened, state_of
from idwbench.results.provenance import Provenance
from idwbench.results.records import RESULT_STATES
from idwbench.results.sweeps import plan_runs
from idwbench.results.tables import arrays, chunks, curves, insert_rows, metrics, rows_by_key, runs, sweep_runs
from idwbench.runs.metrics import Metrics
from idwbench.runs.results import RunResult

__all__ = ["Removal", "add_metrics", "finish_runs", "note_runs", "remove_runs", "tag_runs"]


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
    lease = (runs.c.state, runs.c.previous_state, runs.c.finished_at)
    stored = rows_by_key(connection, by_key, *lease, lock=True)
    missing = [result.config for key, result in by_key.items() if key not in stored]
    stored |= rows_by_key(connection, plan_runs(connection, missing), *lease, lock=True)
    ids = {
        key: row.id for key in by_key if (row := stored[key]).state not in RESULT_STATES or is_reopened(row, reopened)
    }
    # A run that is trained again has kept its old result.
    for part, table in product(chunks([*ids.values()]), (metrics, curves, arrays)):
        connection.execute(delete(table).where(table.c.run_id.in_(part)))
    process: dict[str, Any] = {**provenance, "data_sha256": data_sha256, "finished_at": datetime.now(UTC)}
    cpu = process.pop("cpu")
    # A result without a lease was started, too.
    attempt = runs.c.attempt + case((runs.c.state == "running", 0), else_=1)
    if outcomes := [{"run": run_id, **process, **_outcome(by_key[key], cpu)} for key, run_id in ids.items()]:
        connection.execute(update(runs).where(runs.c.id == bindparam("run")).values(attempt=attempt), outcomes)
    parts = ((metrics, lambda result: _finite(result.metrics)), (curves, _curve_rows), (arrays, _array_rows))
    for table, rows_of in parts:
        rows = [{"run_id": run_id, **row} for key, run_id in ids.items() for row in rows_of(by_key[key])]
        insert_rows(connection, table, rows)
    return list(ids)


def add_metrics(connection: Connection, values: Mapping[str, Metrics]) -> None:
    """Add metrics to complete runs, by run key; metrics that a run already has stay as they are."""
    complete = rows_by_key(connection, values, where=[runs.c.state == "complete"], lock=True)
    rows = [{"run_id": run.id, **row} for key, run in complete.items() for row in _finite(values[key])]
    insert_rows(connection, metrics, rows, new_only=True)


def tag_runs(connection: Connection, run_keys: Sequence[str], tag: str, *, remove: bool = False) -> None:
    """Give runs a tag, or take it from them.

    Raises:
        ConfigError: the tag is empty, or has a comma or a character that is not printed.
        ResultsError: no run has one of the keys.
    """
    word = tag.strip()
    if not word or "," in word or not word.isprintable():
        raise ConfigError("a tag is a text without commas", location=("tag",))
    stored = rows_by_key(connection, run_keys, runs.c.tags, lock=True, known=True)
    for row in stored.values():
        others = [one for one in (row.tags or "").split(", ") if one and one != word]
        tags = ", ".join(sorted([*others, *([] if remove else [word])])) or None
        connection.execute(update(runs).where(runs.c.id == row.id).values(tags=tags))


def note_runs(connection: Connection, run_keys: Sequence[str], text: str) -> None:
    """Replace the note of runs; an empty text removes it.

    Raises:
        ConfigError: the text has more than one line, or a character that is not printed.
        ResultsError: no run has one of the keys.
    """
    if not text.isprintable():
        raise ConfigError("a note is one line of text", location=("text",))
    rows_by_key(connection, run_keys, lock=True, known=True)
    for keys in chunks(run_keys):
        connection.execute(update(runs).where(runs.c.run_key.in_(keys)).values(note=text.strip() or None))


@dataclass(frozen=True)
class Removal:
    """The keys of runs that are gone, and of those that are planned again since they are in the plan of a sweep."""

    removed: tuple[str, ...]
    planned: tuple[str, ...]


def remove_runs(connection: Connection, run_keys: Sequence[str]) -> Removal:
    """Remove runs with their metrics, curves and arrays; those in the plan of a sweep become planned.

    Raises:
        ResultsError: no run has one of the keys, or a process trains one of the runs; then none is removed.
    """
    stored = rows_by_key(connection, run_keys, runs.c.state, *PROCESS, lock=True, known=True)
    if in_work := [row for row in stored.values() if state_of(row) == "running"]:
        first = in_work[0]
        others = f" and {len(in_work) - 1} more are" if len(in_work) > 1 else " is"
        problem = f"run {first.run_key[:12]}{others} being trained by process {first.pid} on {first.host}"
        raise ResultsError(f"{problem}: nothing was removed", hint="stop that process first")
    names = runs.columns.keys()  # first those of the configuration, from the state on those of the outcome
    outcome = dict.fromkeys({*names[names.index("state") :]} - {"created_at"}) | {"state": "planned", "attempt": 0}
    for part in chunks([row.id for row in stored.values()]):
        for table in (metrics, curves, arrays):
            connection.execute(delete(table).where(table.c.run_id.in_(part)))
        in_no_plan = runs.c.id.not_in(select(sweep_runs.c.run_id))
        connection.execute(delete(runs).where(runs.c.id.in_(part), in_no_plan))
        connection.execute(update(runs).where(runs.c.id.in_(part)).values(outcome))
    planned, keys = rows_by_key(connection, stored), dict.fromkeys(run_keys)
    return Removal(tuple(key for key in keys if key not in planned), tuple(key for key in keys if key in planned))


def _outcome(result: RunResult, cpu: str) -> dict[str, Any]:
    same = ("state", "n_parameters", "diverged_epoch", "engine", "device", "threads", "seconds")
    return {
        **{name: getattr(result, name) for name in same},
        "previous_state": None,
        "error": f"not finite after epoch {result.diverged_epoch}" if result.state == "diverged" else None,
        "cpu": {"model": cpu, "instruction_set": result.instruction_set},
        "durations": dict(result.durations) or None,
    }


def _finite(values: Metrics) -> Iterable[dict[str, Any]]:
    """Return the rows of metrics, which have no value that is not finite."""
    return (row for row in _values(values) if row["value"] is not None)


def _values(values: Metrics) -> Iterable[dict[str, Any]]:
    for (split, name), value in values.items():
        yield {"split": split, "name": name, "value": float(value) if math.isfinite(value) else None}


def _curve_rows(result: RunResult) -> Iterable[dict[str, Any]]:
    return ({"epoch": point.epoch, **row} for point in result.curve for row in _values(point.values))


def _array_rows(result: RunResult) -> Iterable[dict[str, Any]]:
    """Return the rows of arrays, whose bytes are those of a safetensors file with this one array."""
    import numpy as np
    from safetensors.numpy import save

    for name, array in result.arrays.items():
        data = save({name: np.asarray(array, order="C")})
        yield {"name": name, "dtype": str(array.dtype), "shape": array.shape, "data": data}
