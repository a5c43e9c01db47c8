"""Light queries by run key: states, and the values of one metric."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from sqlalchemy import Connection, and_, select

from idwbench.results.processes import Owner, is_stale
from idwbench.results.records import RunState
from idwbench.results.rows import chunks
from idwbench.results.tables import metrics, runs

__all__ = ["StoredState", "metric_values", "run_states"]

StoredState = RunState | Literal["stale"]


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
