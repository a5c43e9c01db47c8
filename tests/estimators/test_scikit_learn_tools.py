"""The estimators inside scikit-learn: its own checks, pipelines, searches, containers, routing, files; docstrings."""

import doctest
import io
import os
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import skops.io
from sklearn import config_context
from sklearn.ensemble import BaggingClassifier
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from tables import NAMES, WORDS, X

from idwbench import KernelRegressor, PrototypeClassifier, PrototypeRegressor
from idwbench.estimators import classifier, kernel_regressor, regressor

FAST = {"n_prototypes": 4, "epochs": 30, "random_state": 0}
SAVED = [
    lambda: PrototypeClassifier(**FAST).fit(X, WORDS).patch(X[0], "top", X=X, y=WORDS),
    lambda: PrototypeRegressor(**FAST).fit(X, X[:, :2]),
    lambda: KernelRegressor().fit(X, X[:, 0], sample_weight=np.arange(len(X))),
    lambda: KernelRegressor("shepard", power="loo").fit(X, X[:, 0]),
    lambda: PrototypeClassifier.from_prototypes(X[:3], np.eye(3), [1, 5, 9], power=4),
    lambda: PrototypeRegressor.from_prototypes(X[:3], [1, 2, 3], method="gaussian", parameters={"sigma_squared": 3}),
]


@pytest.mark.parametrize("fit", SAVED)
def test_a_saved_estimator_predicts_the_same_and_skops_trusts_all_but_the_class(fit):
    model, memory = fit(), io.BytesIO()
    joblib.dump(model, memory)
    memory.seek(0)
    data, own = skops.io.dumps(model), f"{type(model).__module__}.{type(model).__name__}"
    assert skops.io.get_untrusted_types(data=data) == [own]
    for again in (joblib.load(memory), skops.io.loads(data, trusted=[own])):
        np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_pipelines_searches_and_ensembles_work():
    pipeline = make_pipeline(StandardScaler(), PrototypeClassifier(**FAST))
    grid = {"prototypeclassifier__power": np.array([1.0, 2.0]), "prototypeclassifier__n_prototypes": np.array([3, 6])}
    assert GridSearchCV(pipeline, grid, cv=2).fit(X, WORDS).best_score_ > 0.8
    assert BaggingClassifier(PrototypeClassifier(**FAST), 3, random_state=0).fit(X, WORDS).score(X, WORDS) > 0.8


@pytest.mark.parametrize(("frame_of", "series_of"), [(pd.DataFrame, pd.Series), (pl.DataFrame, pl.Series)])
def test_data_frames_give_names_in_and_out(frame_of, series_of):
    frame = frame_of(dict(zip(map(str, NAMES), X.T, strict=True)))
    container = "pandas" if frame_of is pd.DataFrame else "polars"
    model = PrototypeClassifier(**FAST).set_output(transform=container).fit(frame, series_of(WORDS))
    np.testing.assert_array_equal(model.feature_names_in_, NAMES)
    weights = model.transform(frame)
    assert isinstance(weights, frame_of)
    assert list(weights.columns) == [f"prototypeclassifier{j}" for j in range(4)]
    np.testing.assert_allclose(weights.to_numpy().sum(1), 1)
    np.testing.assert_array_equal(model.predict(frame), PrototypeClassifier(**FAST).fit(X, WORDS).predict(X))
    assert model.explain(frame[:1]).prediction == model.explain(X[0]).prediction == WORDS[0]
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame_of(dict(zip("abc", X.T, strict=True))))
    np.testing.assert_array_equal(KernelRegressor().fit(frame, X[:, 0]).feature_names_in_, NAMES)


def test_sample_weights_are_routed():
    weights = np.arange(len(X)) % 4
    with config_context(enable_metadata_routing=True):
        model = PrototypeClassifier(**FAST).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        options = {"cv": [(np.arange(30, 60), np.arange(30))], "params": {"sample_weight": weights}}
        routed = cross_validate(model, X, WORDS, return_estimator=True, **options)
        partial = PrototypeClassifier().set_partial_fit_request(sample_weight=True, classes=True)
        assert {"sample_weight", "classes"} == {*partial.get_metadata_routing().partial_fit.requests}
    direct = PrototypeClassifier(**FAST).fit(X[30:], WORDS[30:], weights[30:])
    np.testing.assert_array_equal(routed["estimator"][0].prototypes_, direct.prototypes_)
    assert routed["test_score"][0] == direct.score(X[:30], WORDS[:30], weights[:30])


@parametrize_with_checks([PrototypeClassifier(), PrototypeRegressor(), KernelRegressor()])
def test_the_estimators_pass_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


# scikit-learn skips its last check unless SciPy was imported with the variable set; old versions do not have it.
OWN_PROCESS = """
import inspect, io, sys
import joblib, numpy as np
from idwbench import KernelRegressor, PrototypeClassifier, PrototypeRegressor
X = np.random.default_rng(0).normal(size=(40, 3)); y = X[:, 0] > 0
model = PrototypeClassifier(4, epochs=2, random_state=0).fit(X, y)
model = model.patch(X[0], not y[0], confidence=0.9, radius=0.1).partial_fit(X, y)
for made in (model, PrototypeRegressor(4, epochs=2).fit(X, X), KernelRegressor("shepard", power="loo").fit(X, X)):
    made.predict(X), str(made.explain(X[0]))
    joblib.dump(made, io.BytesIO())
assert "matplotlib" not in sys.modules
print([name for name in ("torch", "sqlalchemy", "typer") if name in sys.modules])
import sklearn.utils.estimator_checks as checks
if "only_numpy" in inspect.signature(checks._yield_array_api_checks).parameters:
    for estimator in (PrototypeClassifier(), PrototypeRegressor(), KernelRegressor()):
        options = {"array_namespace": "numpy", "expect_only_array_outputs": False}
        checks.check_array_api_input(type(estimator).__name__, estimator, **options)
"""


@pytest.mark.slow
def test_nothing_imports_torch_and_the_check_of_scikit_learn_that_needs_an_environment_variable_passes():
    words, environment = [sys.executable, "-c", OWN_PROCESS], os.environ | {"SCIPY_ARRAY_API": "1"}
    result = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    assert result.stdout == "[]\n"


def test_the_examples_of_the_docstrings_hold():
    for module in (classifier, regressor, kernel_regressor):
        result = doctest.testmod(module)
        assert (result.failed, result.attempted > 3) == (0, True)
