"""The user's own files: tables, arrays and texts by their content; what does not fit is refused in one line.

`penguins.csv` is the table of Palmer Station penguins as A. M. Horst, A. P. Hill and K. B. Gorman publish it in
palmerpenguins (2020), CC0.
"""

import hashlib
import io
import json
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from case_tables import PENGUINS, arrays_in, case_table
from platformdirs import user_cache_path
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from idwbench.data.columns import Column, Columns, named_values
from idwbench.data.folder import data_folder, resolve_files
from idwbench.data.loading import load_dataset
from idwbench.data.preparation import VALIDATION_STREAM, random_stream, split_rows
from idwbench.errors import DatasetError
from idwbench.runs.datasets import CsvConfig, DigitsConfig, NpzConfig, TextConfig, parse_dataset

TABLE = "width,kind,height\n" + "".join(f"{i},{'oak' if i % 4 else 'elm'},{i * i}\n" for i in range(20))
PRICES = "area,price\n" + "".join(f"{i},{3 * i + 0.5}\n" for i in range(20))


@pytest.fixture
def load(tmp_path):
    def load(text, label="kind", **settings):
        path = tmp_path / "own.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_dataset(CsvConfig(path=str(path), label=label, **settings))

    return load


PAIRS = [("5", "10"), ("-1", "3"), ("01", "1"), ("-0", "0"), ("1", "1.0"), ("1", "9" * 30), ("NA", "None")]


@pytest.mark.parametrize("pair", PAIRS)
def test_integers_are_classes_in_their_order_and_all_other_labels_in_that_of_texts(pair, load):
    text = "\ufeffy, x\n" + "".join(f"{pair[i % 2]}, {i}\n" for i in range(12))
    assert load(text, "y").class_names == pair
    assert load(text, "y").sha256 == load(text, "y", seed=0).sha256 != load(text, "y", seed=1).sha256


@pytest.mark.parametrize("separator", [";", "\t"])
def test_semicolons_and_tabs_separate_columns_where_the_header_has_no_comma(load, separator):
    assert load(TABLE.replace(",", separator)).sha256 == load(TABLE).sha256
    assert load(TABLE.replace("oak", "oak; old")).class_names == ("elm", "oak; old")


@pytest.mark.parametrize(("text", "label"), [(PRICES, "price"), ("x,y\n" + "0,0\n1,1\n2,2\n3,0\n" * 3, "y")])
def test_a_numeric_column_is_the_target_of_a_regression(text, label, load):
    data = load(text, label, task="regression", test_fraction=0.25, scaling="none")
    assert data.class_names == () and len(data.test) == (len(data.train) + len(data.test)) / 4
    for split in (data.train, data.test):
        expected = 3 * split.inputs + 0.5 if label == "price" else split.inputs % 3
        np.testing.assert_allclose(data.target_scaling.invert(split.targets), expected, atol=1e-5)


LONG_TABLES = [
    (TABLE.replace(",", ";") + "0,5;oak;1\n", r"row 21, column 'width': '0,5' is not a number \(write decimal points"),
    (",".join(f"pixel{i}" for i in range(785)), r".* \(there are 785: pixel0, pixel1, pixel2, … pixel784\)"),
    (TABLE.replace("width", "day", 1).replace("\n", "\n2007-11-", 20), r"row 1, column 'day': '2007-11-0' is a date"),
    *(
        (PRICES.replace("price", "kind") + marker, r"column 'kind' holds fractions, .* \(set task: regression\)$")
        for marker in ("", "2,NA\n", "2,7\n")
    ),
    ("x,kind\n" + "".join(f"{i},{i % 30}.0\n" for i in range(60)), ".* holds 30 different decimal numbers.*set task"),
]


@pytest.mark.parametrize(("text", "message"), [*case_table("wrong_inputs")["tables"], *LONG_TABLES])
def test_a_table_that_does_not_fit_is_refused_in_one_line(text, message, load, tmp_path):
    text = text.replace("TABLE", TABLE).replace("PRICES", PRICES).encode("latin-1")
    of_prices = {"label": "price", "task": "regression"} if text.startswith(b"area,price") else {}
    with pytest.raises(DatasetError, match=r"own\.csv: " + message) as caught:
        load(text, **of_prices)
    assert "\n" not in str(caught.value)
    assert caught.value.file == str(tmp_path / "own.csv") and "own.csv" not in caught.value.problem


