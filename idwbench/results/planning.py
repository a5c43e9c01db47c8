"""Planning of runs and sweeps in the database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

from sqlalchemy import Connection, Integer, and_, bindparam, delete, insert, select, update

from idwbench.results.rows import planned_row
from idwbench.results.tables import runs, sweep_runs, sweeps
from idwbench.runs.config import RunConfig

__all__ = ["plan_runs", "register_sweep"]


def plan_runs(connection: Connection, configs: Sequence[RunConfig]) -> list[str]:
    """Add missing runs as planned and return all keys, each once, in order.

    All runs on the same file content get the path and label of the latest plan, since paths are not part of run keys.
    """
    now = datetime.now(UTC)
    rows = {row["run_key"]: row for row in (planned_row(config, now) for config in configs)}
    if rows:
        connection.execute(_insert_missing(connection), list(rows.values()))
        _relocate(connection, rows.values())
    return list(rows)


def _insert_missing(connection: Connection) -> Any:
    module = import_module(f"sqlalchemy.dialects.{connection.dialect.name}")
    return module.insert(runs).on_conflict_do_nothing(index_elements=["run_key"])


def _relocate(connection: Connection, planned: Iterable[dict[str, Any]]) -> None:
    """Set the path and label of all runs on the same file content as `planned`."""
    files = {}
    for row in planned:
        if (path := row["config"]["dataset"].get("path")) is not None:
            parameters = row["dataset_parameters"]
            files[row["dataset_name"], *parameters.items()] = (row["dataset_name"], parameters, path, row["dataset"])
    for name, parameters, path, label in files.values():
        elsewhere = and_(
            runs.c.dataset_name == name,
            runs.c.dataset_parameters == parameters,
            runs.c.config["dataset"]["path"].as_string() != path,
        )
        found = connection.execute(select(runs.c.id, runs.c.config).where(elsewhere).with_for_update()).all()
        moved = [{"row": i, "config": {**old, "dataset": {**old["dataset"], "path": path}}} for i, old in found]
        if moved:
            place = update(runs).where(runs.c.id == bindparam("row")).values(dataset=label)
            connection.execute(place, moved)


def register_sweep(
    connection: Connection, name: str, description: str, spec_text: str, configs: Sequence[RunConfig]
) -> list[str]:
    """Store a sweep and its plan, add missing runs, and return the keys in order; removed runs stay stored."""
    now = datetime.now(UTC)
    values = {"description": description, "spec": spec_text, "updated_at": now}
    sweep_id = connection.execute(select(sweeps.c.id).where(sweeps.c.name == name)).scalar_one_or_none()
    if sweep_id is None:
        created = connection.execute(insert(sweeps).values(name=name, created_at=now, **values))
        assert created.inserted_primary_key is not None
        sweep_id = created.inserted_primary_key[0]
    else:
        connection.execute(update(sweeps).where(sweeps.c.id == sweep_id).values(**values))
    keys = plan_runs(connection, configs)
    connection.execute(delete(sweep_runs).where(sweep_runs.c.sweep_id == sweep_id))
    if keys:
        found = select(bindparam("sweep", type_=Integer), bindparam("place", type_=Integer), runs.c.id).where(
            runs.c.run_key == bindparam("key")
        )
        connection.execute(
            insert(sweep_runs).from_select(["sweep_id", "position", "run_id"], found),
            [{"sweep": sweep_id, "place": place, "key": key} for place, key in enumerate(keys)],
        )
    return keys
