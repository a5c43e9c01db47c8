"""The newest tables and views in a database: its version in the table ``idwbench_version``, and upgrades of older ones.

Stored results only move. The next change of the tables is a further step at the end of `_migrate`, which older versions
reach, too; `idwbench.results.tables` always describes the newest tables.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection, delete, insert, inspect, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateColumn

from idwbench.errors import NoResultsError, OldResultsError, ResultsError
from idwbench.results.database import Database, explained
from idwbench.results.tables import metadata, runs, versions

__all__ = ["VERSION", "check_schema", "upgrade_schema"]

# Those of tables that this version reads or upgrades, in order: 0001 of idwbench 0.1.0, and two that were not released.
_VERSIONS = ("0001", "0002", "0003", "0004")
VERSION = _VERSIONS[-1]
# Number of PostgreSQL's advisory lock for migrations.
_LOCK = 0x1D3B
_FEW = 3
_NO_RESULTS = "no results are stored there yet"
_CURVES = (
    ("train", "learning_rate", "learning_rate"),
    ("train", "loss", "train_loss"),
    ("test", "accuracy", "test_accuracy"),
)
# The tables of 0.1.0, those that refer to others first.
_FIRST_TABLES = ("tensors", "curves", "sweep_runs", "runs", "sweeps")

# What runs of one setting have in common: all but the seed. `model_settings` and `protocol` hold the settings that have
# no column of their own.
_SETTING = """
    dataset, dataset_name, dataset_parameters, model, method, prototypes, power, epsilon, parameters, plugin_sha256,
    model_settings, epochs, batch_size, learning_rate, optimizer, schedule, protocol
"""
_MODEL_SETTINGS = {
    "sqlite": "json_remove(config, '$.dataset', '$.protocol', '$.seed')",
    "postgresql": "config - 'dataset' - 'protocol' - 'seed'",
}
_JOIN = {"sqlite": "group_concat", "postgresql": "string_agg"}

# The mean comes first, then the squared deviations from it: E[x²] − E[x]² would cancel to noise. A setting without any
# metric, because all its runs diverged, has one row, with neither split nor metric. A run that is trained again counts
# with its result until the new one replaces it.
_LEADERBOARD = f"""
CREATE VIEW leaderboard AS
WITH ended AS (
    SELECT runs.*, {{model_settings}} AS model_settings, COALESCE(previous_state, state) AS ended_state
    FROM runs
    WHERE state IN ('complete', 'diverged') OR previous_state IN ('complete', 'diverged')
),
counted AS (
    SELECT {_SETTING}, id, ended_state,
        COUNT(CASE WHEN ended_state = 'diverged' THEN 1 END) OVER setting AS n_diverged,
        MAX(n_parameters) OVER setting AS n_parameters
    FROM ended
    WINDOW setting AS (PARTITION BY {_SETTING})
),
measured AS (
    SELECT counted.*, metrics.split, metrics.name AS metric, metrics.value,
        AVG(metrics.value) OVER (PARTITION BY {_SETTING}, metrics.split, metrics.name) AS mean,
        COUNT(metrics.value) OVER (PARTITION BY {_SETTING}) AS n_values
    FROM counted LEFT JOIN metrics ON metrics.run_id = counted.id AND counted.ended_state = 'complete'
)
SELECT {_SETTING}, split, metric,
    COUNT(value) AS n,
    MAX(mean) AS mean,
    CASE WHEN COUNT(value) > 1 THEN SQRT(SUM((value - mean) * (value - mean)) / (COUNT(value) - 1)) END AS std,
    MAX(n_diverged) AS n_diverged,
    MAX(n_parameters) AS n_parameters
FROM measured
WHERE metric IS NOT NULL OR n_values = 0
GROUP BY {_SETTING}, split, metric
"""

_WIDE_METRICS = ("train_accuracy", "validation_accuracy", "test_accuracy", "holdout_accuracy", "test_rmse")
_WIDE_METRIC = """(
        SELECT value FROM metrics
        WHERE metrics.run_id = runs.id AND metrics.split = '{0}' AND metrics.name = '{1}'
    ) AS {0}_{1}"""
_RUNS_WIDE = """
CREATE VIEW runs_wide AS
SELECT runs.id, runs.run_key,
    (SELECT {join}(named.name, ', ') FROM (
        SELECT sweeps.name FROM sweep_runs JOIN sweeps ON sweeps.id = sweep_runs.sweep_id
        WHERE sweep_runs.run_id = runs.id ORDER BY sweeps.name
    ) AS named) AS sweeps,
    {settings},
    CASE WHEN previous_state IN ('complete', 'diverged') THEN previous_state ELSE state END AS state,
    COALESCE(previous_state, '') IN ('complete', 'diverged') AS retraining,
    {metrics}, {outcome}
