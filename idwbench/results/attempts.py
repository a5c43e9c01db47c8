"""Attempts: the history of a run, with one row for each time that it was started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Select, and_, func, insert, select, update

from idwbench.errors import ResultsError
from idwbench.results.processes import Owner, is_stale
from idwbench.results.records import Attempt, AttemptState
from idwbench.results.rows import chunks
from idwbench.results.statements import converted, insert_rows, update_rows
from idwbench.results.tables import attempts, runs
from idwbench.runs.results import RunResult

__all__ = ["begin_attempts", "end_attempts", "finish_attempts", "load_attempts", "lose_attempts"]

_FIELDS = ("number", "state", "error", "host", "pid", "started_at", "ended_at", "seconds")


def begin_attempts(connection: Connection, numbers: Mapping[int, int], owner: Owner, now: datetime) -> None:
    """Add a running attempt of this process for runs that were just leased, by row, with the number of each."""
    started_at = converted(attempts.c.started_at, now, connection.dialect)
    rows = [(run_id, number, "running", owner.host, owner.pid, started_at) for run_id, number in numbers.items()]
    insert_rows(connection, attempts, rows, ("run_id", "number", "state", "host", "pid", "started_at"))


def lose_attempts(connection: Connection, run_keys: Sequence[str]) -> None:
    """End the running attempts of stale runs, at the time of their last renewal; `run_keys` fit one statement."""
    seen = select(runs.c.heartbeat_at).where(runs.c.id == attempts.c.run_id).scalar_subquery()
    lost = and_(attempts.c.state == "running", attempts.c.run_id.in_(_ids(run_keys)))
    connection.execute(update(attempts).where(lost).values(state="lost", ended_at=seen))


def end_attempts(
    connection: Connection, run_keys: Sequence[str], state: AttemptState, now: datetime, error: str | None = None
) -> None:
    """End the running attempts of this process on `run_keys`."""
    owner = Owner.current()
    own = and_(attempts.c.state == "running", attempts.c.host == owner.host, attempts.c.pid == owner.pid)
    for keys in chunks(run_keys):
        ended = update(attempts).where(own, attempts.c.run_id.in_(_ids(keys)))
        connection.execute(ended.values(state=state, error=error, ended_at=now))


def finish_attempts(
    connection: Connection,
    results: Mapping[int, RunResult],
    leased: Mapping[int, int],
    now: datetime,
    trainer: Owner,
) -> dict[int, int]:
    """Record the results of runs, by row, as those of attempts of this process.

    Args:
        connection: Within a transaction that has locked the runs.
        results: The results to be written.
        leased: The number of the attempt of each run that is leased to this process.
        now: The time of the end.
        trainer: The process that trained.

    Returns:
        The numbers of the attempts of all runs. A result without a lease belongs to the last attempt of this process;
        without any, it gets an attempt of its own.
    """
    others = [run_id for run_id in results if run_id not in leased]
    numbers = dict(leased)
    if others:
        numbers |= _own_attempts(connection, others)
    if missing := [run_id for run_id in others if run_id not in numbers]:
        last = dict.fromkeys(missing, 0) | _last_attempts(connection, missing)
        numbers |= {run_id: number + 1 for run_id, number in last.items()}
        _add_attempts(connection, {run_id: results[run_id] for run_id in missing}, numbers, now)
    alike: dict[tuple[int, str, float], list[int]] = {}  # the results of a stack differ little
    for run_id, result in results.items():
        alike.setdefault((numbers[run_id], result.state, result.seconds), []).append(run_id)
    for (number, state, seconds), ended in alike.items():
        values = {"state": state, "error": None, "host": trainer.host, "pid": trainer.pid, "ended_at": now}
        update_rows(connection, attempts, "run_id", ended, {**values, "seconds": seconds}, f"number = {number}")
    for ids in chunks(others):  # another process trains these runs in vain
        running = and_(attempts.c.state == "running", attempts.c.run_id.in_(ids))
        connection.execute(update(attempts).where(running).values(state="lost", ended_at=now))
    return numbers


def load_attempts(connection: Connection, run_key: str, now: datetime) -> list[Attempt]:
    """Return the attempts of a run in order; a running one whose process has ended is lost."""
    run = connection.execute(select(runs.c.id, runs.c.heartbeat_at).where(runs.c.run_key == run_key)).one_or_none()
    if run is None:
        raise ResultsError(f"no run has the key '{run_key}'")
    query = select(*(attempts.c[name] for name in _FIELDS)).where(attempts.c.run_id == run.id)
    found = [Attempt(*row) for row in connection.execute(query.order_by(attempts.c.number))]
    observer = Owner.current()
    return [
        replace(one, state="lost", ended_at=run.heartbeat_at)
        if one.state == "running" and is_stale(one.host, one.pid, run.heartbeat_at, observer=observer, now=now)
        else one
        for one in found
    ]


def _ids(run_keys: Sequence[str]) -> Select[tuple[int]]:
    return select(runs.c.id).where(runs.c.run_key.in_(run_keys))


def _own_attempts(connection: Connection, run_ids: Sequence[int]) -> dict[int, int]:
    """Return the last attempts of this process that have no result."""
    owner = Owner.current()
    own = and_(attempts.c.host == owner.host, attempts.c.pid == owner.pid)
    return _last_attempts(connection, run_ids, own, attempts.c.state.in_(["running", "failed", "released", "lost"]))


def _last_attempts(connection: Connection, run_ids: Sequence[int], *conditions: Any) -> dict[int, int]:
    numbers: dict[int, int] = {}
    for ids in chunks(run_ids):
        query = select(attempts.c.run_id, func.max(attempts.c.number)).where(attempts.c.run_id.in_(ids), *conditions)
        numbers.update((run_id, number) for run_id, number in connection.execute(query.group_by(attempts.c.run_id)))
    return numbers


def _add_attempts(
    connection: Connection, results: Mapping[int, RunResult], numbers: Mapping[int, int], now: datetime
) -> None:
    owner = Owner.current()
    common = {"state": "running", "host": owner.host, "pid": owner.pid}
    rows = [
        {"run_id": i, "number": numbers[i], **common, "started_at": now - timedelta(seconds=result.seconds)}
        for i, result in results.items()
    ]
    connection.execute(insert(attempts), rows)
