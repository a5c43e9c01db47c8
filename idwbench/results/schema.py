"""The version of the tables, in the table ``idwbench_version``, and upgrades.

Alembic is imported only if there is something to upgrade, or to create on PostgreSQL.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from idwbench.errors import NoResultsError, OldResultsError, ResultsError
from idwbench.results.connection import Database
from idwbench.results.database_errors import explained

__all__ = [
    "MIGRATIONS",
    "STATEMENT_END",
    "check_schema",
    "new_tables_file",
    "revisions",
    "run_migrations",
    "stored_revision",
    "upgrade_schema",
]

MIGRATIONS = Path(__file__).parent / "migrations"
STATEMENT_END = ";\n\n"
# Number of PostgreSQL's advisory lock for migrations.
_LOCK = 0x1D3B
_FEW = 3
_NO_RESULTS = "no results are stored there yet"


def revisions() -> list[str]:
    """Return the numbers of all migrations, in order."""
    return sorted(path.name.split("_")[0] for path in (MIGRATIONS / "versions").glob("[0-9]*.py"))


def stored_revision(connection: Connection) -> str | None:
    """Return the version of the tables, or None."""
    if connection.dialect.name == "sqlite":
        query = "SELECT count(*) FROM sqlite_master WHERE name = 'idwbench_version'"
    else:
        query = (
            "SELECT count(*) FROM pg_tables "
            "WHERE tablename = 'idwbench_version' AND schemaname = ANY(current_schemas(false))"
        )
    if not connection.exec_driver_sql(query).scalar_one():
        return None
    revision = connection.exec_driver_sql("SELECT version_num FROM idwbench_version").scalar_one_or_none()
    return None if revision is None else str(revision)


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
        revision = _own_revision(connection, database.label)
    if revision is None:
        raise NoResultsError("is empty", file=database.label, hint=_NO_RESULTS)
    if _is_older(revision, database.label):
        raise OldResultsError(
            f"has tables of version {revision}, older than version {revisions()[-1]} of this idwbench",
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
        revision = _own_revision(connection, database.label)
    if revision is None or _is_older(revision, database.label):
        _migrate(database)
    # Last, so that the mode of another program's file does not change.
    database.use_write_ahead_log()


def _own_revision(connection: Connection, label: str) -> str | None:
    """Return `stored_revision`; raises `ResultsError` for an SQLite file of another program."""
    revision = stored_revision(connection)
    if revision is None and connection.dialect.name == "sqlite":
        query = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"
        names = connection.exec_driver_sql(query).scalars().all()
        found = [name for name in names if not name.startswith("sqlite_")]
        if found and "idwbench_version" not in found:
            some = ", ".join([*found[:_FEW], *(["…"] if len(found) > _FEW else [])])
            raise ResultsError(f"holds tables of another program: {some}", file=label, hint="use another file")
    return revision


def _is_older(revision: str, label: str) -> bool:
    known = revisions()
    if revision not in known:
        raise ResultsError(
            f"has tables of version {revision}, newer than version {known[-1]} of this idwbench",
            file=label,
            hint="upgrade idwbench",
        )
    return revision != known[-1]


def _migrate(database: Database) -> None:
    # Alembic's batch mode replaces a table by a copy, which with foreign keys would delete the rows that refer to it.
    with database.without_foreign_keys().write() as connection:
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
        revision = _own_revision(connection, database.label)
        if revision is not None and not _is_older(revision, database.label):
            return  # another process has upgraded it
        if revision is not None and database.path is not None:
            _back_up(database.path, revision)
        try:
            if revision is not None or not _create_tables(connection):
                run_migrations(connection)
        except DBAPIError as error:
            newest = revisions()[-1]
            problem = f"cannot be upgraded to version {newest} and was left unchanged: {explained(error.orig)}"
            raise ResultsError(problem, file=database.label) from error
        if connection.dialect.name == "sqlite" and connection.exec_driver_sql("PRAGMA foreign_key_check").first():
            raise ResultsError("a migration broke references; it was left unchanged", file=database.label)


def new_tables_file() -> Path:
    """Return the path of the file with the statements that make a new SQLite database of the newest version."""
    return MIGRATIONS / f"sqlite_{revisions()[-1]}.sql"


def _create_tables(connection: Connection) -> bool:
    """Make the newest tables in an empty SQLite database without migrations; return whether it was possible."""
    if connection.dialect.name != "sqlite" or not new_tables_file().exists():
        return False
    for statement in new_tables_file().read_text(encoding="utf-8").split(STATEMENT_END):
        connection.exec_driver_sql(statement)
    return True


def run_migrations(connection: Connection) -> None:
    """Bring the tables to the newest version by Alembic, in the transaction of `connection`."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _back_up(path: Path, revision: str) -> None:
    """Copy a locked database to a file in its folder."""
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    target = path.with_name(f"{path.name}.version-{revision}.{moment}.bak")
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
