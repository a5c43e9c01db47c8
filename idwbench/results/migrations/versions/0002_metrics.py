"""Named metrics and named arrays; models of other kinds; the whole protocol as JSON.

Stored results only move: accuracies become rows of ``metrics``, curves have one row for each value, and ``tensors``
becomes ``arrays``. There is no downgrade, since the older tables cannot store all newer results.

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

__all__ = ["upgrade"]

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

JSON = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")

# The common columns of the runs of one setting: all but the seed. `model_settings` and `protocol` hold the
# settings that have no column of their own.
SETTING = """
    dataset, dataset_name, dataset_parameters, model, method, prototypes, power, epsilon, parameters, plugin_sha256,
    model_settings, epochs, batch_size, learning_rate, optimizer, schedule, protocol
"""
MODEL_SETTINGS = {
    "sqlite": "json_remove(config, '$.dataset', '$.protocol', '$.seed')",
    "postgresql": "config - 'dataset' - 'protocol' - 'seed'",
}

# The mean comes first, then the squared deviations from it: E[x²] − E[x]² would cancel to noise. A setting without any
# metric, because all its runs diverged, has one row, with neither split nor metric.
LEADERBOARD = f"""
CREATE VIEW leaderboard AS
WITH ended AS (
    SELECT runs.*, {{model_settings}} AS model_settings
    FROM runs
    WHERE state IN ('complete', 'diverged')
),
counted AS (
    SELECT {SETTING}, id, state,
        COUNT(CASE WHEN state = 'diverged' THEN 1 END) OVER setting AS n_diverged,
        MAX(n_parameters) OVER setting AS n_parameters
    FROM ended
    WINDOW setting AS (PARTITION BY {SETTING})
),
measured AS (
    SELECT counted.*, metrics.split, metrics.name AS metric, metrics.value,
        AVG(metrics.value) OVER (PARTITION BY {SETTING}, metrics.split, metrics.name) AS mean,
        COUNT(metrics.value) OVER (PARTITION BY {SETTING}) AS n_values
    FROM counted LEFT JOIN metrics ON metrics.run_id = counted.id AND counted.state = 'complete'
)
SELECT {SETTING}, split, metric,
    COUNT(value) AS n,
    MAX(mean) AS mean,
    CASE WHEN COUNT(value) > 1 THEN SQRT(SUM((value - mean) * (value - mean)) / (COUNT(value) - 1)) END AS std,
    MAX(n_diverged) AS n_diverged,
    MAX(n_parameters) AS n_parameters
FROM measured
WHERE metric IS NOT NULL OR n_values = 0
GROUP BY {SETTING}, split, metric
"""

WIDE_METRICS = {
    "train_accuracy": ("train", "accuracy"),
    "validation_accuracy": ("validation", "accuracy"),
    "test_accuracy": ("test", "accuracy"),
    "holdout_accuracy": ("holdout", "accuracy"),
    "test_rmse": ("test", "rmse"),
}
RUNS_WIDE = """
CREATE VIEW runs_wide AS
SELECT runs.id, runs.run_key,
    (SELECT {join}(named.name, ', ') FROM (
        SELECT sweeps.name FROM sweep_runs JOIN sweeps ON sweeps.id = sweep_runs.sweep_id
        WHERE sweep_runs.run_id = runs.id ORDER BY sweeps.name
    ) AS named) AS sweeps,
    dataset, dataset_name, dataset_parameters, model, method, prototypes, power, epsilon, parameters, plugin_sha256,
    epochs, batch_size, learning_rate, optimizer, schedule, protocol, seed,
    state, {metrics}, n_parameters, diverged_epoch, error,
    engine, device, threads, cpu, host, pid, attempt, versions, git, data_sha256, seconds,
    created_at, started_at, heartbeat_at, finished_at
