"""The training rows of an estimator: sample weights, and identical rows as one row of a larger weight.

The rule of sample weights: rows of weight 0 are left out. With the automatic batch size, if all distinct rows fit into
one batch, identical rows are merged, their weights added, and the rows sorted by their bytes: an integer weight then
gives the same model as so many copies of a row, in any order, to the last bit. Otherwise a weight multiplies the loss
of its row, and rows keep their order. Only ratios of weights matter, and equal weights are those of no weights.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Rows", "checked_weights", "mean_one", "merged"]

Weights = NDArray[np.float64]


class Rows(NamedTuple):
    """Inputs (n, features), targets (n,) or (n, outputs), and weights (n,), or None for equal weights."""

    inputs: NDArray[np.float32]
    targets: NDArray[Any]
    weights: Weights | None = None

    def positive(self) -> Rows:
        """Return the rows with a weight above 0."""
        if self.weights is None or self.weights.all():
            return self
        kept = self.weights > 0
        return Rows(self.inputs[kept], self.targets[kept], self.weights[kept])


def checked_weights(sample_weight: Any, X: NDArray[Any]) -> Weights | None:
    """Return the sample weights of `X` (n, features) in float64, (n,), or None.

    Raises:
        ValueError: not one finite number for each row, a negative number, or only zeros.
    """
    from sklearn.utils.validation import _check_sample_weight

    if sample_weight is None:
        return None
    weights: Weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weights < 0).any():
        raise ValueError("Negative values in data passed to `sample_weight`.")
    if not weights.any():
        raise ValueError("Sample weights must contain at least one non-zero number; all are zero.")
    return weights


def merged(rows: Rows, most: int) -> Rows | None:
    """Return the distinct rows in the order of their bytes with their total weights, or None if they exceed `most`."""
    records = _records(rows, most)
    if records is None:
        return None
    _, first, inverse = np.unique(records, return_index=True, return_inverse=True)
    # Sums of integers are exact in any order.
    weights = np.bincount(inverse.reshape(-1), weights=rows.weights, minlength=len(first)).astype(np.float64)
    return Rows(np.ascontiguousarray(rows.inputs[first]), np.ascontiguousarray(rows.targets[first]), weights)


def _records(rows: Rows, most: int) -> NDArray[np.void] | None:
    """Return the bytes of each row as one item, (n,), or None if more than `most` differ."""
    distinct: set[bytes] = set()
    parts = []
    for start in range(0, len(rows.inputs), most + 1):
        part = slice(start, start + most + 1)
        inputs = np.ascontiguousarray(rows.inputs[part])
        targets = np.ascontiguousarray(rows.targets[part].reshape(len(inputs), -1))
        together = np.concatenate([inputs.view(np.uint8), targets.view(np.uint8)], axis=1)
        records = together.view(np.dtype((np.void, together.shape[1]))).reshape(-1)
        distinct.update(record.tobytes() for record in records)
        if len(distinct) > most:
            return None
        parts.append(records)
    return np.concatenate(parts)


def mean_one(weights: Weights | None) -> NDArray[np.float32] | None:
    """Return the weights divided by their mean; None if all are equal."""
    if weights is None or (weights == weights[0]).all():
        return None
    shares = weights / weights.max()  # sums of huge weights could overflow
    return np.asarray(shares / shares.mean(), np.float32)
