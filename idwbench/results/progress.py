"""States of runs and sweeps, and how far a sweep is: its rate, the runs that are trained now, the last failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, get_args

from sqlalchemy import Connection, Select, func, select

from idwbench.results.leases import is_stale
from idwbench.results.reading import load_runs, sweep_id
from idwbench.results.records import RUN_STATES, EndedState, RunState, StoredRun, StoredSweep, SweepStatus
from idwbench.results.tables import rows_by_key, runs, sweep_runs, sweeps

__all__ = [
    "RATE_WINDOW",
    "StoredState",
    "SweepProgress",
    "TrainingProcess",
    "list_sweeps",
    "run_states",
    "stale_keys",
    "sweep_progress",
    "sweep_status",
]

StoredState = RunState | Literal["stale"]

RATE_WINDOW = timedelta(minutes=10)
_FAILURES = 5
_PROCESS = (runs.c.host, runs.c.pid, runs.c.heartbeat_at)


@dataclass(frozen=True)
class TrainingProcess:
    """A process that trains runs of a sweep.

    Attributes:
        runs: Number of runs that it has leased.
        label: Data set and model of the first of them.
        since: When it began with that run.
    """

    host: str
    pid: int
    runs: int
    label: str
    since: datetime


@dataclass(frozen=True)
class SweepProgress:
    """One sweep at one moment.

    Attributes:
        rate: Runs that ended per second, in the last 10 minutes; None if none did.
        seconds_left: Time for the planned, running and stale runs at this rate; None if it is not known.
        processes: Those that train now, in the order of their names.
        failures: The last ones, the newest first.
    """

    name: str
    status: SweepStatus
    rate: float | None
    seconds_left: float | None
    processes: tuple[TrainingProcess, ...]
    failures: tuple[StoredRun, ...]


def run_states(connection: Connection, run_keys: Sequence[str]) -> dict[str, StoredState]:
    """Return the states of the stored runs among `run_keys`; a running run that lost its process is ``stale``."""
    rows = rows_by_key(connection, run_keys, runs.c.state, *_PROCESS)
    return {
        key: "stale" if row.state == "running" and is_stale(row.host, row.pid, row.heartbeat_at) else row.state
        for key, row in rows.items()
    }


def stale_keys(connection: Connection) -> set[str]:
    """Return the keys of the running runs whose process has ended."""
    query = select(runs.c.run_key, *_PROCESS).where(runs.c.state == "running")
    return {key for key, *process in connection.execute(query) if is_stale(*process)}


def sweep_status(connection: Connection, name: str) -> SweepStatus:
    """Return the number of runs of a sweep in each state.

    Raises:
        ResultsError: no sweep has that name.
    """
    counted = _planned(select(runs.c.state, func.count()), sweep_id(connection, name)).group_by(runs.c.state)
    counts = Counter({state: n for state, n in connection.execute(counted)})
    if counts["running"]:
        leased = _planned(select(*_PROCESS), sweep_id(connection, name)).where(runs.c.state == "running")
        n_stale = sum(is_stale(*process) for process in connection.execute(leased))
        counts.update({"running": -n_stale, "stale": n_stale})
    return SweepStatus(total=counts.total(), **{state: counts[state] for state in ("stale", *RUN_STATES)})


def _planned(query: Select[*tuple[Any, ...]], sweep: int) -> Select[*tuple[Any, ...]]:
    """Return a query of the runs in the plan of a sweep."""
    return query.join(sweep_runs, sweep_runs.c.run_id == runs.c.id).where(sweep_runs.c.sweep_id == sweep)


def list_sweeps(connection: Connection) -> list[StoredSweep]:
    """Return all sweeps by name."""
    query = select(sweeps.c.name, sweeps.c.description, sweeps.c.spec, sweeps.c.created_at, sweeps.c.updated_at)
    return [StoredSweep(*row) for row in connection.execute(query.order_by(sweeps.c.name))]


def sweep_progress(connection: Connection, name: str, now: datetime | None = None) -> SweepProgress:
    """Return how far a sweep is at `now`: states, rate, time left, processes that train, and the last failures.

    Raises:
        ResultsError: no sweep has that name.
    """
    status, sweep, now = sweep_status(connection, name), sweep_id(connection, name), now or datetime.now(UTC)
    rate = _rate(connection, sweep, now)
    return SweepProgress(
        name=name,
        status=status,
        rate=rate,
        seconds_left=status.to_do / rate if rate else (None if status.to_do else 0.0),
        processes=_processes(connection, sweep, now) if status.running else (),
        failures=_failures(connection, sweep) if status.failed else (),
    )


def _rate(connection: Connection, sweep: int, now: datetime) -> float | None:
    """Return the runs that ended in the window, divided by the time since the first of them was started."""
    query = _planned(select(func.count(), func.min(runs.c.started_at)), sweep)
    query = query.where(runs.c.state.in_(get_args(EndedState)), runs.c.finished_at > now - RATE_WINDOW)
    n, first = connection.execute(query).one()
    if not n or first is None:
        return None
    seconds = (now - max(first, now - RATE_WINDOW)).total_seconds()
    return n / seconds if seconds > 0 else None


def _processes(connection: Connection, sweep: int, now: datetime) -> tuple[TrainingProcess, ...]:
    query = _planned(select(runs.c.run_key, runs.c.started_at, *_PROCESS), sweep).where(runs.c.state == "running")
    leased: dict[tuple[str, int], list[tuple[str, datetime]]] = {}
    for key, started_at, *process in connection.execute(query.order_by(sweep_runs.c.position)):
        if not is_stale(*process):
            host, pid, _ = process
            leased.setdefault((host, pid), []).append((key, started_at or now))
    first = load_runs(connection, [own[0][0] for own in leased.values()])
    return tuple(
        TrainingProcess(host, pid, len(own), run.label, own[0][1])
        for ((host, pid), own), run in sorted(zip(leased.items(), first, strict=True), key=lambda pair: pair[0][0])
    )


def _failures(connection: Connection, sweep: int) -> tuple[StoredRun, ...]:
    query = _planned(select(runs.c.run_key), sweep).where(runs.c.state == "failed")
    keys = [*connection.execute(query.order_by(runs.c.finished_at.desc(), runs.c.id.desc()).limit(_FAILURES)).scalars()]
    return tuple(load_runs(connection, keys))
