"""The quality of prototypes: how well the keys of a model represent the training data.

With training inputs x_i (n, features), their labels, keys k_j, values v_j and d_ij = ‖x_i − k_j‖₂, in the scaled units
of the model and in float64:

- ``coverage``: (1/n) Σ_i min_j d_ij, the mean distance of a training point to its nearest key. Its square is the
  quantization error of k-means (Lloyd 1982, *Least squares quantization in PCM*).
- ``relative_coverage``: coverage divided by the mean distance of a training point to its nearest other training point.
- ``key_distance``: (1/P) Σ_j min_i d_ij, the mean distance of a key to its nearest training point.
- ``chamfer``: coverage + key_distance, the symmetric chamfer distance (Fan, Su and Guibas 2017, Eq. 1, with distances
  instead of their squares, and means instead of sums).
- ``dead_keys``: the number of keys that are the nearest key of no training point.
- ``key_spacing``: the mean distance of a key to its nearest other key; undefined for one key.
- ``key_agreement``: the fraction of keys whose nearest training point has the label argmax v_j.
- ``nearest_key_accuracy``, on each split: the accuracy of argmax v_j of the nearest key.

The last two exist for classification only; all but the last have the split ``train``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset
from idwbench.runs.metrics import Metrics
from idwbench.runs.results import RunResult

__all__ = ["PrototypeQuality", "mutual_nearest", "nearest"]

_CHUNK_NUMBERS = 2**20
# The mean distance to the nearest other training point is estimated from this many points of larger data sets.
_NEIGHBOUR_POINTS = 500

Nearest = tuple[NDArray[np.int64], NDArray[np.float64]]


def nearest(points: NDArray[np.floating], others: NDArray[np.floating]) -> Nearest:
    """Return for each of `points` (n, features) the index (n,) of the nearest of `others` and its distance (n,).

    Candidates are found by ‖x‖² − 2x·k + ‖k‖²; the distance is computed from the difference, exact near 0.
    """
    return mutual_nearest(points, others)[0]


def mutual_nearest(points: NDArray[np.floating], others: NDArray[np.floating]) -> tuple[Nearest, Nearest]:
    """Return `nearest` in both directions, in one pass over `points`."""
    exact = others.astype(np.float64)
    norms = np.einsum("ij,ij->i", exact, exact)
    index, distance = np.empty(len(points), np.int64), np.empty(len(points))
    back, smallest = np.zeros(len(others), np.int64), np.full(len(others), np.inf)
    rows = max(1, _CHUNK_NUMBERS // (points.shape[1] + len(others)))
    for start in range(0, len(points), rows):
        part = points[start : start + rows].astype(np.float64)
        squared = part @ exact.T
        squared *= -2
        squared += norms
        found = squared.argmin(1)
        index[start : start + rows] = found
        distance[start : start + rows] = np.sqrt(((part - exact[found]) ** 2).sum(1))
        squared += (part**2).sum(1)[:, None]
        found = squared.argmin(0)
        closer = squared[found, np.arange(len(others))] < smallest
        back[closer] = start + found[closer]
        smallest = np.minimum(smallest, squared.min(0))
    return (index, distance), (back, np.sqrt(((exact - points[back]) ** 2).sum(1)))


class PrototypeQuality:
    """Measures models of one data set, see the module; what depends on the data alone is computed once."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    @cached_property
    def neighbour_distance(self) -> float:
        """Mean distance of a training point to its nearest other training point; 0 for one point.

        More than 500 points are represented by 500 of them at equal steps.
        """
        inputs = self.dataset.train.inputs
        if len(inputs) < 2:
            return 0.0
        rows = np.unique(np.linspace(0, len(inputs) - 1, _NEIGHBOUR_POINTS).astype(np.int64))
        return float(_other_distances(inputs, rows).mean())

    def metrics(self, keys: NDArray[np.floating], values: NDArray[np.floating]) -> Metrics:
        """Return the metrics by split and name for `keys` (prototypes, features) and `values` (prototypes, outputs)."""
        train = self.dataset.train
        (key_of, to_key), (point_of, to_point) = mutual_nearest(train.inputs, keys)
        found = {
            "coverage": float(to_key.mean()),
            "key_distance": float(to_point.mean()),
            "chamfer": float(to_key.mean() + to_point.mean()),
            "dead_keys": float(len(keys) - len(np.unique(key_of))),
        }
        if self.neighbour_distance > 0:
            found["relative_coverage"] = found["coverage"] / self.neighbour_distance
        if len(keys) > 1:
            found["key_spacing"] = float(_other_distances(keys, np.arange(len(keys))).mean())
        accuracies: dict[tuple[str, str], float] = {}
        if self.dataset.task == "classification":
            labels = values.argmax(1)
            found["key_agreement"] = float((labels == train.labels[point_of]).mean())
            for name, split in self.dataset.splits.items():
                own = key_of if name == "train" else nearest(split.inputs, keys)[0]
                accuracies[name, "nearest_key_accuracy"] = float((labels[own] == split.labels).mean())
        return {**{("train", name): value for name, value in found.items()}, **accuracies}

    def measured(self, result: RunResult) -> RunResult:
        """Return the result of a training with these metrics, if it has keys and values."""
        if not {"keys", "values"} <= result.arrays.keys():
            return result
        keys, values = (np.asarray(result.arrays[name], np.float32) for name in ("keys", "values"))
        return replace(result, metrics={**result.metrics, **self.metrics(keys, values)})


def _other_distances(points: NDArray[np.floating], rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the distance of each row of `rows` to the nearest other of `points`."""
    chosen = points[rows].astype(np.float64)
    found, smallest = np.zeros(len(rows), np.int64), np.full(len(rows), np.inf)
    step = max(1, _CHUNK_NUMBERS // (points.shape[1] + len(rows)))
    for start in range(0, len(points), step):
        part = points[start : start + step].astype(np.float64)
        squared = part @ chosen.T
        squared *= -2
        squared += (part**2).sum(1)[:, None]
        own = np.flatnonzero((rows >= start) & (rows < start + len(part)))
        squared[rows[own] - start, own] = np.inf  # not the point itself
        nearest_row = squared.argmin(0)
        closer = squared[nearest_row, np.arange(len(rows))] < smallest
        found[closer] = start + nearest_row[closer]
        smallest = np.minimum(smallest, squared.min(0))
    return np.asarray(np.sqrt(((chosen - points[found]) ** 2).sum(1)))
