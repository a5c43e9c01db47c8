"""The database: its place, its engine, its transactions, and the errors of its drivers as `ResultsError`."""

from __future__ import annotations

import json
import math
import os
import re
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import URL, Connection, Engine, ExceptionContext, NullPool, create_engine, exc, make_url
from sqlalchemy.event import listen

from idwbench.errors import DatabaseFullError, ResultsError
from idwbench.results.reading import check_text

__all__ = ["BUSY_TIMEOUT_SECONDS", "Database", "explained"]

_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")

BUSY_TIMEOUT_SECONDS = 30.0
# How often a transaction that conflicts with others is repeated, and the first pause, which doubles each time.
_TRIES = 12
_PAUSE_SECONDS = 0.005
# Both databases store JSON with sorted keys and no spaces.
_to_json = partial(json.dumps, sort_keys=True, separators=(",", ":"), allow_nan=False)
_OPTIONS: dict[str, Any] = {"poolclass": NullPool, "json_serializer": _to_json}
_EXPECTED = "expected the path of a file, sqlite:///… or postgresql://…"
_SEPARATORS = tuple(filter(None, ("/", os.sep, os.altsep)))
_PACKAGES = {"psycopg": "'idwbench[postgres]'", "psycopg2": "psycopg2-binary"}
_LOCKED = ("SQLITE_BUSY", "SQLITE_LOCKED")  # SQLite gave up waiting
# PostgreSQL's codes (https://www.postgresql.org/docs/current/errcodes-appendix.html).
_CONFLICTS = ("40001", "40P01", "55P03")  # a failed serialisation, a deadlock, a lock that is not available
_DISK_FULL = ("53100", "SQLITE_FULL")
_WRONG_DATA = "22"  # the class of values that a column cannot hold
_REFUSED = ("25006", "42501")  # a read-only transaction or server, and a role without the privilege


class _ConflictError(ResultsError):
    """A transaction failed because of another one, and can be repeated at once."""


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
        if not db.strip() or "\0" in db:
            problem = "has a NUL character" if db.strip() else "is empty"
            raise ResultsError(f"the name of the database {problem}", hint=_EXPECTED)
        place = _url(db) if "://" in db else _file(db)
        if not isinstance(place, Path):
            label = place.render_as_string(hide_password=True)
            return cls(_postgresql_engine(place, read_only), label, None, read_only)
        connect = partial(_connect, place, read_only)
        # SQLite checks no references: all that is written refers to rows that the same transaction has read.
        engine = create_engine("sqlite://", creator=connect, **_OPTIONS)
        listen(engine, "handle_error", partial(_translate, str(place), place))
        return cls(engine, str(place), place, read_only)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a transaction that sees one state of the database.

        Raises:
            ResultsError: the database cannot be reached or read, or has an invalid value.
        """
        # The default of PostgreSQL is READ COMMITTED.
        options = {} if self.path is not None else {"isolation_level": "REPEATABLE READ"}
        try:
            with self.engine.execution_options(**options).connect() as connection:
                if self.path is not None:
                    connection.exec_driver_sql("BEGIN")
                yield connection
        except ValueError as error:  # JSON, a date or a number that cannot be parsed
            raise ResultsError(f"holds a value that cannot be read: {explained(error)}", file=self.label) from error

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open a transaction that is committed at the end, and rolled back on any error.

        On SQLite it takes the write lock at the start: a transaction that reads before it writes can fail without
        waiting. On PostgreSQL it locks the rows that it reads, for which READ COMMITTED suffices.

        Raises:
            ResultsError: the database was opened read-only, or cannot be reached or written.
        """
        if self.read_only:
            raise ResultsError("was opened read-only", file=self.label)
        options = {} if self.path is not None else {"isolation_level": "READ COMMITTED"}
        with self.engine.execution_options(**options).begin() as connection:
            if self.path is not None:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection

    def transact(
        self,
        work: Callable[Concatenate[Connection, _Arguments], _Answer],
        *arguments: _Arguments.args,
        **options: _Arguments.kwargs,
    ) -> _Answer:
        """Return the answer of `work` in a `write` transaction, which is repeated if it conflicts with others.

        Raises:
            ResultsError: as `write`, or it conflicts each time.
        """
        attempt = 1
        while True:
            try:
                with self.write() as connection:
                    return work(connection, *arguments, **options)
            except _ConflictError:
                if attempt == _TRIES:
                    raise
            # Processes that conflicted go on at different times.
            time.sleep(_PAUSE_SECONDS * 2 ** min(attempt - 1, 7) * (1 + os.getpid() % 16 / 16))
            attempt += 1

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        """Keep an SQLite file open until the block ends, for many transactions.

        SQLite copies its log into the file whenever the last connection is closed, and waits for the disk. A process
        that is killed leaves the log, from which the next one goes on.
        """
        if self.path is None:
            yield
            return
        with self.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA schema_version").scalar_one()  # opens the log, too
            yield

    def use_write_ahead_log(self) -> None:
        """Set the persistent write-ahead mode of an SQLite file, in which readers do not block the writer.

        If the file is locked, the mode stays: another process sets it at this moment, or the next one that opens it.
        """
        if self.path is not None:
            with suppress(ResultsError), self.engine.connect() as connection:
                connection.exec_driver_sql("PRAGMA journal_mode = WAL").scalar_one()


