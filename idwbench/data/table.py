"""The user's own table: a ``.csv`` with a header, a label column, and numbers in every other column."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.config import CsvConfig
from idwbench.data.dataset import Dataset
from idwbench.data.splitting import stratified_split
from idwbench.data.user_arrays import UserArrays, class_names_of, encode_labels, first_unusable, make_dataset
from idwbench.errors import DatasetError, did_you_mean

__all__ = ["load_csv"]

LISTED_COLUMNS = 12
WHOLE_NUMBER = re.compile("0|-?[1-9][0-9]{0,17}")


def load_csv(config: CsvConfig) -> Dataset:
    """Return the table as a data set, split by class into train and test.

    Labels that are all integers are classes in their order, others in alphabetical order. Rows are counted from
    1 and without the header.

    Raises:
        DatasetError: not such a table; one line that begins with the path and names row and column.
    """
    try:
        features, labels = _read(Path(config.path), config.label)
        inputs = _inputs(features)
        names, classes = class_names_of(labels)
        encoded = encode_labels(labels, classes)
        train, test = stratified_split(encoded, config.test_fraction, config.seed)
        if len(test) == 0:
            raise DatasetError("no class has two rows: one for train and one for test are needed")
    except DatasetError as error:
        raise DatasetError(f"{config.path}: {error}") from None
    return make_dataset(
        config, UserArrays(inputs[train], encoded[train], inputs[test], encoded[test]), names, image_shape=None
    )


def _read(path: Path, label: str) -> tuple[Any, NDArray[Any]]:
    import pandas as pd

    try:
        # Two rows, for a first row longer than the header: later pandas would take it to begin with an index.
        header = pd.read_csv(path, header=None, nrows=2, dtype=str, na_filter=False).iloc[0]
        _check_header([name.strip() for name in header], label)
        frame = pd.read_csv(path, low_memory=False).rename(columns=str.strip)
        # Labels are read by themselves, as texts: "NA" and "None" are names here, not missing values.
        column = next(name for name in header if name.strip() == label)
        labels = pd.read_csv(path, usecols=[column], dtype=str, na_filter=False)[column]
    except (pd.errors.EmptyDataError, pd.errors.ParserError, UnicodeDecodeError, OSError) as error:
        raise DatasetError(f"not a table of comma-separated values ({' '.join(str(error).split())})") from None
    if len(frame) == 0:
        raise DatasetError("has a header but no rows")
    return frame.drop(columns=label), _labels([text.strip() for text in labels], label)


def _check_header(names: list[str], label: str) -> None:
    if "" in names:
        raise DatasetError(f"column {names.index('') + 1} has no name; a row index must be left out or named")
    twice = next((name for position, name in enumerate(names) if name in names[:position]), None)
    if twice is not None:
        raise DatasetError(f"two columns are named {twice!r}")
    if label not in names:
        hint = did_you_mean(label, names)
        if len(names) > LISTED_COLUMNS and "did you mean" not in hint:
            hint = f" (there are {len(names)}: {', '.join(names[:3])}, … {names[-1]})"
        raise DatasetError(f"no column is named {label!r}, the label" + hint)
    if len(names) == 1:
        raise DatasetError(f"has no column but the label {label!r}")


def _labels(texts: list[str], name: str) -> NDArray[Any]:
    for row, text in enumerate(texts, start=1):
        if not text:
            raise DatasetError(f"row {row}, column {name!r}: the label is missing")
    # "01" stays a text: only what an integer would be written as becomes one.
    if all(WHOLE_NUMBER.fullmatch(text) for text in texts):
        return np.array([int(text) for text in texts])
    return np.array(texts)


def _inputs(features: Any) -> NDArray[np.float64]:
    import pandas as pd

    for name, column in features.items():
        if not pd.api.types.is_numeric_dtype(column) or column.dtype.kind == "c":
            numbers = pd.to_numeric(column, errors="coerce")
            row = int((numbers.isna() & column.notna()).to_numpy().argmax())
            raise DatasetError(f"row {row + 1}, column {name!r}: {column.iloc[row]!r} is not a number")
    inputs = features.to_numpy(dtype=np.float64)
    unusable = first_unusable(inputs)
    if unusable is not None:
        (row, position), value = unusable
        problem = "the value is missing" if np.isnan(value) else f"{value:g} is not a number that float32 can hold"
        raise DatasetError(f"row {row + 1}, column {features.columns[position]!r}: {problem}")
    return np.ascontiguousarray(inputs)
