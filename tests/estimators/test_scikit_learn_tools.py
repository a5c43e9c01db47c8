"""The estimators inside scikit-learn: its own checks, pipelines of tables, containers, routing, files; docstrings."""

import doctest
import io

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import skops.io
from case_tables import PENGUINS
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from tables import NAMES, WORDS, X

from idwbench import (
    KernelRegressor,
    PrototypeClassifier,
    PrototypeRegressor,
    TableEncoder,
    explain_pipeline,
    patch_pipeline,
)
from idwbench.data.loading import load_dataset
from idwbench.estimators import classifier, kernel_regressor, regressor
from idwbench.runs.datasets import CsvConfig

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


@parametrize_with_checks([PrototypeClassifier(), PrototypeRegressor(), KernelRegressor()])
def test_the_estimators_pass_the_checks_of_scikit_learn(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # without which one of them is skipped
    check(estimator)


def test_the_examples_of_the_docstrings_hold():
    for module in (classifier, regressor, kernel_regressor):
        result = doctest.testmod(module)
        assert (result.failed, result.attempted > 3) == (0, True)


# Data frames with categories and missing values in pipelines, explained and patched in their own units

FRAME = pd.read_csv(PENGUINS)
BIRDS, SPECIES = FRAME.drop(columns=["species", "year"]), FRAME["species"]


@pytest.fixture(scope="module")
def pipeline():
    return make_pipeline(TableEncoder(), PrototypeClassifier(9, epochs=100, random_state=0)).fit(BIRDS, SPECIES)


def test_a_frame_has_the_features_that_the_same_file_has_as_a_data_set():
    data = load_dataset(CsvConfig(path=str(PENGUINS), label="species", drop=("year",), test_fraction=0.01))
    own = data.scaling.invert(data.train.inputs)
    encoder = TableEncoder().fit(BIRDS)
    assert [*encoder.get_feature_names_out()] == [*data.columns.features]
    whole = encoder.transform(BIRDS) * encoder.scale_ + encoder.mean_
    rows = {tuple(np.round(row, 3)) for row in whole}
    assert sum(tuple(np.round(row, 3)) in rows for row in own) >= len(own) - 11  # those of a missing sex


def test_original_units_come_back_with_what_stands_for_missing_values():
    encoder = TableEncoder().fit(BIRDS)
    back = encoder.inverse_transform(encoder.transform(BIRDS[BIRDS.columns[::-1]]))
    known = BIRDS.notna().to_numpy()
    assert (back.to_numpy()[known] == BIRDS.to_numpy()[known]).mean() == 1 or np.allclose(
        back.select_dtypes("number").to_numpy()[known[:, 1:5]], BIRDS.select_dtypes("number").to_numpy()[known[:, 1:5]]
    )
    assert (back["sex"][BIRDS["sex"].isna()] == "male").all()
    assert np.allclose(back["body_mass_g"][BIRDS["body_mass_g"].isna()], BIRDS["body_mass_g"].median())


def test_a_pipeline_is_cross_validated_answers_in_the_units_of_the_table_and_stays_as_it_was_before_a_patch(pipeline):
    assert cross_val_score(pipeline, BIRDS, SPECIES, cv=3).mean() > 0.95
    terms = explain_pipeline(pipeline, BIRDS.iloc[[0]], top=3)
    assert terms.prediction == "Adelie" == terms.labels[0] and terms.weights.sum() <= 1
    assert terms.keys.columns.tolist() == BIRDS.columns.tolist() and terms.keys.shape == (3, 6)
    assert terms.keys["bill_length_mm"].between(32, 60).all() and terms.keys["island"].str.len().min() > 3
    bird = BIRDS.iloc[[0]]
    patched = patch_pipeline(pipeline, bird, "Gentoo", X=BIRDS.iloc[1:], y=SPECIES.iloc[1:])
    assert (patched.predict(bird)[0], pipeline.predict(bird)[0]) == ("Gentoo", "Adelie")
    assert (patched.predict(BIRDS.iloc[1:]) == pipeline.predict(BIRDS.iloc[1:])).mean() > 0.99
    assert explain_pipeline(patched, bird).patches[0] == 1


BIRD = BIRDS.iloc[[0]]
WRONG = [
    (lambda: TableEncoder().fit(BIRDS.to_numpy()), "expected a data frame"),
    (lambda: TableEncoder().fit(BIRDS.assign(day="2007-11-11")), "'2007-11-11' is a date"),
    (lambda: TableEncoder().fit(BIRDS).transform(BIRD.drop(columns="sex")), "has no column 'sex'"),
    (lambda: TableEncoder().fit(BIRDS).transform(BIRD.assign(sex="m")), "'m' is not one of its categories"),
    (lambda: explain_pipeline(make_pipeline(TableEncoder(), LogisticRegression()), BIRD), "expected transformers and"),
    (lambda: explain_pipeline(make_pipeline(PrototypeClassifier()), BIRD), "expected transformers and"),
    (
        lambda: explain_pipeline(
            make_pipeline(Normalizer(), PrototypeClassifier(2, epochs=1)).fit(np.eye(4), [0, 1, 0, 1]), np.ones((1, 4))
        ),
        "a transformer has no inverse_transform",
    ),
    (lambda: patch_pipeline(make_pipeline(StandardScaler(), PrototypeRegressor()), BIRD, 1), "cannot be patched"),
]


@pytest.mark.parametrize(("call", "problem"), WRONG)
def test_what_does_not_fit_is_a_value_error(call, problem):
    with pytest.raises(ValueError, match=problem):
        call()