def _translate(label: str, path: Path | None, context: ExceptionContext) -> None:
    """Raise an error of the database as `ResultsError`, in place of SQLAlchemy's.

    A violated constraint and wrong SQL stay as they are: they are programming errors.
    """
    error = context.original_exception
    if isinstance(error, UnicodeEncodeError):
        raise ResultsError(f"text that is not valid Unicode: {error.reason}", file=label)
    if not isinstance(context.sqlalchemy_exception, exc.DBAPIError) or _is_programming_error(
        context.sqlalchemy_exception
    ):
        return
    if context.connection is not None:
        check_text(context.connection, label, error)
    if _is_full(error, path):
        where = "on the server" if path is None else f"in {path.parent}"
        hint = f"what was stored is kept; make room {where} and start again"
        raise DatabaseFullError("the disk is full", file=label, hint=hint)
    raise (_ConflictError if _code(error) in _CONFLICTS else ResultsError)(explained(error), file=label)


def _url(db: str) -> Path | URL:
    """Return the URL of a database on PostgreSQL, or the path of one on SQLite.

    Raises:
        ResultsError: not a valid URL, neither SQLite nor PostgreSQL, or in memory.
    """
    label = re.sub(r"(://[^:/@]*):.*@", r"\1:***@", db)  # without what may be a password
    try:
        db.encode()
        url = make_url(db)
    except exc.ArgumentError:
        raise ResultsError("neither a path nor a database URL", file=label, hint=_EXPECTED) from None
    except ValueError:  # a port that is not a number, a lone surrogate, …
        hint = "expected postgresql://user@host:5432/database"
        raise ResultsError("is not a valid URL", file=label, hint=hint) from None
    kind = url.get_backend_name()
    if kind == "postgresql":
        return url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url
    if kind != "sqlite":
        raise ResultsError(f"databases of kind '{kind}' are not supported", hint=_EXPECTED)
    if url.query or url.host:
        raise ResultsError("a URL of SQLite has a path only", file=label, hint="expected sqlite:///path")
    return _file(url.database or "")


def _file(name: str) -> Path:
    if name in ("", ":memory:"):
        raise ResultsError("a database in memory keeps no results", hint=_EXPECTED)
    try:
        path = Path(name).expanduser()
        is_folder = name.endswith(_SEPARATORS) or stat.S_ISDIR(path.stat().st_mode)
    except RuntimeError:
        raise ResultsError("no such user", file=name) from None
    except (FileNotFoundError, NotADirectoryError):
        return path
    except OSError as error:
        raise ResultsError(f"cannot be opened: {error.strerror}", file=path) from None
    except UnicodeEncodeError:
        raise ResultsError("is not the name of a file", file=path) from None
    if is_folder:
        raise ResultsError("is a folder, expected a database file", file=name)
    return path


@cache
def _postgresql_engine(url: URL, read_only: bool) -> Engine:
    """Return the engine without a pool of a URL; it is shared, since it asks the server for its properties once.

    Raises:
        ResultsError: the driver is unknown, asynchronous or missing.
    """
    label, driver = url.render_as_string(hide_password=True), url.get_driver_name()
    options = {"postgresql_readonly": True} if read_only else {}
    try:
        engine = create_engine(url, execution_options=options, **_OPTIONS)
    except exc.NoSuchModuleError:
        raise ResultsError(f"SQLAlchemy has no driver '{url.drivername}'", file=label) from None
    except ImportError as error:
        package = error.name or driver
        hint = f"pip install {_PACKAGES.get(package, package)}"
        raise ResultsError(f"needs the Python package '{package}'", file=label, hint=hint) from None
    if engine.dialect.is_async:
        problem = f"the driver '{driver}' is asynchronous, which is not supported"
        raise ResultsError(problem, file=label, hint="expected postgresql://…")
    listen(engine, "handle_error", partial(_translate, label, None))
    return engine


def _connect(path: Path, read_only: bool) -> sqlite3.Connection:
    """Return a connection to an SQLite database, whose transactions begin where `Database` says."""
    mode = "mode=ro" if read_only else "mode=rwc"
    if read_only and not os.access(path.parent, os.W_OK) and not path.with_name(f"{path.name}-wal").exists():
        mode = "immutable=1"  # in write-ahead mode readers also create files in the folder
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{mode}",
        uri=True,
        timeout=BUSY_TIMEOUT_SECONDS,
        isolation_level=None,  # the driver would begin late, and never before a CREATE TABLE
        check_same_thread=False,
    )
    # The leaderboard needs it, and SQLite is often built without mathematical functions.
    connection.create_function("sqrt", 1, math.sqrt, deterministic=True)
    return connection


def explained(error: BaseException | None) -> str:
    """Return the message of a driver's error as one line."""
    if _code(error) == "SQLITE_NOTADB":
        return "this file is not an SQLite database"
    if _code(error).startswith(_LOCKED):
        return f"another process has kept the database locked for {BUSY_TIMEOUT_SECONDS:g} seconds; try again"
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return f"cannot be used: {line}" if _code(error) in _REFUSED else line


def _is_programming_error(error: exc.DBAPIError) -> bool:
    if error.statement is None:  # while connecting, where a driver reports a wrong option as any of its errors
        return False
    if _code(error.orig).startswith(_WRONG_DATA) or _code(error.orig) in (*_REFUSED, *_CONFLICTS):
        return False
    return isinstance(error, exc.IntegrityError | exc.ProgrammingError) or not isinstance(error, exc.DatabaseError)


def _is_full(error: BaseException | None, path: Path | None) -> bool:
    if path is not None and _code(error).startswith("SQLITE_IOERR"):  # such as the files beside a database
        try:
            return os.statvfs(path.parent).f_bavail == 0
        except (OSError, AttributeError):
            return False
    return _code(error) in _DISK_FULL


def _code(error: BaseException | None) -> str:
    """Return PostgreSQL's error code, or the name of SQLite's; or an empty string."""
    names = ("sqlite_errorname", "sqlstate", "pgcode")
    return str(next(filter(None, (getattr(error, name, None) for name in names)), ""))