FROM runs
"""


def check_schema(database: Database) -> None:
    """Check that a database can be read without an upgrade.

    Raises:
        NoResultsError: the database does not exist or is empty.
        OldResultsError: it has tables of an older version.
        ResultsError: it is another program's, or has newer tables.
    """
    if database.path is not None and not database.path.exists():
        raise NoResultsError("does not exist", file=database.label, hint=_NO_RESULTS)
    with database.read() as connection:
        version = _version(connection, database.label)
    if version is None:
        raise NoResultsError("is empty", file=database.label, hint=_NO_RESULTS)
    if version != VERSION:
        raise OldResultsError(
            f"has tables of version {version}, older than version {VERSION} of this idwbench",
            file=database.label,
            hint=f"opening it for writing upgrades it{'' if database.path is None else ' and keeps a copy'}",
        )


def upgrade_schema(database: Database) -> None:
    """Create or upgrade the tables atomically; an older SQLite database is first copied to a file in its folder.

    Raises:
        ResultsError: the folder cannot be created, or the database cannot be opened or upgraded, is another program's,
            or has newer tables.
    """
    if database.path is not None:
        try:
            database.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            problem = f"its folder cannot be created: {error.strerror}"
            raise ResultsError(problem, file=database.path) from None
    with database.read() as connection:
        version = _version(connection, database.label)
    if version != VERSION:
        with database.write() as connection:
            _upgrade(connection, database)
    # Last, so that the mode of another program's file does not change.
    database.use_write_ahead_log()


def _version(connection: Connection, label: str) -> str | None:
    """Return the version of the tables, or None if there are none.

    Raises:
        ResultsError: they are newer, or an SQLite file has tables of another program.
    """
    inspector = inspect(connection)
    if inspector.has_table(versions.name):
        version = connection.execute(select(versions.c.version_num)).scalar_one_or_none()
        if version not in (None, *_VERSIONS):
            problem = f"has tables of version {version}, newer than version {VERSION} of this idwbench"
            raise ResultsError(problem, file=label, hint="upgrade idwbench")
        return version
    is_sqlite = connection.dialect.name == "sqlite"
    if found := sorted([*inspector.get_table_names(), *inspector.get_view_names()]) if is_sqlite else []:
        some = ", ".join([*found[:_FEW], *(["…"] if len(found) > _FEW else [])])
        raise ResultsError(f"holds tables of another program: {some}", file=label, hint="use another file")
    return None


def _upgrade(connection: Connection, database: Database) -> None:
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
    version = _version(connection, database.label)
    if version == VERSION:
        return  # another process has upgraded it
    if version is not None and database.path is not None:
        _back_up(database.path, version)
    try:
        if version is None:
            metadata.create_all(connection, checkfirst=False)
        else:
            _migrate(connection, version)
        connection.execute(delete(versions))
        connection.execute(insert(versions).values(version_num=VERSION))
        _create_views(connection)
    except (DBAPIError, ResultsError) as error:
        problem = f"cannot be upgraded to version {VERSION} and was left unchanged: {explained(error.__cause__)}"
        raise ResultsError(problem, file=database.label) from error
    if connection.dialect.name == "sqlite" and connection.exec_driver_sql("PRAGMA foreign_key_check").first():
        raise ResultsError("a migration broke references; it was left unchanged", file=database.label)


def _back_up(path: Path, version: str) -> None:
    """Copy a locked database to a file in its folder."""
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    target = path.with_name(f"{path.name}.version-{version}.{moment}.bak")
    unfinished = target.with_suffix(".tmp")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as source:
            source.execute("VACUUM INTO ?", [str(unfinished)])
        os.replace(unfinished, target)
    except (OSError, sqlite3.Error) as error:
        unfinished.unlink(missing_ok=True)
        problem = f"must be upgraded, but cannot be copied to '{target}' first: {error}"
        raise ResultsError(problem, file=path) from error


def _migrate(connection: Connection, version: str) -> None:
    """Bring tables of an older version to the newest, without the views."""
    for view in ("runs_wide", "leaderboard"):  # SQLite refuses to replace a table that a view reads
        connection.exec_driver_sql(f"DROP VIEW {view}")
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
    metadata.create_all(connection)
    new = {
        "model": "'prototypes'",
        "protocol": "json_extract(config, '$.protocol')" if is_sqlite else "config -> 'protocol'",
        "n_parameters": "prototypes * (n_features + n_classes)",
    }
    for name in ("sweeps", "runs", "sweep_runs"):
        kept = {column.name: column.name for column in metadata.tables[name].columns if column.name in columns[name]}
        kept |= new if name == "runs" else {}
        into, taken = (", ".join(part) for part in (kept, kept.values()))
        connection.exec_driver_sql(f"INSERT INTO {name} ({into}) SELECT {taken} FROM old_{name}")
        if name != "sweep_runs" and not is_sqlite:
            newest = f"(SELECT max(id) FROM {name})"
            connection.exec_driver_sql(f"SELECT setval(pg_get_serial_sequence('{name}', 'id'), {newest})")
    for split in ("train", "test", "holdout"):
        values = f"SELECT id, '{split}', 'accuracy', {split}_accuracy FROM old_runs"
        connection.exec_driver_sql(f"INSERT INTO metrics {values} WHERE {split}_accuracy IS NOT NULL")
    for split, metric, column in _CURVES:
        values = f"SELECT run_id, epoch, '{split}', '{metric}', {column} FROM old_curves"
        connection.exec_driver_sql(f"INSERT INTO curves {values}")
    connection.exec_driver_sql("INSERT INTO arrays SELECT run_id, name, dtype, shape, data FROM old_tensors")
    for name in _FIRST_TABLES:
        connection.exec_driver_sql(f"DROP TABLE old_{name}")


def _create_views(connection: Connection) -> None:
    dialect, names = connection.dialect.name, runs.columns.keys()
    settings, outcome = names[names.index("dataset") : names.index("config")], names[names.index("n_parameters") :]
    wide = ", ".join(_WIDE_METRIC.format(*name.split("_")) for name in _WIDE_METRICS)
    connection.exec_driver_sql(_LEADERBOARD.format(model_settings=_MODEL_SETTINGS[dialect]))
    columns = {"settings": ", ".join(settings), "metrics": wide, "outcome": ", ".join(outcome)}
    connection.exec_driver_sql(_RUNS_WIDE.format(join=_JOIN[dialect], **columns))
