"""Upgrades of the tables from version 0.1.0, and from those between it and the next release.

Stored results only move. The next change of the tables is a further step at the end of `migrate`, which older versions
reach, too; `idwbench.results.tables` always describes the newest tables.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import JSONB

__all__ = ["migrate"]

_JSON = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
_CURVES = (
    ("train", "learning_rate", "learning_rate"),
    ("train", "loss", "train_loss"),
    ("test", "accuracy", "test_accuracy"),
)


def migrate(connection: Connection, version: str) -> None:
    """Bring tables of `version` to version 0004, without its views, in the transaction of `connection`.

    Version 0001 is that of 0.1.0; 0002 and 0003 were not released.
    """
    op = Operations(MigrationContext.configure(connection))
    if version == "0001":
        _name_metrics_and_arrays(op)
    if version < "0003":
        op.add_column("runs", sa.Column("platform", sa.String(200)))
        op.add_column("runs", sa.Column("durations", _JSON))
    else:
        for table in ("attempts", "diffs"):
            op.drop_table(table)
    op.add_column("runs", sa.Column("tags", sa.Text))
    op.add_column("runs", sa.Column("note", sa.Text))


def _name_metrics_and_arrays(op: Operations) -> None:
    """Make accuracies rows of ``metrics``, values rows of ``curves``, and ``tensors`` the table ``arrays``."""
    _create_table(
        op,
        "metrics",
        *(sa.Column("split", sa.String(20)), sa.Column("name", sa.String(50)), sa.Column("value", sa.Float)),
        key=("run_id", "split", "name"),
        required=("value",),
        sqlite_with_rowid=False,
    )
    for split in ("train", "test", "holdout"):
        op.execute(
            f"INSERT INTO metrics SELECT id, '{split}', 'accuracy', {split}_accuracy "
            f"FROM runs WHERE {split}_accuracy IS NOT NULL"
        )
    _change_runs(op)
    _change_curves(op)
    _create_table(
        op,
        "arrays",
        *(sa.Column("name", sa.String(50)), sa.Column("dtype", sa.String(20)), sa.Column("shape", _JSON)),
        sa.Column("data", sa.LargeBinary),
        key=("run_id", "name"),
        required=("dtype", "shape", "data"),
    )
    op.execute("INSERT INTO arrays SELECT run_id, name, dtype, shape, data FROM tensors")
    op.drop_table("tensors")


def _change_runs(op: Operations) -> None:
    for name, kind in (("model", sa.String(50)), ("protocol", _JSON), ("n_parameters", sa.Integer), ("cpu", _JSON)):
        op.add_column("runs", sa.Column(name, kind))
    part = "json_extract(config, '$.protocol')" if _is_sqlite(op) else "config -> 'protocol'"
    op.execute(
        f"UPDATE runs SET model = 'prototypes', protocol = {part}, n_parameters = prototypes * (n_features + n_classes)"
    )
    with op.batch_alter_table("runs", copy_from=_runs_to_copy(op) if _is_sqlite(op) else None) as batch:
        for column in ("train_accuracy", "test_accuracy", "holdout_accuracy", "n_features", "n_classes"):
            batch.drop_column(column)
        batch.alter_column("model", existing_type=sa.String(50), nullable=False)
        batch.alter_column("protocol", existing_type=_JSON, nullable=False)
        batch.alter_column("method", existing_type=sa.String(100), nullable=True)
        batch.alter_column("prototypes", existing_type=sa.Integer, nullable=True)


def _runs_to_copy(op: Operations) -> sa.Table:
    """Return ``runs`` as it is, with its check constraint: only some versions of SQLAlchemy reflect it."""
    table = sa.Table("runs", sa.MetaData(), autoload_with=op.get_bind())
    table.constraints = {c for c in table.constraints if not isinstance(c, sa.CheckConstraint)}
    states = "state IN ('planned', 'running', 'complete', 'diverged', 'failed')"
    table.append_constraint(sa.CheckConstraint(states, name=op.f("ck_runs_state")))
    return table


def _change_curves(op: Operations) -> None:
    op.rename_table("curves", "old_curves")
    if not _is_sqlite(op):  # an index keeps its name, which is unique among all tables
        op.execute("ALTER INDEX pk_curves RENAME TO pk_old_curves")
    _create_table(
        op,
        "curves",
        *(sa.Column("epoch", sa.Integer), sa.Column("split", sa.String(20)), sa.Column("name", sa.String(50))),
        sa.Column("value", sa.Float),
        key=("run_id", "epoch", "split", "name"),
        sqlite_with_rowid=False,
    )
    for split, name, column in _CURVES:
        op.execute(f"INSERT INTO curves SELECT run_id, epoch, '{split}', '{name}', {column} FROM old_curves")
    op.drop_table("old_curves")


def _create_table(
    op: Operations,
    name: str,
    *columns: sa.Column[Any],
    key: tuple[str, ...],
    required: tuple[str, ...] = (),
    **options: bool,
) -> None:
    """Create a table whose rows belong to runs."""
    for column in columns:
        column.nullable = column.name not in (*key, *required)
    op.create_table(
        name,
        sa.Column("run_id", sa.Integer, nullable=False),
        *columns,
        sa.PrimaryKeyConstraint(*key, name=f"pk_{name}"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=f"fk_{name}_run_id", ondelete="CASCADE"),
        **options,
    )


def _is_sqlite(op: Operations) -> bool:
    return bool(op.get_context().dialect.name == "sqlite")
