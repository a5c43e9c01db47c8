"""Removal of runs, with the files that belong to them."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, delete, select, update

from idwbench.errors import OutputError, ResultsError
from idwbench.results.leases import is_stale
from idwbench.results.tables import arrays, check_known, chunks, curves, metrics, rows_by_key, runs, sweep_runs

__all__ = ["Removal", "remove_files", "remove_runs"]


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
    stored = rows_by_key(connection, run_keys, runs.c.state, runs.c.host, runs.c.pid, runs.c.heartbeat_at, lock=True)
    check_known(run_keys, stored)
    _check_idle(stored.values())
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


def _check_idle(found: Iterable[Row[*tuple[Any, ...]]]) -> None:
    in_work = [row for row in found if row.state == "running" and not is_stale(row.host, row.pid, row.heartbeat_at)]
    if in_work:
        first = in_work[0]
        others = f" and {len(in_work) - 1} more are" if len(in_work) > 1 else " is"
        problem = f"run {first.run_key[:12]}{others} being trained by process {first.pid} on {first.host}"
        raise ResultsError(f"{problem}: nothing was removed", hint="stop that process first")


def remove_files(folders: Iterable[Path | None], run_keys: Iterable[str]) -> None:
    """Delete the recordings and checkpoints of runs: what begins with their keys in `folders`.

    Raises:
        OutputError: one cannot be deleted.
    """
    keys = set(run_keys)
    for folder in folders:
        for path in sorted(folder.iterdir()) if folder is not None and folder.is_dir() else ():
            if path.name.partition(".")[0] not in keys:
                continue
            try:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
            except OSError as error:
                problem = f"cannot be deleted ({error.strerror or error}); the run was removed"
                raise OutputError(problem, file=path) from None
