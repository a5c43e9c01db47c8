"""What a user's own arrays must be, and how they become a `Dataset`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.config import CsvConfig, NpzConfig
from idwbench.data.dataset import Dataset, Scaling, Split, array_sha256
from idwbench.errors import DatasetError

__all__ = ["UserArrays", "class_names_of", "encode_labels", "first_unusable", "make_dataset"]

LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class UserArrays:
    """Checked arrays in the user's own units: inputs (n, features), float64, and labels (n,), int64."""

    train_inputs: NDArray[np.float64]
    train_labels: NDArray[np.int64]
    test_inputs: NDArray[np.float64]
    test_labels: NDArray[np.int64]


def first_unusable(values: NDArray[np.float64]) -> tuple[tuple[int, ...], float] | None:
    """Return index and value of the first number that is not finite or beyond float32; None if all are usable."""
    unusable = ~(np.abs(values) <= LARGEST)
    if not unusable.any():
        return None
    index = tuple(int(i) for i in np.unravel_index(int(unusable.argmax()), values.shape))
    return index, float(values[index])


def class_names_of(labels: NDArray[Any]) -> tuple[tuple[str, ...], NDArray[Any]]:
    """Return the classes of integers or texts `labels` in ascending order, as names and as they stand.

    Raises:
        DatasetError: fewer than two classes.
    """
    classes = np.unique(labels)
    if len(classes) < 2:
        raise DatasetError(f"every label is {classes[0].item()!r}: at least two classes are needed")
    return tuple(str(label) for label in classes.tolist()), classes


def encode_labels(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the position of each label in the ascending `classes`.

    Raises:
        DatasetError: a label that is not among them, with its row.
    """
    positions = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    wrong = np.flatnonzero(classes[positions] != labels)
    if wrong.size:
        row = int(wrong[0])
        raise DatasetError(f"[{row}] is {labels[row].item()!r}, a label that no training row has")
    return positions.astype(np.int64)


def make_dataset(
    config: NpzConfig | CsvConfig,
    arrays: UserArrays,
    class_names: tuple[str, ...],
    image_shape: tuple[int, int] | None,
) -> Dataset:
    """Return the data set, scaled as `config` says.

    ``standard``: (x − mean) / std of the training rows, per feature, or over all pixels for images; std divides
    by n, and that of a constant feature is 1. ``none``: as the values are.

    Raises:
        DatasetError: a scaled value is too large for float32.
    """
    scaling = _standard(arrays.train_inputs, image_shape) if config.scaling == "standard" else Scaling.identity()
    train = Split(_scaled(arrays.train_inputs, scaling, f"{config.path}: train"), arrays.train_labels)
    test = Split(_scaled(arrays.test_inputs, scaling, f"{config.path}: test"), arrays.test_labels)
    return Dataset(
        config=config,
        train=train,
        test=test,
        holdout=None,
        scaling=scaling,
        image_shape=image_shape,
        class_names=class_names,
        sha256=array_sha256(train.inputs, train.labels, test.inputs, test.labels),
    )


def _standard(train: NDArray[np.float64], image_shape: tuple[int, int] | None) -> Scaling:
    axis = 0 if image_shape is None else None
    mean, std = np.asarray(train.mean(axis=axis)), np.asarray(train.std(axis=axis))
    # A constant 0.1 has a std of 1e-17, not 0: rounding in the mean. So constancy is asked of the values.
    constant = (train.max(axis=axis) == train.min(axis=axis)) | (std == 0)
    return Scaling(mean, np.where(constant, 1.0, std))


def _scaled(raw: NDArray[np.float64], scaling: Scaling, where: str) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        inputs = scaling.apply(raw)
    if not np.isfinite(inputs).all():
        row, column = np.argwhere(~np.isfinite(inputs))[0]
        raise DatasetError(f"{where}: row {row}, feature {column} is too large for float32 once scaled")
    return np.ascontiguousarray(inputs)
