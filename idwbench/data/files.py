"""The user's own tables: ``.csv`` files, and ``.npz`` files with X_train, y_train, X_test and y_test.

A CSV file has a header, a column to predict, and numbers or categories in all other columns. Columns are separated by
commas, or by semicolons or tabs if the header has no comma.
"""

import csv
import io
import re
import zipfile
import zlib
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Scaling
from idwbench.data.frames import coded_frame, first_unusable, numbers_of_frame
from idwbench.data.preparation import RawData, RawSplit, ScalingChoice
from idwbench.errors import DatasetError, did_you_mean
from idwbench.files import read_file
from idwbench.machine import check_memory
from idwbench.runs.datasets import CsvConfig, NpzConfig

__all__ = ["KEYS", "checked_rows", "column_separator", "load_csv", "load_npz", "read_npz"]

KEYS = ("X_train", "y_train", "X_test", "y_test")
LISTED_COLUMNS = 12
_HEADER_LENGTH = 2**16  # beyond any header, as far as separators matter
# A column of decimal numbers with more different values than this holds no classes, although all may be whole (151.0).
MOST_DECIMAL_CLASSES = 20
WHOLE_NUMBER = re.compile("0|-?[1-9][0-9]{0,17}")

Arrays = dict[str, NDArray[Any]]


def load_csv(config: CsvConfig, folder: Path) -> RawData:
    """Return the table, split at random into train and test, class by class if there are classes.

    Integer labels are sorted by value, others alphabetically. Messages count rows from 1, without the header.

    Raises:
        DatasetError: the table is not valid; the message names row and column.
    """
    frame, texts = _read_csv(Path(config.path), config.label, config.drop)
    class_names: tuple[str, ...] = ()
    targets: NDArray[Any]
    if config.task == "regression":
        targets = numbers_of_frame(frame[[config.label]])
    else:
        labels = _labels(texts, frame[config.label])
        names = _classes(labels)
        class_names = tuple(map(str, names.tolist()))
        targets = np.searchsorted(names, labels)
    columns, codes = coded_frame(frame.drop(columns=[config.label, *config.drop]))
    whole = RawSplit(codes, targets)
    train, test = whole.split(config.test_fraction, np.random.RandomState(config.seed))
    if len(test.targets) == 0:
        problem = "no class has two rows" if class_names else "has only one row"
        raise DatasetError(f"{problem}: one for train and one for test are needed")
    scaling: ScalingChoice = "features" if config.scaling == "standard" else Scaling.identity()
    return RawData(train, test, class_names=class_names, scaling=scaling, columns=columns)


def _read_csv(path: Path, label: str, drop: Sequence[str]) -> tuple[Any, list[str]]:
    """Return the table with the numbers that pandas finds, and the texts of the column `label`."""
    import pandas as pd

    content = read_file(path, DatasetError)
    sep = column_separator(content[:_HEADER_LENGTH].decode("utf-8", "replace"))
    try:
        # Two rows: with a first row longer than the header pandas would assume an index column.
        header = pd.read_csv(io.BytesIO(content), sep=sep, header=None, nrows=2, dtype=str, na_filter=False).iloc[0]
        _check_header([name.strip() for name in header], label, drop)
        frame = pd.read_csv(io.BytesIO(content), sep=sep, low_memory=False).rename(columns=str.strip)
        # Labels are read separately, as text: "NA" and "None" are not missing values.
        column = next(name for name in header if name.strip() == label)
        texts = pd.read_csv(io.BytesIO(content), sep=sep, usecols=[column], dtype=str, na_filter=False)[column]
    except (pd.errors.EmptyDataError, pd.errors.ParserError, UnicodeDecodeError) as error:
        raise DatasetError(f"not a table of comma-separated values ({' '.join(str(error).split())})") from None
    if len(frame) == 0:
        raise DatasetError("has a header but no rows")
    return frame, [text.strip() for text in texts]


def column_separator(text: str) -> str:
    """Return what separates the names in the header of a table: a comma, or if it has none a semicolon or a tab.

    It is a comma too if the header has both of these, or is a single name.
    """
    header = next((line for line in text[:_HEADER_LENGTH].splitlines() if line.strip()), "")
    separators = [sep for sep in ",;\t" if len(next(csv.reader([header], delimiter=sep))) > 1]
    return separators[0] if len(separators) == 1 else ","


