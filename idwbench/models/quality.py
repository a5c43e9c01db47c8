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
from idwbench.models.neighbours import mutual_nearest, nearest_index, other_distances, squared_norms
from idwbench.runs.metrics import Metrics
from idwbench.runs.results import RunResult

__all__ = ["PrototypeQuality"]

# The mean distance to the nearest other training point is estimated from this many points of larger data sets.
_NEIGHBOUR_POINTS = 500


class PrototypeQuality:
    """Measures models of one data set, see the module; what depends on the data alone is computed once."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    @cached_property
    def _train_norms(self) -> NDArray[np.float64]:
        return squared_norms(self.dataset.train.inputs)

    @cached_property
    def neighbour_distance(self) -> float:
        """Mean distance of a training point to its nearest other training point; 0 for one point.

        More than 500 points are represented by 500 of them at equal steps.
        """
        inputs = self.dataset.train.inputs
        if len(inputs) < 2:
            return 0.0
        rows = np.unique(np.linspace(0, len(inputs) - 1, _NEIGHBOUR_POINTS).astype(np.int64))
        return float(other_distances(inputs, rows).mean())

    def metrics(self, keys: NDArray[np.floating], values: NDArray[np.floating]) -> Metrics:
        """Return the metrics by split and name for `keys` (prototypes, features) and `values` (prototypes, outputs)."""
        train = self.dataset.train
        (key_of, to_key), (point_of, to_point) = mutual_nearest(train.inputs, keys, self._train_norms)
        coverage, key_distance = float(to_key.mean()), float(to_point.mean())
        found = {
            "coverage": coverage,
            "key_distance": key_distance,
            "chamfer": coverage + key_distance,
            "dead_keys": float((np.bincount(key_of, minlength=len(keys)) == 0).sum()),
        }
        if self.neighbour_distance > 0:
            found["relative_coverage"] = coverage / self.neighbour_distance
        if len(keys) > 1:
            found["key_spacing"] = float(other_distances(keys, np.arange(len(keys))).mean())
        accuracies: dict[tuple[str, str], float] = {}
        if self.dataset.task == "classification":
            labels = values.argmax(1)
            found["key_agreement"] = _fraction(labels == train.labels[point_of])
            for name, split in self.dataset.splits.items():
                own = key_of if name == "train" else nearest_index(split.inputs, keys)
                accuracies[name, "nearest_key_accuracy"] = _fraction(labels[own] == split.labels)
        return {**{("train", name): value for name, value in found.items()}, **accuracies}

    def measured(self, result: RunResult) -> RunResult:
        """Return the result of a training with these metrics, if it has keys and values."""
        if not {"keys", "values"} <= result.arrays.keys():
            return result
        keys, values = (np.asarray(result.arrays[name], np.float32) for name in ("keys", "values"))
        return replace(result, metrics={**result.metrics, **self.metrics(keys, values)})


def _fraction(true: NDArray[np.bool_]) -> float:
    return int(np.count_nonzero(true)) / len(true)  # some times as fast as a mean
