"""Reading: runs by condition and key, the tidy frame, arrays and curves; two runs compared; views for SQL."""

import math
import re
import statistics
from collections import Counter
from operator import attrgetter
from pathlib import Path

import numpy as np
import pandas
import pytest
from pandas.testing import assert_frame_equal

from idwbench.errors import ResultsError
from idwbench.results.comparison import ArrayDifference, array_difference, compare_runs, curve_difference, environment
from idwbench.results.frame import records, runs_frame, with_settings
from idwbench.results.store import results_to_read
from idwbench.results.tables import metadata
from idwbench.runs.results import CurvePoint


@pytest.fixture
def filled(store, make_config, make_result, make_diverged):
    store.register_sweep("moons", "", "", [make_config(1), make_config(0), make_config(2, "fc_relu")])
    store.finish([make_result(make_config(0)), make_diverged(make_config(1))])
    store.finish([make_result(make_config(5, weight_decay=0.5), metrics={("test", "recall"): 0.5})])
    return store


def test_runs_are_found_by_every_condition(filled):
    assert [run.config.seed for run in filled.find_runs(sweep="moons")] == [1, 0, 2]
    assert [run.config.seed for run in filled.find_runs(states=["complete"])] == [0, 5]
    assert len(filled.find_runs(states=[])) == 0
    assert len(filled.find_runs(methods=["fc_relu", "neg_dist"])) == 1
    assert len(filled.find_runs(dataset="two_moons")) == 4
    assert filled.find_runs(dataset="mnist") == []
    assert len(filled.find_runs(sweep="moons", states=["complete"], methods=["idw"])) == 1


def test_a_run_is_found_by_the_beginning_of_its_key_unless_it_fits_several(filled, make_config):
    config = make_config(5, weight_decay=0.5)
    key = config.run_key
    assert filled.find_run(key).config == config
    assert filled.find_run(key[:10].upper()).run_key == key
    keys = filled.plan([make_config(seed) for seed in range(40)])
    digit, _ = Counter(key[0] for key in keys).most_common(1)[0]
    with pytest.raises(ResultsError, match=f"several runs have a key that begins with '{digit}'"):
        filled.find_run(digit)


def test_results_to_read_are_those_given_or_those_of_a_path(filled, db):
    assert results_to_read(filled) is filled
    read = results_to_read(db)
    assert len(read.find_runs()) == len(filled.find_runs())
    for write in (lambda: read.plan([]), lambda: read.finish([])):
        with pytest.raises(ResultsError, match="was opened read-only"):
            write()


@pytest.mark.parametrize("key", ["", "zz", "%", "_", "0" * 64, "a\0", "\ud800", "a\udcff"])
def test_a_key_that_fits_no_run_is_refused_in_one_line(filled, key):
    for read in (filled.find_run, filled.load_curve, filled.load_arrays, filled.array_facts, filled.sweeps_of):
        with pytest.raises(ResultsError, match=r"no run has|not valid Unicode|cannot be|NUL|surrogate") as caught:
            read(key)
        assert "\n" not in str(caught.value)


def test_arrays_are_known_unread_and_a_run_knows_its_sweeps(filled, make_config, statements):
    key, alone = make_config(0).run_key, make_config(5, weight_decay=0.5).run_key
    facts = filled.array_facts(key)
    assert facts == {name: {"dtype": "float32", "shape": (16, 2)} for name in ("keys", "values")}
    assert not any("arrays.data" in statement for statement in statements)
    assert (filled.sweeps_of(key), filled.sweeps_of(alone)) == (["moons"], [])


def test_many_runs_are_read_with_as_many_queries_as_few(store, make_config, make_result, statements):
    executed = {}
    for name, seeds in (("few", range(3)), ("many", range(100))):
        configs = [make_config(seed) for seed in seeds]
        keys = store.register_sweep(name, "", "", configs)
        store.finish([make_result(config, curve=()) for config in configs])
        assert [run.run_key for run in store.load_runs(keys[::-1])] == keys[::-1]
        statements.clear()
        store.sweep_status(name)
        assert len(store.find_runs(sweep=name)) == len(store.to_frame(sweep=name)) == len(configs)
        executed[name] = [*statements]
    assert executed["few"] == executed["many"]
    assert not any("arrays" in statement or "curves" in statement for statement in executed["many"])


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_a_frame_has_one_row_a_run_with_settings_and_metrics(filled):
    frame = filled.to_frame(sweep="moons")
    assert list(frame["seed"]) == [1, 0, 2]
    assert list(frame["state"]) == ["diverged", "complete", "planned"]
    complete = frame.iloc[1]
    settings = {"dataset": "two_moons", "dataset_noise": 0.1, "dataset_seed": 0, "epochs": 25, "weight_decay": 0.0}
    model = {"model": "prototypes", "method": "idw", "prototypes": 16, "initialisation": "default", "power": 2.0}
    metrics = {"train_accuracy": 0.99, "test_accuracy": 0.975, "holdout_accuracy": 0.995, "n_parameters": 64}
    for expected in (settings, model, metrics, {"seconds": 0.5}):
        assert {name: complete[name] for name in expected} == expected
    assert pandas.isna(frame.iloc[0]["test_accuracy"])
    assert pandas.isna(frame.iloc[2]["power"])
    assert filled.to_frame().set_index("seed").loc[5, "test_recall"] == 0.5