# Arrays


class Bomb:
    def __reduce__(self):
        return (print, ("unpickled",))


def arrays(**changes):
    random = np.random.default_rng(0)
    whole = {"X_train": random.normal(5, 3, (8, 3)), "X_test": random.normal(5, 3, (4, 3))}
    labels = {"y_train": np.array([3, 10, 3, 10, -1, 3, 10, -1]), "y_test": np.array([10, 3, -1, 3])}
    return {key: array for key, array in (whole | labels | changes).items() if array is not None}


@pytest.fixture
def load_arrays(tmp_path):
    def load(scaling="standard", task="classification", **changes):
        path = tmp_path / "own.npz"
        np.savez(path, **arrays(**changes))
        return load_dataset(NpzConfig(path=str(path), scaling=scaling, task=task))

    return load


@pytest.mark.parametrize("labels", [np.array([-1, 3, 10]), np.array(["a", "b", "c"])])
def test_images_keep_their_shape_and_labels_become_classes_in_the_order_of_numbers_or_texts(labels, load_arrays):
    train, test, images = np.array([1, 2, 1, 2, 0, 1, 2, 0]), np.array([2, 1, 0, 1]), np.ones((8, 4, 5))
    data = load_arrays(X_train=images, X_test=images[:4], y_train=labels[train], y_test=labels[test])
    assert (data.image_shape, data.class_names) == ((4, 5), tuple(map(str, labels)))
    assert (data.train.labels.tolist(), data.test.labels.tolist()) == (train.tolist(), test.tolist())


@pytest.mark.parametrize("outputs", [(), (1,), (2,)])
def test_targets_of_a_regression_are_numbers_with_one_or_more_outputs(outputs, load_arrays):
    random = np.random.default_rng(2)
    train, test = random.normal(7, 2, (8, *outputs)), random.normal(7, 2, (4, *outputs))
    data = load_arrays(task="regression", y_train=train, y_test=test)
    assert data.task == "regression" and data.n_outputs == (outputs or (1,))[0]
    for split, expected in ((data.train, train), (data.test, test)):
        own = data.target_scaling.invert(split.targets)
        np.testing.assert_allclose(own, expected.reshape(len(expected), -1), rtol=1e-6)
    assert load_arrays(task="regression").n_outputs == 1  # of integers


OTHERS = [
    ({"y_train": np.array([Bomb()] * 8, dtype=object)}, r"y_train holds Python objects"),
    ({"X_train": 1e-30 * np.eye(8, 3), "X_test": 1e20 * np.eye(4, 3, -2)}, "test: row 2, feature 0 is too large"),
]


@pytest.mark.parametrize(("changes", "message"), [*case_table("wrong_arrays")["archives"], *OTHERS])
def test_arrays_that_do_not_fit_are_refused_in_one_line(changes, message, load_arrays, capsys):
    with pytest.raises(DatasetError, match=r"own\.npz: " + message) as caught:
        load_arrays(**arrays_in(changes))
    assert "\n" not in str(caught.value)
    assert capsys.readouterr().out == ""  # nothing was unpickled


