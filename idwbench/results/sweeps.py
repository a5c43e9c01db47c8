"""Sweeps in the database: their plans, the states of their runs, and how far they are.

A plan is an ordered list of runs, which are added as planned. How far a sweep is: its rate, the runs that are trained
now, and the last failures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, delete, func, select, update

from idwbench.results.leases import ENDED_STATES, PROCESS, state_of
from idwbench.results.reading import find_runs, load_runs, sweep_id
from idwbench.results.records import RUN_STATES, StoredRun, StoredSweep, SweepStatus
from idwbench.results.tables import dialect_insert, insert_rows, rows_by_key, runs, sweep_runs, sweeps
from idwbench.runs.config import RunConfig
from idwbench.runs.dataset_base import FileConfig
from idwbench.runs.datasets import dataset_identity

__all__ = [
    "SweepProgress",
    "TrainingProcess",
    "list_sweeps",
    "plan_runs",
    "register_sweep",
    "sweep_progress",
    "sweep_status",
]

_RATE_WINDOW = timedelta(minutes=10)
_FAILURES = 5
# Settings of the protocol with a column of their own.
_PROTOCOL_COLUMNS = ("epochs", "batch_size", "learning_rate", "optimizer", "schedule")


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


def plan_runs(connection: Connection, configs: Sequence[RunConfig]) -> list[str]:
    """Add missing runs as planned, without a sweep, and return all run keys, each once, in order.

    All runs on the same file content get the path and label of the latest plan, since paths are not part of run keys.
    """
    by_key = {config.run_key: config for config in configs}
    stored, now = rows_by_key(connection, by_key), datetime.now(UTC)
    rows = [{**_columns(config), "created_at": now} for key, config in by_key.items() if key not in stored]
    insert_rows(connection, runs, rows, new_only=True)
    _relocate(connection, by_key.values())
    return list(by_key)


def _relocate(connection: Connection, planned: Iterable[RunConfig]) -> None:
    """Set the path and label of all runs on the same file content as `planned`."""
    settings = {config.setting_key: config for config in planned}
    files = {
        dataset_identity(config.dataset): (config.dataset.path, config)
        for config in settings.values()
        if isinstance(config.dataset, FileConfig)
    }
    for path, config in files.values():
        columns = _columns(config)
        elsewhere = (
            runs.c.dataset_name == columns["dataset_name"],
            runs.c.dataset_parameters == columns["dataset_parameters"],
            runs.c.config["dataset"]["path"].as_string() != path,
        )
        found = connection.execute(select(runs.c.id, runs.c.config).where(*elsewhere).with_for_update()).all()
        moved = [{"row": i, "config": {**old, "dataset": {**old["dataset"], "path": path}}} for i, old in found]
        if moved:
            place = update(runs).where(runs.c.id == bindparam("row")).values(dataset=columns["dataset"])
            connection.execute(place, moved)


def register_sweep(
    connection: Connection, name: str, description: str, spec_text: str, configs: Sequence[RunConfig]
) -> list[str]:
    """Store or replace a sweep and its plan, add missing runs as planned, and return its run keys in order.

    Runs that leave the plan stay stored.

    Raises:
        ResultsError: a text is not valid Unicode.
    """
    now = datetime.now(UTC)
    values = {"description": description, "spec": spec_text, "updated_at": now}
    # Another process may register the same name at the same time: the later one waits, and replaces its plan.
    new = dialect_insert(connection, sweeps).values(name=name, created_at=now, **values)
    new = new.on_conflict_do_update(index_elements=["name"], set_=values).returning(sweeps.c.id)
    number = connection.execute(new).scalar_one()
    keys = [*dict.fromkeys(config.run_key for config in configs)]
    planned = _planned(select(runs.c.run_key), number).order_by(sweep_runs.c.position)
    if keys == [*connection.execute(planned).scalars()]:
        _relocate(connection, configs)
    else:
        plan_runs(connection, configs)
        connection.execute(delete(sweep_runs).where(sweep_runs.c.sweep_id == number))
        stored = rows_by_key(connection, keys)
        places = [{"sweep_id": number, "position": place, "run_id": stored[key].id} for place, key in enumerate(keys)]
        insert_rows(connection, sweep_runs, places)
    return keys


def _columns(config: RunConfig) -> dict[str, Any]:
    """Return the columns of a planned run.

    Those of settings that a model does not have, or that a rule chooses, are NULL. The parameters of the data set are
    without the path of a file.
    """
    model = config.model.model_dump(mode="json")
    parameters = model.get("parameters", {})
    numbers = {name: value for name, value in parameters.items() if not isinstance(value, str)}
    return {
        "run_key": config.run_key,
        "dataset": config.dataset_label,
        "dataset_name": config.dataset.name,
        "dataset_parameters": config.dataset.model_dump(mode="json", exclude={"name", "path"}),
        "seed": config.seed,
        "config": config.model_dump(mode="json"),
        "model": config.model.kind,
        "parameters": parameters,
        "method": config.model.method,
        **{name: model.get(name) for name in ("prototypes", "plugin_sha256")},
        **{name: numbers.get(name) for name in ("power", "epsilon")},
        "protocol": config.protocol.model_dump(mode="json"),
        **{name: getattr(config.protocol, name) for name in _PROTOCOL_COLUMNS},
        "state": "planned",
        "attempt": 0,
    }


def sweep_status(connection: Connection, name: str) -> SweepStatus:
    """Return the number of runs of a sweep in each state.

    Raises:
        ResultsError: no sweep has that name.
    """
    number = sweep_id(connection, name)
    counted = _planned(select(runs.c.state, func.count()), number).group_by(runs.c.state)
    counts = Counter({state: n for state, n in connection.execute(counted)})
    if counts["running"]:
        leased = len(_leased(connection, number))
        counts.update(stale=counts["running"] - leased, running=leased - counts["running"])
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
    leased = _leased(connection, sweep) if status.running else []
    numbers = Counter((run.host, run.pid) for run in leased)
    first = {(run.host, run.pid): run for run in reversed(leased)}
    labels = {run.run_key: run.label for run in load_runs(connection, [run.run_key for run in first.values()])}
    failed = find_runs(connection, sweep=name, states=["failed"], metrics=()) if status.failed else []
    failed.sort(key=lambda run: run.finished_at or now, reverse=True)
    return SweepProgress(
        name=name,
        status=status,
        rate=rate,
        seconds_left=status.to_do / rate if rate else (None if status.to_do else 0.0),
        processes=tuple(
            TrainingProcess(*process, numbers[process], labels[run.run_key], run.started_at or now)
            for process, run in sorted(first.items())
        ),
        failures=tuple(failed[:_FAILURES]),
    )


def _rate(connection: Connection, sweep: int, now: datetime) -> float | None:
    """Return the runs that ended in the window, divided by the time since the first of them was started."""
    query = _planned(select(func.count(), func.min(runs.c.started_at)), sweep)
    query = query.where(runs.c.state.in_(ENDED_STATES), runs.c.finished_at > now - _RATE_WINDOW)
    n, first = connection.execute(query).one()
    if not n or first is None:
        return None
    seconds = (now - max(first, now - _RATE_WINDOW)).total_seconds()
    return n / seconds if seconds > 0 else None


def _leased(connection: Connection, sweep: int) -> list[Row[*tuple[Any, ...]]]:
    """Return the runs that are trained now, with their start and process, in the order of the plan."""
    query = _planned(select(runs.c.run_key, runs.c.state, runs.c.started_at, *PROCESS), sweep)
    running = query.where(runs.c.state == "running").order_by(sweep_runs.c.position)
    return [row for row in connection.execute(running) if state_of(row) == "running"]
