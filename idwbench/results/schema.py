"""The version of the tables, in the table ``idwbench_version``: a new database, and upgrades of older ones."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection, insert, inspect, select, update
from sqlalchemy.exc import DBAPIError

from idwbench.errors import NoResultsError, OldResultsError, ResultsError
from idwbench.results.database import Database, explained
from idwbench.results.tables import metadata, versions
from idwbench.results.views import create_views, drop_views

__all__ = ["VERSION", "VERSIONS", "check_schema", "upgrade_schema"]

# Those of tables that this version reads or upgrades, in order: 0001 of idwbench 0.1.0, and two that were not released.
VERSIONS = ("0001", "0002", "0003", "0004")
VERSION = VERSIONS[-1]
# Number of PostgreSQL's advisory lock for migrations.
_LOCK = 0x1D3B
_FEW = 3
_NO_RESULTS = "no results are stored there yet"


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
        _migrate(database)
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
        if version not in (None, *VERSIONS):
            problem = f"has tables of version {version}, newer than version {VERSION} of this idwbench"
            raise ResultsError(problem, file=label, hint="upgrade idwbench")
        return version
    is_sqlite = connection.dialect.name == "sqlite"
    if found := sorted([*inspector.get_table_names(), *inspector.get_view_names()]) if is_sqlite else []:
        some = ", ".join([*found[:_FEW], *(["…"] if len(found) > _FEW else [])])
        raise ResultsError(f"holds tables of another program: {some}", file=label, hint="use another file")
    return None


def _migrate(database: Database) -> None:
    with database.write() as connection:
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
        version = _version(connection, database.label)
        if version == VERSION:
            return  # another process has upgraded it
        if version is not None and database.path is not None:
            _back_up(database.path, version)
        try:
            _write_tables(connection, version)
        except (DBAPIError, ResultsError) as error:
            problem = f"cannot be upgraded to version {VERSION} and was left unchanged: {explained(error.__cause__)}"
            raise ResultsError(problem, file=database.label) from error
        if connection.dialect.name == "sqlite" and connection.exec_driver_sql("PRAGMA foreign_key_check").first():
            raise ResultsError("a migration broke references; it was left unchanged", file=database.label)


def _write_tables(connection: Connection, version: str | None) -> None:
    """Make the newest tables and views, in an empty database or from those of an older version."""
    if version is None:
        metadata.create_all(connection, checkfirst=False)
        connection.execute(insert(versions).values(version_num=VERSION))
    else:
        from idwbench.results.migrations import migrate

        drop_views(connection)
        migrate(connection, version)
        connection.execute(update(versions).values(version_num=VERSION))
    create_views(connection)


def _back_up(path: Path, version: str) -> None:
    """Copy a locked database to a file in its folder."""
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    target = path.with_name(f"{path.name}.version-{version}.{moment}.bak")
    unfinished = target.with_suffix(".tmp")
    try:
        with (
            closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(unfinished)) as copy,
        ):
            source.backup(copy)
        os.replace(unfinished, target)
    except (OSError, sqlite3.Error) as error:
        unfinished.unlink(missing_ok=True)
        problem = f"must be upgraded, but cannot be copied to '{target}' first: {error}"
        raise ResultsError(problem, file=path) from error
