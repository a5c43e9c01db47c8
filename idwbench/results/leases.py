"""Leases: the right of one process to train a run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any, get_args

from sqlalchemy import ColumnElement, Connection, Row, and_, func, select, update

from idwbench.results.processes import Owner, is_stale
from idwbench.results.reading import attempt_of
from idwbench.results.records import RESULT_STATES, EndedState
from idwbench.results.statements import MOST_KEYS, chunks
from idwbench.results.tables import runs

__all__ = [
    "Reopened",
    "ended_runs",
    "fail_runs",
    "is_reopened",
    "lease_runs",
    "pending_runs",
    "release_runs",
    "renew_leases",
]

# Runs to be trained again, each with the time of its end; a run that has ended since is not reopened.
Reopened = dict[str, datetime | None]

_ENDED = get_args(EndedState)
_LEASE_QUERY = select(
    *(runs.c.id, runs.c.run_key, runs.c.state, runs.c.previous_state, runs.c.attempt, runs.c.finished_at),
    *(runs.c.host, runs.c.pid, runs.c.heartbeat_at),
)


def pending_runs(connection: Connection, run_keys: Sequence[str], reopened: Reopened) -> list[str]:
    """Return the runs of `run_keys` that are planned, reopened or stale, in order."""
    observer, now = Owner.current(), datetime.now(UTC)
    asked = [*dict.fromkeys(run_keys)]
    if len(asked) <= MOST_KEYS:
        rows = [*_states(connection, asked)]
    else:  # of many, one query finds those that have not ended
        rows = [*connection.execute(_LEASE_QUERY.where(runs.c.state.in_(["planned", "running"])))]
        rows += [row for keys in chunks([*(reopened.keys() & set(asked))]) for row in _states(connection, keys)]
    free = {row.run_key for row in rows if _is_free(row, reopened, observer, now)}
    return [key for key in asked if key in free]


def lease_runs(connection: Connection, run_keys: Sequence[str], reopened: Reopened) -> list[str]:
    """Lease the pending runs of `run_keys` to this process and return them in order; stored results stay."""
    owner, now = Owner.current(), datetime.now(UTC)
    free: set[str] = set()
    for keys in chunks(run_keys):
        # SQLite has one write lock; PostgreSQL locks these rows.
        rows = [row for row in _states(connection, keys, lock=True) if _is_free(row, reopened, owner, now)]
        attempts: dict[tuple[str | None, int], list[int]] = {}
        for row in rows:
            # A stale run already has a previous state.
            previous = row.state if row.state in _ENDED else row.previous_state
            attempts.setdefault((previous, attempt_of(row) + 1), []).append(row.id)
        for (previous, attempt), ids in attempts.items():
            process = {"host": owner.host, "pid": owner.pid, "started_at": now, "heartbeat_at": now}
            leased = {"state": "running", "previous_state": previous, "attempt": attempt, **process}
            connection.execute(update(runs).where(runs.c.id.in_(ids)).values(leased))
        free.update(row.run_key for row in rows)
    return [key for key in dict.fromkeys(run_keys) if key in free]


def renew_leases(connection: Connection, run_keys: Sequence[str]) -> None:
    """Renew the leases of this process on `run_keys`."""
    _update_own(connection, run_keys, {"heartbeat_at": datetime.now(UTC)})


def release_runs(connection: Connection, run_keys: Sequence[str]) -> None:
    """Set the runs leased by this process to their previous state."""
    before = func.coalesce(runs.c.previous_state, "planned")
    _update_own(connection, run_keys, {"state": before, "previous_state": None, "heartbeat_at": None})


def fail_runs(connection: Connection, run_keys: Sequence[str], error_text: str) -> None:
    """Record an error for the runs leased by this process; runs with a result keep it and their state."""
    now = datetime.now(UTC)
    # A message may quote bytes of a file, and a reason that cannot be stored would end the sweep.
    error_text = error_text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    kept = {"state": runs.c.previous_state, "previous_state": None, "error": error_text}
    _update_own(connection, run_keys, kept, runs.c.previous_state.in_(RESULT_STATES))
    failed = {"state": "failed", "previous_state": None, "error": error_text, "finished_at": now}
    _update_own(connection, run_keys, failed)


def ended_runs(connection: Connection, run_keys: Sequence[str], states: Collection[EndedState]) -> Reopened:
    """Return the runs of `run_keys` in one of `states`, in order, with the time of their end."""
    ended: Reopened = {}
    for keys in chunks(run_keys) if states else ():
        query = select(runs.c.run_key, runs.c.finished_at)
        query = query.where(and_(runs.c.run_key.in_(keys), runs.c.state.in_(states)))
        ended.update((row.run_key, row.finished_at) for row in connection.execute(query))
    return {key: ended[key] for key in dict.fromkeys(run_keys) if key in ended}


def is_reopened(row: Row[*tuple[Any, ...]], reopened: Reopened) -> bool:
    """Return whether a run is reopened and has not ended again since."""
    return row.state in _ENDED and row.run_key in reopened and reopened[row.run_key] == row.finished_at


def _states(connection: Connection, keys: Sequence[str], *, lock: bool = False) -> Sequence[Row[*tuple[Any, ...]]]:
    # Processes that lock rows in the same order cannot deadlock.
    query = _LEASE_QUERY.where(runs.c.run_key.in_(keys)).order_by(runs.c.id)
    return connection.execute(query.with_for_update() if lock else query).all()


def _is_free(row: Row[*tuple[Any, ...]], reopened: Reopened, observer: Owner, now: datetime) -> bool:
    if row.state == "planned" or is_reopened(row, reopened):
        return True
    return row.state == "running" and is_stale(row.host, row.pid, row.heartbeat_at, observer=observer, now=now)


def _own(keys: Sequence[str]) -> ColumnElement[bool]:
    owner = Owner.current()
    return and_(runs.c.run_key.in_(keys), runs.c.state == "running", runs.c.host == owner.host, runs.c.pid == owner.pid)


def _update_own(
    connection: Connection, run_keys: Sequence[str], values: dict[str, Any], *conditions: ColumnElement[bool]
) -> None:
    for keys in chunks(run_keys):
        connection.execute(update(runs).where(_own(keys), *conditions).values(values))
