import numpy as np
import pytest

from idwbench.data.loading import load_dataset
from idwbench.errors import DatasetError
from idwbench.runs.datasets import CsvConfig

TABLE = "width,kind,height\n" + "".join(f"{i},{'oak' if i % 4 else 'elm'},{i * i}\n" for i in range(20))


@pytest.fixture
def load(tmp_path):
    def load(text, label="kind", **settings):
        path = tmp_path / "own.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_dataset(CsvConfig(path=str(path), label=label, **settings))

    return load


def test_a_table_is_split_by_class_and_holds_every_row_once(load):
    found = load(TABLE, scaling="none", test_fraction=0.4)
    assert found.class_names == ("elm", "oak") and found.n_features == 2
    assert np.bincount(found.train.labels).tolist() == [3, 9]
    assert np.bincount(found.test.labels).tolist() == [2, 6]
    rows = np.concatenate([found.train.inputs, found.test.inputs])
    labels = np.concatenate([found.train.labels, found.test.labels])
    order = rows[:, 0].argsort()
    np.testing.assert_array_equal(rows[order], [[i, i * i] for i in range(20)])
    np.testing.assert_array_equal(labels[order], [bool(i % 4) for i in range(20)])


def test_the_seed_decides_the_split(load):
    assert load(TABLE).sha256 == load(TABLE, seed=0).sha256 != load(TABLE, seed=1).sha256


def test_integer_labels_are_ordered_as_numbers(load):
    text = "x,y\n" + "".join(f"{i},{(i % 3) * 5}\n" for i in range(12))
    assert load(text, "y").class_names == ("0", "5", "10")


def test_labels_that_pandas_takes_for_missing_stay(load):
    text = "x,y\n" + "".join(f"{i},{('NA', 'None')[i % 2]}\n" for i in range(12))
    assert load(text, "y").class_names == ("NA", "None")


@pytest.mark.parametrize("pair", [("01", "1"), ("--1", "1"), ("-0", "0"), ("1", "1.0"), ("1", "9" * 30)])
def test_labels_that_no_integer_would_be_written_as_are_texts(pair, load):
    text = "x,y\n" + "".join(f"{i},{pair[i % 2]}\n" for i in range(12))
    assert load(text, "y").class_names == tuple(sorted(pair))


def test_spaces_after_commas_and_a_byte_order_mark_do_no_harm(load):
    text = "\ufeffkind, x\n" + "".join(f"{'ab'[i % 2]}, {i}\n" for i in range(12))
    assert load(text).class_names == ("a", "b")


@pytest.mark.parametrize("separator", [";", "\t"])
def test_semicolons_and_tabs_separate_columns_where_the_header_has_no_comma(load, separator):
    found = load(TABLE.replace(",", separator))
    assert found.sha256 == load(TABLE).sha256
    assert load(TABLE.replace("oak", "oak; old")).class_names == ("elm", "oak; old")


def with_row(row):
    return TABLE + row + "\n"


NO_KIND = "label: no column is named 'kind', the column to predict "
REFUSED = {
    "semicolons and tabs": (
        "width;kind\theight\n" + "1;oak\t2\n" * 4,
        NO_KIND + r"\(the header has no comma between columns",
    ),
    "decimal commas": (
        TABLE.replace(",", ";") + "0,5;oak;1\n",
        r"row 21, column 'width': '0,5' is not a number \(write decimal points",
    ),
    "no label": (
        TABLE.replace("kind", "kinds", 1),
        NO_KIND + r"\(did you mean 'kinds'",
    ),
    "far label": (
        TABLE.replace("kind", "z", 1),
        NO_KIND + r"\(expected one of: ",
    ),
    "text": (with_row("3,oak,tall"), r"row 21, column 'height': 'tall' is not a number"),
    "missing": (with_row(",oak,1"), r"row 21, column 'width': the value is missing"),
    "short row": (with_row("1,oak"), r"row 21, column 'height': the value is missing"),
    "empty column": ("x,kind\n,a\n,b\n", r"row 1, column 'x': the value is missing"),
    "infinite": (with_row("1,oak,-inf"), r"row 21, column 'height': -inf is not a number that float32"),
    "missing label": (with_row("1,,1"), r"row 21, column 'kind': the label is missing"),
    "long row": (with_row("1,oak,1,1"), r"not a table of comma-separated values \(.*line 22"),
    "all rows long": ("x,kind\n1,2,a\n3,4,b\n", r"not a table of comma-separated values \(.*line 2"),
    "label cut off": ("x,kind\n1,a\n2,b\n3\n", r"row 3, column 'kind': the label is missing"),
    "no rows": ("x,kind\n", r"has a header but no rows"),
    "nothing": ("", r"not a table"),
    "not text": (b"x,kind\n\xff\xfe,\xff\n", r"not a table"),
    "index": (",kind,x\n0,a,1\n", r"column 1 has no name"),
    "twice": ("x,x,kind\n0,1,a\n", r"two columns are named 'x'"),
    "no features": ("kind\na\nb\n", r"has no column but 'kind', the column to predict"),
    "one class": ("x,kind\n1,a\n2,a\n", r"every label is 'a'"),
    "each its class": ("x,kind\n1,a\n2,b\n", r"no class has two rows"),
}


