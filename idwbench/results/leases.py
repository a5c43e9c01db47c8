"""Leases: the right of one process to train a run, which ends with the process or, on another host, with time."""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

from sqlalchemy import Connection, Row, case, func, select, update

from idwbench.results.records import RESULT_STATES, EndedState
from idwbench.results.tables import chunks, rows_by_key, runs

__all__ = [
    "ENDED_STATES",
    "LEASE_DURATION",
    "PROCESS",
    "Reopened",
    "ended_runs",
    "fail_runs",
    "is_reopened",
    "is_stale",
    "lease_runs",
    "pending_runs",
    "process_is_alive",
    "release_runs",
    "renew_leases",
    "run_states",
    "stale_keys",
    "state_of",
    "this_process",
]

LEASE_DURATION = timedelta(minutes=10)
# Start times of processes are computed from the boot time, which is rounded to seconds.
_START_TOLERANCE = timedelta(seconds=5)

# Runs to be trained again, each with the time of its end; a run that has ended since is not reopened.
Reopened = dict[str, datetime | None]

ENDED_STATES: tuple[EndedState, ...] = get_args(EndedState)
# The columns that `is_stale` takes.
PROCESS = (runs.c.host, runs.c.pid, runs.c.heartbeat_at)


def this_process() -> tuple[str, int]:
    """Return the names of this host and process."""
    return socket.gethostname(), os.getpid()


def is_stale(host: str | None, pid: int | None, heartbeat_at: datetime | None) -> bool:
    """Return whether the process of a running run has ended or, on another host, its lease was not renewed in time."""
    if host is None or not isinstance(pid, int) or heartbeat_at is None:  # SQLite may hold a damaged number
        return True
    if host == this_process()[0]:
        return not process_is_alive(pid, heartbeat_at)
    return datetime.now(UTC) - heartbeat_at > LEASE_DURATION


def process_is_alive(pid: int, seen_at: datetime) -> bool:
    """Return whether the process with this ID at `seen_at` is still running; a zombie is not."""
    import psutil

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return datetime.fromtimestamp(process.create_time(), UTC) <= seen_at + _START_TOLERANCE
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True  # the process of another user


def run_states(connection: Connection, run_keys: Sequence[str]) -> dict[str, str]:
    """Return the states of the stored runs among `run_keys`; a running run that lost its process is ``stale``."""
    rows = rows_by_key(connection, run_keys, runs.c.state, *PROCESS)
    return {key: state_of(row) for key, row in rows.items()}


def state_of(row: Row[*tuple[Any, ...]]) -> str:
    """Return the state of a row with `PROCESS`: that of a running run that lost its process is ``stale``."""
    return "stale" if row.state == "running" and is_stale(row.host, row.pid, row.heartbeat_at) else str(row.state)


def stale_keys(connection: Connection) -> set[str]:
    """Return the keys of the running runs whose process has ended."""
    query = select(runs.c.run_key, *PROCESS).where(runs.c.state == "running")
    return {key for key, *process in connection.execute(query) if is_stale(*process)}


def pending_runs(
    connection: Connection, run_keys: Sequence[str], reopened: Reopened, *, lock: bool = False
) -> list[str]:
    """Return the runs of `run_keys` that are planned, reopened or stale, in order; `lock` as `rows_by_key`."""
    asked = dict.fromkeys(run_keys)
    is_open = [] if reopened.keys() & asked else [runs.c.state.in_(["planned", "running"])]
    rows = rows_by_key(connection, asked, runs.c.state, runs.c.finished_at, *PROCESS, where=is_open, lock=lock)
    free = {key for key, row in rows.items() if is_reopened(row, reopened) or state_of(row) in ("planned", "stale")}
    return [key for key in asked if key in free]


def lease_runs(connection: Connection, run_keys: Sequence[str], reopened: Reopened) -> list[str]:
    """Lease the pending runs of `run_keys` to this process and return them in order; stored results stay."""
    free, (host, pid), now = pending_runs(connection, run_keys, reopened, lock=True), this_process(), datetime.now(UTC)
    leased = {
        "state": "running",
        # A stale run already has a previous state.
        "previous_state": case((runs.c.state.in_(ENDED_STATES), runs.c.state), else_=runs.c.previous_state),
        "attempt": runs.c.attempt + 1,
        **{"host": host, "pid": pid, "started_at": now, "heartbeat_at": now},
    }
    for keys in chunks(free):
        connection.execute(update(runs).where(runs.c.run_key.in_(keys)).values(leased))
    return free


def renew_leases(connection: Connection, run_keys: Sequence[str]) -> None:
    """Renew leases of this process, which expire after 10 minutes for other hosts."""
    _update_own(connection, run_keys, {"heartbeat_at": datetime.now(UTC)})


def release_runs(connection: Connection, run_keys: Sequence[str]) -> None:
    """End leases of this process; the runs get back their previous state."""
    before = func.coalesce(runs.c.previous_state, "planned")
    _update_own(connection, run_keys, {"state": before, "previous_state": None, "heartbeat_at": None})


def fail_runs(connection: Connection, run_keys: Sequence[str], error_text: str) -> None:
    """Record an error for the runs leased by this process; runs with a result keep it and their state."""
    now = datetime.now(UTC)
    # A message may quote bytes of a file, and a reason that cannot be stored would end the sweep.
    error_text = error_text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    has_result = runs.c.previous_state.in_(RESULT_STATES)
    failed = {
        "state": case((has_result, runs.c.previous_state), else_="failed"),
        "finished_at": case((has_result, runs.c.finished_at), else_=now),
    }
    _update_own(connection, run_keys, {**failed, "previous_state": None, "error": error_text})


def ended_runs(connection: Connection, run_keys: Sequence[str], states: Collection[EndedState]) -> Reopened:
    """Return the runs of `run_keys` in one of `states`, in order, with the time of their end."""
    keys = dict.fromkeys(run_keys if states else ())
    ended = rows_by_key(connection, keys, runs.c.finished_at, where=[runs.c.state.in_(states)])
    return {key: ended[key].finished_at for key in keys if key in ended}


def is_reopened(row: Row[*tuple[Any, ...]], reopened: Reopened) -> bool:
    """Return whether a run is reopened and has not ended again since."""
    return row.state in ENDED_STATES and row.run_key in reopened and reopened[row.run_key] == row.finished_at


def _update_own(connection: Connection, run_keys: Sequence[str], values: dict[str, Any]) -> None:
    host, pid = this_process()
    own = update(runs).where(runs.c.state == "running", runs.c.host == host, runs.c.pid == pid)
    for keys in chunks(run_keys):
        connection.execute(own.where(runs.c.run_key.in_(keys)).values(values))