def _check_header(names: list[str], label: str, drop: Sequence[str]) -> None:
    if "" in names:
        raise DatasetError(f"column {names.index('') + 1} has no name; a row index must be left out or named")
    twice = next((name for position, name in enumerate(names) if name in names[:position]), None)
    if twice is not None:
        raise DatasetError(f"two columns are named {twice!r}")
    if label not in names:
        hint = did_you_mean(label, names)
        if len(names) == 1 and re.search("[;\t]", names[0]):
            hint = "the header has no comma between columns"
        elif len(names) > LISTED_COLUMNS and not get_close_matches(label.casefold(), map(str.casefold, names)):
            hint = f"there are {len(names)}: {', '.join(names[:3])}, … {names[-1]}"
        raise DatasetError(f"no column is named {label!r}, the column to predict", location=("label",), hint=hint)
    for name in drop:
        if name not in names or name == label:
            problem = f"{name!r} is the column to predict" if name == label else f"no column is named {name!r}"
            raise DatasetError(problem, location=("drop",), hint=did_you_mean(name, names) if name != label else "")
    if len({*names} - {*drop}) == 1:
        raise DatasetError(f"has no column but {label!r}, the column to predict")


def _labels(texts: list[str], column: Any) -> NDArray[Any]:
    if column.dtype.kind == "f" and (column % 1 > 0).any():
        raise DatasetError(
            f"column {column.name!r} holds fractions, which are not classes", hint="set task: regression"
        )
    if column.dtype.kind == "f" and column.nunique() > MOST_DECIMAL_CLASSES:
        raise DatasetError(
            f"column {column.name!r} holds {column.nunique()} different decimal numbers, too many for classes",
            hint="set task: regression, or write classes as integers",
        )
    for row, text in enumerate(texts, start=1):
        if not text:
            raise DatasetError(f"row {row}, column {column.name!r}: the label is missing")
    # "01" stays a string: only canonical integers are converted.
    if all(WHOLE_NUMBER.fullmatch(text) for text in texts):
        return np.array([int(text) for text in texts])
    return np.array(texts)


def load_npz(config: NpzConfig, folder: Path) -> RawData:
    """Return the arrays as a data set; nothing is unpickled.

    X has shape (n, features) or (n, height, width). For classification y (n,) holds integers or strings, and the
    classes are those of y_train in ascending order. For regression y is numeric, (n,) or (n, outputs).

    Raises:
        DatasetError: the file is not valid, or the arrays do not fit together.
    """
    arrays = read_npz(Path(config.path), KEYS)
    rows = {2: "(n, features)", 3: "(n, height, width)"}
    inputs = {key: checked_rows(key, arrays[key], rows) for key in ("X_train", "X_test")}
    _check_fit(arrays)
    class_names: tuple[str, ...] = ()
    targets: Arrays
    if config.task == "regression":
        rows = {1: "(n,)", 2: "(n, outputs)"}
        targets = {key: checked_rows(key, arrays[key], rows) for key in ("y_train", "y_test")}
        if targets["y_train"].shape[1] != targets["y_test"].shape[1]:
            raise DatasetError(f"y_train has shape {arrays['y_train'].shape}, y_test {arrays['y_test'].shape}")
    else:
        _check_labels(arrays)
        names = _classes(arrays["y_train"])
        class_names = tuple(map(str, names.tolist()))
        targets = {key: _encoded(arrays[key], names, key) for key in ("y_train", "y_test")}
    shape = arrays["X_train"].shape
    image_shape = (shape[1], shape[2]) if len(shape) == 3 else None
    scaling: ScalingChoice = "pixels" if image_shape else "features"
    return RawData(
        RawSplit(inputs["X_train"], targets["y_train"]),
        RawSplit(inputs["X_test"], targets["y_test"]),
        class_names=class_names,
        image_shape=image_shape,
        scaling=scaling if config.scaling == "standard" else Scaling.identity(),
    )


