"""The user's ``.csv`` file: a header, a column to predict, and numbers in all other columns.

Columns are separated by commas, or by semicolons or tabs if the header has no comma.
"""

import csv
import io
import re
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Scaling
from idwbench.data.preparation import RawData, RawSplit, ScalingChoice
from idwbench.data.splits import split_rows
from idwbench.data.user_arrays import LabelEncoding, first_unusable
from idwbench.errors import DatasetError, did_you_mean
from idwbench.files import read_file
from idwbench.runs.datasets import CsvConfig

__all__ = ["column_separator", "load_csv"]

LISTED_COLUMNS = 12
_HEADER_LENGTH = 2**16  # beyond any header, as far as separators matter
# A column of decimal numbers with more different values than this holds no classes, although all may be whole (151.0).
MOST_DECIMAL_CLASSES = 20
WHOLE_NUMBER = re.compile("0|-?[1-9][0-9]{0,17}")
DECIMAL_COMMA = re.compile(" *[-+]?[0-9]+,[0-9]+ *")


def load_csv(config: CsvConfig, folder: Path) -> RawData:
    """Return the table, split at random into train and test, class by class if there are classes.

    Integer labels are sorted by value, others alphabetically. Messages count rows from 1, without the header.

    Raises:
        DatasetError: the table is not valid; the message names row and column.
    """
    frame, texts = _read(Path(config.path), config.label)
    class_names: tuple[str, ...] = ()
    targets: NDArray[Any]
    if config.task == "regression":
        targets = _numbers(frame[[config.label]])
        classes: NDArray[Any] = np.zeros(len(targets))
    else:
        labels = _labels(texts, frame[config.label])
        encoding = LabelEncoding(labels)
        class_names = encoding.class_names
        targets = classes = encoding.encode(labels, config.label)
    whole = RawSplit(_numbers(frame.drop(columns=config.label)), targets)
    train, test = split_rows(classes, config.test_fraction, np.random.RandomState(config.seed))
    if len(test) == 0:
        problem = "no class has two rows" if class_names else "has only one row"
        raise DatasetError(f"{problem}: one for train and one for test are needed")
    scaling: ScalingChoice = "features" if config.scaling == "standard" else Scaling.identity()
    return RawData(whole.rows(train), whole.rows(test), class_names=class_names, scaling=scaling)


def _read(path: Path, label: str) -> tuple[Any, list[str]]:
    """Return the table with the numbers that pandas finds, and the texts of the column `label`."""
    import pandas as pd

    content = read_file(path, DatasetError)
    sep = column_separator(content[:_HEADER_LENGTH].decode("utf-8", "replace"))
    try:
        # Two rows: with a first row longer than the header pandas would assume an index column.
        header = pd.read_csv(io.BytesIO(content), sep=sep, header=None, nrows=2, dtype=str, na_filter=False).iloc[0]
        _check_header([name.strip() for name in header], label)
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
    found = [sep for sep in ",;\t" if len(next(csv.reader([header], delimiter=sep))) > 1]
    return found[0] if len(found) == 1 else ","


def _check_header(names: list[str], label: str) -> None:
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
    if len(names) == 1:
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


def _numbers(columns: Any) -> NDArray[np.float64]:
    import pandas as pd

    for name, column in columns.items():
        if not pd.api.types.is_numeric_dtype(column) or column.dtype.kind == "c":
            numbers = pd.to_numeric(column, errors="coerce")
            row = int((numbers.isna() & column.notna()).to_numpy().argmax())
            text = column.iloc[row]
            is_decimal = isinstance(text, str) and DECIMAL_COMMA.fullmatch(text) is not None
            hint = "write decimal points, not commas" if is_decimal else ""
            raise DatasetError(f"row {row + 1}, column {name!r}: {text!r} is not a number", hint=hint)
    values = columns.to_numpy(dtype=np.float64)
    unusable = first_unusable(values)
    if unusable is not None:
        (row, position), value = unusable
        problem = "the value is missing" if np.isnan(value) else f"{value:g} is not a number that float32 can hold"
        raise DatasetError(f"row {row + 1}, column {columns.columns[position]!r}: {problem}")
    return np.ascontiguousarray(values)
