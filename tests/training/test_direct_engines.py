"""Baselines, kernel regression and scikit-learn's methods against scikit-learn used directly."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from blob_data import make_dataset, make_regression
from case_tables import case_table
from engine_runs import train_run
from kinds import TIMED
from sklearn import ensemble, linear_model, neighbors, svm
from sklearn.cluster import KMeans
from sklearn.metrics import r2_score, root_mean_squared_error
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import idwbench
from idwbench.data.dataset import Split
from idwbench.errors import ConfigError
from idwbench.models.kernel_regression import scott_bandwidth
from idwbench.runs.config import run_config
from idwbench.runs.kinds.scikit_learn import SCIKIT_LEARN_METHODS
from idwbench.training.direct_engines import ENGINES

SEED = 3
FOREST: dict[str, Any] = {"n_estimators": 5, "max_depth": 3, "max_features": 0.5, "bootstrap": False}
BOOSTING: dict[str, Any] = {"max_iter": 3, "min_samples_leaf": 2, "max_leaf_nodes": 4, "early_stopping": True}
WHOLE: dict[str, Any] = {**BOOSTING, "early_stopping": False}
POLY: dict[str, Any] = {"kernel": "poly", "degree": 2, "coef0": 1, "C": 0.1}
NCA: dict[str, Any] = {"n_components": 2, "init": "random", "max_iter": 4}
RANDOM = {"random_state": SEED}

COMPONENTS = neighbors.NeighborhoodComponentsAnalysis(**NCA, **RANDOM)
BOOSTED_CLASSES = ensemble.HistGradientBoostingClassifier(**BOOSTING, learning_rate=0.3, **RANDOM)
BOOSTED = ensemble.HistGradientBoostingRegressor(**WHOLE, **RANDOM)
# Numbers of targets, 0 for classes; a method, its settings, and the estimator that it must equal.
ESTIMATORS: list[tuple[int, str, dict[str, Any], Any]] = [
    (0, "knn", {}, neighbors.KNeighborsClassifier()),
    (0, "knn", {"weights": "distance", "p": 1}, neighbors.KNeighborsClassifier(weights="distance", p=1)),
    (0, "knn", {"metric": "cosine"}, neighbors.KNeighborsClassifier(metric="cosine")),
    (0, "nearest_centroid", {"metric": "manhattan"}, neighbors.NearestCentroid(metric="manhattan")),
    (0, "nca_knn", {**NCA, "n_neighbors": 2}, make_pipeline(COMPONENTS, neighbors.KNeighborsClassifier(2))),
    (0, "svc", POLY, svm.SVC(**POLY)),
    (0, "svc", {"gamma": 0.5, "class_weight": "balanced"}, svm.SVC(gamma=0.5, class_weight="balanced")),
    (0, "svc", {"standardise": True, "kernel": "linear"}, make_pipeline(StandardScaler(), svm.SVC(kernel="linear"))),
    (0, "logistic_regression", {"C": 0.2}, linear_model.LogisticRegression(C=0.2)),
    (0, "random_forest", FOREST, ensemble.RandomForestClassifier(**FOREST, **RANDOM)),
    (0, "hist_gradient_boosting", {**BOOSTING, "shrinkage": 0.3}, BOOSTED_CLASSES),
    (2, "knn", {"standardise": True}, make_pipeline(StandardScaler(), neighbors.KNeighborsRegressor())),
    (2, "svr", {"epsilon": 0.01}, MultiOutputRegressor(svm.SVR(epsilon=0.01))),
    (1, "svr", {}, svm.SVR()),
    (2, "ridge", {"alpha": 0.5}, linear_model.Ridge(0.5)),
    (1, "linear_regression", {}, linear_model.LinearRegression()),
    (2, "random_forest", FOREST, ensemble.RandomForestRegressor(**FOREST, **RANDOM)),
    (2, "hist_gradient_boosting", WHOLE, MultiOutputRegressor(BOOSTED)),
    (1, "hist_gradient_boosting", WHOLE, BOOSTED),
]


def fitted(dataset, method=None, **settings):
    """Run a method of scikit-learn, a baseline with `prototypes`, or kernel regression."""
    kind = "scikit_learn" if method in SCIKIT_LEARN_METHODS else "baseline" if method else "kernel_regression"
    config = run_config(dataset.config, kind=kind, seed=SEED, **({"method": method} if method else {}), **settings)
    ENGINES[kind].check(config.model, dataset)
    return train_run(config, dataset)


def overlapping():
    """Classes that overlap, so that methods differ."""
    dataset = make_dataset(60, validation=True, constant_feature=False)
    noise = np.random.default_rng(1)
    for split in dataset.splits.values():
        split.inputs[:] += noise.normal(scale=2.0, size=split.inputs.shape)
    return dataset


def with_train(dataset, inputs=..., targets=...):
    """Return a data set with other training inputs or targets, which may be broadcast."""
    pairs = ((dataset.train.inputs, inputs), (dataset.train.targets, targets))
    arrays = [old if new is ... else np.broadcast_to(new, old.shape).astype(old.dtype) for old, new in pairs]
    return replace(dataset, train=Split(*arrays))


BLOBS = make_dataset()
OF_ONE_CLASS = with_train(BLOBS, targets=1)
OF_LONELY_ROWS = with_train(BLOBS, targets=[1, 2, *[0] * 21])  # two of the three classes have one row
OF_FOUR_POINTS = with_train(BLOBS, inputs=BLOBS.train.inputs[np.arange(23) % 4])
SMALL = {
    "blobs": BLOBS,
    "one class": OF_ONE_CLASS,
    "lonely rows": OF_LONELY_ROWS,
    "one point": with_train(make_regression(n_train=3), inputs=1),
    "three rows": make_dataset(3),
}


def assert_errors_are_those(result, dataset, name, predicted):
    """Compare RMSE and R² in the units of the targets, whose scaling is 3 t + 5."""
    truth, predicted = dataset.splits[name].targets * 3.0 + 5, predicted.reshape(-1, dataset.n_outputs) * 3 + 5
    # The root of the mean over all outputs.
    rmse = root_mean_squared_error(truth.ravel(), predicted.ravel())
    assert result.metric("rmse", name) == pytest.approx(rmse, rel=1e-5, abs=1e-6)
    r2 = r2_score(truth, predicted, multioutput="variance_weighted")
    assert result.metric("r2", name) == pytest.approx(r2, rel=1e-4, abs=1e-5)


def assert_answers_are_those(result, dataset, estimator):
    """Compare the accuracy on every split with that of an estimator which was fitted."""
    assert [*dataset.splits] == ["train", "validation", "test", "holdout"]
    for name, split in dataset.splits.items():
        assert result.metric("accuracy", name) == estimator.score(split.inputs, split.labels)


# scikit-learn


@pytest.mark.parametrize(("targets", "method", "settings", "estimator"), ESTIMATORS, ids=lambda value: str(value)[:60])
def test_a_method_is_that_of_scikit_learn_on_every_split_in_the_units_of_the_targets(
    targets, method, settings, estimator
):
    assert {row[1] for row in ESTIMATORS} == set(SCIKIT_LEARN_METHODS)  # every method is compared
    dataset = make_regression(40, n_targets=targets) if targets else overlapping()
    result, train = fitted(dataset, method, **settings), dataset.train
    estimator.fit(train.inputs, train.targets[:, 0] if targets == 1 else train.targets)
    if targets:
        for name, split in dataset.splits.items():
            assert_errors_are_those(result, dataset, name, estimator.predict(split.inputs))
    else:
        assert_answers_are_those(result, dataset, estimator)
    part = fitted(dataset, method, evaluate_train=False, **settings).metrics
    assert {name for split, name in part if split == "train"} <= {"fit_seconds", "converged"}
    kept = {key: value for key, value in result.metrics.items() if key[0] != "train" and key[1] not in TIMED}
    assert {key: part[key] for key in kept} == kept
    parts = estimator.estimators_ if isinstance(estimator, MultiOutputRegressor) else [estimator]
    if method == "svr":
        assert result.n_parameters == sum(len(part.support_) + 1 for part in parts)
    elif method in ("ridge", "linear_regression"):
        assert result.n_parameters == targets * 4


def test_class_means_are_keys_and_data_that_is_small_but_enough_is_accepted():
    means = [BLOBS.train.inputs[rows].mean(0) for rows in BLOBS.groups]
    for standardise in (False, True):
        result = fitted(BLOBS, "nearest_centroid", standardise=standardise)
        np.testing.assert_allclose(result.arrays["keys"], means, atol=1e-5)
        np.testing.assert_array_equal(result.arrays["values"], np.eye(3))
        assert (result.arrays["keys"].dtype, result.n_parameters) == (np.float32, 3 * 3 + 3 * 3)
    assert fitted(OF_ONE_CLASS, "knn").metric("accuracy") == (BLOBS.test.labels == 1).mean()
    assert fitted(OF_LONELY_ROWS, "hist_gradient_boosting", early_stopping=False, max_iter=1).state == "complete"
    assert len(fitted(OF_FOUR_POINTS, "kmeans", prototypes=4).arrays["keys"]) == 4
    assert len(fitted(OF_FOUR_POINTS, "samples", prototypes=5).arrays["keys"]) == 5


@pytest.mark.parametrize(("method", "settings", "n_parameters", "converged"), case_table("trained_parameters"))
def test_parameters_are_counted_and_a_metric_says_whether_training_converged(method, settings, n_parameters, converged):
    result = fitted(overlapping(), method, **settings)
    assert (result.n_parameters, result.metric("converged", "train")) == (n_parameters, converged)


# Baselines


@pytest.mark.parametrize("method", ["kmeans", "samples"])
def test_a_baseline_answers_as_the_nearest_neighbour_among_its_keys(method):
    dataset, numbers = make_dataset(validation=True), make_regression()
    result, regression = (fitted(one, method, prototypes=5) for one in (dataset, numbers))
    keys, values = result.arrays["keys"], result.arrays["values"]
    assert_answers_are_those(result, dataset, neighbors.KNeighborsClassifier(1).fit(keys, values.argmax(1)))
    nearest = neighbors.KNeighborsRegressor(1).fit(regression.arrays["keys"], regression.arrays["values"])
    assert_errors_are_those(regression, numbers, "test", nearest.predict(numbers.test.inputs))
    if method == "kmeans":  # of scikit-learn, with the class frequencies of the clusters
        clusters = KMeans(5, n_init="auto", random_state=SEED).fit(dataset.train.inputs)
        np.testing.assert_array_equal(keys, clusters.cluster_centers_)
        frequencies = [np.eye(3)[dataset.train.labels[clusters.labels_ == label]].mean(0) for label in range(5)]
        np.testing.assert_allclose(values, frequencies, rtol=1e-6)


# Kernel regression


def test_queries_without_neighbours_get_the_class_prior_or_the_mean_target_and_are_counted():
    numbers = make_regression()  # of the classes 8, 8 and 7 rows: the first class is the prior's answer
    result = fitted(BLOBS, kernel="boxcar", bandwidth=1e-9)
    counted = {name: result.metric("queries_without_neighbours", name) for name in BLOBS.splits}
    assert counted == {"train": 0, "test": 11, "holdout": 50}
    assert result.metric("accuracy") == (BLOBS.test.labels == 0).mean()
    regression = fitted(numbers, kernel="epanechnikov", bandwidth=1e-9)
    assert_errors_are_those(regression, numbers, "test", np.tile(numbers.train.targets.mean(0), (11, 1)))
    assert regression.metric("queries_without_neighbours") == 11


CHOSEN = [*({"bandwidth": h} for h in ("scott", "loo", 0.7)), {"kernel": "shepard", "power": "loo", "epsilon": 0.1}]


@pytest.mark.parametrize("settings", CHOSEN)
def test_kernel_regression_is_measured_in_the_units_of_the_targets_and_a_chosen_parameter_is_a_metric(settings):
    dataset, name = make_regression(), "power" if "power" in settings else "bandwidth"
    result = fitted(dataset, **settings)
    chosen = result.metric(name, "train")
    assert settings[name] != "scott" or chosen == pytest.approx(scott_bandwidth(dataset.train.inputs))
    fixed = {"kernel": "gaussian", **settings, name: chosen}
    train = dataset.train
    predicted = idwbench.kernel_regression(dataset.test.inputs, train.inputs, train.targets, **fixed)
    assert_errors_are_those(result, dataset, "test", predicted)
    assert {**fitted(dataset, **fixed).metrics, ("train", name): chosen} == result.metrics
    assert result.n_parameters == (settings[name] != chosen)


# Refusals


@pytest.mark.parametrize(("data", "settings", "message"), case_table("wrong_inputs")["small_data"])
def test_data_that_is_too_small_is_refused_in_one_line(data, settings, message):
    with pytest.raises(ConfigError) as caught:
        fitted(SMALL[data], **settings)
    assert message in str(caught.value) and "\n" not in str(caught.value)
