"""Runs of scikit-learn's methods against scikit-learn used directly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from blob_data import make_dataset, make_regression
from engine_runs import train_run
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import r2_score, root_mean_squared_error
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import (
    KNeighborsClassifier,
    KNeighborsRegressor,
    NearestCentroid,
    NeighborhoodComponentsAnalysis,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from idwbench.data.dataset import Dataset
from idwbench.errors import ConfigError
from idwbench.runs.config import run_config
from idwbench.runs.kinds.scikit_learn import SCIKIT_LEARN_METHODS
from idwbench.runs.results import RunResult
from idwbench.training.direct_engines import ENGINES

COSTS = ("fit_seconds", "predict_seconds")
SEED = 3
FOREST: dict[str, Any] = {"n_estimators": 5, "max_depth": 3, "max_features": 0.5, "bootstrap": False}
BOOSTING: dict[str, Any] = {"max_iter": 3, "min_samples_leaf": 2, "max_leaf_nodes": 4, "early_stopping": True}

# Settings of a run, and the estimator that it must equal.
CLASSIFIERS: list[tuple[dict[str, Any], Any]] = [
    ({"method": "knn"}, KNeighborsClassifier()),
    (
        {"method": "knn", "n_neighbors": 3, "weights": "distance", "p": 1},
        KNeighborsClassifier(3, weights="distance", p=1),
    ),
    ({"method": "knn", "metric": "cosine"}, KNeighborsClassifier(metric="cosine")),
    ({"method": "nearest_centroid"}, NearestCentroid()),
    ({"method": "nearest_centroid", "metric": "manhattan"}, NearestCentroid(metric="manhattan")),
    (
        {"method": "nca_knn", "n_neighbors": 2, "n_components": 2, "init": "random", "max_iter": 4},
        make_pipeline(
            NeighborhoodComponentsAnalysis(2, init="random", max_iter=4, random_state=SEED), KNeighborsClassifier(2)
        ),
    ),
    ({"method": "svc"}, SVC()),
    (
        {"method": "svc", "kernel": "poly", "degree": 2, "coef0": 1, "C": 0.1},
        SVC(kernel="poly", degree=2, coef0=1, C=0.1),
    ),
    ({"method": "svc", "gamma": 0.5, "class_weight": "balanced"}, SVC(gamma=0.5, class_weight="balanced")),
    ({"method": "logistic_regression", "C": 0.2}, LogisticRegression(C=0.2)),
    ({"method": "random_forest", "n_estimators": 5}, RandomForestClassifier(5, random_state=SEED)),
    ({"method": "random_forest", **FOREST}, RandomForestClassifier(**FOREST, random_state=SEED)),
    (
        {"method": "hist_gradient_boosting", **BOOSTING, "shrinkage": 0.3},
        HistGradientBoostingClassifier(**BOOSTING, learning_rate=0.3, random_state=SEED),
    ),
    (
        {"method": "svc", "standardise": True, "kernel": "linear"},
        make_pipeline(StandardScaler(), SVC(kernel="linear")),
    ),
]
REGRESSORS: list[tuple[dict[str, Any], Any]] = [
    ({"method": "knn", "n_neighbors": 2}, KNeighborsRegressor(2)),
    ({"method": "svr", "epsilon": 0.01}, MultiOutputRegressor(SVR(epsilon=0.01))),
    ({"method": "ridge", "alpha": 0.5}, Ridge(0.5)),
    ({"method": "linear_regression"}, LinearRegression()),
    ({"method": "random_forest", "n_estimators": 5}, RandomForestRegressor(5, random_state=SEED)),
    ({"method": "random_forest", **FOREST}, RandomForestRegressor(**FOREST, random_state=SEED)),
    (
        {"method": "hist_gradient_boosting", **BOOSTING, "early_stopping": False},
        MultiOutputRegressor(HistGradientBoostingRegressor(**{**BOOSTING, "early_stopping": False}, random_state=SEED)),
    ),
    ({"method": "knn", "standardise": True}, make_pipeline(StandardScaler(), KNeighborsRegressor())),
]


def fitted(dataset: Dataset, seed: int = SEED, **settings: Any) -> RunResult:
    config = run_config(dataset.config, kind="scikit_learn", seed=seed, **settings)
    ENGINES["scikit_learn"].check(config.model, dataset)
    return train_run(config, dataset)


def blobs(n_train: int = 60) -> Dataset:
    """Classes that overlap, so that methods differ."""
    dataset = make_dataset(n_train, validation=True, constant_feature=False)
    noise = np.random.default_rng(1)
    for split in dataset.splits.values():
        split.inputs[:] += noise.normal(scale=2.0, size=split.inputs.shape)
    return dataset


@pytest.mark.parametrize(("settings", "estimator"), CLASSIFIERS, ids=lambda value: str(value)[:60])
def test_a_classifier_is_that_of_scikit_learn_on_every_split(settings, estimator):
    dataset = blobs()
    result = fitted(dataset, **settings)
    estimator.fit(dataset.train.inputs, dataset.train.labels)
    assert [*dataset.splits] == ["train", "validation", "test", "holdout"]
    for name, split in dataset.splits.items():
        assert result.metric("accuracy", name) == estimator.score(split.inputs, split.labels)
        assert result.metrics[name, "predict_seconds"] >= 0
    assert (result.state, result.curve, result.engine, result.threads) == ("complete", (), "scikit_learn", 1)


@pytest.mark.parametrize(("settings", "estimator"), REGRESSORS, ids=lambda value: str(value)[:60])
def test_a_regressor_is_that_of_scikit_learn_in_the_units_of_the_targets(settings, estimator):
    dataset = make_regression(40)
    result = fitted(dataset, **settings)
    estimator.fit(dataset.train.inputs, dataset.train.targets)
    for name, split in dataset.splits.items():
        truth, predicted = split.targets * 3.0 + 5, estimator.predict(split.inputs) * 3 + 5
        rmse = root_mean_squared_error(truth.ravel(), predicted.ravel())
        assert result.metric("rmse", name) == pytest.approx(rmse, rel=1e-5, abs=1e-6)
        r2 = r2_score(truth, predicted, multioutput="variance_weighted")
        assert result.metric("r2", name) == pytest.approx(r2, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("method", ["svr", "hist_gradient_boosting", "knn", "ridge"])
def test_one_target_needs_no_estimator_for_each(method):
    dataset = make_regression(40, n_targets=1)
    estimator = {
        "svr": SVR(),
        "hist_gradient_boosting": HistGradientBoostingRegressor(random_state=SEED),
        "knn": KNeighborsRegressor(),
        "ridge": Ridge(),
    }[method]
    predicted = estimator.fit(dataset.train.inputs, dataset.train.targets[:, 0]).predict(dataset.test.inputs)
    error = (predicted - dataset.test.targets[:, 0]) * 3
    assert fitted(dataset, method=method).metric("rmse") == pytest.approx(np.sqrt((error**2).mean()), rel=1e-5)


def test_every_method_is_compared_here():
    compared = {settings["method"] for settings, _ in (*CLASSIFIERS, *REGRESSORS)}
    assert compared == set(SCIKIT_LEARN_METHODS)


@pytest.mark.parametrize("standardise", [False, True])
def test_class_means_are_keys_in_the_units_of_the_data_with_the_quality_of_prototypes(standardise):
    dataset = make_dataset(validation=True)
    result = fitted(dataset, method="nearest_centroid", standardise=standardise)
    means = [dataset.train.inputs[rows].mean(0) for rows in dataset.groups]
    np.testing.assert_allclose(result.arrays["keys"], means, atol=1e-5)
    np.testing.assert_array_equal(result.arrays["values"], np.eye(3))
    assert result.arrays["keys"].dtype == np.float32
    assert result.n_parameters == 3 * 3 + 3 * 3


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"method": "knn"}, 0),
        ({"method": "logistic_regression"}, 3 * 3 + 3),
        ({"method": "nca_knn", "n_components": 2, "max_iter": 1}, 2 * 3),
        ({"method": "hist_gradient_boosting", "max_iter": 1}, None),
        ({"method": "random_forest", "n_estimators": 2, "max_depth": 1, "bootstrap": False}, 2 * 3),
    ],
)
def test_the_number_of_parameters_is_that_of_what_was_learned(settings, expected):
    assert fitted(blobs(), **settings).n_parameters == expected


def test_the_parameters_of_regressors_are_counted_for_each_target():
    dataset = make_regression(40)
    assert fitted(dataset, method="ridge").n_parameters == fitted(dataset, method="linear_regression").n_parameters == 8
    machines = MultiOutputRegressor(SVR()).fit(dataset.train.inputs, dataset.train.targets).estimators_
    assert fitted(dataset, method="svr").n_parameters == sum(len(machine.support_) + 1 for machine in machines)


@pytest.mark.parametrize(
    ("settings", "converged"),
    [
        ({"method": "logistic_regression", "max_iter": 1}, 0),
        ({"method": "logistic_regression"}, 1),
        ({"method": "nca_knn", "max_iter": 1}, 0),
        ({"method": "svc"}, None),
    ],
)
def test_a_metric_says_whether_an_optimisation_converged_and_no_warning_is_raised(settings, converged):
    assert fitted(blobs(), **settings).metric("converged", "train") == converged


def test_the_metrics_of_the_training_rows_can_be_left_out():
    whole, part = (fitted(blobs(), method="knn", evaluate_train=evaluated) for evaluated in (True, False))
    kept = {key: value for key, value in whole.metrics.items() if key[0] != "train"}
    assert {key for key in part.metrics if key[0] == "train"} == {("train", "fit_seconds")}
    assert {key: part.metrics[key] for key in kept if key[1] not in COSTS} == {
        key: value for key, value in kept.items() if key[1] not in COSTS
    }


@pytest.mark.parametrize("method", ["random_forest", "nca_knn", "hist_gradient_boosting", "nearest_centroid"])
def test_the_seed_determines_the_result(method):
    settings = {
        "random_forest": {"n_estimators": 3},
        "nca_knn": {"init": "random", "max_iter": 2},
        "hist_gradient_boosting": {"max_iter": 3, "early_stopping": True},
        "nearest_centroid": {},
    }[method]
    results = [fitted(blobs(), seed, method=method, **settings) for seed in (3, 3, 4)]
    first, again, other = ({k: v for k, v in result.metrics.items() if k[1] not in COSTS} for result in results)
    assert first == again
    assert (first == other) == SCIKIT_LEARN_METHODS[method].is_deterministic
    for name, array in results[0].arrays.items():
        assert array.tobytes() == results[1].arrays[name].tobytes()


def test_a_stack_is_one_run():
    dataset = blobs()
    assert ENGINES["scikit_learn"].max_stack(run_config(dataset.config, kind="scikit_learn"), dataset) == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "knn", "n_neighbors": 24}, "n_neighbors: expected at most 23, the number of training rows, got 24"),
        (
            {"method": "nca_knn", "n_neighbors": 24},
            "n_neighbors: expected at most 23, the number of training rows, got 24",
        ),
        ({"method": "nca_knn", "n_components": 4}, "n_components: expected at most 3, the number of features, got 4"),
    ],
)
def test_too_little_data_is_refused_in_one_line(settings, message, blobs):
    with pytest.raises(ConfigError) as caught:
        fitted(blobs, **settings)
    assert str(caught.value) == message


@pytest.mark.parametrize("method", ["svc", "logistic_regression", "nearest_centroid", "random_forest"])
def test_one_class_is_refused_but_by_its_neighbours(method):
    dataset = make_dataset()
    dataset.train.labels[:] = 1
    with pytest.raises(ConfigError, match=f"method: {method} needs training rows of at least two classes, got 1"):
        fitted(dataset, method=method)
    assert fitted(dataset, method="knn").metric("accuracy") == (dataset.test.labels == 1).mean()


def test_classes_of_one_row_have_no_means_and_none_to_put_aside():
    with pytest.raises(ConfigError, match="method: nearest_centroid needs a class of two training rows"):
        fitted(make_dataset(3), method="nearest_centroid")
    dataset = make_dataset()
    dataset.train.labels[:] = 0
    dataset.train.labels[:2] = (1, 2)
    with pytest.raises(ConfigError) as caught:
        fitted(dataset, method="hist_gradient_boosting", early_stopping=True)
    assert str(caught.value) == (
        "early_stopping: needs two training rows of each class, and 'b' has one (choose false)"
    )
    assert fitted(dataset, method="hist_gradient_boosting", early_stopping=False, max_iter=1).state == "complete"
