import numpy as np
import pytest

from idwbench.config import CsvConfig
from idwbench.data.loading import load_dataset
from idwbench.errors import DatasetError

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


def test_scaling_is_of_the_training_rows(load):
    found = load(TABLE)
    np.testing.assert_allclose(found.train.inputs.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(found.train.inputs.std(axis=0), 1, atol=1e-6)


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


def with_row(row):
    return TABLE + row + "\n"


REFUSED = {
    "no label": (TABLE.replace("kind", "kinds", 1), r"no column is named 'kind', the label \(did you mean 'kinds'"),
    "far label": (TABLE.replace("kind", "z", 1), r"no column is named 'kind', the label \(expected one of: "),
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
    "no features": ("kind\na\nb\n", r"has no column but the label 'kind'"),
    "one class": ("x,kind\n1,a\n2,a\n", r"every label is 'a'"),
    "each its class": ("x,kind\n1,a\n2,b\n", r"no class has two rows"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_table_that_does_not_fit_is_refused_in_one_line(case, load):
    text, message = REFUSED[case]
    with pytest.raises(DatasetError, match=r"own\.csv: " + message) as caught:
        load(text)
    assert "\n" not in str(caught.value)


def test_of_a_wide_table_not_every_column_is_listed(load):
    header = ",".join(f"pixel{i}" for i in range(785))
    with pytest.raises(DatasetError, match=r"\(there are 785: pixel0, pixel1, pixel2, … pixel784\)"):
        load(header + "\n")
