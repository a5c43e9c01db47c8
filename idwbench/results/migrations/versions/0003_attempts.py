"""Attempts, diffs of changed checkouts, platforms and durations; views that count runs while they are trained again.

Each run that was started gets one attempt: the last one, as far as the columns of ``runs`` tell.

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

__all__ = ["upgrade"]

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

JSON = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
MOMENT = sa.DateTime(timezone=True)

# The end of a run that was released is not known, nor that of a failure after which the run kept its result.
ATTEMPTS = """
INSERT INTO attempts
SELECT id, attempt,
    CASE WHEN state = 'planned' THEN 'released'
        WHEN state = 'complete' AND error IS NOT NULL THEN 'failed'
        WHEN state = 'diverged' AND error NOT LIKE 'not finite after epoch %' THEN 'failed'
        ELSE state END,
    CASE WHEN error LIKE 'not finite after epoch %' OR state = 'running' THEN NULL ELSE error END,
    host, pid, started_at, finished_at, seconds
FROM runs WHERE attempt > 0
"""
UNKNOWN = """
UPDATE attempts SET ended_at = NULL, seconds = NULL
WHERE state IN ('running', 'released') OR (state = 'failed' AND run_id IN (SELECT id FROM runs WHERE state <> 'failed'))
"""

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
# metric, because all its runs diverged, has one row, with neither split nor metric. A run that is trained again counts
# with its result until the new one replaces it.
LEADERBOARD = f"""
CREATE VIEW leaderboard AS
WITH ended AS (
    SELECT runs.*, {{model_settings}} AS model_settings, COALESCE(previous_state, state) AS ended_state
    FROM runs
    WHERE state IN ('complete', 'diverged') OR previous_state IN ('complete', 'diverged')
),
counted AS (
    SELECT {SETTING}, id, ended_state,
        COUNT(CASE WHEN ended_state = 'diverged' THEN 1 END) OVER setting AS n_diverged,
        MAX(n_parameters) OVER setting AS n_parameters
    FROM ended
    WINDOW setting AS (PARTITION BY {SETTING})
),
measured AS (
    SELECT counted.*, metrics.split, metrics.name AS metric, metrics.value,
        AVG(metrics.value) OVER (PARTITION BY {SETTING}, metrics.split, metrics.name) AS mean,
        COUNT(metrics.value) OVER (PARTITION BY {SETTING}) AS n_values
    FROM counted LEFT JOIN metrics ON metrics.run_id = counted.id AND counted.ended_state = 'complete'
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
    CASE WHEN previous_state IN ('complete', 'diverged') THEN previous_state ELSE state END AS state,
    COALESCE(previous_state, '') IN ('complete', 'diverged') AS retraining,
    {metrics}, n_parameters, diverged_epoch, error,
    engine, device, threads, cpu, platform, host, pid, attempt, versions, git, data_sha256, seconds, durations,
    created_at, started_at, heartbeat_at, finished_at
FROM runs
"""
WIDE_METRIC = """(
        SELECT value FROM metrics
        WHERE metrics.run_id = runs.id AND metrics.split = '{split}' AND metrics.name = '{name}'
    ) AS {column}"""


def upgrade() -> None:
    for view in ("runs_wide", "leaderboard"):
        op.execute(f"DROP VIEW {view}")
    op.add_column("runs", sa.Column("platform", sa.String(200)))
    op.add_column("runs", sa.Column("durations", JSON))
    _create_tables()
    op.execute(ATTEMPTS)
    op.execute(UNKNOWN)
    _create_views()


def _create_tables() -> None:
    op.create_table(
        "attempts",
        sa.Column("run_id", sa.Integer, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("host", sa.String(255)),
        sa.Column("pid", sa.Integer),
        sa.Column("started_at", MOMENT),
        sa.Column("ended_at", MOMENT),
        sa.Column("seconds", sa.Float),
        sa.PrimaryKeyConstraint("run_id", "number", name="pk_attempts"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_attempts_run_id", ondelete="CASCADE"),
        sa.CheckConstraint(
            "state IN ('running', 'complete', 'diverged', 'failed', 'released', 'lost')", name="ck_attempts_state"
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "diffs",
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("sha256", name="pk_diffs"),
    )


def _create_views() -> None:
    dialect = op.get_context().dialect.name
    wide = [WIDE_METRIC.format(split=split, name=name, column=column) for column, (split, name) in WIDE_METRICS.items()]
    op.execute(LEADERBOARD.format(model_settings=MODEL_SETTINGS[dialect]))
    join = "group_concat" if dialect == "sqlite" else "string_agg"
    op.execute(RUNS_WIDE.format(join=join, metrics=", ".join(wide)))
