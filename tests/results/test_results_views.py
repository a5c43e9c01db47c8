import re
import statistics
from pathlib import Path

import pytest

from idwbench.results.tables import metadata

PAGE = (Path(__file__).parents[2] / "docs" / "database.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
WORDS = set(re.findall(r"`(\w+)`", PAGE))


def rows(store, query):
    with store._database.read() as connection:
        return [dict(row) for row in connection.exec_driver_sql(query).mappings()]


def test_the_leaderboard_has_one_row_a_setting_split_and_metric(store, make_config, make_result):
    test, holdout = [0.95, 0.975, 1.0, 0.925], [0.9 + seed * 1e-9 for seed in range(4)]  # no spread is lost in rounding
    store.finish([make_result(make_config(seed), test=test[seed], holdout=holdout[seed]) for seed in range(4)])
    store.finish([make_result(make_config(0, epsilon=0.1), metrics={("test", "rmse"): 3.0, ("test", "recall"): 0.5})])
    store.plan([make_config(99)])
    board = rows(store, "SELECT * FROM leaderboard ORDER BY epsilon, split, metric")
    assert [(row["split"], row["metric"], row["n"]) for row in board] == [
        ("holdout", "accuracy", 4),
        ("test", "accuracy", 4),
        ("train", "accuracy", 4),
        ("test", "recall", 1),
        ("test", "rmse", 1),
    ]
    for row, values in zip(board, (holdout, test), strict=False):
        assert row["mean"] == pytest.approx(statistics.mean(values), rel=1e-14)
        assert row["std"] == pytest.approx(statistics.stdev(values), rel=1e-6)
    assert {row["n_parameters"] for row in board} == {16 * 4}
    assert [(row["mean"], row["std"]) for row in board[3:]] == [(0.5, None), (3.0, None)]


def test_only_runs_that_differ_in_the_seed_alone_share_a_row(store, make_config, make_result):
    """Also where a setting has no column of its own, or a column is NULL."""
    settings = [{}, {"initialisation": "kmeans"}, {"warmup_epochs": 3}, {"weight_decay": 0.5}, {"method": "fc_relu"}]
    settings += [{"method": "scaled_dot", "scale": scale} for scale in ("features", "prototypes")]
    for n, setting in enumerate(settings, start=1):
        store.finish([make_result(make_config(seed, **setting)) for seed in range(n)])
    board = rows(store, "SELECT n FROM leaderboard WHERE split = 'test' ORDER BY n")
    assert [row["n"] for row in board] == [*range(1, len(settings) + 1)]


def test_diverged_runs_are_counted_apart(store, make_config, make_result, make_diverged):
    store.finish([make_result(make_config(0), holdout=None), make_diverged(make_config(1))])
    store.finish([make_diverged(make_config(0, "inv_dist"))])
    board = rows(store, "SELECT method, split, n, n_diverged, mean, std FROM leaderboard ORDER BY method, split")
    assert [tuple(row.values()) for row in board] == [
        ("idw", "test", 1, 1, 0.975, None),
        ("idw", "train", 1, 1, 0.99, None),
        ("inv_dist", None, 0, 1, None, None),
    ]


def test_runs_wide_names_the_sweeps_and_the_main_metrics_of_each_run(store, make_config, make_result):
    store.register_sweep("b", "", "", [make_config(0), make_config(1)])
    store.register_sweep("a", "", "", [make_config(1)])
    store.plan([make_config(2)])
    store.finish([make_result(make_config(0), train=0.9, test=0.8, holdout=0.7)])
    wide = rows(store, "SELECT * FROM runs_wide ORDER BY seed")
    assert [row["sweeps"] for row in wide] == ["b", "a, b", None]
    assert [row["power"] for row in wide] == [2.0] * 3
    trained = wide[0]
    assert (trained["train_accuracy"], trained["test_accuracy"], trained["holdout_accuracy"]) == (0.9, 0.8, 0.7)
    assert (trained["validation_accuracy"], trained["test_rmse"], trained["n_parameters"]) == (None, None, 64)


def test_every_query_of_the_page_answers(store, make_config, make_result, make_diverged):
    configs = [make_config(seed, method) for method in ("idw", "inv_dist") for seed in range(3)]
    store.register_sweep("moons", "", "", [*configs, make_config(9)])
    store.finish([*(make_result(config) for config in configs), make_diverged(make_config(9))])
    for query in QUERIES:
        with store._database.read() as connection:
            assert connection.exec_driver_sql(query).all(), query


def test_every_table_and_column_is_documented(store):
    with store._database.read() as connection:
        for name in ("leaderboard", "runs_wide"):
            assert {*connection.exec_driver_sql(f"SELECT * FROM {name}").keys()} <= WORDS
    for table in metadata.sorted_tables:
        assert {table.name, *table.columns.keys()} <= WORDS