def test_a_table_of_records_is_that_of_the_database_and_gives_them_back(filled):
    stored = filled.find_runs()
    columns = [*with_settings(runs_frame(stored)).columns]
    assert_frame_equal(with_settings(runs_frame(stored)), filled.to_frame()[columns], check_dtype=False)
    found = records(filled.run_table())
    facts = attrgetter("run_key", "config", "dataset", "state", "metrics")
    assert [*map(facts, found)] == [*map(facts, stored)]


LOSS = ("train", "loss")


def test_arrays_are_identical_by_bytes_and_else_have_a_largest_difference_as_curves_have():
    curve, other = ([CurvePoint(1, {LOSS: loss}), CurvePoint(2, {LOSS: math.nan})] for loss in (0.5, 0.25))
    assert (curve_difference(curve, [*curve]), curve_difference(curve, other)) == (0, 0.25)
    assert curve_difference(curve, curve[:1]) is None
    one = np.array([1.0, np.nan, np.inf], np.float32)
    zero, near = array_difference(np.array([0.0]), -np.zeros(1)), array_difference(one, one + 0.5)
    assert (zero.identical, zero.largest, near.identical, near.largest) == (False, 0, False, 0.5)
    assert array_difference(one, one.copy()) == ArrayDifference(True, 0, ((3,), (3,)))
    assert array_difference(one, one[:2]) == ArrayDifference(False, None, ((3,), (2,)))
    assert array_difference(one, None) == ArrayDifference(False, None, ((3,), None))
    assert array_difference(np.array(["a"]), np.array(["b"])) == ArrayDifference(False, None, ((1,), (1,)))


def test_two_runs_are_compared_in_all_parts(store, make_config, make_result):
    one, other = make_config(0), make_config(0, "inv_dist", weight_decay=0.5)
    store.finish([make_result(one), make_result(other, test=0.95, instruction_set="SSE2")])
    found = compare_runs(store, one.run_key[:12], other.run_key)
    assert found.settings == {"method": ("idw", "inv_dist"), "weight_decay": (0.0, 0.5)}
    assert found.metrics["test", "accuracy"] == (0.975, 0.95)
    assert found.environment == {"cpu instruction set": ("AVX2", "SSE2")}
    assert found.curve == pytest.approx(0.025) and found.arrays["keys"].identical
    words = {"engine", "threads", "python version", "data sha256", "host"}
    assert words - set(environment(found.runs[0])) == {"data sha256"}


# Views

PAGE = (Path(__file__).parents[2] / "docs" / "database.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
WORDS = set(re.findall(r"`(\w+)`", PAGE))


def rows(store, query):
    with store._database.read() as connection:
        return [dict(row) for row in connection.exec_driver_sql(query).mappings()]


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_the_leaderboard_has_one_row_a_setting_split_and_metric(store, make_config, make_result, make_diverged):
    test, holdout = [0.95, 0.975, 1.0, 0.925], [0.9 + seed * 1e-9 for seed in range(4)]  # no spread is lost in rounding
    store.finish([make_result(make_config(seed), test=test[seed], holdout=holdout[seed]) for seed in range(4)])
    store.finish([make_result(make_config(0, epsilon=0.1), metrics={("test", "rmse"): 3.0, ("test", "recall"): 0.5})])
    store.finish([make_diverged(make_config(4)), make_diverged(make_config(0, "inv_dist", epsilon=1.0))])
    store.plan([make_config(99)])
    board = rows(store, "SELECT * FROM leaderboard ORDER BY epsilon, split, metric")
    assert [(row["split"], row["metric"], row["n"], row["n_diverged"]) for row in board] == [
        ("holdout", "accuracy", 4, 1),
        ("test", "accuracy", 4, 1),
        ("train", "accuracy", 4, 1),
        ("test", "recall", 1, 0),
        ("test", "rmse", 1, 0),
        (None, None, 0, 1),
    ]
    for row, values in zip(board, (holdout, test), strict=False):
        assert row["mean"] == pytest.approx(statistics.mean(values), rel=1e-14)
        assert row["std"] == pytest.approx(statistics.stdev(values), rel=1e-6)
    assert [row["n_parameters"] for row in board] == [16 * 4] * 5 + [None]
    assert [(row["mean"], row["std"]) for row in board[3:]] == [(0.5, None), (3.0, None), (None, None)]


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_only_runs_that_differ_in_the_seed_alone_share_a_row(store, make_config, make_result):
    """Also where a setting has no column of its own, or a column is NULL."""
    settings = [{}, {"initialisation": "kmeans"}, {"warmup_epochs": 3}, {"weight_decay": 0.5}, {"method": "fc_relu"}]
    settings += [{"method": "scaled_dot", "scale": scale} for scale in ("features", "prototypes")]
    for n, setting in enumerate(settings, start=1):
        store.finish([make_result(make_config(seed, **setting)) for seed in range(n)])
    board = rows(store, "SELECT n FROM leaderboard WHERE split = 'test' ORDER BY n")
    assert [row["n"] for row in board] == [*range(1, len(settings) + 1)]


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
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


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
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
