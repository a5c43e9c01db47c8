"""Connections and transactions of the database."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from idwbench.errors import ResultsError
from idwbench.results.damage import check_text
from idwbench.results.database_errors import BUSY_TIMEOUT_SECONDS, explained, is_conflict, is_locked, translated
from idwbench.results.engines import IMMEDIATE, UNCHECKED, parse_place, postgresql_engine, sqlite_engine

__all__ = ["Database"]

_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")
# How often a transaction that conflicts with others is repeated, and the first pause, which doubles each time.
_TRIES = 12
_PAUSE_SECONDS = 0.005


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
        place = parse_place(db)
        if isinstance(place, Path):
            return cls(sqlite_engine(place, read_only), str(place), place, read_only)
        engine = postgresql_engine(place, read_only)
        return cls(engine, place.render_as_string(hide_password=True), None, read_only)

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
            with translated(self.label, self.path), engine.connect() as connection:
                try:
                    yield connection
                except (DBAPIError, sqlite3.Error) as error:
                    check_text(connection, self.label, error)
                    raise
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
        with translated(self.label, self.path), self._begun() as connection:
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
        with translated(self.label, self.path):
            for attempt in range(_TRIES - 1):
                try:
                    with self._begun() as connection:
                        return work(connection, *arguments, **options)
                except DBAPIError as error:
                    if not is_conflict(error.orig):
                        raise
                # Processes that conflicted go on at different times.
                time.sleep(_PAUSE_SECONDS * 2 ** min(attempt, 7) * (1 + os.getpid() % 16 / 16))
            with self._begun() as connection:
                return work(connection, *arguments, **options)

    @contextmanager
    def _begun(self) -> Iterator[Connection]:
        if self.read_only:
            raise ResultsError("was opened read-only", file=self.label)
        options: dict[str, Any] = {IMMEDIATE: True} if self.path is not None else {"isolation_level": "READ COMMITTED"}
        with self.engine.execution_options(**options).begin() as connection:
            yield connection

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        """Keep an SQLite file open until the block ends, for many transactions.

        SQLite copies its log into the file whenever the last connection is closed, and waits for the disk. A process
        that is killed leaves the log, from which the next one goes on.
        """
        if self.path is None:
            yield
            return
        with translated(self.label, self.path):
            connection = self.engine.raw_connection()
        try:
            with translated(self.label, self.path):
                connection.cursor().execute("PRAGMA schema_version").fetchone()  # opens the log, too
            yield
        finally:
            connection.close()

    def without_foreign_keys(self) -> Database:
        """Return the database with transactions in which SQLite does not check or follow references."""
        return self if self.path is None else replace(self, engine=self.engine.execution_options(**{UNCHECKED: True}))

    def use_write_ahead_log(self) -> None:
        """Set the persistent write-ahead mode of an SQLite file, in which readers do not block the writer.

        Raises:
            ResultsError: the file is not a database, or stays locked.
        """
        deadline = time.monotonic() + BUSY_TIMEOUT_SECONDS
        while self.path is not None:
            with translated(self.label, self.path):
                # The mode cannot change within a transaction, which SQLAlchemy would begin.
                connection = self.engine.raw_connection()
            try:
                connection.cursor().execute("PRAGMA journal_mode = WAL").fetchone()
                return
            except sqlite3.DatabaseError as error:
                # SQLite does not wait if two processes change the mode at the same time.
                if not is_locked(error) or time.monotonic() > deadline:
                    raise ResultsError(explained(error), file=self.label) from error
            finally:
                connection.close()
            time.sleep(0.02)
