"""Tables with categories and missing values, against pandas and scikit-learn; the columns of one input by name.

`penguins.csv` is the table of Palmer Station penguins as A. M. Horst, A. P. Hill and K. B. Gorman publish it in
palmerpenguins (2020), CC0.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from case_tables import case_table
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from idwbench.data.columns import Column, Columns, named_values
from idwbench.data.loading import load_dataset
from idwbench.data.preparation import split_rows
from idwbench.errors import DatasetError
from idwbench.runs.config import run_config
from idwbench.runs.datasets import CsvConfig, parse_dataset

PENGUINS = Path(__file__).parent.parent / "assets" / "penguins.csv"
NUMBERS = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g", "year"]
CATEGORIES = ["island", "sex"]


@pytest.fixture(scope="module")
def penguins():
    return load_dataset(CsvConfig(path=str(PENGUINS), label="species"))


def test_features_are_those_of_scikit_learns_imputers_encoder_and_scaler_fitted_to_the_training_rows(penguins):
    frame = pd.read_csv(PENGUINS)
    train, test = split_rows(frame.species.to_numpy(), 0.2, np.random.RandomState(0))
    scaled = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    coded = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(sparse_output=False))
    oracle = make_column_transformer((scaled, NUMBERS), (coded, CATEGORIES)).fit(frame.iloc[train])
    names = [*NUMBERS, *(f"{name}={value}" for name in CATEGORIES for value in sorted(frame[name].dropna().unique()))]
    order = [penguins.columns.features.index(name) for name in names]
    for split, rows in ((penguins.train, train), (penguins.test, test)):
        np.testing.assert_allclose(split.inputs[:, order], oracle.transform(frame.iloc[rows]), atol=1e-5)
        assert [penguins.class_names[label] for label in split.labels] == frame.species.iloc[rows].tolist()


def test_missing_values_are_filled_from_the_rows_that_remain_for_training(tmp_path):
    lines = [f"{i if i % 5 else ''},{'' if i % 7 == 3 else 'ab'[i % 3 == 0]},{'yn'[i % 2]}" for i in range(60)]
    path = tmp_path / "own.csv"
    path.write_text("\n".join(["number,kind,label", *lines]))
    data = load_dataset(CsvConfig(path=str(path), label="label", validation=10))
    number, kind = data.columns.columns
    numbers = {name: data.scaling.invert(split.inputs)[:, 0] for name, split in data.splits.items()}
    # Copies of the median leave it the median.
    assert number.fill == pytest.approx(np.median(numbers["train"]), abs=1e-4) and kind.fill == "a"
    assert number.missing <= np.isclose(numbers["train"], number.fill, atol=1e-4).sum() <= number.missing + 1
    assert sum(np.isclose(own, number.fill, atol=1e-4).sum() for own in numbers.values()) in (12, 13)
    for split in data.splits.values():
        assert (data.scaling.invert(split.inputs)[:, 1:].sum(1) == 1).all()


def test_a_table_of_numbers_has_the_checksum_and_the_run_key_of_earlier_versions(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("x,y\n" + "".join(f"{i},{i % 2}\n" for i in range(12)))
    data = load_dataset(CsvConfig(path=str(path), label="y"))
    assert "drop" not in json.loads(run_config({"name": str(path), "label": "y"}).canonical_json())["dataset"]
    assert data.columns.names == ("x",) and data.columns.notes() == []
    numbers = np.sort(data.scaling.invert(np.concatenate([data.train.inputs, data.test.inputs]))[:, 0])
    np.testing.assert_allclose(numbers, np.arange(12), atol=1e-6)


def test_columns_are_dropped_by_name_in_yaml_as_in_python(penguins):
    config = parse_dataset({"name": str(PENGUINS), "label": "species", "drop": ["year", "sex"]})
    data = load_dataset(config)
    assert data.columns.names == tuple(name for name in penguins.columns.names if name not in ("year", "sex"))
    for drop, problem in (("yaer", "no column is named 'yaer'"), ("species", "'species' is the column to predict")):
        with pytest.raises(DatasetError, match=problem) as caught:
            load_dataset(CsvConfig(path=str(PENGUINS), label="species", drop=(drop,)))
        assert caught.value.location == ("drop",)


def test_what_became_of_categories_and_missing_values_is_said_in_a_line_each(penguins):
    categories, missing = penguins.columns.notes()
    assert categories == "categories: island (3), sex (2)"
    assert missing.startswith("18 missing values of the training rows became the median or the most frequent category")
    assert "sex " in missing and "bill_length_mm 4" in missing


COLUMNS = Columns((Column("a, b=c", (), 2.5), Column("a", ("x", "y, z"), "x"), Column("size")))


@pytest.mark.parametrize(("text", "values"), case_table("inputs")["named_values"])
def test_named_values_may_hold_commas_in_names_and_in_categories(text, values):
    assert named_values(text, COLUMNS) == values


@pytest.mark.parametrize(("text", "problem"), case_table("wrong_inputs")["named_values"])
def test_an_unknown_name_is_refused(text, problem):
    with pytest.raises(DatasetError, match=f"^{problem}"):
        named_values(text, COLUMNS)


def test_a_row_may_be_a_mapping_a_row_of_a_frame_all_values_in_order_or_the_features():
    frame = pd.DataFrame([{"a, b=c": 7.0, "a": "y, z", "size": None}])
    expected = [7, 0, 1, 0]
    for x in (frame, frame.iloc[0], frame.iloc[0].to_dict(), {"a, b=c": "7", "a": "y, z"}, [7, "y, z", ""], expected):
        np.testing.assert_array_equal(COLUMNS.row(x), expected)
    assert COLUMNS.missing({"a": "x"}) == ("a, b=c", "size") and COLUMNS.missing(expected) == ()
    np.testing.assert_array_equal(COLUMNS.row({"size": 1}), [2.5, 1, 0, 1])
    assert COLUMNS.texts(np.array([1.23456, 0.25, 0.75, 3])) == ["1.235", "y, z 0.75", "3"]
    for wrong, problem in ((["big", "x", 1], "not a number"), ([1, "q", 1], "not one of its categories")):
        with pytest.raises(DatasetError, match=problem):
            COLUMNS.row(wrong)


def test_columns_survive_as_plain_data():
    assert Columns.parse(json.loads(json.dumps(COLUMNS.plain()))) == COLUMNS
    with pytest.raises(ValueError, match="columns: expected name"):
        Columns.parse([{"name": "a"}])
