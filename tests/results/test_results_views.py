from __future__ import annotations

import statistics

import pytest


def rows(store, query):
    with store._database.read() as connection:
        return [dict(row) for row in connection.exec_driver_sql(query).mappings()]


def test_the_leaderboard_has_one_row_a_setting_with_mean_and_spread(store, make_config, make_result):
    test, holdout = [0.95, 0.975, 1.0, 0.925], [0.991, 0.993, 0.99, 0.97]
    for seed, (a, b) in enumerate(zip(test, holdout, strict=True)):
        store.finish([make_result(make_config(seed), test_accuracy=a, holdout_accuracy=b)])
    store.finish([make_result(make_config(0, epsilon=0.1), holdout_accuracy=None)])
    store.plan([make_config(99)])
    board = rows(store, "SELECT * FROM leaderboard ORDER BY epsilon")
    assert [row["n"] for row in board] == [4, 1]
    assert board[0]["test_mean"] == pytest.approx(statistics.mean(test), rel=1e-14)
    assert board[0]["test_std"] == pytest.approx(statistics.stdev(test), rel=1e-12)
    assert board[0]["holdout_mean"] == pytest.approx(statistics.mean(holdout), rel=1e-14)
    assert board[0]["holdout_std"] == pytest.approx(statistics.stdev(holdout), rel=1e-12)
    assert board[0]["n_parameters"] == 16 * 4
    assert (board[1]["test_std"], board[1]["holdout_mean"], board[1]["holdout_std"]) == (None, None, None)


def test_the_spread_of_nearly_equal_accuracies_is_not_lost_in_rounding(store, make_config, make_result):
    values = [0.9 + seed * 1e-9 for seed in range(10)]
    for seed, value in enumerate(values):
        store.finish([make_result(make_config(seed), test_accuracy=value)])
    (row,) = rows(store, "SELECT test_std FROM leaderboard")
    assert row["test_std"] == pytest.approx(statistics.stdev(values), rel=1e-6)


def test_settings_without_power_and_epsilon_are_grouped_too(store, make_config, make_result):
    store.finish([make_result(make_config(seed, "fc_relu")) for seed in range(3)])
    store.finish([make_result(make_config(0, "scaled_dot", scale=scale)) for scale in ("features", "prototypes")])
    board = rows(store, "SELECT method, n FROM leaderboard ORDER BY method, parameters")
    assert board == [
        {"method": "fc_relu", "n": 3},
        {"method": "scaled_dot", "n": 1},
        {"method": "scaled_dot", "n": 1},
    ]


def test_diverged_runs_are_counted_apart(store, make_config, make_result, make_diverged):
    store.finish([make_result(make_config(0)), make_diverged(make_config(1))])
    store.finish([make_diverged(make_config(0, "inv_dist"))])
    board = rows(store, "SELECT method, n, n_diverged, test_mean, test_std FROM leaderboard ORDER BY method")
    assert board[0] == {"method": "idw", "n": 1, "n_diverged": 1, "test_mean": 0.975, "test_std": None}
    assert board[1] == {"method": "inv_dist", "n": 0, "n_diverged": 1, "test_mean": None, "test_std": None}


def test_runs_wide_names_the_sweeps_of_each_run(store, make_config):
    store.register_sweep("b", "", "", [make_config(0), make_config(1)])
    store.register_sweep("a", "", "", [make_config(1)])
    store.plan([make_config(2)])
    wide = rows(store, "SELECT seed, sweeps, power, state FROM runs_wide ORDER BY seed")
    assert [row["sweeps"] for row in wide] == ["b", "a, b", None]
    assert [row["power"] for row in wide] == [2.0] * 3
