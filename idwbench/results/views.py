"""The views for users' own queries: ``leaderboard`` and ``runs_wide``."""

from __future__ import annotations

from sqlalchemy import Connection

from idwbench.results.tables import runs

__all__ = ["create_views", "drop_views"]

# What runs of one setting have in common: all but the seed. `model_settings` and `protocol` hold the settings that have
# no column of their own.
_SETTING = """
    dataset, dataset_name, dataset_parameters, model, method, prototypes, power, epsilon, parameters, plugin_sha256,
    model_settings, epochs, batch_size, learning_rate, optimizer, schedule, protocol
"""
_MODEL_SETTINGS = {
    "sqlite": "json_remove(config, '$.dataset', '$.protocol', '$.seed')",
    "postgresql": "config - 'dataset' - 'protocol' - 'seed'",
}
_JOIN = {"sqlite": "group_concat", "postgresql": "string_agg"}

# The mean comes first, then the squared deviations from it: E[x²] − E[x]² would cancel to noise. A setting without any
# metric, because all its runs diverged, has one row, with neither split nor metric. A run that is trained again counts
# with its result until the new one replaces it.
_LEADERBOARD = f"""
CREATE VIEW leaderboard AS
WITH ended AS (
    SELECT runs.*, {{model_settings}} AS model_settings, COALESCE(previous_state, state) AS ended_state
    FROM runs
    WHERE state IN ('complete', 'diverged') OR previous_state IN ('complete', 'diverged')
),
counted AS (
    SELECT {_SETTING}, id, ended_state,
        COUNT(CASE WHEN ended_state = 'diverged' THEN 1 END) OVER setting AS n_diverged,
        MAX(n_parameters) OVER setting AS n_parameters
    FROM ended
    WINDOW setting AS (PARTITION BY {_SETTING})
),
measured AS (
    SELECT counted.*, metrics.split, metrics.name AS metric, metrics.value,
        AVG(metrics.value) OVER (PARTITION BY {_SETTING}, metrics.split, metrics.name) AS mean,
        COUNT(metrics.value) OVER (PARTITION BY {_SETTING}) AS n_values
    FROM counted LEFT JOIN metrics ON metrics.run_id = counted.id AND counted.ended_state = 'complete'
)
SELECT {_SETTING}, split, metric,
    COUNT(value) AS n,
    MAX(mean) AS mean,
    CASE WHEN COUNT(value) > 1 THEN SQRT(SUM((value - mean) * (value - mean)) / (COUNT(value) - 1)) END AS std,
    MAX(n_diverged) AS n_diverged,
    MAX(n_parameters) AS n_parameters
FROM measured
WHERE metric IS NOT NULL OR n_values = 0
GROUP BY {_SETTING}, split, metric
"""

_WIDE_METRICS = ("train_accuracy", "validation_accuracy", "test_accuracy", "holdout_accuracy", "test_rmse")
_WIDE_METRIC = """(
        SELECT value FROM metrics
        WHERE metrics.run_id = runs.id AND metrics.split = '{0}' AND metrics.name = '{1}'
    ) AS {0}_{1}"""
_RUNS_WIDE = """
CREATE VIEW runs_wide AS
SELECT runs.id, runs.run_key,
    (SELECT {join}(named.name, ', ') FROM (
        SELECT sweeps.name FROM sweep_runs JOIN sweeps ON sweeps.id = sweep_runs.sweep_id
        WHERE sweep_runs.run_id = runs.id ORDER BY sweeps.name
    ) AS named) AS sweeps,
    {settings},
    CASE WHEN previous_state IN ('complete', 'diverged') THEN previous_state ELSE state END AS state,
    COALESCE(previous_state, '') IN ('complete', 'diverged') AS retraining,
    {metrics}, {outcome}
FROM runs
"""


def create_views(connection: Connection) -> None:
    """Create the views of the newest tables."""
    dialect, names = connection.dialect.name, runs.columns.keys()
    settings, outcome = names[names.index("dataset") : names.index("config")], names[names.index("n_parameters") :]
    wide = ", ".join(_WIDE_METRIC.format(*name.split("_")) for name in _WIDE_METRICS)
    connection.exec_driver_sql(_LEADERBOARD.format(model_settings=_MODEL_SETTINGS[dialect]))
    columns = {"settings": ", ".join(settings), "metrics": wide, "outcome": ", ".join(outcome)}
    connection.exec_driver_sql(_RUNS_WIDE.format(join=_JOIN[dialect], **columns))


def drop_views(connection: Connection) -> None:
    """Drop the views: SQLite refuses to replace a table that a view reads."""
    for view in ("runs_wide", "leaderboard"):
        connection.exec_driver_sql(f"DROP VIEW {view}")
