"""States of runs and sweeps, and how far a sweep is: its rate, the runs that are trained now, the last failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from sqlalchemy import Connection, and_, func, select

from idwbench.results.processes import Owner, is_stale
from idwbench.results.reading import load_runs, sweep_id
from idwbench.results.records import RUN_STATES, FailedRun, RunState, StoredSweep, SweepStatus
from idwbench.results.statements import chunks
from idwbench.results.tables import metrics, runs, sweep_runs, sweeps

__all__ = [
    "RATE_WINDOW",
    "StoredState",
    "SweepProgress",
    "TrainingProcess",
    "dataset_labels",
    "list_sweeps",
    "metric_values",
    "run_states",
    "stale_keys",
    "sweep_progress",
    "sweep_status",
]

StoredState = RunState | Literal["stale"]

RATE_WINDOW = timedelta(minutes=10)
_FAILURES = 5
_ENDED = ("complete", "diverged", "failed")


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
    failures: tuple[FailedRun, ...]

    @property
    def ended(self) -> int:
        """Number of runs that have ended."""
        return self.status.complete + self.status.diverged + self.status.failed

    @property
    def to_do(self) -> int:
        """Number of runs that have not."""
        return self.status.total - self.ended


def run_states(connection: Connection, run_keys: Sequence[str]) -> dict[str, StoredState]:
    """Return the states of the stored runs among `run_keys`; a running run that lost its process is ``stale``."""
    observer, now = Owner.current(), datetime.now(UTC)
    found: dict[str, StoredState] = {}
    columns = (runs.c.run_key, runs.c.state, runs.c.host, runs.c.pid, runs.c.heartbeat_at)
    for keys in chunks(run_keys):
        for key, state, host, pid, seen in connection.execute(select(*columns).where(runs.c.run_key.in_(keys))):
            is_lost = state == "running" and is_stale(host, pid, seen, observer=observer, now=now)
            found[key] = "stale" if is_lost else state
    return found


def metric_values(connection: Connection, run_keys: Sequence[str], name: str, split: str) -> dict[str, float]:
    """Return one metric of the runs of `run_keys` that have it."""
    query = select(runs.c.run_key, metrics.c.value).join(metrics, metrics.c.run_id == runs.c.id)
    query = query.where(and_(metrics.c.name == name, metrics.c.split == split))
    return {
        key: value
        for keys in chunks(run_keys)
        for key, value in connection.execute(query.where(runs.c.run_key.in_(keys)))
    }


def stale_keys(connection: Connection) -> set[str]:
    """Return the keys of the running runs whose process has ended."""
    query = select(runs.c.run_key, runs.c.host, runs.c.pid, runs.c.heartbeat_at).where(runs.c.state == "running")
    observer, now = Owner.current(), datetime.now(UTC)
    return {key for key, *process in connection.execute(query) if is_stale(*process, observer=observer, now=now)}


def sweep_status(connection: Connection, name: str) -> SweepStatus:
    """Return how many runs of a sweep are in each state."""
    in_sweep = sweep_runs.c.sweep_id == sweep_id(connection, name)
    planned = runs.join(sweep_runs, sweep_runs.c.run_id == runs.c.id)
    counted = select(runs.c.state, func.count()).select_from(planned).where(in_sweep).group_by(runs.c.state)
    counts = Counter({state: n for state, n in connection.execute(counted)})
    if counts["running"]:
        leased = select(runs.c.host, runs.c.pid, runs.c.heartbeat_at).select_from(planned)
        observer, now = Owner.current(), datetime.now(UTC)
        for row in connection.execute(leased.where(in_sweep, runs.c.state == "running")):
            if is_stale(*row, observer=observer, now=now):
                counts.update({"running": -1, "stale": 1})
    return SweepStatus(total=counts.total(), **{state: counts[state] for state in ("stale", *RUN_STATES)})


def list_sweeps(connection: Connection) -> list[StoredSweep]:
    """Return all sweeps by name."""
    query = select(sweeps.c.name, sweeps.c.description, sweeps.c.spec, sweeps.c.created_at, sweeps.c.updated_at)
    return [StoredSweep(*row) for row in connection.execute(query.order_by(sweeps.c.name))]


def dataset_labels(connection: Connection) -> list[str]:
    """Return the labels of the data sets of all runs, sorted."""
    return list(connection.execute(select(runs.c.dataset).distinct().order_by(runs.c.dataset)).scalars())


def sweep_progress(connection: Connection, name: str, now: datetime) -> SweepProgress:
    """Return the progress of a sweep; raises `ResultsError` if none has that name."""
    status = sweep_status(connection, name)
    number = sweep_id(connection, name)
    rate = _rate(connection, number, now)
    to_do = status.total - status.complete - status.diverged - status.failed
    return SweepProgress(
        name=name,
        status=status,
        rate=rate,
        seconds_left=to_do / rate if rate else (None if to_do else 0.0),
        processes=_processes(connection, number, now) if status.running else (),
        failures=_failures(connection, number) if status.failed else (),
    )


def _rate(connection: Connection, sweep: int, now: datetime) -> float | None:
    """Return the runs that ended in the window, divided by the time since the first of them was started."""
    planned = runs.join(sweep_runs, sweep_runs.c.run_id == runs.c.id)
    recent = and_(sweep_runs.c.sweep_id == sweep, runs.c.state.in_(_ENDED), runs.c.finished_at > now - RATE_WINDOW)
    query = select(func.count(), func.min(runs.c.started_at)).select_from(planned).where(recent)
    n, first = connection.execute(query).one()
    if not n or first is None:
        return None
    seconds = (now - max(first, now - RATE_WINDOW)).total_seconds()
    return n / seconds if seconds > 0 else None


def _processes(connection: Connection, sweep: int, now: datetime) -> tuple[TrainingProcess, ...]:
    query = select(runs.c.run_key, runs.c.host, runs.c.pid, runs.c.started_at, runs.c.heartbeat_at)
    query = query.join(sweep_runs, sweep_runs.c.run_id == runs.c.id)
    query = query.where(sweep_runs.c.sweep_id == sweep, runs.c.state == "running").order_by(sweep_runs.c.position)
    observer = Owner.current()
    found: dict[tuple[str, int], list[tuple[str, datetime]]] = {}
    for key, host, pid, started_at, heartbeat_at in connection.execute(query):
        if not is_stale(host, pid, heartbeat_at, observer=observer, now=now):
            found.setdefault((host, pid), []).append((key, started_at or now))
    labels = _labels(connection, [leased[0][0] for leased in found.values()])
    return tuple(
        TrainingProcess(host, pid, len(leased), labels[leased[0][0]], leased[0][1])
        for (host, pid), leased in sorted(found.items())
    )


def _failures(connection: Connection, sweep: int) -> tuple[FailedRun, ...]:
    query = select(runs.c.run_key).join(sweep_runs, sweep_runs.c.run_id == runs.c.id)
    query = query.where(sweep_runs.c.sweep_id == sweep, runs.c.state == "failed")
    keys = [*connection.execute(query.order_by(runs.c.finished_at.desc(), runs.c.id.desc()).limit(_FAILURES)).scalars()]
    return tuple(map(FailedRun.of, load_runs(connection, keys)))


def _labels(connection: Connection, run_keys: Sequence[str]) -> dict[str, str]:
    return {run.run_key: run.label for run in load_runs(connection, run_keys)}
