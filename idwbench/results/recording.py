"""Storage of results: states, metrics, curves and arrays of many runs in one transaction."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, delete, update

from idwbench.errors import ConfigError
from idwbench.results.contents import pack_array
from idwbench.results.leases import Reopened, is_reopened
from idwbench.results.planning import plan_runs
from idwbench.results.provenance import Provenance
from idwbench.results.reading import attempt_of
from idwbench.results.records import RESULT_STATES
from idwbench.results.tables import arrays, check_known, chunks, curves, insert_rows, metrics, rows_by_key, runs
from idwbench.runs.metrics import Metrics
from idwbench.runs.results import Curve, RunResult

if TYPE_CHECKING:
    import numpy as np

__all__ = ["add_metrics", "finish_runs", "note_runs", "tag_runs"]

_LEASE = (runs.c.state, runs.c.previous_state, runs.c.finished_at, runs.c.attempt)


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
    stored = rows_by_key(connection, by_key, *_LEASE, lock=True)
    if missing := [result.config for key, result in by_key.items() if key not in stored]:
        plan_runs(connection, missing)
        stored = rows_by_key(connection, by_key, *_LEASE, lock=True)
    rows = [stored[key] for key in by_key]
    rows = [row for row in rows if row.state not in RESULT_STATES or is_reopened(row, reopened)]
    # A run that is trained again has kept its old result.
    again = [row.id for row in rows if {row.state, row.previous_state} & set(RESULT_STATES)]
    for ids, table in product(chunks(again), (metrics, curves, arrays)):
        connection.execute(delete(table).where(table.c.run_id.in_(ids)))
    _write_outcomes(connection, [(row, by_key[row.run_key]) for row in rows], data_sha256, provenance)
    for table, rows_of in ((metrics, _metric_rows), (curves, _curve_rows), (arrays, _array_rows)):
        insert_rows(connection, table, [values for row in rows for values in rows_of(row.id, by_key[row.run_key])])
    return [row.run_key for row in rows]


def _write_outcomes(
    connection: Connection,
    ended: Iterable[tuple[Row[*tuple[Any, ...]], RunResult]],
    data_sha256: str | None,
    provenance: Provenance,
) -> None:
    """Write what became of runs, with one statement for those of a stack, whose outcomes are mostly alike."""
    process: dict[str, Any] = {**provenance}
    cpu, finished_at = process.pop("cpu"), datetime.now(UTC)
    alike: dict[str, tuple[dict[str, Any], list[int]]] = {}
    for row, result in ended:
        attempt = attempt_of(row) + (row.state != "running")  # a result without a lease was started, too
        outcome = {**_outcome(result, cpu), "attempt": attempt}
        alike.setdefault(repr(outcome), (outcome, []))[1].append(row.id)
    for outcome, run_ids in alike.values():
        values = {**process, **outcome, "data_sha256": data_sha256, "finished_at": finished_at}
        for ids in chunks(run_ids):
            connection.execute(update(runs).where(runs.c.id.in_(ids)).values(values))


def add_metrics(connection: Connection, found: Mapping[str, Metrics]) -> None:
    """Add metrics to complete runs, by run key; metrics that a run already has stay as they are."""
    complete = rows_by_key(connection, found, where=[runs.c.state == "complete"], lock=True)
    rows = [(row.id, *name, float(v)) for key, row in complete.items() for name, v in _finite(found[key])]
    insert_rows(connection, metrics, rows, new_only="run_id, split, name")


def tag_runs(connection: Connection, run_keys: Sequence[str], tag: str, *, remove: bool = False) -> None:
    """Give runs a tag, or take it from them.

    Raises:
        ConfigError: the tag is empty, or has a comma or a character that is not printed.
        ResultsError: no run has one of the keys.
    """
    word = tag.strip()
    if not word or "," in word or not word.isprintable():
        raise ConfigError("a tag is a text without commas", location=("tag",))
    stored = rows_by_key(connection, run_keys, runs.c.tags, lock=True)
    check_known(run_keys, stored)
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
    check_known(run_keys, rows_by_key(connection, run_keys, lock=True))
    for keys in chunks(run_keys):
        connection.execute(update(runs).where(runs.c.run_key.in_(keys)).values(note=text.strip() or None))


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


def _finite(values: Metrics) -> Iterable[tuple[tuple[str, str], float]]:
    return ((name, value) for name, value in values.items() if math.isfinite(value))


def _metric_rows(run_id: int, result: RunResult) -> list[tuple[Any, ...]]:
    return [(run_id, *name, float(value)) for name, value in _finite(result.metrics)]


def _curve_rows(run_id: int, result: RunResult) -> list[tuple[Any, ...]]:
    curve = result.curve
    if isinstance(curve, Curve):  # without an object for each point, which takes longer than the insert
        names: Iterable[tuple[int, tuple[str, str]]] = product(range(1, len(curve) + 1), curve.names)
        values: Iterable[float] = curve.values
    else:
        names = [(point.epoch, name) for point in curve for name in point.values]
        values = [value for point in curve for value in point.values.values()]
    pairs = zip(names, values, strict=True)
    return [(run_id, epoch, *name, float(v) if math.isfinite(v) else None) for (epoch, name), v in pairs]


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
