"""Who may train what: runs go from planned to running and back, each by one process at a time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, select, update

from idwbench.results.models import curves, runs, tensors
from idwbench.results.ownership import Owner, is_stale
from idwbench.results.records import EndedState
from idwbench.results.rows import NO_RESULT, chunks

__all__ = ["claim_runs", "fail_runs", "heartbeat_runs", "pending_runs", "release_runs", "reset_runs"]


def pending_runs(connection: Connection, run_keys: Sequence[str]) -> list[str]:
    """Return those of `run_keys` that are planned, or running without a living process, in order."""
    observer, now = Owner.current(), datetime.now(UTC)
    free: set[str] = set()
    for keys in chunks(run_keys):
        free.update(row.run_key for row in _states(connection, keys) if _is_free(row, observer, now))
    return [key for key in dict.fromkeys(run_keys) if key in free]


def claim_runs(connection: Connection, run_keys: Sequence[str]) -> list[str]:
    """Make this process the owner of the pending ones of `run_keys`, and return these in order."""
    owner, now = Owner.current(), datetime.now(UTC)
    free: set[str] = set()
    for keys in chunks(run_keys):
        # SQLite holds one write lock for all; elsewhere the rows are locked until the states have changed.
        found = [row.run_key for row in _states(connection, keys, lock=True) if _is_free(row, owner, now)]
        connection.execute(
            update(runs)
            .where(runs.c.run_key.in_(found))
            .values(
                state="running",
                host=owner.host,
                pid=owner.pid,
                attempt=runs.c.attempt + 1,
                started_at=now,
                heartbeat_at=now,
                **NO_RESULT,
            )
        )
        free.update(found)
    return [key for key in dict.fromkeys(run_keys) if key in free]


def heartbeat_runs(connection: Connection, run_keys: Sequence[str]) -> None:
    """Note that this process still trains `run_keys`."""
    _update_own(connection, run_keys, {"heartbeat_at": datetime.now(UTC)})


def release_runs(connection: Connection, run_keys: Sequence[str]) -> None:
    """Make planned again what this process was training."""
    _update_own(connection, run_keys, {"state": "planned", "heartbeat_at": None})


def fail_runs(connection: Connection, run_keys: Sequence[str], error_text: str) -> None:
    """Record why this process could not train `run_keys`."""
    _update_own(connection, run_keys, {"state": "failed", "error": error_text, "finished_at": datetime.now(UTC)})


def reset_runs(connection: Connection, run_keys: Sequence[str], states: Collection[EndedState]) -> list[str]:
    """Make planned again the ones of `run_keys` that ended in `states`, without their results; return these."""
    reset: set[str] = set()
    for keys in chunks(run_keys):
        ended = and_(runs.c.run_key.in_(keys), runs.c.state.in_(states))
        found = connection.execute(select(runs.c.id, runs.c.run_key).where(ended).with_for_update()).all()
        ids = [row.id for row in found]
        for table in (curves, tensors):
            connection.execute(delete(table).where(table.c.run_id.in_(ids)))
        connection.execute(update(runs).where(runs.c.id.in_(ids)).values(state="planned", **NO_RESULT))
        reset.update(row.run_key for row in found)
    return [key for key in dict.fromkeys(run_keys) if key in reset]


def _states(connection: Connection, keys: Sequence[str], *, lock: bool = False) -> Sequence[Row[*tuple[Any, ...]]]:
    query = (
        select(runs.c.run_key, runs.c.state, runs.c.host, runs.c.pid, runs.c.heartbeat_at)
        .where(runs.c.run_key.in_(keys))
        .order_by(runs.c.id)  # two processes that lock rows in one order cannot block each other for ever
    )
    return connection.execute(query.with_for_update() if lock else query).all()


def _is_free(row: Row[*tuple[Any, ...]], observer: Owner, now: datetime) -> bool:
    if row.state == "planned":
        return True
    return row.state == "running" and is_stale(row.host, row.pid, row.heartbeat_at, observer=observer, now=now)


def _own(keys: Sequence[str]) -> ColumnElement[bool]:
    owner = Owner.current()
    return and_(runs.c.run_key.in_(keys), runs.c.state == "running", runs.c.host == owner.host, runs.c.pid == owner.pid)


def _update_own(connection: Connection, run_keys: Sequence[str], values: dict[str, Any]) -> None:
    for keys in chunks(run_keys):
        connection.execute(update(runs).where(_own(keys)).values(values))
