"""Upgrades of the tables from version 0.1.0, and from those between it and the next release.

Stored results only move. The next change of the tables is a further step at the end of `migrate`, which older versions
reach, too; `idwbench.results.tables` always describes the newest tables.
"""

from __future__ import annotations

from sqlalchemy import Connection, inspect
from sqlalchemy.schema import CreateColumn

from idwbench.results.tables import metadata, runs, versions

__all__ = ["migrate"]

_CURVES = (
    ("train", "learning_rate", "learning_rate"),
    ("train", "loss", "train_loss"),
    ("test", "accuracy", "test_accuracy"),
)
# The tables of 0.1.0, those that refer to others first.
_FIRST_TABLES = ("tensors", "curves", "sweep_runs", "runs", "sweeps")


def migrate(connection: Connection, version: str) -> None:
    """Bring tables of `version` to version 0004, without its views, in the transaction of `connection`.

    Version 0001 is that of 0.1.0; 0002 and 0003 were not released.
    """
    if version == "0001":
        _make_again(connection)
        return
    if version == "0003":
        for table in ("attempts", "diffs"):
            connection.exec_driver_sql(f"DROP TABLE {table}")
    for name in ("tags", "note", *(("platform", "durations") if version == "0002" else ())):
        column = CreateColumn(runs.c[name]).compile(dialect=connection.dialect)
        connection.exec_driver_sql(f"ALTER TABLE runs ADD COLUMN {column}")


def _make_again(connection: Connection) -> None:
    """Make the newest tables and copy the rows of 0.1.0.

    Accuracies become rows of ``metrics``, values rows of ``curves``, and ``tensors`` the table ``arrays``.
    """
    is_sqlite = connection.dialect.name == "sqlite"
    inspector = inspect(connection)
    columns = {name: {column["name"] for column in inspector.get_columns(name)} for name in _FIRST_TABLES}
    for name in _FIRST_TABLES:
        connection.exec_driver_sql(f"CREATE TEMPORARY TABLE old_{name} AS SELECT * FROM {name}")
        connection.exec_driver_sql(f"DROP TABLE {name}")
    metadata.create_all(connection, [table for table in metadata.sorted_tables if table is not versions])
    new = {
        "model": "'prototypes'",
        "protocol": "json_extract(config, '$.protocol')" if is_sqlite else "config -> 'protocol'",
        "n_parameters": "prototypes * (n_features + n_classes)",
    }
    for name in ("sweeps", "runs", "sweep_runs"):
        kept = {column.name: column.name for column in metadata.tables[name].columns if column.name in columns[name]}
        kept |= new if name == "runs" else {}
        _copy(connection, f"{name} ({', '.join(kept)})", f"SELECT {', '.join(kept.values())} FROM old_{name}")
        if name != "sweep_runs" and not is_sqlite:
            newest = f"(SELECT max(id) FROM {name})"
            connection.exec_driver_sql(f"SELECT setval(pg_get_serial_sequence('{name}', 'id'), {newest})")
    for split in ("train", "test", "holdout"):
        values = f"SELECT id, '{split}', 'accuracy', {split}_accuracy FROM old_runs"
        _copy(connection, "metrics", f"{values} WHERE {split}_accuracy IS NOT NULL")
    for split, metric, column in _CURVES:
        _copy(connection, "curves", f"SELECT run_id, epoch, '{split}', '{metric}', {column} FROM old_curves")
    _copy(connection, "arrays", "SELECT run_id, name, dtype, shape, data FROM old_tensors")
    for name in _FIRST_TABLES:
        connection.exec_driver_sql(f"DROP TABLE old_{name}")


def _copy(connection: Connection, into: str, query: str) -> None:
    connection.exec_driver_sql(f"INSERT INTO {into} {query}")