def read_npz(path: Path, required: Sequence[str], optional: Sequence[str] = ()) -> Arrays:
    """Return the named arrays of an ``.npz`` file, the optional ones if it has them; nothing is unpickled.

    Raises:
        DatasetError: the file cannot be read, lacks an array, or does not fit into memory.
    """
    file = io.BytesIO(read_file(path, DatasetError))
    if not zipfile.is_zipfile(file):
        raise DatasetError("not an .npz file (numpy.savez writes one)")
    try:
        with np.load(file, allow_pickle=False) as stored:
            for key in required:
                if key not in stored.files:
                    raise DatasetError(f"{key!r} is missing", hint=did_you_mean(key, stored.files))
            keys = [*required, *(key for key in optional if key in stored.files)]
            sizes = {member.filename.removesuffix(".npy"): member.file_size for member in stored.zip.infolist()}
            check_memory(sum(sizes.get(key, 0) for key in keys), "the content of the file", DatasetError)
            return {key: _member(stored, key) for key in keys}
    except (OSError, zipfile.BadZipFile) as error:
        raise DatasetError(f"cannot be read ({error})") from None


def _member(stored: Any, key: str) -> NDArray[Any]:
    try:
        array = stored[key]
    except (OSError, EOFError, MemoryError, RuntimeError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        if "allow_pickle" in str(error):  # the message of NumPy recommends unpickling
            raise DatasetError(f"{key} holds Python objects, which are not loaded; expected numbers or texts") from None
        raise DatasetError(f"{key} cannot be read as numbers or texts ({' '.join(str(error).split())})") from None
    if not isinstance(array, np.ndarray):
        raise DatasetError(f"{key} is not an array")
    return array


def checked_rows(key: str, array: NDArray[Any], shapes: dict[int, str]) -> NDArray[np.float64]:
    """Return finite numbers (n, columns).

    Args:
        key: What messages call the array.
        array: The array.
        shapes: The valid shapes by number of axes.

    Raises:
        DatasetError: it has another shape, is empty, or holds something that is no finite number.
    """
    if array.ndim not in shapes:
        raise DatasetError(f"{key} has shape {array.shape}; expected {' or '.join(shapes.values())}")
    if array.dtype.kind not in "buif":
        raise DatasetError(f"{key} is of type {array.dtype}; expected numbers")
    if array.size == 0:
        raise DatasetError(f"{key} is empty: its shape is {array.shape}")
    with np.errstate(over="ignore"):  # a long double may exceed float64
        values = array.astype(np.float64)
    unusable = first_unusable(values)
    if unusable is not None:
        index, value = unusable
        raise DatasetError(f"{key}{list(index)} is {value:g}; expected finite numbers that float32 can hold")
    return values.reshape(len(values), -1)


def _check_fit(arrays: Arrays) -> None:
    for split in ("train", "test"):
        rows, targets = len(arrays[f"X_{split}"]), arrays[f"y_{split}"]
        if targets.ndim == 0 or len(targets) != rows:
            raise DatasetError(f"X_{split} has {rows} rows, y_{split} has shape {targets.shape}")
    train, test = arrays["X_train"].shape[1:], arrays["X_test"].shape[1:]
    if train != test:
        raise DatasetError(f"a row of X_test has shape {test}, one of X_train {train}")


def _check_labels(arrays: Arrays) -> None:
    for key in ("y_train", "y_test"):
        labels = arrays[key]
        if labels.dtype.kind not in "biuU":
            hint = "set task: regression" if labels.dtype.kind == "f" else ""
            raise DatasetError(f"{key} is of type {labels.dtype}; expected integers or texts", hint=hint)
        if labels.ndim != 1:
            raise DatasetError(f"{key} has shape {labels.shape}; expected ({len(labels)},)")
    if (arrays["y_train"].dtype.kind == "U") != (arrays["y_test"].dtype.kind == "U"):
        raise DatasetError("y_train and y_test differ in type: one holds texts, the other integers")


def _classes(labels: NDArray[Any]) -> NDArray[Any]:
    """Return the different integers or texts in ascending order; raises `DatasetError` if there is one only."""
    classes = np.unique(labels)
    if len(classes) < 2:
        raise DatasetError(f"every label is {classes[0].item()!r}: at least two classes are needed")
    return classes


def _encoded(labels: NDArray[Any], classes: NDArray[Any], key: str) -> NDArray[np.int64]:
    """Return the position of each label among the classes; raises `DatasetError` if one is not among them."""
    unseen = np.flatnonzero(~np.isin(labels, classes))
    if unseen.size:
        row = int(unseen[0])
        raise DatasetError(f"{key}[{row}] is {labels[row].item()!r}, a label that no training row has")
    return np.searchsorted(classes, labels)