def lies():
    """A header that promises more numbers than any memory holds."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": (2**40, 2)})
    return buffer.getvalue()


def zipped(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def savez(save=np.savez):
    buffer = io.BytesIO()
    save(buffer, **arrays())
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"X_train,y_train\n1,2\n",
        pickle.dumps(Bomb()),
        savez()[:-200],
        savez().replace(b"\x93NUMPY", b"\x93NUMPX", 1),
        *(savez(save)[:300] + b"\xff\x00" + savez(save)[302:] for save in (np.savez, np.savez_compressed)),
        zipped(**dict.fromkeys(arrays(), b"text")),
        *(zipped(**{f"{key}.npy": header for key in arrays()}) for header in (b"\x93NUMPY\x01\x00", lies())),
    ],
)
def test_a_file_that_is_not_a_whole_npz_is_refused_in_one_line(content, tmp_path, capsys):
    path = tmp_path / "own.npz"
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=r"own\.npz: ") as caught:
        load_dataset(NpzConfig(path=str(path)))
    assert "\n" not in str(caught.value) and capsys.readouterr().out == ""


def test_the_data_folder_is_the_argument_before_the_variable_before_the_platforms_cache(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    named = {None: user_cache_path("idwbench"), "": user_cache_path("idwbench"), "named": tmp_path / "named"}
    for variable, expected in named.items():
        if variable is not None:
            monkeypatch.setenv("IDWBENCH_DATA", variable and str(tmp_path / variable))
        assert data_folder() == expected
    assert data_folder(Path("given")) == tmp_path / "given"


FILES = [NpzConfig(path="x.bin"), CsvConfig(path="../sub/x.bin", label="y"), TextConfig(path="x.bin")]


@pytest.mark.parametrize("config", FILES)
def test_a_file_is_looked_for_from_the_base_and_known_by_its_content(config, tmp_path):
    base = tmp_path / "sub"
    base.mkdir()
    path = base / "x.bin"
    with pytest.raises(DatasetError, match=r"x\.bin: no such file$"):
        resolve_files(config, base)
    path.write_bytes(b"content")
    resolved = resolve_files(config, base)
    assert (resolved.path, resolved.sha256) == (str(path), hashlib.sha256(b"content").hexdigest())
    assert resolve_files(resolved, Path("/")) == resolved
    assert resolved.model_copy(update={"path": config.path, "sha256": None}) == config
    path.write_bytes(b"other content")
    with pytest.raises(DatasetError, match=r"x\.bin: has changed: its SHA-256 begins with [0-9a-f]{12}, expected"):
        resolve_files(resolved, base)
    path.unlink()
    path.mkdir()
    with pytest.raises(DatasetError, match=r"x\.bin: is a folder, expected a file$"):
        resolve_files(config, base)
    assert resolve_files(DigitsConfig(seed=3), tmp_path) == DigitsConfig(seed=3)


# Tables with categories and missing values, against pandas and scikit-learn; the columns of one input by name


NUMBERS = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g", "year"]
CATEGORIES = ["island", "sex"]


@pytest.mark.parametrize("validation", [0, 200])
def test_features_are_those_of_scikit_learns_imputers_encoder_and_scaler_fitted_to_the_training_rows(validation):
    penguins = load_dataset(CsvConfig(path=str(PENGUINS), label="species", validation=validation))
    frame = pd.read_csv(PENGUINS)
    train, test = split_rows(frame.species.to_numpy(), 0.2, np.random.RandomState(0))
    rows = {"test": test}
    if validation:
        rest, apart = split_rows(frame.species[train].to_numpy(), validation, random_stream(0, VALIDATION_STREAM))
        train, rows["validation"] = train[rest], train[apart]
    scaled = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    coded = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(sparse_output=False))
    oracle = make_column_transformer((scaled, NUMBERS), (coded, CATEGORIES)).fit(frame.iloc[train])
    names = [*NUMBERS, *(f"{name}={value}" for name in CATEGORIES for value in sorted(frame[name].dropna().unique()))]
    order = [penguins.columns.features.index(name) for name in names]
    assert penguins.splits.keys() == {"train", *rows}
    for name, split in penguins.splits.items():
        own = frame.iloc[rows.get(name, train)]
        np.testing.assert_allclose(split.inputs[:, order], oracle.transform(own), atol=1e-5)
        assert [penguins.class_names[label] for label in split.labels] == own.species.tolist()


def test_columns_are_dropped_by_name_say_what_became_of_them_and_survive_as_plain_data():
    config = parse_dataset({"name": str(PENGUINS), "label": "species", "drop": ["year", "sex"]})
    penguins, data = load_dataset(CsvConfig(path=str(PENGUINS), label="species")), load_dataset(config)
    assert data.columns.names == tuple(name for name in penguins.columns.names if name not in ("year", "sex"))
    for drop, problem in (("yaer", "no column is named 'yaer'"), ("species", "'species' is the column to predict")):
        with pytest.raises(DatasetError, match=problem) as caught:
            load_dataset(CsvConfig(path=str(PENGUINS), label="species", drop=(drop,)))
        assert caught.value.location == ("drop",)
    categories, missing = penguins.columns.notes()
    assert categories == "categories: island (3), sex (2)"
    assert missing.startswith("18 missing values of the training rows became the median or the most frequent category")
    assert "sex " in missing and "bill_length_mm 4" in missing
    assert Columns.parse(json.loads(json.dumps(COLUMNS.plain()))) == COLUMNS
    with pytest.raises(ValueError, match="columns: expected name"):
        Columns.parse([{"name": "a"}])


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
