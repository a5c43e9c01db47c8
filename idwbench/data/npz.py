"""The user's ``.npz`` file with X_train, y_train, X_test and y_test."""

import io
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Scaling
from idwbench.data.preparation import RawData, RawSplit, ScalingChoice
from idwbench.data.user_arrays import LabelEncoding, first_unusable
from idwbench.errors import DatasetError, did_you_mean
from idwbench.files import read_file
from idwbench.machine import check_memory
from idwbench.runs.datasets import NpzConfig

__all__ = ["KEYS", "checked_rows", "load_npz", "read_npz"]

KEYS = ("X_train", "y_train", "X_test", "y_test")

Arrays = dict[str, NDArray[Any]]


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
        encoding = _label_encoding(arrays)
        class_names = encoding.class_names
        targets = {key: encoding.encode(arrays[key], key) for key in ("y_train", "y_test")}
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


def _label_encoding(arrays: Arrays) -> LabelEncoding:
    for key in ("y_train", "y_test"):
        labels = arrays[key]
        if labels.dtype.kind not in "biuU":
            hint = "set task: regression" if labels.dtype.kind == "f" else ""
            raise DatasetError(f"{key} is of type {labels.dtype}; expected integers or texts", hint=hint)
        if labels.ndim != 1:
            raise DatasetError(f"{key} has shape {labels.shape}; expected ({len(labels)},)")
    if (arrays["y_train"].dtype.kind == "U") != (arrays["y_test"].dtype.kind == "U"):
        raise DatasetError("y_train and y_test differ in type: one holds texts, the other integers")
    return LabelEncoding(arrays["y_train"])
