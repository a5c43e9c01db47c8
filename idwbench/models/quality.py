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

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset
from idwbench.models.neighbours import mutual_nearest, nearest_index, other_distances, squared_norms
from idwbench.runs.metrics import Metrics
from idwbench.runs.results import RunResult

__all__ = ["Neighbours", "PrototypeQuality", "StackSearch"]

# Indices of the nearest key of each point (runs, n), the nearest point and the nearest other key of each key
# (runs, prototypes).
Neighbours = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
# From points (features, n) in float64, their squared norms (n,), and keys (runs, prototypes, features), float32.
# Without the norms only the nearest keys are found.
StackSearch = Callable[[NDArray[np.float64], NDArray[np.float64] | None, NDArray[np.float32]], Neighbours]

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
        found = self.stack_metrics([result], None)[0]
        return replace(result, metrics={**result.metrics, **found}) if found else result

    def stack_metrics(self, results: Sequence[RunResult], search: StackSearch | None) -> list[Metrics]:
        """Return the `metrics` of each result, none if it has no keys and values.

        Args:
            results: Results of one stack.
            search: Finds the neighbours of all keys at once.
        """
        places = [place for place, run in enumerate(results) if {"keys", "values"} <= run.arrays.keys()]
        found: list[Metrics] = [{} for _ in results]
        if places and search is not None:
            keys, values = (
                np.stack([np.asarray(results[place].arrays[name], np.float32) for place in places])
                for name in ("keys", "values")
            )
            for place, metrics in zip(places, self._metrics_of_stack(keys, values, search), strict=True):
                found[place] = metrics
        else:
            for place in places:
                arrays = results[place].arrays
                keys, values = (np.asarray(arrays[name], np.float32) for name in ("keys", "values"))
                found[place] = self.metrics(keys, values)
        return found

    @cached_property
    def _columns(self) -> dict[str, NDArray[np.float64]]:
        return {name: split.inputs.T.astype(np.float64, order="C") for name, split in self.dataset.splits.items()}

    def _metrics_of_stack(
        self, keys: NDArray[np.float32], values: NDArray[np.float32], search: StackSearch
    ) -> list[Metrics]:
        """Return `metrics` for keys (runs, prototypes, features) and values (runs, prototypes, outputs)."""
        train, n_keys = self.dataset.train, keys.shape[1]
        key_of, point_of, other_of = search(self._columns["train"], self._train_norms, keys)
        coverage = _mean_distances(train.inputs, _rows(keys, key_of))
        key_distance = _mean_distances(train.inputs[point_of], keys)
        owned = np.zeros(keys.shape[:2], np.bool_)
        np.put_along_axis(owned, key_of, True, 1)
        columns = {
            ("train", "coverage"): coverage,
            ("train", "key_distance"): key_distance,
            ("train", "chamfer"): coverage + key_distance,
            ("train", "dead_keys"): np.count_nonzero(~owned, axis=1).astype(np.float64),
        }
        if self.neighbour_distance > 0:
            columns["train", "relative_coverage"] = coverage / self.neighbour_distance
        if n_keys > 1:
            columns["train", "key_spacing"] = _mean_distances(_rows(keys, other_of), keys)
        if self.dataset.task == "classification":
            labels = values.argmax(2)
            columns["train", "key_agreement"] = _fractions(labels == train.labels[point_of])
            for name, split in self.dataset.splits.items():
                own = key_of if name == "train" else search(self._columns[name], None, keys)[0]
                # Run by run, since the arrays of all together are larger than the processor's cache.
                right = [
                    _fraction(of_keys.take(nearest) == split.labels)
                    for of_keys, nearest in zip(labels, own, strict=True)
                ]
                columns[name, "nearest_key_accuracy"] = np.array(right)
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows]


def _fraction(true: NDArray[np.bool_]) -> float:
    return int(np.count_nonzero(true)) / len(true)  # some times as fast as a mean


def _fractions(true: NDArray[np.bool_]) -> NDArray[np.float64]:
    return np.asarray(np.count_nonzero(true, axis=1) / true.shape[1])


def _rows(keys: NDArray[np.float32], index: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the keys (runs, n, features) with indices (runs, n)."""
    return keys[np.arange(len(keys))[:, None], index]


def _mean_distances(points: NDArray[np.float32], others: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the mean distance of rows for each run (runs,), where at least `others` has runs as leading axis."""
    difference = others.astype(np.float64)
    np.subtract(points, difference, out=difference)
    return np.asarray(np.sqrt(np.square(difference, out=difference).sum(2)).mean(1))
