"""Expressions on runs, by an oracle: Python itself on each row of the table that `to_frame` returns."""

import socket

import pandas
import pytest
from case_tables import case_table

from idwbench import Results, run_config
from idwbench.errors import ConfigError
from idwbench.results.filters import sorted_runs, value_hint


@pytest.fixture
def filled(store, make_config, make_result, make_diverged):
    configs = [
        *(make_config(seed, method, size) for seed in (0, 1) for method in ("idw", "gaussian") for size in (4, 16)),
        make_config(0, "neg_dist", initialisation="kmeans", epochs=7),
        run_config({"name": "two_moons", "noise": 0.3}, momentum=0.5, optimizer="sgd", learning_rate=0.02),
        run_config("sine", kind="kernel_regression", kernel="gaussian", bandwidth="loo"),
        run_config("sine", kind="kernel_regression", kernel="gaussian", bandwidth=0.5),
        run_config("two_moons", kind="mlp", width=3),
    ]
    keys = store.register_sweep("all", "", "", configs)
    store.finish([make_result(config, test=0.5 + 0.1 * config.seed) for config in configs[:7]])
    store.finish([make_diverged(configs[8])])
    for key, tag in ((keys[0], "best"), (keys[0], "old"), (keys[3], "old")):
        store.tag([key], tag)
    return store


def row_values(frame):
    """The rows as Python sees them: None for what is missing."""
    for row in frame.to_dict("records"):
        yield {name: None if (isinstance(v, float) and v != v) or v is pandas.NaT else v for name, v in row.items()}


CONDITIONS = case_table("conditions")
TOO_LONG = [
    ("(" * 300 + "seed" + ")" * 300 + " == 1", "is no expression"),
    ("seed == 1 and " * 1_000 + "seed == 1", "has 14,009 characters, more than 10,000"),
    ("1 + " * 2_000 + "seed == 1", "is no expression"),
]


@pytest.mark.parametrize("where", CONDITIONS["selections"])
def test_an_expression_selects_the_rows_for_which_python_says_that_it_holds(filled, where):
    frame = filled.to_frame(sweep="all")
    expected = []
    for row in row_values(frame):
        try:
            holds = eval(where, {}, row)
        except TypeError:  # a missing value is in no order, and has no sum
            holds = False
        if holds:
            expected.append(row["run_key"])
    assert list(filled.to_frame(sweep="all", where=where)["run_key"]) == expected


@pytest.mark.parametrize(("where", "n"), CONDITIONS["numbers"])
def test_numbers_among_words_times_tags_and_metrics_that_no_run_has(filled, where, n):
    assert len(filled.to_frame(where=where)) == n


@pytest.mark.parametrize(("where", "problem"), [*CONDITIONS["refused"], *TOO_LONG])
def test_what_is_no_comparison_of_columns_is_refused_in_one_line_and_never_run(filled, where, problem):
    with pytest.raises(ConfigError) as caught:
        filled.to_frame(where=where)
    assert problem in str(caught.value) and caught.value.location == ("where",)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


@pytest.mark.parametrize(("where", "hint"), CONDITIONS["hints"])
def test_of_a_text_that_no_run_has_the_nearest_value_is_known(filled, where, hint):
    assert value_hint(filled.to_frame(), where) == hint


def test_runs_in_a_state_are_selected(store, make_config, make_result, as_other_process):
    keys = store.plan([make_config(seed) for seed in range(5)])
    store.finish([make_result(make_config(0)), make_result(make_config(1))])
    store.reset(keys[:2], ["complete"])
    store.lease([keys[0], keys[2]])
    as_other_process(socket.gethostname(), 2**22 + 1)  # larger than any process number of Linux
    store.lease(keys[4:])
    as_other_process(socket.gethostname(), 1)

    def selected(*states):
        return [keys.index(key) for key in store.to_frame(states=states)["run_key"]]

    assert selected("complete") == [0, 1]
    assert selected("running") == [0, 2]
    assert selected("retraining") == [0]
    assert selected("stale") == [4]
    assert selected("planned", "failed") == [3]


def test_runs_are_sorted_by_a_column_or_the_newest_first(filled):
    frame = filled.to_frame()
    newest = sorted_runs(frame, None)
    assert list(newest["run_key"])[:5] == list(frame["run_key"][[8, *range(6, 2, -1)]])
    assert list(sorted_runs(frame, "seed")["seed"]) == sorted(frame["seed"])
    best = sorted_runs(frame, "-test_accuracy")
    assert list(best["test_accuracy"].dropna()) == sorted(frame["test_accuracy"].dropna(), reverse=True)
    assert list(sorted_runs(frame, "bandwidth")["bandwidth"])[:2] == [0.5, "loo"]


def test_an_empty_database_has_no_runs_for_any_condition(db):
    results = Results(db)
    assert len(results.to_frame(where="method == 'idw'", states=["complete"])) == 0
    assert len(sorted_runs(results.to_frame(), None)) == 0


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_tags_and_notes_are_stored_until_they_are_removed(filled, make_config, make_result):
    key = make_config(0, prototypes=4).run_key
    assert filled.find_run(key).tags == "best, old"
    filled.tag([key], "old", remove=True)
    filled.note([key], "seems well")
    filled.reset([key], ["complete"])
    filled.finish([make_result(make_config(0, prototypes=4))])
    run = filled.find_run(key)
    assert (run.tags, run.note) == ("best", "seems well")
    filled.tag([key], "best", remove=True)
    filled.note([key], "")
    run = filled.find_run(key)
    assert (run.tags, run.note) == (None, None)
    with pytest.raises(ConfigError, match="one line"):
        filled.note([key], "a\nb")
    for tag in ("", " ", "a, b", "a\nb"):
        with pytest.raises(ConfigError, match="a tag is a text without commas"):
            filled.tag([key], tag)
