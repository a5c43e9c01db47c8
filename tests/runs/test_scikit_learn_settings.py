"""The settings of scikit-learn's methods: their defaults, their labels, and what is refused."""

from __future__ import annotations

import inspect

import pytest
from sklearn import ensemble, linear_model, neighbors, svm

from idwbench.errors import ConfigError
from idwbench.runs.config import RunConfig, run_config
from idwbench.runs.datasets import DATASETS
from idwbench.runs.kinds.models import parse_model
from idwbench.runs.kinds.scikit_learn import SCIKIT_LEARN_METHODS
from idwbench.runs.protocol import Protocol

ESTIMATORS = {
    "knn": (neighbors.KNeighborsClassifier, neighbors.KNeighborsRegressor),
    "nearest_centroid": (neighbors.NearestCentroid,),
    "nca_knn": (neighbors.NeighborhoodComponentsAnalysis, neighbors.KNeighborsClassifier),
    "svc": (svm.SVC,),
    "svr": (svm.SVR,),
    "logistic_regression": (linear_model.LogisticRegression,),
    "ridge": (linear_model.Ridge,),
    "linear_regression": (linear_model.LinearRegression,),
    "random_forest": (ensemble.RandomForestClassifier, ensemble.RandomForestRegressor),
    "hist_gradient_boosting": (ensemble.HistGradientBoostingClassifier, ensemble.HistGradientBoostingRegressor),
}
WORDS = {"none": None, "all": None, "true": True, "false": False}


def a_run(dataset="iris", **settings) -> RunConfig:
    return run_config(dataset, kind="scikit_learn", **settings)


@pytest.mark.parametrize("name", SCIKIT_LEARN_METHODS)
def test_defaults_are_those_of_scikit_learn(name):
    for parameter in SCIKIT_LEARN_METHODS[name].parameters:
        own = "learning_rate" if parameter.name == "shrinkage" else parameter.name
        known = [found for found in (inspect.signature(e).parameters.get(own) for e in ESTIMATORS[name]) if found]
        assert known, own
        if parameter.default != "default":
            assert {found.default for found in known} == {WORDS.get(parameter.default, parameter.default)}
    assert parse_model({"kind": "scikit_learn", "method": name}).parameters.keys() <= {
        parameter.name for parameter in SCIKIT_LEARN_METHODS[name].parameters
    }


def test_no_parameter_has_the_name_of_a_setting_of_the_protocol():
    names = {p.name for method in SCIKIT_LEARN_METHODS.values() for p in method.parameters}
    assert not names & Protocol.model_fields.keys()


@pytest.mark.parametrize(
    ("settings", "label"),
    [
        ({"method": "knn", "n_neighbors": 1}, "knn · k=1"),
        ({"method": "knn", "weights": "distance", "standardise": True}, "knn · k=5, weights=distance, standardised"),
        ({"method": "nearest_centroid"}, "nearest_centroid"),
        ({"method": "svc", "gamma": 0.5}, "svc · C=1, kernel=rbf, gamma=0.5"),
        ({"method": "random_forest", "max_depth": 3}, "random_forest · n_estimators=100, max_depth=3"),
    ],
)
def test_a_label_has_the_main_parameters_and_those_that_are_not_usual(settings, label):
    assert a_run(**settings).model.label == label


def test_words_of_yaml_are_words_of_parameters():
    forest = a_run(method="random_forest", max_depth=None, bootstrap=False).model
    assert (forest.parameters["max_depth"], forest.parameters["bootstrap"]) == ("none", "false")
    boosting = a_run(method="hist_gradient_boosting", early_stopping=True).model
    assert boosting.parameters["early_stopping"] == "true"


