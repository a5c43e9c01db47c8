"""Errors of the databases and their drivers as `ResultsError`, in one line."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import DatabaseError, DBAPIError, IntegrityError, ProgrammingError

from idwbench.errors import DatabaseFullError, ResultsError

__all__ = ["BUSY_TIMEOUT_SECONDS", "explained", "is_conflict", "is_locked", "translated"]

BUSY_TIMEOUT_SECONDS = 30.0
# PostgreSQL's codes (https://www.postgresql.org/docs/current/errcodes-appendix.html).
_CONFLICTS = ("40001", "40P01", "55P03")  # a failed serialisation, a deadlock, a lock that is not available
_DISK_FULL = "53100"
_WRONG_DATA = "22"  # the class of values that a column cannot hold
_REFUSED = ("25006", "42501")  # a read-only transaction or server, and a role without the privilege


@contextmanager
def translated(label: str, path: Path | None = None) -> Iterator[None]:
    """Raise errors of the database as `ResultsError`; `label` names it, and `path` is the file of an SQLite database.

    A violated constraint and wrong SQL stay as they are: they are programming errors.
    """
    try:
        yield
    except UnicodeEncodeError as error:
        raise ResultsError(f"text that is not valid Unicode: {error.reason}", file=label) from error
    except DBAPIError as error:
        if _is_programming_error(error):
            raise
        if _is_full(error.orig, path):
            raise DatabaseFullError("the disk is full", file=label, hint=_full_hint(path)) from error
        raise ResultsError(explained(error.orig), file=label) from error
    except sqlite3.Error as error:  # of a cursor that is read without SQLAlchemy
        raise ResultsError(explained(error), file=label) from error


def is_conflict(error: BaseException | None) -> bool:
    """Return whether a transaction failed because of another one and can be repeated at once."""
    return _code(error) in _CONFLICTS


def is_locked(error: BaseException | None) -> bool:
    """Return whether SQLite gave up waiting for a lock."""
    return _sqlite_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def explained(error: BaseException | None) -> str:
    """Return the message of a driver's error as one line."""
    if _sqlite_code(error) == sqlite3.SQLITE_NOTADB:
        return "this file is not an SQLite database"
    if is_locked(error):
        return f"another process has kept the database locked for {BUSY_TIMEOUT_SECONDS:g} seconds; try again"
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return f"cannot be used: {line}" if _code(error) in _REFUSED else line


def _is_programming_error(error: DBAPIError) -> bool:
    if error.statement is None:  # while connecting, where a driver reports a wrong option as any of its errors
        return False
    if _code(error.orig).startswith(_WRONG_DATA) or _code(error.orig) in (*_REFUSED, *_CONFLICTS):
        return False
    return isinstance(error, IntegrityError | ProgrammingError) or not isinstance(error, DatabaseError)


def _is_full(error: BaseException | None, path: Path | None) -> bool:
    code = _sqlite_code(error)
    if code == sqlite3.SQLITE_IOERR and path is not None:  # such as the files beside a database
        try:
            return os.statvfs(path.parent).f_bavail == 0
        except (OSError, AttributeError):
            return False
    return code == sqlite3.SQLITE_FULL or _code(error) == _DISK_FULL


def _full_hint(path: Path | None) -> str:
    where = "on the server" if path is None else f"in {path.parent}"
    return f"what was stored is kept; make room {where} and start again"


def _sqlite_code(error: BaseException | None) -> int:
    """Return SQLite's primary error code, the lowest byte of the extended code; 0 for other errors."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _code(error: BaseException | None) -> str:
    """Return PostgreSQL's error code, or an empty string."""
    return str(getattr(error, "sqlstate", None) or getattr(error, "pgcode", None) or "")