FROM runs
"""
WIDE_METRIC = """(
        SELECT value FROM metrics
        WHERE metrics.run_id = runs.id AND metrics.split = '{split}' AND metrics.name = '{name}'
    ) AS {column}"""


def upgrade() -> None:
    for view in ("runs_wide", "leaderboard"):  # SQLite refuses to replace a table that a view reads
        op.execute(f"DROP VIEW {view}")
    _create_metrics()
    _change_runs()
    _change_curves()
    _rename_tensors()
    _create_views()


def _create_metrics() -> None:
    op.create_table(
        "metrics",
        sa.Column("run_id", sa.Integer, nullable=False),
        sa.Column("split", sa.String(20), nullable=False),
        sa.Column("name", sa.String(50), nullable=False),
        sa.Column("value", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "split", "name", name="pk_metrics"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_metrics_run_id", ondelete="CASCADE"),
        sqlite_with_rowid=False,
    )
    for split in ("train", "test", "holdout"):
        op.execute(
            f"INSERT INTO metrics SELECT id, '{split}', 'accuracy', {split}_accuracy "
            f"FROM runs WHERE {split}_accuracy IS NOT NULL"
        )


def _change_runs() -> None:
    op.add_column("runs", sa.Column("model", sa.String(50)))
    op.add_column("runs", sa.Column("protocol", JSON))
    op.add_column("runs", sa.Column("n_parameters", sa.Integer))
    op.add_column("runs", sa.Column("cpu", JSON))
    part = "json_extract(config, '$.protocol')" if _is_sqlite() else "config -> 'protocol'"
    op.execute(
        f"UPDATE runs SET model = 'prototypes', protocol = {part}, n_parameters = prototypes * (n_features + n_classes)"
    )
    with op.batch_alter_table("runs", copy_from=_runs_to_copy() if _is_sqlite() else None) as batch:
        for column in ("train_accuracy", "test_accuracy", "holdout_accuracy", "n_features", "n_classes"):
            batch.drop_column(column)
        batch.alter_column("model", existing_type=sa.String(50), nullable=False)
        batch.alter_column("protocol", existing_type=JSON, nullable=False)
        batch.alter_column("method", existing_type=sa.String(100), nullable=True)
        batch.alter_column("prototypes", existing_type=sa.Integer, nullable=True)


def _runs_to_copy() -> sa.Table:
    """Return ``runs`` as it is, with its check constraint: only some versions of SQLAlchemy reflect it."""
    table = sa.Table("runs", sa.MetaData(), autoload_with=op.get_bind())
    table.constraints = {c for c in table.constraints if not isinstance(c, sa.CheckConstraint)}
    states = "state IN ('planned', 'running', 'complete', 'diverged', 'failed')"
    table.append_constraint(sa.CheckConstraint(states, name=op.f("ck_runs_state")))
    return table


def _change_curves() -> None:
    op.rename_table("curves", "old_curves")
    if not _is_sqlite():  # an index keeps its name, which is unique among all tables
        op.execute("ALTER INDEX pk_curves RENAME TO pk_old_curves")
    op.create_table(
        "curves",
        sa.Column("run_id", sa.Integer, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("split", sa.String(20), nullable=False),
        sa.Column("name", sa.String(50), nullable=False),
        sa.Column("value", sa.Float),
        sa.PrimaryKeyConstraint("run_id", "epoch", "split", "name", name="pk_curves"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_curves_run_id", ondelete="CASCADE"),
        sqlite_with_rowid=False,
    )
    for split, name, column in (
        ("train", "learning_rate", "learning_rate"),
        ("train", "loss", "train_loss"),
        ("test", "accuracy", "test_accuracy"),
    ):
        op.execute(f"INSERT INTO curves SELECT run_id, epoch, '{split}', '{name}', {column} FROM old_curves")
    op.drop_table("old_curves")


def _rename_tensors() -> None:
    op.create_table(
        "arrays",
        sa.Column("run_id", sa.Integer, nullable=False),
        sa.Column("name", sa.String(50), nullable=False),
        sa.Column("dtype", sa.String(20), nullable=False),
        sa.Column("shape", JSON, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "name", name="pk_arrays"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_arrays_run_id", ondelete="CASCADE"),
    )
    op.execute("INSERT INTO arrays SELECT run_id, name, dtype, shape, data FROM tensors")
    op.drop_table("tensors")


def _create_views() -> None:
    dialect = op.get_context().dialect.name
    wide = [WIDE_METRIC.format(split=split, name=name, column=column) for column, (split, name) in WIDE_METRICS.items()]
    join = "group_concat" if _is_sqlite() else "string_agg"
    op.execute(LEADERBOARD.format(model_settings=MODEL_SETTINGS[dialect]))
    op.execute(RUNS_WIDE.format(join=join, metrics=", ".join(wide)))


def _is_sqlite() -> bool:
    return bool(op.get_context().dialect.name == "sqlite")