PRICES = "area,price\n" + "".join(f"{i},{3 * i + 0.5}\n" for i in range(20))
NO_TARGETS = {
    "text target": (PRICES + "3,high\n", r"row 21, column 'price': 'high' is not a number"),
    "missing target": (PRICES + "3,\n", r"row 21, column 'price': the value is missing"),
    "infinite target": (PRICES + "3,inf\n", r"row 21, column 'price': inf is not a number that float32"),
    "one row": ("area,price\n1,2.5\n", r"has only one row: one for train and one for test"),
}
REFUSED |= {case: (text, message, "price", "regression") for case, (text, message) in NO_TARGETS.items()}


@pytest.mark.parametrize("case", REFUSED)
def test_a_table_that_does_not_fit_is_refused_in_one_line(case, load, tmp_path):
    text, message, label, task = (*REFUSED[case], "kind", "classification")[:4]
    with pytest.raises(DatasetError, match=r"own\.csv: " + message) as caught:
        load(text, label, task=task)
    assert "\n" not in str(caught.value)
    assert caught.value.file == str(tmp_path / "own.csv") and "own.csv" not in caught.value.problem


def test_of_a_wide_table_not_every_column_is_listed(load):
    header = ",".join(f"pixel{i}" for i in range(785))
    with pytest.raises(DatasetError, match=r"\(there are 785: pixel0, pixel1, pixel2, … pixel784\)"):
        load(header + "\n")


def test_a_numeric_column_is_the_target_of_a_regression(load):
    found = load(PRICES, "price", task="regression", test_fraction=0.25)
    assert found.task == "regression" and (len(found.train), len(found.test)) == (15, 5)
    for split in (found.train, found.test):
        own = found.target_scaling.invert(split.targets)
        np.testing.assert_allclose(own, 3 * found.scaling.invert(split.inputs) + 0.5, atol=1e-5)
    np.testing.assert_allclose(found.train.targets.std(), 1, atol=1e-6)


def test_whole_numbers_are_classes_or_targets_as_the_task_says(load):
    text = "x,y\n" + "".join(f"{i},{i % 3}\n" for i in range(12))
    assert load(text, "y").class_names == ("0", "1", "2")
    assert load(text, "y", task="regression").class_names == ()


@pytest.mark.parametrize("marker", ["", "2,NA\n", "2,inf\n", "2,7\n"])
def test_fractions_are_refused_as_classes_with_a_hint(marker, load):
    with pytest.raises(DatasetError, match="column 'price' holds fractions, which are not classes") as caught:
        load(PRICES + marker, "price")
    assert caught.value.hint == "set task: regression"


def test_many_decimal_numbers_are_refused_as_classes_even_if_all_are_whole(load):
    with pytest.raises(DatasetError, match="column 'y' holds 30 different decimal numbers") as caught:
        load("x,y\n" + "".join(f"{i},{i % 30}.0\n" for i in range(60)), "y")
    assert caught.value.hint.startswith("set task: regression")
    assert load("x,y\n" + "".join(f"{i},{i % 2}.0\n" for i in range(60)), "y").class_names == ("0.0", "1.0")
