"""The first tables, and the views over them.

SQLite refuses to replace a table that a view reads: a later step that changes ``runs`` or ``sweeps`` in batch mode
drops the views first and makes them again.

Revision ID: 0001
Revises:
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

__all__ = ["downgrade", "upgrade"]

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

JSON = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
MOMENT = sa.DateTime(timezone=True)

# What runs of one row of the leaderboard have in common: everything but the seed.
SETTING = """
    dataset, dataset_name, dataset_parameters, method, prototypes, power, epsilon, parameters, plugin_sha256,
    epochs, batch_size, learning_rate, optimizer, schedule
"""

# The mean comes first, then the squared deviations from it: E[x²] − E[x]² would cancel to noise.
LEADERBOARD = f"""
CREATE VIEW leaderboard AS
WITH ended AS (
    SELECT {SETTING}, state, n_features, n_classes,
        CASE WHEN state = 'complete' THEN test_accuracy END AS test,
        CASE WHEN state = 'complete' THEN holdout_accuracy END AS holdout
    FROM runs
    WHERE state IN ('complete', 'diverged')
),
centred AS (
    SELECT ended.*,
        AVG(test) OVER setting AS test_mean,
        AVG(holdout) OVER setting AS holdout_mean
    FROM ended
    WINDOW setting AS (PARTITION BY {SETTING})
)
SELECT {SETTING},
    COUNT(CASE WHEN state = 'complete' THEN 1 END) AS n,
    MAX(test_mean) AS test_mean,
    CASE WHEN COUNT(test) > 1
        THEN SQRT(SUM((test - test_mean) * (test - test_mean)) / (COUNT(test) - 1)) END AS test_std,
    MAX(holdout_mean) AS holdout_mean,
    CASE WHEN COUNT(holdout) > 1
        THEN SQRT(SUM((holdout - holdout_mean) * (holdout - holdout_mean)) / (COUNT(holdout) - 1)) END AS holdout_std,
    COUNT(CASE WHEN state = 'diverged' THEN 1 END) AS n_diverged,
    prototypes * (MAX(n_features) + MAX(n_classes)) AS n_parameters
FROM centred
GROUP BY {SETTING}
"""

RUNS_WIDE = """
CREATE VIEW runs_wide AS
SELECT runs.id, runs.run_key,
    (SELECT {join}(named.name, ', ') FROM (
        SELECT sweeps.name FROM sweep_runs JOIN sweeps ON sweeps.id = sweep_runs.sweep_id
        WHERE sweep_runs.run_id = runs.id ORDER BY sweeps.name
    ) AS named) AS sweeps,
    dataset, dataset_name, dataset_parameters, method, prototypes, power, epsilon, parameters, plugin_sha256,
    epochs, batch_size, learning_rate, optimizer, schedule, seed,
    state, train_accuracy, test_accuracy, holdout_accuracy, n_features, n_classes, diverged_epoch, error,
    engine, device, threads, host, pid, attempt, versions, git, data_sha256, seconds,
    created_at, started_at, heartbeat_at, finished_at
FROM runs
"""


def upgrade() -> None:
    _create_runs()
    _create_sweeps()
    _create_curves_and_tensors()
    sqlite = op.get_bind().dialect.name == "sqlite"
    op.execute(LEADERBOARD)
    op.execute(RUNS_WIDE.format(join="group_concat" if sqlite else "string_agg"))


def downgrade() -> None:
    for view in ("runs_wide", "leaderboard"):
        op.execute(f"DROP VIEW {view}")
    for table in ("tensors", "curves", "sweep_runs", "sweeps", "runs"):
        op.drop_table(table)


def _create_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("run_key", sa.String(64), nullable=False),
        sa.Column("dataset", sa.String(200), nullable=False),
        sa.Column("dataset_name", sa.String(50), nullable=False),
        sa.Column("dataset_parameters", JSON, nullable=False),
        sa.Column("method", sa.String(100), nullable=False),
        sa.Column("prototypes", sa.Integer, nullable=False),
        sa.Column("power", sa.Float),
        sa.Column("epsilon", sa.Float),
        sa.Column("parameters", JSON, nullable=False),
        sa.Column("plugin_sha256", sa.String(64)),
        sa.Column("epochs", sa.Integer, nullable=False),
        sa.Column("batch_size", sa.Integer, nullable=False),
        sa.Column("learning_rate", sa.Float, nullable=False),
        sa.Column("optimizer", sa.String(50), nullable=False),
        sa.Column("schedule", sa.String(50), nullable=False),
        sa.Column("seed", sa.BigInteger, nullable=False),
        sa.Column("config", JSON, nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("previous_state", sa.String(10)),
        sa.Column("train_accuracy", sa.Float),
        sa.Column("test_accuracy", sa.Float),
        sa.Column("holdout_accuracy", sa.Float),
        sa.Column("n_features", sa.Integer),
        sa.Column("n_classes", sa.Integer),
        sa.Column("diverged_epoch", sa.Integer),
        sa.Column("error", sa.Text),
        sa.Column("engine", sa.String(50)),
        sa.Column("device", sa.String(100)),
        sa.Column("threads", sa.Integer),
        sa.Column("host", sa.String(255)),
        sa.Column("pid", sa.Integer),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("versions", JSON),
        sa.Column("git", JSON),
        sa.Column("data_sha256", sa.String(64)),
        sa.Column("seconds", sa.Float),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("started_at", MOMENT),
        sa.Column("heartbeat_at", MOMENT),
        sa.Column("finished_at", MOMENT),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        sa.UniqueConstraint("run_key", name="uq_runs_run_key"),
        sa.CheckConstraint("state IN ('planned', 'running', 'complete', 'diverged', 'failed')", name="ck_runs_state"),
    )
    op.create_index("ix_runs_dataset_method_prototypes", "runs", ["dataset", "method", "prototypes"])
    op.create_index("ix_runs_state", "runs", ["state"])


def _create_sweeps() -> None:
    op.create_table(
        "sweeps",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("updated_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_sweeps"),
        sa.UniqueConstraint("name", name="uq_sweeps_name"),
    )
    op.create_table(
        "sweep_runs",
        sa.Column("sweep_id", sa.Integer, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("run_id", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("sweep_id", "position", name="pk_sweep_runs"),
        sa.UniqueConstraint("run_id", "sweep_id", name="uq_sweep_runs_run_id_sweep_id"),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name="fk_sweep_runs_sweep_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_sweep_runs_run_id", ondelete="CASCADE"),
    )


def _create_curves_and_tensors() -> None:
    op.create_table(
        "curves",
        sa.Column("run_id", sa.Integer, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("learning_rate", sa.Float, nullable=False),
        sa.Column("train_loss", sa.Float),
        sa.Column("test_accuracy", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "epoch", name="pk_curves"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_curves_run_id", ondelete="CASCADE"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "tensors",
        sa.Column("run_id", sa.Integer, nullable=False),
        sa.Column("name", sa.String(50), nullable=False),
        sa.Column("dtype", sa.String(20), nullable=False),
        sa.Column("shape", JSON, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "name", name="pk_tensors"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_tensors_run_id", ondelete="CASCADE"),
    )
