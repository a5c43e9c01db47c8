"""The newest tables, and statements for many rows.

A test compares the tables with what upgrades make of older ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from typing import Any, TypeVar

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Column,
    ColumnElement,
    Connection,
    DateTime,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Row,
    String,
    Table,
    Text,
    UniqueConstraint,
    select,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine

from idwbench.errors import ResultsError
from idwbench.results.records import RUN_STATES

__all__ = [
    "Json",
    "UtcDateTime",
    "arrays",
    "check_known",
    "chunks",
    "curves",
    "dialect_insert",
    "in_utc",
    "insert_rows",
    "metadata",
    "metrics",
    "rows_by_key",
    "runs",
    "sweep_runs",
    "sweeps",
    "versions",
]

_Key = TypeVar("_Key")
_MOST_KEYS = 900  # SQLite may be limited to 999 parameters in one statement


def in_utc(moment: datetime) -> datetime:
    """Return a moment in UTC; one without a time zone is in UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


class UtcDateTime(TypeDecorator[datetime]):
    """A date and time in UTC. SQLite stores no time zone: it is removed on writing and restored on reading."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return `value` in UTC."""
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> datetime | None:
        """Return the stored value with its time zone."""
        return None if value is None else in_utc(value)


class Json(TypeDecorator[Any]):
    """JSON; on PostgreSQL JSONB, which has the equality that the leaderboard needs."""

    impl = JSON(none_as_null=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the type for a dialect; PostgreSQL's module is imported only if it is used."""
        if dialect.name != "postgresql":
            return dialect.type_descriptor(JSON(none_as_null=True))
        from sqlalchemy.dialects.postgresql import JSONB

        return dialect.type_descriptor(JSONB(none_as_null=True))


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

sweeps = Table(
    "sweeps",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(200), nullable=False, unique=True),
    Column("description", Text, nullable=False),
    Column("spec", Text, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
)

runs = Table(
    "runs",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("run_key", String(64), nullable=False, unique=True),
    # Configuration, written when the run is planned.
    Column("dataset", String(200), nullable=False),
    Column("dataset_name", String(50), nullable=False),
    Column("dataset_parameters", Json, nullable=False),
    Column("model", String(50), nullable=False),
    Column("method", String(100)),
    Column("prototypes", Integer),
    Column("power", Float),
    Column("epsilon", Float),
    Column("parameters", Json, nullable=False),
    Column("plugin_sha256", String(64)),
    Column("epochs", Integer, nullable=False),
    Column("batch_size", Integer, nullable=False),
    Column("learning_rate", Float, nullable=False),
    Column("optimizer", String(50), nullable=False),
    Column("schedule", String(50), nullable=False),
    Column("protocol", Json, nullable=False),
    Column("seed", BigInteger, nullable=False),  # up to 2³² − 1, more than PostgreSQL's integer holds
    Column("config", Json, nullable=False),
    # Outcome; metrics, curves and arrays have tables of their own.
    Column("state", String(10), nullable=False),
    Column("previous_state", String(10)),  # of a running run: its state after an interruption
    Column("n_parameters", Integer),
    Column("diverged_epoch", Integer),
    Column("error", Text),
    # The user's own words.
    Column("tags", Text),  # joined by ", "
    Column("note", Text),
    # Provenance.
    Column("engine", String(50)),
    Column("device", String(100)),
    Column("threads", Integer),
    Column("cpu", Json),
    Column("platform", String(200)),
    Column("host", String(255)),
    Column("pid", Integer),
    Column("attempt", Integer, nullable=False),
    Column("versions", Json),
    Column("git", Json),
    Column("data_sha256", String(64)),
    Column("seconds", Float),
    Column("durations", Json),
    Column("created_at", UtcDateTime, nullable=False),
    Column("started_at", UtcDateTime),
    Column("heartbeat_at", UtcDateTime),
    Column("finished_at", UtcDateTime),
    CheckConstraint(f"state IN ({', '.join(repr(state) for state in RUN_STATES)})", name="state"),
    Index(None, "dataset", "method", "prototypes"),
    Index(None, "state"),
)

metrics = Table(
    "metrics",
    metadata,
    Column("run_id", ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("split", String(20), primary_key=True),
    Column("name", String(50), primary_key=True),
    Column("value", Float, nullable=False),
    sqlite_with_rowid=False,
)

curves = Table(
    "curves",
    metadata,
    Column("run_id", ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("epoch", Integer, primary_key=True),
    Column("split", String(20), primary_key=True),
    Column("name", String(50), primary_key=True),
    Column("value", Float),  # NULL where it was not finite: SQLite has no NaN
    sqlite_with_rowid=False,
)

arrays = Table(
    "arrays",
    metadata,
    Column("run_id", ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("name", String(50), primary_key=True),
    Column("dtype", String(20), nullable=False),
    Column("shape", Json, nullable=False),
    Column("data", LargeBinary, nullable=False),
)

sweep_runs = Table(
    "sweep_runs",
    metadata,
    Column("sweep_id", ForeignKey("sweeps.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("run_id", ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
    UniqueConstraint("run_id", "sweep_id"),
)

versions = Table("idwbench_version", metadata, Column("version_num", String(32), primary_key=True))


def chunks(keys: Sequence[_Key]) -> Iterator[Sequence[_Key]]:
    """Yield `keys` in parts that are short enough for one statement."""
    for start in range(0, len(keys), _MOST_KEYS):
        yield keys[start : start + _MOST_KEYS]


def rows_by_key(
    connection: Connection,
    run_keys: Iterable[str],
    *columns: Column[Any],
    where: Iterable[ColumnElement[bool]] = (),
    lock: bool = False,
) -> dict[str, Row[*tuple[Any, ...]]]:
    """Return ``id`` and `columns` of the stored runs with these keys that meet the conditions, by key.

    With `lock`, PostgreSQL keeps the rows locked until the end of the transaction; SQLite has one lock for writing.
    """
    # Processes that lock rows in the same order cannot deadlock.
    query = select(runs.c.id, runs.c.run_key, *columns).where(*where).order_by(runs.c.id)
    query = query.with_for_update() if lock else query
    parts = chunks([*dict.fromkeys(run_keys)])
    rows = (row for keys in parts for row in connection.execute(query.where(runs.c.run_key.in_(keys))))
    return {row.run_key: row for row in rows}


def check_known(run_keys: Iterable[str], stored: Collection[str]) -> None:
    """Raise `ResultsError` for the first key that is not among those of `stored` runs."""
    for key in run_keys:
        if key not in stored:
            raise ResultsError(f"no run has the key '{key}'")


def insert_rows(
    connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]], *, new_only: bool = False
) -> None:
    """Insert rows, each with the same columns; with `new_only`, those whose key is stored already are left out."""
    new = dialect_insert(connection, table)
    if rows:
        connection.execute(new.on_conflict_do_nothing() if new_only else new, rows)


def dialect_insert(connection: Connection, table: Table) -> Any:
    """Return the INSERT of SQLite or PostgreSQL, which has ``ON CONFLICT``."""
    return import_module(f"sqlalchemy.dialects.{connection.dialect.name}").insert(table)