def test_a_parameter_that_is_not_used_is_no_part_of_the_run():
    assert "p" not in a_run(method="knn", metric="cosine").model.parameters
    assert {"degree", "coef0"} & a_run(method="svc").model.parameters.keys() == set()
    assert {"gamma", "degree", "coef0"} <= a_run(method="svc", kernel="poly").model.parameters.keys()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "kn"}, "method: unknown method 'kn' (did you mean 'knn'?)"),
        ({"method": 3}, "method: unknown method 3 ("),
        ({"method": "knn", "n_neighbours": 3}, "n_neighbours: unknown setting (did you mean 'n_neighbors'?)"),
        ({"method": "knn", "n_neighbors": 0}, "n_neighbors: must be >= 1, got 0"),
        ({"method": "knn", "n_neighbors": 2.5}, "n_neighbors: expected a whole number, got 2.5"),
        ({"method": "knn", "metric": "cosine", "p": 1}, "p: only with metric minkowski, not cosine"),
        ({"method": "knn", "C": 1}, "C: method 'knn' does not take 'C' ("),
        ({"method": "linear_regression", "alpha": 1}, "does not take 'alpha' (it takes no parameters)"),
        ({"method": "svc", "gamma": "scal"}, "gamma: 'scal' is no number and not valid (did you mean 'scale'?)"),
        (
            {"method": "svc", "kernel": "linear", "gamma": 1},
            "gamma: only with kernel rbf or poly or sigmoid, not linear",
        ),
        ({"method": "svc", "C": 0}, "C: must be > 0, got 0"),
        ({"method": "random_forest", "max_features": 2}, "max_features: must be <= 1, got 2"),
        ({"method": "random_forest", "max_depth": True}, "max_depth: expected a number, got True"),
        (
            {"method": "random_forest", "standardise": True},
            "standardise: the predictions of random_forest do not depend",
        ),
        ({"method": "knn", "standardise": 1}, "standardise: input should be a valid boolean, got 1"),
        ({"method": "knn", "prototypes": 3}, "prototypes: method 'knn' does not take 'prototypes'"),
        ({"method": "ridge"}, "method: ridge supports regression, and iris has classes (choose logistic_regression)"),
        ({"method": "svr"}, "(choose svc)"),
        ({"dataset": "diabetes", "method": "svc"}, "and diabetes is a regression (choose svr)"),
        (
            {"dataset": "diabetes", "method": "nearest_centroid"},
            "nearest_centroid supports classification, and diabetes",
        ),
        ({"dataset": "lookup", "method": "knn"}, "knn supports classification and regression, and lookup is a lookup"),
        ({"dataset": "aesop", "method": "knn"}, "aesop is a text, which the kind scikit_learn does not support"),
    ],
)
def test_a_wrong_setting_is_refused_in_one_line(settings, message):
    with pytest.raises(ConfigError) as caught:
        a_run(**settings)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_k_means_of_each_class_needs_classes():
    with pytest.raises(ConfigError, match="method: kmeans_per_class needs classes, and sine has none"):
        run_config("sine", kind="baseline", method="kmeans_per_class")


def test_only_methods_without_randomness_do_without_seeds():
    free = {name for name in SCIKIT_LEARN_METHODS if SCIKIT_LEARN_METHODS[name].is_deterministic}
    assert set(SCIKIT_LEARN_METHODS) - free == {"nca_knn", "random_forest", "hist_gradient_boosting"}
    assert a_run(method="knn").model.is_deterministic and not a_run(method="random_forest").model.is_deterministic


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"method": "knn", "n_neighbors": 1}, "eb7504c4243e99c66481ff24849447943c0d7db08cb5b9c96e372b17c8619471"),
        (
            {"method": "svc", "kernel": "linear", "standardise": True},
            "049ad491c356998739324d022fcb0f879bb9ec6dddf62f439c2f7eb962d8aab2",
        ),
        (
            {"method": "hist_gradient_boosting", "early_stopping": False},
            "e512ab3637b1100771b73ec5fe22cbe0edc1a2c7bcfce4102f98ed7856af9e41",
        ),
    ],
)
def test_the_keys_of_runs_are_pinned(settings, key):
    run = run_config("two_moons", kind="scikit_learn", **settings)
    assert run.run_key == key
    again = RunConfig.model_validate_json(run.model_dump_json())
    assert (again, again.run_key) == (run, key)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("iris", "45f1fb8fbb31e55e5e997cd1a5e649cd045ee96f282e85c52b61d56154a12aa4"),
        ("hypercube", "0d3cbc354dffcf2183e7fb8f4a0ed4373799f47a34417f0af2b5cbe664b85d82"),
        ("hastie_10_2", "a81ab751c8babdb0d0bd1ddd91d17eebb75b00fe4fa09089a31994a13f46b36a"),
    ],
)
def test_the_keys_of_runs_on_data_of_scikit_learn_are_pinned(name, key):
    assert name in DATASETS
    assert run_config(name).run_key == key
