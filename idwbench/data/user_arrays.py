"""Checks of the numbers and labels of a user's own file."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.errors import DatasetError

__all__ = ["LabelEncoding", "first_unusable"]

LARGEST = float(np.finfo(np.float32).max)


def first_unusable(values: NDArray[np.float64]) -> tuple[tuple[int, ...], float] | None:
    """Return index and value of the first number that is not finite or beyond float32, or None."""
    unusable = ~(np.abs(values) <= LARGEST)
    if not unusable.any():
        return None
    index = tuple(int(i) for i in np.unravel_index(int(unusable.argmax()), values.shape))
    return index, float(values[index])


class LabelEncoding:
    """The classes of integer or string labels, in ascending order; `class_names` has one name for each.

    Raises:
        DatasetError: there are fewer than two classes.
    """

    def __init__(self, labels: NDArray[Any]) -> None:
        from sklearn.preprocessing import LabelEncoder

        self._encoder = LabelEncoder().fit(labels)
        names = self._encoder.classes_.tolist()
        if len(names) < 2:
            raise DatasetError(f"every label is {names[0]!r}: at least two classes are needed")
        self.class_names = tuple(map(str, names))

    def encode(self, labels: NDArray[Any], name: str) -> NDArray[np.int64]:
        """Return the position of each label among the classes.

        Raises:
            DatasetError: a label is not among them; the message has `name` and row.
        """
        unseen = np.flatnonzero(~np.isin(labels, self._encoder.classes_))
        if unseen.size:
            row = int(unseen[0])
            raise DatasetError(f"{name}[{row}] is {labels[row].item()!r}, a label that no training row has")
        return np.asarray(self._encoder.transform(labels), np.int64)
