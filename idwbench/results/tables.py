"""The newest tables, and statements for many rows.

A test compares the tables with what upgrades make of older ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.types import TypeDecorator, TypeEngine

from idwbench.errors import ResultsError
from idwbench.results.records import RUN_STATES

__all__ = [
    "Json",
    "UtcDateTime",
    "arrays",
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

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        """Return `value` in UTC."""
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: Any | None, dialect: sa.Dialect) -> datetime | None:
        """Return the stored value with its time zone."""
        return None if value is None else in_utc(value)


class Json(TypeDecorator[Any]):
    """JSON; on PostgreSQL JSONB, which has the equality that the leaderboard needs."""

    impl = sa.JSON(none_as_null=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> TypeEngine[Any]:
        """Return the type for a dialect; PostgreSQL's module is imported only if it is used."""
        if dialect.name != "postgresql":
            return dialect.type_descriptor(sa.JSON(none_as_null=True))
        from sqlalchemy.dialects.postgresql import JSONB

        return dialect.type_descriptor(JSONB(none_as_null=True))


metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

sweeps = sa.Table(
    "sweeps",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(200), nullable=False, unique=True),
    sa.Column("description", sa.Text, nullable=False),
    sa.Column("spec", sa.Text, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("updated_at", UtcDateTime, nullable=False),
)

runs = sa.Table(
    "runs",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("run_key", sa.String(64), nullable=False, unique=True),
    # Configuration, written when the run is planned.
    sa.Column("dataset", sa.String(200), nullable=False),
    sa.Column("dataset_name", sa.String(50), nullable=False),
    sa.Column("dataset_parameters", Json, nullable=False),
    sa.Column("model", sa.String(50), nullable=False),
    sa.Column("method", sa.String(100)),
    sa.Column("prototypes", sa.Integer),
    sa.Column("power", sa.Float),
    sa.Column("epsilon", sa.Float),
    sa.Column("parameters", Json, nullable=False),
    sa.Column("plugin_sha256", sa.String(64)),
    sa.Column("epochs", sa.Integer, nullable=False),
    sa.Column("batch_size", sa.Integer, nullable=False),
    sa.Column("learning_rate", sa.Float, nullable=False),
    sa.Column("optimizer", sa.String(50), nullable=False),
    sa.Column("schedule", sa.String(50), nullable=False),
    sa.Column("protocol", Json, nullable=False),
    sa.Column("seed", sa.BigInteger, nullable=False),  # up to 2³² − 1, more than PostgreSQL's integer holds
    sa.Column("config", Json, nullable=False),
    # Outcome; metrics, curves and arrays have tables of their own.
    sa.Column("state", sa.String(10), nullable=False),
    sa.Column("previous_state", sa.String(10)),  # of a running run: its state after an interruption
    sa.Column("n_parameters", sa.Integer),
    sa.Column("diverged_epoch", sa.Integer),
    sa.Column("error", sa.Text),
    # The user's own words.
    sa.Column("tags", sa.Text),  # joined by ", "
    sa.Column("note", sa.Text),
    # Provenance.
    sa.Column("engine", sa.String(50)),
    sa.Column("device", sa.String(100)),
    sa.Column("threads", sa.Integer),
    sa.Column("cpu", Json),
    sa.Column("platform", sa.String(200)),
    sa.Column("host", sa.String(255)),
    sa.Column("pid", sa.Integer),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("versions", Json),
    sa.Column("git", Json),
    sa.Column("data_sha256", sa.String(64)),
    sa.Column("seconds", sa.Float),
    sa.Column("durations", Json),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("started_at", UtcDateTime),
    sa.Column("heartbeat_at", UtcDateTime),
    sa.Column("finished_at", UtcDateTime),
    sa.CheckConstraint(f"state IN ({', '.join(repr(state) for state in RUN_STATES)})", name="state"),
    sa.Index(None, "dataset", "method", "prototypes"),
    sa.Index(None, "state"),
)

metrics = sa.Table(
    "metrics",
    metadata,
    sa.Column("run_id", sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("split", sa.String(20), primary_key=True),
    sa.Column("name", sa.String(50), primary_key=True),
    sa.Column("value", sa.Float, nullable=False),
    sqlite_with_rowid=False,
)

curves = sa.Table(
    "curves",
    metadata,
    sa.Column("run_id", sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("epoch", sa.Integer, primary_key=True),
    sa.Column("split", sa.String(20), primary_key=True),
    sa.Column("name", sa.String(50), primary_key=True),
    sa.Column("value", sa.Float),  # NULL where it was not finite: SQLite has no NaN
    sqlite_with_rowid=False,
)

arrays = sa.Table(
    "arrays",
    metadata,
    sa.Column("run_id", sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("name", sa.String(50), primary_key=True),
    sa.Column("dtype", sa.String(20), nullable=False),
    sa.Column("shape", Json, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
)

sweep_runs = sa.Table(
    "sweep_runs",
    metadata,
    sa.Column("sweep_id", sa.ForeignKey("sweeps.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("run_id", sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
    sa.UniqueConstraint("run_id", "sweep_id"),
)

versions = sa.Table("idwbench_version", metadata, sa.Column("version_num", sa.String(32), primary_key=True))


def chunks(keys: Sequence[_Key]) -> Iterator[Sequence[_Key]]:
    """Yield `keys` in parts that are short enough for one statement."""
    for start in range(0, len(keys), _MOST_KEYS):
        yield keys[start : start + _MOST_KEYS]


def rows_by_key(
    connection: sa.Connection,
    run_keys: Iterable[str],
    *columns: sa.Column[Any],
    where: Iterable[sa.ColumnElement[bool]] = (),
    lock: bool = False,
    known: bool = False,
) -> dict[str, sa.Row[*tuple[Any, ...]]]:
    """Return ``id`` and `columns` of the stored runs with these keys that meet the conditions, by key.

    With `lock`, PostgreSQL keeps the rows locked until the end of the transaction; SQLite has one lock for writing.

    Raises:
        ResultsError: with `known`, no run has one of the keys.
    """
    # Processes that lock rows in the same order cannot deadlock.
    query = sa.select(runs.c.id, runs.c.run_key, *columns).where(*where).order_by(runs.c.id)
    query = query.with_for_update() if lock else query
    asked = [*dict.fromkeys(run_keys)]
    rows = (row for keys in chunks(asked) for row in connection.execute(query.where(runs.c.run_key.in_(keys))))
    found = {row.run_key: row for row in rows}
    if known and (unknown := [key for key in asked if key not in found]):
        raise ResultsError(f"no run has the key '{unknown[0]}'")
    return found


def insert_rows(
    connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]], *, new_only: bool = False
) -> None:
    """Insert rows, each with the same columns; with `new_only`, those whose key is stored already are left out."""
    new = dialect_insert(connection, table)
    if rows:
        connection.execute(new.on_conflict_do_nothing() if new_only else new, rows)


def dialect_insert(connection: sa.Connection, table: sa.Table) -> Any:
    """Return the INSERT of SQLite or PostgreSQL, which has ``ON CONFLICT``."""
    return import_module(f"sqlalchemy.dialects.{connection.dialect.name}").insert(table)
