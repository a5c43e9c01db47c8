"""Planning of runs and sweeps in the database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, select, update

from idwbench.errors import ResultsError
from idwbench.results.planned_rows import PLANNED_COLUMNS, dataset_columns, planned_rows
from idwbench.results.statements import chunks, insert_rows, parameter_mark
from idwbench.results.tables import runs, sweep_runs, sweeps
from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import FileConfig, dataset_identity
from idwbench.runs.settings import is_storable

__all__ = ["plan_runs", "register_sweep"]


def plan_runs(connection: Connection, configs: Sequence[RunConfig]) -> list[str]:
    """Add missing runs as planned and return all keys, each once, in order.

    All runs on the same file content get the path and label of the latest plan, since paths are not part of run keys.
    """
    by_key = {config.run_key: config for config in configs}
    stored = {
        key
        for keys in chunks(list(by_key))
        for key in connection.execute(select(runs.c.run_key).where(runs.c.run_key.in_(keys))).scalars()
    }
    now = datetime.now(UTC)
    missing = {key: config for key, config in by_key.items() if key not in stored}
    rows = planned_rows(missing, now, connection.dialect)
    insert_rows(connection, runs, rows, PLANNED_COLUMNS, new_only="run_key")
    _relocate(connection, by_key.values())
    return list(by_key)


def _dialect(connection: Connection) -> Any:
    return import_module(f"sqlalchemy.dialects.{connection.dialect.name}")


def _relocate(connection: Connection, planned: Iterable[RunConfig]) -> None:
    """Set the path and label of all runs on the same file content as `planned`."""
    settings = {config.setting_key: config for config in planned}
    files = {
        dataset_identity(config.dataset): (config.dataset.path, config)
        for config in settings.values()
        if isinstance(config.dataset, FileConfig)
    }
    for path, config in files.values():
        columns = dataset_columns(config)
        elsewhere = and_(
            runs.c.dataset_name == columns["dataset_name"],
            runs.c.dataset_parameters == columns["dataset_parameters"],
            runs.c.config["dataset"]["path"].as_string() != path,
        )
        found = connection.execute(select(runs.c.id, runs.c.config).where(elsewhere).with_for_update()).all()
        moved = [{"row": i, "config": {**old, "dataset": {**old["dataset"], "path": path}}} for i, old in found]
        if moved:
            place = update(runs).where(runs.c.id == bindparam("row")).values(dataset=columns["dataset"])
            connection.execute(place, moved)


def register_sweep(
    connection: Connection, name: str, description: str, spec_text: str, configs: Sequence[RunConfig]
) -> list[str]:
    """Store a sweep and its plan, add missing runs, and return the keys in order; removed runs stay stored.

    Raises:
        ResultsError: a text has a character that cannot be stored.
    """
    for what, text in (("name", name), ("description", description), ("text", spec_text)):
        if not is_storable(text):
            raise ResultsError(f"the {what} of the sweep has a NUL or a lone surrogate, which no database can store")
    now = datetime.now(UTC)
    values = {"description": description, "spec": spec_text, "updated_at": now}
    sweep_id = connection.execute(select(sweeps.c.id).where(sweeps.c.name == name)).scalar_one_or_none()
    if sweep_id is None:
        # Another process may register the same name at the same time: the later one waits, and replaces its plan.
        new = _dialect(connection).insert(sweeps).values(name=name, created_at=now, **values)
        new = new.on_conflict_do_update(index_elements=["name"], set_=values).returning(sweeps.c.id)
        sweep_id = connection.execute(new).scalar_one()
    else:
        connection.execute(update(sweeps).where(sweeps.c.id == sweep_id).values(**values))
    keys = [*dict.fromkeys(config.run_key for config in configs)]
    if keys == _planned_keys(connection, sweep_id):
        _relocate(connection, configs)
    else:
        plan_runs(connection, configs)
        _replace_plan(connection, sweep_id, keys)
    return keys


def _planned_keys(connection: Connection, sweep_id: int) -> list[str]:
    query = select(runs.c.run_key).join(sweep_runs, sweep_runs.c.run_id == runs.c.id)
    query = query.where(sweep_runs.c.sweep_id == sweep_id).order_by(sweep_runs.c.position)
    return list(connection.execute(query).scalars())


def _replace_plan(connection: Connection, sweep_id: int, keys: Sequence[str]) -> None:
    connection.execute(delete(sweep_runs).where(sweep_runs.c.sweep_id == sweep_id))
    if keys:
        mark = parameter_mark(connection)
        query = f"SELECT {mark}, {mark}, id FROM runs WHERE run_key = {mark}"
        rows = [(sweep_id, place, key) for place, key in enumerate(keys)]
        connection.exec_driver_sql(f"INSERT INTO sweep_runs (sweep_id, position, run_id) {query}", rows)
