"""Data frames with categories and missing values in pipelines, explained and patched in their own units."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, Normalizer, StandardScaler

from idwbench import PrototypeClassifier, PrototypeRegressor, TableEncoder, explain_pipeline, patch_pipeline
from idwbench.data.loading import load_dataset
from idwbench.runs.datasets import CsvConfig

PENGUINS = Path(__file__).parents[1] / "assets" / "penguins.csv"
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


def test_a_pipeline_is_cross_validated_and_answers_in_the_units_of_the_table(pipeline):
    assert cross_val_score(pipeline, BIRDS, SPECIES, cv=3).mean() > 0.95
    terms = explain_pipeline(pipeline, BIRDS.iloc[[0]], top=3)
    assert terms.prediction == "Adelie" == terms.labels[0] and terms.weights.sum() <= 1
    assert terms.keys.columns.tolist() == BIRDS.columns.tolist() and terms.keys.shape == (3, 6)
    assert terms.keys["bill_length_mm"].between(32, 60).all() and terms.keys["island"].str.len().min() > 3


def test_a_patch_of_one_row_holds_and_leaves_the_pipeline_as_it_was(pipeline):
    bird = BIRDS.iloc[[0]]
    patched = patch_pipeline(pipeline, bird, "Gentoo", X=BIRDS.iloc[1:], y=SPECIES.iloc[1:])
    assert (patched.predict(bird)[0], pipeline.predict(bird)[0]) == ("Gentoo", "Adelie")
    assert (patched.predict(BIRDS.iloc[1:]) == pipeline.predict(BIRDS.iloc[1:])).mean() > 0.99
    assert explain_pipeline(patched, bird).patches[0] == 1


def test_keys_of_arrays_come_back_through_all_scalers():
    X = np.random.default_rng(0).normal(5, 2, (40, 3))
    model = make_pipeline(StandardScaler(), MaxAbsScaler(), PrototypeRegressor(4, epochs=5, random_state=0))
    terms = explain_pipeline(model.fit(X, X[:, 0]), X[:1])
    keys = terms.keys
    assert (keys >= X.min(0) - 1e-4).all() and (keys <= X.max(0) + 1e-4).all()


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
