"""Baselines, kernel regression and scikit-learn's methods against scikit-learn used directly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from blob_data import make_dataset, make_regression
from engine_runs import train_run
from kinds import TIMED
from sklearn.cluster import KMeans
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

import idwbench
from idwbench.data.dataset import Dataset
from idwbench.errors import ConfigError
from idwbench.models.kernel_regression import scott_bandwidth
from idwbench.runs.config import run_config
from idwbench.runs.kinds.scikit_learn import SCIKIT_LEARN_METHODS
from idwbench.runs.results import RunResult
from idwbench.training.direct_engines import ENGINES

SEED = 3
FOREST: dict[str, Any] = {"n_estimators": 5, "max_depth": 3, "max_features": 0.5, "bootstrap": False}
BOOSTING: dict[str, Any] = {"max_iter": 3, "min_samples_leaf": 2, "max_leaf_nodes": 4, "early_stopping": True}
WHOLE: dict[str, Any] = {**BOOSTING, "early_stopping": False}
POLY: dict[str, Any] = {"kernel": "poly", "degree": 2, "coef0": 1, "C": 0.1}
NCA: dict[str, Any] = {"n_components": 2, "init": "random", "max_iter": 4}

# A method, its settings, and the estimator that it must equal.
CLASSIFIERS: list[tuple[str, dict[str, Any], Any]] = [
    ("knn", {}, KNeighborsClassifier()),
    ("knn", {"n_neighbors": 3, "weights": "distance", "p": 1}, KNeighborsClassifier(3, weights="distance", p=1)),
    ("knn", {"metric": "cosine"}, KNeighborsClassifier(metric="cosine")),
    ("nearest_centroid", {}, NearestCentroid()),
    ("nearest_centroid", {"metric": "manhattan"}, NearestCentroid(metric="manhattan")),
    (
        "nca_knn",
        {**NCA, "n_neighbors": 2},
        make_pipeline(NeighborhoodComponentsAnalysis(**NCA, random_state=SEED), KNeighborsClassifier(2)),
    ),
    ("svc", {}, SVC()),
    ("svc", POLY, SVC(**POLY)),
    ("svc", {"gamma": 0.5, "class_weight": "balanced"}, SVC(gamma=0.5, class_weight="balanced")),
    ("svc", {"standardise": True, "kernel": "linear"}, make_pipeline(StandardScaler(), SVC(kernel="linear"))),
    ("logistic_regression", {"C": 0.2}, LogisticRegression(C=0.2)),
    ("random_forest", {"n_estimators": 5}, RandomForestClassifier(5, random_state=SEED)),
    ("random_forest", FOREST, RandomForestClassifier(**FOREST, random_state=SEED)),
    (
        "hist_gradient_boosting",
        {**BOOSTING, "shrinkage": 0.3},
        HistGradientBoostingClassifier(**BOOSTING, learning_rate=0.3, random_state=SEED),
    ),
]
# Numbers of targets, and as above.
REGRESSORS: list[tuple[int, str, dict[str, Any], Any]] = [
    (2, "knn", {"n_neighbors": 2}, KNeighborsRegressor(2)),
    (2, "knn", {"standardise": True}, make_pipeline(StandardScaler(), KNeighborsRegressor())),
    (2, "svr", {"epsilon": 0.01}, MultiOutputRegressor(SVR(epsilon=0.01))),
    (1, "svr", {}, SVR()),
    (2, "ridge", {"alpha": 0.5}, Ridge(0.5)),
    (1, "ridge", {}, Ridge()),
    (2, "linear_regression", {}, LinearRegression()),
    (2, "random_forest", {"n_estimators": 5}, RandomForestRegressor(5, random_state=SEED)),
    (2, "random_forest", FOREST, RandomForestRegressor(**FOREST, random_state=SEED)),
    (
        2,
        "hist_gradient_boosting",
        WHOLE,
        MultiOutputRegressor(HistGradientBoostingRegressor(**WHOLE, random_state=SEED)),
    ),
    (1, "hist_gradient_boosting", WHOLE, HistGradientBoostingRegressor(**WHOLE, random_state=SEED)),
]


def fitted(dataset: Dataset, method: str | None = None, seed: int = SEED, **settings: Any) -> RunResult:
    """Run a method of scikit-learn, a baseline with `prototypes`, or kernel regression."""
    kind = "scikit_learn" if method in SCIKIT_LEARN_METHODS else "baseline" if method else "kernel_regression"
    config = run_config(dataset.config, kind=kind, seed=seed, **({"method": method} if method else {}), **settings)
    ENGINES[kind].check(config.model, dataset)
    return train_run(config, dataset)


def overlapping(n_train: int = 60) -> Dataset:
    """Classes that overlap, so that methods differ."""
    dataset = make_dataset(n_train, validation=True, constant_feature=False)
    noise = np.random.default_rng(1)
    for split in dataset.splits.values():
        split.inputs[:] += noise.normal(scale=2.0, size=split.inputs.shape)
    return dataset


def of_one_class() -> Dataset:
    dataset = make_dataset()
    dataset.train.labels[:] = 1
    return dataset


def of_lonely_rows() -> Dataset:
    """Two of the three classes have one row."""
    dataset = make_dataset()
    dataset.train.labels[:] = 0
    dataset.train.labels[:2] = (1, 2)
    return dataset


def of_four_points() -> Dataset:
    dataset = make_dataset()
    dataset.train.inputs[:] = dataset.train.inputs[np.arange(23) % 4]
    return dataset


def of_signed_zeros() -> Dataset:
    dataset = make_dataset(constant_feature=False)
    dataset.train.inputs[:] = 0.0
    dataset.train.inputs[0] = -0.0
    return dataset


def of_one_point() -> Dataset:
    dataset = make_regression(n_train=3)
    dataset.train.inputs[:] = 1
    return dataset


def assert_errors_are_those(result: RunResult, dataset: Dataset, name: str, predicted: np.ndarray) -> None:
    """Compare RMSE and R² in the units of the targets, whose scaling is 3 t + 5."""
    truth, predicted = dataset.splits[name].targets * 3.0 + 5, predicted.reshape(-1, dataset.n_outputs) * 3 + 5
    # The root of the mean over all outputs.
    rmse = root_mean_squared_error(truth.ravel(), predicted.ravel())
    assert result.metric("rmse", name) == pytest.approx(rmse, rel=1e-5, abs=1e-6)
    r2 = r2_score(truth, predicted, multioutput="variance_weighted")
    assert result.metric("r2", name) == pytest.approx(r2, rel=1e-4, abs=1e-5)


# scikit-learn


@pytest.mark.parametrize(("method", "settings", "estimator"), CLASSIFIERS, ids=lambda value: str(value)[:60])
def test_a_classifier_is_that_of_scikit_learn_on_every_split(method, settings, estimator):
    dataset = overlapping()
    result = fitted(dataset, method, **settings)
    estimator.fit(dataset.train.inputs, dataset.train.labels)
    assert [*dataset.splits] == ["train", "validation", "test", "holdout"]
    for name, split in dataset.splits.items():
        assert result.metric("accuracy", name) == estimator.score(split.inputs, split.labels)
        assert result.metrics[name, "predict_seconds"] >= 0


@pytest.mark.parametrize(("targets", "method", "settings", "estimator"), REGRESSORS, ids=lambda value: str(value)[:60])
def test_a_regressor_is_that_of_scikit_learn_in_the_units_of_the_targets(targets, method, settings, estimator):
    dataset = make_regression(40, n_targets=targets)
    result = fitted(dataset, method, **settings)
    estimator.fit(dataset.train.inputs, dataset.train.targets[:, 0] if targets == 1 else dataset.train.targets)
    for name, split in dataset.splits.items():
        assert_errors_are_those(result, dataset, name, estimator.predict(split.inputs))


def test_every_method_is_compared_here():
    assert {row[0] for row in CLASSIFIERS} | {row[1] for row in REGRESSORS} == set(SCIKIT_LEARN_METHODS)


@pytest.mark.parametrize("standardise", [False, True])
def test_class_means_are_keys_in_the_units_of_the_data(standardise):
    dataset = make_dataset(validation=True)
    result = fitted(dataset, "nearest_centroid", standardise=standardise)
    means = [dataset.train.inputs[rows].mean(0) for rows in dataset.groups]
    np.testing.assert_allclose(result.arrays["keys"], means, atol=1e-5)
    np.testing.assert_array_equal(result.arrays["values"], np.eye(3))
    assert result.arrays["keys"].dtype == np.float32
    assert result.n_parameters == 3 * 3 + 3 * 3


@pytest.mark.parametrize(
    ("method", "settings", "expected"),
    [
        ("knn", {}, 0),
        ("logistic_regression", {}, 3 * 3 + 3),
        ("nca_knn", {"n_components": 2, "max_iter": 1}, 2 * 3),
        ("hist_gradient_boosting", {"max_iter": 1}, None),
        ("random_forest", {"n_estimators": 2, "max_depth": 1, "bootstrap": False}, 2 * 3),
    ],
)
def test_the_number_of_parameters_is_that_of_what_was_learned(method, settings, expected):
    assert fitted(overlapping(), method, **settings).n_parameters == expected


def test_the_parameters_of_regressors_are_counted_for_each_target():
    dataset = make_regression(40)
    assert fitted(dataset, "ridge").n_parameters == fitted(dataset, "linear_regression").n_parameters == 8
    machines = MultiOutputRegressor(SVR()).fit(dataset.train.inputs, dataset.train.targets).estimators_
    assert fitted(dataset, "svr").n_parameters == sum(len(machine.support_) + 1 for machine in machines)


@pytest.mark.parametrize(
    ("method", "settings", "converged"),
    [
        ("logistic_regression", {"max_iter": 1}, 0),
        ("logistic_regression", {}, 1),
        ("nca_knn", {"max_iter": 1}, 0),
        ("svc", {}, None),
    ],
)
def test_a_metric_says_whether_an_optimisation_converged_and_no_warning_is_raised(method, settings, converged):
    assert fitted(overlapping(), method, **settings).metric("converged", "train") == converged


def test_the_metrics_of_the_training_rows_can_be_left_out():
    whole, part = (fitted(overlapping(), "knn", evaluate_train=evaluated).metrics for evaluated in (True, False))
    assert {key for key in part if key[0] == "train"} == {("train", "fit_seconds")}
    untimed = {key: value for key, value in whole.items() if key[0] != "train" and key[1] not in TIMED}
    assert {key: part[key] for key in part if key[1] not in TIMED} == untimed


def test_a_stack_is_one_run():
    dataset = overlapping()
    assert ENGINES["scikit_learn"].max_stack(run_config(dataset.config, kind="scikit_learn"), dataset) == 1


# Baselines


@pytest.mark.parametrize("method", ["kmeans", "samples"])
def test_a_baseline_answers_as_the_nearest_neighbour_among_its_keys(method):
    dataset, numbers = make_dataset(validation=True), make_regression()
    result, regression = (fitted(one, method, prototypes=5) for one in (dataset, numbers))
    keys, values = result.arrays["keys"], result.arrays["values"]
    assert keys.dtype == values.dtype == np.float32
    neighbours = KNeighborsClassifier(1).fit(keys, values.argmax(1))
    for name, split in dataset.splits.items():
        assert result.metric("accuracy", name) == neighbours.score(split.inputs, split.labels)
    nearest = KNeighborsRegressor(1).fit(regression.arrays["keys"], regression.arrays["values"])
    assert_errors_are_those(regression, numbers, "test", nearest.predict(numbers.test.inputs))


def test_the_centres_are_those_of_scikit_learn_with_the_class_frequencies_of_their_clusters():
    dataset = make_dataset()
    result = fitted(dataset, "kmeans", prototypes=5)
    clusters = KMeans(5, n_init="auto", random_state=SEED).fit(dataset.train.inputs)
    np.testing.assert_array_equal(result.arrays["keys"], clusters.cluster_centers_)
    for value, label in zip(result.arrays["values"], range(5), strict=True):
        own = dataset.train.labels[clusters.labels_ == label]
        assert value.tolist() == pytest.approx([(own == c).mean() for c in range(3)], rel=1e-6)


def test_samples_are_different_training_inputs_with_their_labels():
    dataset = make_dataset()
    result = fitted(dataset, "samples", prototypes=len(dataset.train))
    order = np.lexsort(result.arrays["keys"].T), np.lexsort(dataset.train.inputs.T)
    np.testing.assert_array_equal(result.arrays["keys"][order[0]], dataset.train.inputs[order[1]])
    np.testing.assert_array_equal(result.arrays["values"][order[0]], np.eye(3)[dataset.train.labels[order[1]]])
    assert result.metric("accuracy", "train") == 1


# Kernel regression


def test_a_tiny_bandwidth_is_the_nearest_neighbour_on_every_split():
    dataset = make_dataset(validation=True)
    result = fitted(dataset, bandwidth=1e-3)
    neighbours = KNeighborsClassifier(1).fit(dataset.train.inputs, dataset.train.labels)
    for name, split in dataset.splits.items():
        assert result.metric("accuracy", name) == neighbours.score(split.inputs, split.labels)
        assert result.metric("queries_without_neighbours", name) == 0
    assert (result.curve, result.arrays, result.n_parameters) == ((), {}, 0)


@pytest.mark.parametrize("settings", [{"bandwidth": 0.7}, {"kernel": "shepard", "power": 3.0, "epsilon": 0.1}])
def test_metrics_of_kernel_regression_are_in_the_units_of_the_targets(settings):
    dataset = make_regression()
    train, parameters = dataset.train, {"kernel": "gaussian", **settings}
    predicted = idwbench.kernel_regression(dataset.test.inputs, train.inputs, train.targets, **parameters)
    assert_errors_are_those(fitted(dataset, **settings), dataset, "test", predicted)


def test_queries_without_neighbours_get_the_class_prior_or_the_mean_target_and_are_counted():
    dataset, numbers = make_dataset(), make_regression()  # 8, 8 and 7 rows: the first class is the prior's answer
    result = fitted(dataset, kernel="boxcar", bandwidth=1e-9)
    counted = {name: result.metric("queries_without_neighbours", name) for name in dataset.splits}
    assert counted == {"train": 0, "test": 11, "holdout": 50}
    assert result.metric("accuracy") == (dataset.test.labels == 0).mean()
    regression = fitted(numbers, kernel="epanechnikov", bandwidth=1e-9)
    assert_errors_are_those(regression, numbers, "test", np.tile(numbers.train.targets.mean(0), (11, 1)))
    assert regression.metric("queries_without_neighbours") == 11


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("bandwidth", {"bandwidth": "scott"}),
        ("bandwidth", {"bandwidth": "loo"}),
        ("power", {"kernel": "shepard", "power": "loo", "epsilon": 0.1}),
    ],
)
def test_a_chosen_parameter_is_a_metric_and_a_learned_parameter(name, settings):
    dataset = make_regression()
    result = fitted(dataset, **settings)
    chosen = result.metric(name, "train")
    assert settings[name] == "loo" or chosen == pytest.approx(scott_bandwidth(dataset.train.inputs))
    assert result.n_parameters == 1
    fixed = fitted(dataset, **{**settings, name: chosen})
    assert {**fixed.metrics, ("train", name): chosen} == result.metrics


def test_shepard_has_no_bandwidth():
    result = fitted(make_regression(), kernel="shepard")
    assert result.metric("bandwidth", "train") is None
    assert result.metric("rmse", "train") == pytest.approx(0, abs=1e-6)


# Refusals

ROWS = "expected at most 23, the number of training rows, got 24"
REFUSED = [
    (make_dataset, {"method": "knn", "n_neighbors": 24}, f"n_neighbors: {ROWS}"),
    (make_dataset, {"method": "nca_knn", "n_neighbors": 24}, f"n_neighbors: {ROWS}"),
    (
        make_dataset,
        {"method": "nca_knn", "n_components": 4},
        "n_components: expected at most 3, the number of features, got 4",
    ),
    *(
        (of_one_class, {"method": name}, f"method: {name} needs training rows of at least two classes, got 1")
        for name in ("svc", "logistic_regression", "nearest_centroid", "random_forest")
    ),
    (
        lambda: make_dataset(3),
        {"method": "nearest_centroid"},
        "method: nearest_centroid needs a class of two training rows",
    ),
    (
        of_lonely_rows,
        {"method": "hist_gradient_boosting", "early_stopping": True},
        "early_stopping: needs two training rows of each class, and 'b' has one (choose false)",
    ),
    (
        make_dataset,
        {"method": "samples", "prototypes": 24},
        "prototypes: expected at most 23, the number of training inputs, got 24",
    ),
    (
        of_four_points,
        {"method": "kmeans", "prototypes": 5},
        "prototypes: expected at most 4, the number of distinct training inputs, got 5",
    ),
    (
        of_signed_zeros,
        {"method": "kmeans", "prototypes": 2},
        "expected at most 1, the number of clusters that k-means can separate",
    ),
    (of_one_point, {"bandwidth": "loo"}, "bandwidth: leave-one-out needs at least two distinct keys"),
]


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
@pytest.mark.parametrize(("load", "settings", "message"), REFUSED)
def test_data_that_is_too_small_is_refused_in_one_line(load, settings, message):
    with pytest.raises(ConfigError) as caught:
        fitted(load(), **settings)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_data_that_is_small_but_enough_is_accepted():
    assert fitted(of_one_class(), "knn").metric("accuracy") == (make_dataset().test.labels == 1).mean()
    assert fitted(of_lonely_rows(), "hist_gradient_boosting", early_stopping=False, max_iter=1).state == "complete"
    assert len(fitted(of_four_points(), "kmeans", prototypes=4).arrays["keys"]) == 4
    assert len(fitted(of_four_points(), "samples", prototypes=5).arrays["keys"]) == 5
