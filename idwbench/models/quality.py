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

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Split
from idwbench.models.neighbours import nearest, other_distances
from idwbench.runs.metrics import Metrics
from idwbench.runs.results import RunResult

__all__ = ["PrototypeQuality", "StackSearch", "mean_neighbour_distance"]

# From points (runs, n, features), others (runs, m, features), where a single run counts for all, and whether these are
# the same and a point itself does not count, to the index of the nearest and its distance, both (runs, n).
StackSearch = Callable[
    [NDArray[np.floating], NDArray[np.floating], bool], tuple[NDArray[np.int64], NDArray[np.float64]]
]

# The mean distance to the nearest other training point is estimated from this many points of larger data sets.
_NEIGHBOUR_POINTS = 500


def mean_neighbour_distance(inputs: NDArray[np.floating]) -> float:
    """Return the mean distance of one of `inputs` (n, features) to its nearest other one; 0 for one input.

    More than 500 inputs are represented by 500 of them at equal steps.
    """
    if len(inputs) < 2:
        return 0.0
    rows = np.unique(np.linspace(0, len(inputs) - 1, _NEIGHBOUR_POINTS).astype(np.int64))
    return float(other_distances(inputs, rows).mean())


class PrototypeQuality:
    """Measures models of the same data, see the module; what depends on the data alone is computed once.

    Args:
        splits: The splits by name, among them ``train``; with labels they are those of a classification.
    """

    def __init__(self, splits: Mapping[str, Split]) -> None:
        self.splits = splits
        self._has_labels = splits["train"].targets.dtype == np.int64

    @cached_property
    def neighbour_distance(self) -> float:
        """The `mean_neighbour_distance` of the training inputs."""
        return mean_neighbour_distance(self.splits["train"].inputs)

    def metrics(self, keys: NDArray[np.floating], values: NDArray[np.floating]) -> Metrics:
        """Return the metrics by split and name for `keys` (prototypes, features) and `values` (prototypes, outputs)."""
        return self._metrics_of_stack(keys[None], values[None], _run_by_run)[0]

    def stack_metrics(self, results: Sequence[RunResult], search: StackSearch | None = None) -> list[Metrics]:
        """Return the `metrics` of each result of one stack, none if it has no keys and values.

        Args:
            results: Results of one stack.
            search: The fastest search for the data; None for that of `idwbench.models.neighbours`, run by run.
        """
        arrays = [run.arrays for run in results if {"keys", "values"} <= run.arrays.keys()]
        if not arrays:
            return [{} for _ in results]
        keys, values = (np.stack([np.asarray(own[name], np.float32) for own in arrays]) for name in ("keys", "values"))
        measured = iter(self._metrics_of_stack(keys, values, search or _run_by_run))
        return [next(measured) if {"keys", "values"} <= run.arrays.keys() else {} for run in results]

    def _metrics_of_stack(
        self, keys: NDArray[np.floating], values: NDArray[np.floating], search: StackSearch
    ) -> list[Metrics]:
        """Return `metrics` for keys (runs, prototypes, features) and values (runs, prototypes, outputs)."""
        train, n_keys = self.splits["train"], keys.shape[1]
        key_of, to_key = search(train.inputs[None], keys, False)
        point_of, to_point = search(keys, train.inputs[None], False)
        coverage, key_distance = to_key.mean(1), to_point.mean(1)
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
            columns["train", "key_spacing"] = search(keys, keys, True)[1].mean(1)
        if self._has_labels:
            labels = values.argmax(2)
            columns["train", "key_agreement"] = _fractions(labels == train.labels[point_of])
            for name, split in self.splits.items():
                own = key_of if name == "train" else search(split.inputs[None], keys, False)[0]
                right = np.take_along_axis(labels, own, 1) == split.labels
                columns[name, "nearest_key_accuracy"] = _fractions(right)
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows]


def _run_by_run(
    points: NDArray[np.floating], others: NDArray[np.floating], among_themselves: bool
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    own = np.arange(points.shape[1]) if among_themselves else None
    runs = range(max(len(points), len(others)))
    results = [nearest(points[run % len(points)], others[run % len(others)], own) for run in runs]
    index, distance = map(np.stack, zip(*results, strict=True))
    return index, distance


def _fractions(true: NDArray[np.bool_]) -> NDArray[np.float64]:
    return np.asarray(np.count_nonzero(true, axis=1) / true.shape[1])  # some times as fast as a mean
