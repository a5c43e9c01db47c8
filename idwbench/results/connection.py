"""Connections and transactions of the database."""

from __future__ import annotations

import json
import math
import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, InterfaceError, NoSuchModuleError, OperationalError

from idwbench.errors import ResultsError

__all__ = ["BUSY_TIMEOUT_SECONDS", "Database"]

BUSY_TIMEOUT_SECONDS = 30.0
_IMMEDIATE = "idwbench_immediate"
_EXPECTED = "expected the path of a file, sqlite:///… or postgresql://…"
_SEPARATORS = tuple(filter(None, ("/", os.sep, os.altsep)))


@dataclass(frozen=True)
class Database:
    """A database with its read and write transactions.

    Attributes:
        engine: Has no pool: each transaction opens its own connection, so that threads and child processes share none.
        label: The path, or the URL without its password, for messages.
        path: The file of an SQLite database, or None.
        read_only: Whether `write` is refused.
    """

    engine: Engine
    label: str
    path: Path | None
    read_only: bool

    @classmethod
    def at(cls, db: str, *, read_only: bool = False) -> Database:
        """Return the database at a path or an SQLAlchemy URL, without opening or creating it.

        Raises:
            ResultsError: not a valid path or URL, neither SQLite nor PostgreSQL, in memory, or the driver is missing.
        """
        if not db.strip():
            raise ResultsError("the name of the database is empty", hint=_EXPECTED)
        if "://" not in db:
            return cls._sqlite(db, read_only)
        try:
            url = make_url(db)
        except ArgumentError:
            raise ResultsError("neither a path nor a database URL", file=db, hint=_EXPECTED) from None
        match url.get_backend_name():
            case "sqlite":
                return cls._sqlite(url.database or "", read_only)
            case "postgresql":
                return cls._postgresql(url, read_only)
            case name:
                raise ResultsError(f"databases of kind '{name}' are not supported", hint=_EXPECTED)

    @classmethod
    def _sqlite(cls, name: str, read_only: bool) -> Database:
        if name in ("", ":memory:"):
            raise ResultsError("a database in memory keeps no results", hint=_EXPECTED)
        try:
            path = Path(name).expanduser()
        except RuntimeError:
            raise ResultsError("no such user", file=name) from None
        if name.endswith(_SEPARATORS) or _is_folder(path):
            raise ResultsError("is a folder, expected a database file", file=name)
        return cls(_sqlite_engine(path, read_only), str(path), path, read_only)

    @classmethod
    def _postgresql(cls, url: URL, read_only: bool) -> Database:
        if url.drivername == "postgresql":
            url = url.set(drivername="postgresql+psycopg")
        options = {"postgresql_readonly": True} if read_only else {}
        label = url.render_as_string(hide_password=True)
        try:
            engine = create_engine(url, poolclass=NullPool, json_serializer=_to_json, execution_options=options)
        except NoSuchModuleError:
            raise ResultsError(f"SQLAlchemy has no driver '{url.drivername}'", file=label) from None
        except ModuleNotFoundError as error:
            problem, hint = f"needs the Python package '{error.name}'", f"pip install '{error.name}[binary]'"
            raise ResultsError(problem, file=label, hint=hint) from None
        return cls(engine, label, None, read_only)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a transaction that sees one state of the database.

        Raises:
            ResultsError: the database cannot be reached or read, or has an invalid value.
        """
        engine = self.engine
        if self.path is None:  # the default of PostgreSQL is READ COMMITTED
            engine = engine.execution_options(isolation_level="REPEATABLE READ")
        try:
            with self._translated(), engine.connect() as connection:
                yield connection
        except ValueError as error:  # JSON or a date that cannot be parsed
            raise ResultsError(f"holds a value that cannot be read: {_explain(error)}", file=self.label) from error

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open a transaction that is committed at the end, and rolled back on any error.

        On SQLite it takes the write lock at the start: a transaction that reads before it writes can fail without
        waiting.

        Raises:
            ResultsError: the database was opened read-only, or cannot be reached or written.
        """
        if self.read_only:
            raise ResultsError("was opened read-only", file=self.label)
        engine = self.engine.execution_options(**{_IMMEDIATE: True})
        with self._translated(), engine.begin() as connection:
            yield connection

    def without_foreign_keys(self) -> Database:
        """Return the database with SQLite's foreign keys off, which cannot be changed within a transaction."""
        if self.path is None:
            return self
        return replace(self, engine=_sqlite_engine(self.path, self.read_only, foreign_keys=False))

    def use_write_ahead_log(self) -> None:
        """Set the persistent write-ahead mode of an SQLite file, in which readers do not block the writer.

        Raises:
            ResultsError: the file is not a database, or stays locked.
        """
        deadline = time.monotonic() + BUSY_TIMEOUT_SECONDS
        while self.path is not None:
            with self._translated():
                # The mode cannot change within a transaction, which SQLAlchemy would begin.
                connection = self.engine.raw_connection()
            try:
                connection.cursor().execute("PRAGMA journal_mode = WAL").fetchone()
                return
            except sqlite3.DatabaseError as error:
                # SQLite does not wait if two processes change the mode at the same time.
                if not _is_locked(error) or time.monotonic() > deadline:
                    raise ResultsError(_explain(error), file=self.label) from error
            finally:
                connection.close()
            time.sleep(0.02)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (OperationalError, InterfaceError) as error:
            raise ResultsError(_explain(error.orig), file=self.label) from error
        except DatabaseError as error:
            # The other subclasses of DatabaseError (a violated constraint, wrong SQL) are programming errors.
            if type(error) is not DatabaseError:
                raise
            raise ResultsError(_explain(error.orig), file=self.label) from error


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise ResultsError(f"cannot be opened: {error.strerror}", file=path) from None


def _explain(error: BaseException | None) -> str:
    if _error_code(error) == sqlite3.SQLITE_NOTADB:
        return "this file is not an SQLite database"
    if _is_locked(error):
        return f"another process has kept the database locked for {BUSY_TIMEOUT_SECONDS:g} seconds; try again"
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _is_locked(error: BaseException | None) -> bool:
    return _error_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _error_code(error: BaseException | None) -> int:
    """Return SQLite's primary error code, the lowest byte of the extended code; 0 for other errors."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _to_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _begin(connection: Connection) -> None:
    immediate = connection.get_execution_options().get(_IMMEDIATE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _sqlite_engine(path: Path, read_only: bool, *, foreign_keys: bool = True) -> Engine:
    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?{_mode(path, read_only)}",
            uri=True,
            timeout=BUSY_TIMEOUT_SECONDS,
            isolation_level=None,  # the driver would begin late, and never before a CREATE TABLE
            check_same_thread=False,
        )
        connection.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")
        # The leaderboard needs it, and SQLite is often built without mathematical functions.
        connection.create_function("sqrt", 1, _sqrt, deterministic=True)
        return connection

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool, json_serializer=_to_json)
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
