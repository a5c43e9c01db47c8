"""Which version of the tables a database has, and how it comes to the newest.

The version stands in the table ``idwbench_version``. Looking it up is one plain query; Alembic is only loaded when
there is something to create or upgrade.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from idwbench.errors import ResultsError
from idwbench.results.connection import Database

__all__ = ["MIGRATIONS", "check_schema", "revisions", "stored_revision", "upgrade_schema"]

MIGRATIONS = Path(__file__).parent / "migrations"
# Any fixed number: PostgreSQL's advisory lock that migrations of this tool take.
_LOCK = 0x1D3B
_FEW = 3
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
        ResultsError: no database there, nothing of ours in it, another program's, or its tables are older or newer
            than known.
    """
    if database.path is not None and not database.path.exists():
        raise ResultsError(f"'{database.label}' does not exist; {_NO_RESULTS}")
    with database.read() as connection:
        revision = _own_revision(connection, database.label)
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
        ResultsError: the folder cannot be made, the database cannot be opened or upgraded, is another program's, or is
            newer than known.
    """
    if database.path is not None:
        try:
            database.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ResultsError(f"cannot make the folder '{database.path.parent}': {error.strerror}") from None
    with database.read() as connection:
        revision = _own_revision(connection, database.label)
    if revision is None or _is_older(revision, database.label):
        _migrate(database)
    # Only now: the mode of a file that is not ours stays. A process that ended in between is made up for.
    database.use_write_ahead_log()


def _own_revision(connection: Connection, label: str) -> str | None:
    """Return `stored_revision`, or refuse an SQLite file that another program uses."""
    revision = stored_revision(connection)
    if revision is None and connection.dialect.name == "sqlite":
        query = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"
        names = connection.exec_driver_sql(query).scalars().all()
        found = [name for name in names if not name.startswith("sqlite_")]
        if found and "idwbench_version" not in found:
            some = ", ".join([*found[:_FEW], *(["…"] if len(found) > _FEW else [])])
            raise ResultsError(f"'{label}' holds tables of another program ({some}); give another --db")
    return revision


def _is_older(revision: str, label: str) -> bool:
    known = revisions()
    if revision not in known:
        raise ResultsError(
            f"'{label}' has tables of version {revision}, newer than this idwbench knows ({known[-1]}): "
            "upgrade idwbench"
        )
    return revision != known[-1]


def _migrate(database: Database) -> None:
    # Alembic's batch mode replaces a table by a changed copy; with foreign keys on, dropping the old one would
    # delete whatever refers to it.
    with database.without_foreign_keys().write() as connection:
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
        revision = _own_revision(connection, database.label)
        if revision is not None and not _is_older(revision, database.label):
            return  # another process was faster
        if revision is not None and database.path is not None:
            _back_up(database.path, revision)
        try:
            _run_migrations(connection)
        except DBAPIError as error:
            newest = revisions()[-1]
            raise ResultsError(
                f"'{database.label}' cannot be brought to version {newest} and was left as it was: {error.orig}"
            ) from error
        if connection.dialect.name == "sqlite" and connection.exec_driver_sql("PRAGMA foreign_key_check").first():
            raise ResultsError(f"'{database.label}': a migration broke references; it was left as it was")


def _run_migrations(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _back_up(path: Path, revision: str) -> None:
    """Copy a database of an older version beside itself; other processes wait meanwhile, as we hold the lock."""
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
        raise ResultsError(f"'{path}' must be upgraded, but cannot be copied to '{target}' first: {error}") from error
