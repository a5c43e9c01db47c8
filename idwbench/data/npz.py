"""The user's own arrays in one ``.npz``: X_train, y_train, X_test, y_test."""

from __future__ import annotations

import zipfile
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.config import NpzConfig
from idwbench.data.dataset import Dataset
from idwbench.data.user_arrays import UserArrays, class_names_of, encode_labels, first_unusable, make_dataset
from idwbench.errors import DatasetError, did_you_mean

__all__ = ["KEYS", "load_npz"]

KEYS = ("X_train", "y_train", "X_test", "y_test")


def load_npz(config: NpzConfig) -> Dataset:
    """Return the arrays as a data set: X of (n, features) or (n, height, width), y of integers or texts.

    Classes are the labels of y_train in ascending order. Nothing is ever unpickled.

    Raises:
        DatasetError: not such a file, or arrays that do not fit together; one line that begins with the path.
    """
    try:
        arrays = _read(config.path)
        inputs = {key: _checked_inputs(key, arrays[key]) for key in ("X_train", "X_test")}
        _check_fit(arrays)
        names, classes = _prefixed("y_train", class_names_of, arrays["y_train"])
        checked = UserArrays(
            inputs["X_train"],
            encode_labels(arrays["y_train"], classes),
            inputs["X_test"],
            _prefixed("y_test", encode_labels, arrays["y_test"], classes),
        )
    except DatasetError as error:
        raise DatasetError(f"{config.path}: {error}") from None
    shape = arrays["X_train"].shape
    return make_dataset(config, checked, names, (shape[1], shape[2]) if len(shape) == 3 else None)


def _read(path: str) -> dict[str, NDArray[Any]]:
    try:
        if not zipfile.is_zipfile(path):
            raise DatasetError("not an .npz file (numpy.savez writes one)")
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as stored:
            for key in KEYS:
                if key not in stored.files:
                    raise DatasetError(f"{key!r} is missing" + did_you_mean(key, stored.files))
            return {key: _member(stored, key) for key in KEYS}
    except (OSError, zipfile.BadZipFile) as error:
        raise DatasetError(f"cannot be read ({error})") from None


def _member(stored: Any, key: str) -> NDArray[Any]:
    try:
        array = stored[key]
    except ValueError as error:
        if "Object arrays" in str(error):
            raise DatasetError(f"{key} holds Python objects; expected numbers or texts of one type") from None
        raise DatasetError(f"{key} cannot be read ({' '.join(str(error).split())})") from None
    except (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise DatasetError(f"{key} cannot be read ({' '.join(str(error).split())})") from None
    if not isinstance(array, np.ndarray):
        raise DatasetError(f"{key} is not an array")
    return array


def _checked_inputs(key: str, array: NDArray[Any]) -> NDArray[np.float64]:
    if array.dtype.kind not in "buif":
        raise DatasetError(f"{key} is of type {array.dtype}; expected numbers")
    if array.ndim not in (2, 3):
        raise DatasetError(f"{key} has shape {array.shape}; expected (n, features) or (n, height, width)")
    if array.size == 0:
        raise DatasetError(f"{key} is empty: its shape is {array.shape}")
    with np.errstate(over="ignore"):  # a long double may exceed float64; it is refused below
        values = array.astype(np.float64)
    unusable = first_unusable(values)
    if unusable is not None:
        index, value = unusable
        raise DatasetError(f"{key}{list(index)} is {value:g}; expected finite numbers that float32 can hold")
    return values.reshape(len(values), -1)


def _check_fit(arrays: dict[str, NDArray[Any]]) -> None:
    for split in ("train", "test"):
        labels, inputs = arrays[f"y_{split}"], arrays[f"X_{split}"]
        if labels.dtype.kind not in "biuU":
            raise DatasetError(f"y_{split} is of type {labels.dtype}; expected integers or texts")
        if labels.ndim != 1:
            raise DatasetError(f"y_{split} has shape {labels.shape}; expected ({len(inputs)},)")
        if len(labels) != len(inputs):
            raise DatasetError(f"X_{split} has {len(inputs)} rows, y_{split} has {len(labels)}")
    train, test = arrays["X_train"].shape[1:], arrays["X_test"].shape[1:]
    if train != test:
        raise DatasetError(f"a row of X_test has shape {test}, one of X_train {train}")
    if (arrays["y_train"].dtype.kind == "U") != (arrays["y_test"].dtype.kind == "U"):
        raise DatasetError("y_train and y_test differ in type: one holds texts, the other integers")


def _prefixed(key: str, function: Any, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except DatasetError as error:
        text = str(error)
        raise DatasetError(f"{key}{text}" if text.startswith("[") else f"{key}: {text}") from None
