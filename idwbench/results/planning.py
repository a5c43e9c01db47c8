"""Planning of runs and sweeps in the database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, bindparam, delete, select, update

from idwbench.errors import ResultsError
from idwbench.results.tables import dialect_insert, insert_rows, rows_by_key, runs, sweep_runs, sweeps
from idwbench.runs.config import RunConfig
from idwbench.runs.dataset_base import FileConfig
from idwbench.runs.datasets import dataset_identity
from idwbench.runs.settings import is_storable

__all__ = ["plan_runs", "register_sweep"]

# Settings of the protocol with a column of their own.
_PROTOCOL_COLUMNS = ("epochs", "batch_size", "learning_rate", "optimizer", "schedule")


def plan_runs(connection: Connection, configs: Sequence[RunConfig]) -> list[str]:
    """Add missing runs as planned, without a sweep, and return all run keys, each once, in order.

    All runs on the same file content get the path and label of the latest plan, since paths are not part of run keys.
    """
    by_key = {config.run_key: config for config in configs}
    stored, now = rows_by_key(connection, by_key), datetime.now(UTC)
    missing = [config for key, config in by_key.items() if key not in stored]
    shared = {config.setting_key: _setting_columns(config) for config in missing}
    rows = []
    for config in missing:
        columns = shared[config.setting_key]
        own = {"run_key": config.run_key, "seed": config.seed, "config": {**columns["config"], "seed": config.seed}}
        rows.append({**columns, **own, "created_at": now})
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
        columns = _dataset_columns(config)
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
        ResultsError: a text has a character that cannot be stored.
    """
    for what, text in (("name", name), ("description", description), ("text", spec_text)):
        if not is_storable(text):
            raise ResultsError(f"the {what} of the sweep has a NUL or a lone surrogate, which no database can store")
    now = datetime.now(UTC)
    values = {"description": description, "spec": spec_text, "updated_at": now}
    # Another process may register the same name at the same time: the later one waits, and replaces its plan.
    new = dialect_insert(connection, sweeps).values(name=name, created_at=now, **values)
    new = new.on_conflict_do_update(index_elements=["name"], set_=values).returning(sweeps.c.id)
    sweep_id = connection.execute(new).scalar_one()
    keys = [*dict.fromkeys(config.run_key for config in configs)]
    planned = select(runs.c.run_key).join(sweep_runs, sweep_runs.c.run_id == runs.c.id)
    planned = planned.where(sweep_runs.c.sweep_id == sweep_id).order_by(sweep_runs.c.position)
    if keys == [*connection.execute(planned).scalars()]:
        _relocate(connection, configs)
    else:
        plan_runs(connection, configs)
        connection.execute(delete(sweep_runs).where(sweep_runs.c.sweep_id == sweep_id))
        stored = rows_by_key(connection, keys)
        places = [{"sweep_id": sweep_id, "position": place, "run_id": stored[key].id} for place, key in enumerate(keys)]
        insert_rows(connection, sweep_runs, places)
    return keys


def _setting_columns(config: RunConfig) -> dict[str, Any]:
    """Return the columns of a planned run, which runs of one setting share but for the seed.

    Those of settings that a model does not have, or that a rule chooses, are NULL.
    """
    model = config.model.model_dump(mode="json")
    parameters = model.get("parameters", {})
    numbers = {name: value for name, value in parameters.items() if not isinstance(value, str)}
    return {
        **_dataset_columns(config),
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


def _dataset_columns(config: RunConfig) -> dict[str, Any]:
    """Return the columns of the data set; its parameters are without the path of a file."""
    return {
        "dataset": config.dataset_label,
        "dataset_name": config.dataset.name,
        "dataset_parameters": config.dataset.model_dump(mode="json", exclude={"name", "path"}),
    }
