"""Places of databases, and the engines that connect to them."""

from __future__ import annotations

import json
import math
import os
import re
import sqlite3
import stat
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from idwbench.errors import ResultsError
from idwbench.results.database_errors import BUSY_TIMEOUT_SECONDS

__all__ = ["IMMEDIATE", "UNCHECKED", "parse_place", "postgresql_engine", "sqlite_engine", "to_json"]

# Execution options of transactions: on SQLite they take the write lock at the start, or check no references.
IMMEDIATE = "idwbench_immediate"
UNCHECKED = "idwbench_unchecked"
_EXPECTED = "expected the path of a file, sqlite:///… or postgresql://…"
_SEPARATORS = tuple(filter(None, ("/", os.sep, os.altsep)))
_PACKAGES = {"psycopg": "'idwbench[postgres]'", "psycopg2": "psycopg2-binary"}


def parse_place(db: str) -> Path | URL:
    """Return the path of an SQLite database, or the URL of a database on PostgreSQL.

    Raises:
        ResultsError: not a valid path or URL, neither SQLite nor PostgreSQL, or in memory.
    """
    if not db.strip():
        raise ResultsError("the name of the database is empty", hint=_EXPECTED)
    if "\0" in db:
        raise ResultsError("the name of the database has a NUL character", hint=_EXPECTED)
    if "://" not in db:
        return _file(db)
    try:
        db.encode()
        url = make_url(db)
    except ArgumentError:
        raise ResultsError("neither a path nor a database URL", file=_masked(db), hint=_EXPECTED) from None
    except ValueError:  # a port that is not a number, a lone surrogate, …
        hint = "expected postgresql://user@host:5432/database"
        raise ResultsError("is not a valid URL", file=_masked(db), hint=hint) from None
    match url.get_backend_name():
        case "sqlite":
            if url.query or url.host:
                raise ResultsError("a URL of SQLite has a path only", file=_masked(db), hint="expected sqlite:///path")
            return _file(url.database or "")
        case "postgresql":
            return url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url
        case name:
            raise ResultsError(f"databases of kind '{name}' are not supported", hint=_EXPECTED)


def _file(name: str) -> Path:
    if name in ("", ":memory:"):
        raise ResultsError("a database in memory keeps no results", hint=_EXPECTED)
    try:
        path = Path(name).expanduser()
    except RuntimeError:
        raise ResultsError("no such user", file=name) from None
    if name.endswith(_SEPARATORS) or _is_folder(path):
        raise ResultsError("is a folder, expected a database file", file=name)
    return path


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise ResultsError(f"cannot be opened: {error.strerror}", file=path) from None
    except UnicodeEncodeError:
        raise ResultsError("is not the name of a file", file=path) from None


def _masked(url: str) -> str:
    """Return a URL that cannot be parsed, without what may be a password."""
    return re.sub(r"(://[^:/@]*):.*@", r"\1:***@", url)


@cache
def postgresql_engine(url: URL, read_only: bool) -> Engine:
    """Return the engine without a pool of a URL; it is shared, since it asks the server for its properties once.

    Raises:
        ResultsError: the driver is unknown, asynchronous or missing.
    """
    label, driver = url.render_as_string(hide_password=True), url.get_driver_name()
    options = {"postgresql_readonly": True} if read_only else {}
    try:
        engine = create_engine(url, poolclass=NullPool, json_serializer=to_json, execution_options=options)
    except NoSuchModuleError:
        raise ResultsError(f"SQLAlchemy has no driver '{url.drivername}'", file=label) from None
    except ImportError as error:
        package = error.name or driver
        hint = f"pip install {_PACKAGES.get(package, package)}"
        raise ResultsError(f"needs the Python package '{package}'", file=label, hint=hint) from None
    if engine.dialect.is_async:
        problem = f"the driver '{driver}' is asynchronous, which is not supported"
        raise ResultsError(problem, file=label, hint="expected postgresql://…")
    return engine


def sqlite_engine(path: Path, read_only: bool) -> Engine:
    """Return an engine without a pool, whose transactions begin where SQLAlchemy says."""

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?{_mode(path, read_only)}",
            uri=True,
            timeout=BUSY_TIMEOUT_SECONDS,
            isolation_level=None,  # the driver would begin late, and never before a CREATE TABLE
            check_same_thread=False,
        )
        connection.execute("PRAGMA foreign_keys = ON")
        # The leaderboard needs it, and SQLite is often built without mathematical functions.
        connection.create_function("sqrt", 1, _sqrt, deterministic=True)
        return connection

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool, json_serializer=to_json)
    event.listen(engine, "begin", _begin)
    return engine


def _mode(path: Path, read_only: bool) -> str:
    if not read_only:
        return "mode=rwc"
    log = path.with_name(path.name + "-wal")
    if not os.access(path.parent, os.W_OK) and not log.exists():
        return "immutable=1"  # in write-ahead mode readers also create files in the folder
    return "mode=ro"


def _sqrt(value: float | None) -> float | None:
    return None if value is None or value < 0 else math.sqrt(value)


def _begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get(UNCHECKED, False):  # within a transaction it cannot be changed; no other uses this connection
        connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get(IMMEDIATE, False) else "BEGIN")


def to_json(value: Any) -> str:
    """Return a value as the databases store it: JSON with sorted keys and no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
