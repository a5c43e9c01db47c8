"""Which version of the tables a database has, and how it comes to the newest.

The version stands in the table ``idwbench_version``. Looking it up is one plain query; Alembic is only loaded when
there is something to create or upgrade.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from pathlib import Path

from sqlalchemy import Connection, event
from sqlalchemy.exc import OperationalError, ProgrammingError

from idwbench.errors import ResultsError
from idwbench.results.connection import BUSY_TIMEOUT_SECONDS, Database

__all__ = ["MIGRATIONS", "check_schema", "revisions", "stored_revision", "upgrade_schema"]

MIGRATIONS = Path(__file__).parent / "migrations"
# Any fixed number: PostgreSQL's advisory lock that migrations of this tool take.
_LOCK = 0x1D3B
_NO_RESULTS = "no results are stored there yet: run `idwbench sweep …` or `idwbench train …` first"


def revisions() -> list[str]:
    """Return the numbers of all migrations that this version knows, in order."""
    return sorted(path.name.split("_")[0] for path in (MIGRATIONS / "versions").glob("[0-9]*.py"))


def stored_revision(connection: Connection) -> str | None:
    """Return the version of the tables, or None if the database has none of ours."""
    if connection.dialect.name == "sqlite":
        query = "SELECT count(*) FROM sqlite_master WHERE name = 'idwbench_version'"
    else:
        query = "SELECT count(*) FROM pg_tables WHERE tablename = 'idwbench_version'"
    if not connection.exec_driver_sql(query).scalar_one():
        return None
    revision = connection.exec_driver_sql("SELECT version_num FROM idwbench_version").scalar_one_or_none()
    return None if revision is None else str(revision)


def check_schema(database: Database) -> None:
    """Check that a database can be read as it stands; creates and changes nothing.

    Raises:
        ResultsError: no database there, nothing of ours in it, or its tables are older or newer than known.
    """
    if database.path is not None and not database.path.exists():
        raise ResultsError(f"'{database.label}' does not exist; {_NO_RESULTS}")
    with database.read() as connection:
        revision = stored_revision(connection)
    if revision is None:
        raise ResultsError(f"'{database.label}': {_NO_RESULTS}")
    if _is_older(revision, database.label):
        raise ResultsError(
            f"'{database.label}' has tables of version {revision}, this is version {revisions()[-1]}: "
            "a command that writes (`idwbench sweep …`) upgrades it and keeps a copy"
        )


def upgrade_schema(database: Database) -> None:
    """Create or upgrade the tables, all or nothing; safe when several processes do it at once.

    An older SQLite database is first copied to a file beside it.

    Raises:
        ResultsError: the folder cannot be made, the database cannot be opened or upgraded, or it is newer than known.
    """
    if database.path is not None:
        try:
            database.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ResultsError(f"cannot make the folder '{database.path.parent}': {error.strerror}") from None
    with database.read() as connection:
        revision = stored_revision(connection)
    if revision is not None and not _is_older(revision, database.label):
        return
    if database.path is not None:
        _use_write_ahead_log(database)
    _migrate(database)


def _is_older(revision: str, label: str) -> bool:
    known = revisions()
    if revision not in known:
        raise ResultsError(
            f"'{label}' has tables of version {revision}, newer than this idwbench knows ({known[-1]}): "
            "upgrade idwbench"
        )
    return revision != known[-1]


def _use_write_ahead_log(database: Database) -> None:
    """Let readers and one writer work at once; the file remembers it."""
    deadline = time.monotonic() + BUSY_TIMEOUT_SECONDS
    with database._translated():
        while True:
            # The mode cannot change within a transaction, so this goes past SQLAlchemy.
            connection = database.engine.raw_connection()
            try:
                connection.cursor().execute("PRAGMA journal_mode = WAL").fetchone()
                return
            except sqlite3.OperationalError as error:
                # Two processes that change it at once are told "locked" without waiting.
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise ResultsError(f"'{database.label}': {error}") from error
            except sqlite3.DatabaseError as error:
                raise ResultsError(f"'{database.label}': {error}") from error
            finally:
                connection.close()
            time.sleep(0.02)


def _migrate(database: Database) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    # Alembic's batch mode replaces a table by a changed copy; with foreign keys on, dropping the old one
    # would delete what refers to it. They cannot be switched within a transaction, hence before it.
    with _without_foreign_keys(database):
        try:
            with database.write() as connection:
                _lock(connection)
                revision = stored_revision(connection)
                if revision is not None and not _is_older(revision, database.label):
                    return  # another process was faster
                if revision is not None and database.path is not None:
                    _back_up(database.path, revision)
                config = Config()
                config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
                config.attributes["connection"] = connection
                command.upgrade(config, "head")
                _check_foreign_keys(connection)
        except (CommandError, ProgrammingError) as error:
            reason = str(getattr(error, "orig", error)).splitlines()[0]
            raise ResultsError(f"'{database.label}' cannot be upgraded: {reason}; it was left as it was") from error


def _lock(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
