"""Conditions on runs, by an oracle: the same comparison on the table that `to_frame` returns."""

from __future__ import annotations

import operator

import pandas
import pytest

from idwbench.errors import ConfigError
from idwbench.results.filters import parse_filters
from idwbench.runs.config import run_config


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
    store.register_sweep("all", "", "", configs)
    store.finish([make_result(config, test=0.5 + 0.1 * config.seed) for config in configs[:7]])
    store.finish([make_diverged(configs[8])])
    return store


SIGNS = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@pytest.mark.parametrize(
    ("name", "sign", "value"),
    [
        ("method", "=", "idw"),
        ("method", "!=", "idw"),
        ("dataset", "=", "sine"),
        ("model", "=", "mlp"),
        ("state", "=", "planned"),
        ("seed", "<", 1),
        ("seed", ">=", 1),
        ("prototypes", "=", 4),
        ("prototypes", "!=", 4),
        ("prototypes", ">", 4),
        ("epochs", "<=", 7),
        ("learning_rate", "=", 0.01),
        ("epsilon", "=", 0.001),
        ("epsilon", ">", 0),
        ("bandwidth", "=", "loo"),
        ("bandwidth", "=", 0.5),
        ("bandwidth", ">=", 0.1),
        ("momentum", "=", 0),
        ("momentum", ">", 0),
        ("dataset_noise", "=", 0.3),
        ("dataset_noise", "!=", 0.3),
        ("dataset_task", "=", "regression"),
        ("initialisation", "=", "default"),
        ("initialisation", "=", "kmeans"),
        ("initialisation", "!=", "kmeans"),
        ("width", "=", 3),
        ("record", "=", False),
        ("test_accuracy", ">", 0.55),
        ("test_accuracy", "<=", 0.5),
        ("test_accuracy", "!=", 0.5),
        ("engine", "=", "torch"),
        ("engine", "!=", "torch"),
        ("threads", "=", 1),
        ("seconds", ">=", 0.5),
        ("attempt", "=", 0),
        ("optimizer", "=", "sgd"),
    ],
)
def test_a_condition_selects_the_rows_of_the_table_for_which_it_holds(filled, name, sign, value):
    frame = filled.to_frame(sweep="all")
    expected = [key for key, cell in zip(frame["run_key"], frame[name], strict=True) if _holds(cell, sign, value)]
    assert 0 < len(expected) < len(frame)
    text = f"{name}{sign}{str(value).lower()}"
    assert [row.run_key for row in filled.list_runs([text])] == expected


def _holds(cell, sign, value):
    if pandas.isna(cell) or isinstance(cell, str) != isinstance(value, str):
        return sign == "!="
    return bool(SIGNS[sign](cell, value))


def test_alternatives_are_separated_by_commas_and_none_is_a_missing_value(filled):
    methods = [row.method for row in filled.list_runs(["method=gaussian, neg_dist"])]
    assert methods == ["gaussian"] * 4 + ["neg_dist"]
    others = [row.method for row in filled.list_runs(["method!=gaussian,neg_dist"])]
    assert set(others) == {"idw", "gaussian_kernel", "mlp"}
    assert {row.model for row in filled.list_runs(["prototypes=none"])} == {"kernel_regression", "mlp"}
    assert len(filled.list_runs(["prototypes!=none"])) == 10
    some = {row.method for row in filled.list_runs(["prototypes=4,none"])}
    assert some == {"idw", "gaussian", "gaussian_kernel", "mlp"}
    assert len(filled.list_runs(["momentum=0,0.5"])) == 13


def test_all_conditions_must_hold(filled):
    rows = filled.list_runs(["method=idw", "prototypes>=16", "seed==1", "momentum=0"])
    assert [(row.method, row.prototypes, row.seed) for row in rows] == [("idw", 16, 1)]


def test_times_are_compared_in_utc(filled):
    assert len(filled.list_runs(["finished_at>=2020-01-31"])) == 8
    assert filled.list_runs(["finished_at<2020-01-31T12:00+02:00"]) == []
    assert len(filled.list_runs(["finished_at=none"])) == 5


@pytest.mark.parametrize(
    ("text", "problem", "hint"),
    [
        ("method", "expected NAME=VALUE, got 'method'", "such as method=idw or prototypes>=16"),
        ("=idw", "expected NAME=VALUE, got '=idw'", "such as method=idw or prototypes>=16"),
        ("methd=idw", "no column is called 'methd'", "did you mean 'method'?"),
        ("dataset_nois=1", "no column is called 'dataset_nois'", "did you mean 'dataset_noise'?"),
        ("test_acuracy>0", "no column is called 'test_acuracy'", "did you mean 'test_accuracy'?"),
        ("method=idv", "no run has the method 'idv'", "did you mean 'idw'?"),
        ("method=IDW", "no run has the method 'IDW'", "did you mean 'idw'?"),
        ("dataset=two_moon", "no run has the dataset 'two_moon'", "did you mean 'two_moons'?"),
        ("initialisation=kmean", "no run has the initialisation 'kmean'", "did you mean 'kmeans'?"),
        ("state=failled", "no run has the state 'failled'", "did you mean 'failed'?"),
        ("prototypes=many", "prototypes: expected a number, got 'many'", ""),
        ("prototypes>=4,8", "'>=' compares with one value, got 'prototypes>=4,8'", ""),
        ("method>idw", "method is no number: only = and != compare it", ""),
        ("finished_at>yesterday", "finished_at: expected a date or time such as 2026-01-31T12:00, got 'yesterday'", ""),
    ],
)
def test_a_wrong_condition_is_refused_with_the_nearest_word(filled, text, problem, hint):
    with pytest.raises(ConfigError) as caught:
        filled.list_runs([text])
    assert (caught.value.problem, caught.value.hint, caught.value.location) == (problem, hint, ("where",))


def test_a_word_that_no_run_has_yet_selects_nothing(filled):
    assert filled.list_runs(["method=scaled_dot"]) == []
    assert filled.list_runs(["state=failed"]) == []
    assert filled.list_runs(["prototypes=17"]) == []


def test_parameters_and_metrics_of_plugins_are_found_in_the_database(filled, make_config):
    key = make_config().run_key
    filled.add_metrics({key: {("test", "sharpness"): 2.5}})
    assert [row.run_key for row in filled.list_runs(["test_sharpness>2"])] == [key]
    assert [row.run_key for row in filled.list_runs(["test_sharpness=2.5"])] == [key]


def test_a_parsed_condition_has_a_name_an_operator_and_a_value():
    one, other = parse_filters(["epsilon <= 1e-3", "device=cuda:0"])
    assert (one.name, one.operator, one.numbers()) == ("epsilon", "<=", [0.001])
    assert (other.name, other.value) == ("device", "cuda:0")


@pytest.mark.parametrize("text", ["method=a\0", "method=\ud800", "device=';--", "method=%", "dataset=_"])
def test_text_that_no_database_holds_is_refused_in_one_line(filled, text):
    with pytest.raises(Exception) as caught:
        filled.list_runs([text])
    assert type(caught.value).__module__ == "idwbench.errors"
    assert "\n" not in str(caught.value)
