"""Squared distances of many pairs, nearest neighbours by brute force, and the quality of prototypes by them.

d² = ‖q‖² − 2q·k + ‖k‖² by a matrix product of vectors that are moved together, since smaller norms give smaller errors.
Where the result is inexact it is computed again by differences.

Quality is how well the keys of a model represent the training data.
With training inputs x_i (n, features), their labels, keys k_j, values v_j and d_ij = ‖x_i − k_j‖₂, in the scaled units
of the model and in float64:

- ``coverage``: (1/n) Σ_i min_j d_ij, the mean distance of a training point to its nearest key. Its square is the
  quantization error of k-means (Lloyd 1982, *Least squares quantization in PCM*).
- ``relative_coverage``: coverage divided by the mean distance of a training point to its nearest other training point.
- ``key_distance``: (1/P) Σ_j min_i d_ij, the mean distance of a key to its nearest training point.
- ``chamfer``: coverage + key_distance, the symmetric chamfer distance (Fan, Su and Guibas 2017, Eq. 1, with distances
  instead of their squares, and means instead of sums).
- ``outside_features``: the fraction of the features of a key in which it is outside the range of the training data, as
  mean over keys.
- ``dead_keys``: the number of keys that are the nearest key of no training point.
- ``key_spacing``: the mean distance of a key to its nearest other key; undefined for one key.
- ``key_agreement``: the fraction of keys whose nearest training point has the label argmax v_j.
- ``nearest_key_accuracy``, on each split: the accuracy of argmax v_j of the nearest key.
- ``key_correlation``: (1/P) Σ_j max_i corr(k_j, x_i), Pearson's correlation over the active pixels, those above
  the background, the lowest value of the data, in at least 5 % of the training images. Contrary to a distance it does
  not reward keys with a small norm.

``key_agreement`` and ``nearest_key_accuracy`` exist for classification only, ``key_correlation`` for images; all but
``nearest_key_accuracy`` have the split ``train``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from idwbench.data.dataset import Split
from idwbench.runs.metrics import Metrics
from idwbench.runs.results import RunResult

__all__ = [
    "PrototypeQuality",
    "SquaredDistances",
    "active_pixels",
    "feature_range",
    "highest_correlations",
    "mean_neighbour_distance",
    "mutually_nearest",
    "nearest",
    "several_nearest",
    "squared_distances",
]

Array = NDArray[np.floating[Any]]
Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Numbers of one matrix product, of its queries or of a search, and of one part that stays in the cache.
_PRODUCT_NUMBERS, _QUERY_NUMBERS, _PART_NUMBERS = 2**25, 2**20, 2**19
# Numbers of the keys of one product of a search, and of pairs whose differences stay in the cache.
_KEY_NUMBERS, _PAIR_NUMBERS = 2**22, 2**16
# Below this number of features, differences are as fast as a product.
_FEW_FEATURES = 8
# A squared distance is inexact where it is small against ‖q‖² + ‖k‖².
_CANCELLATION = 1e-2
# The squares of numbers below it are within float32.
_FLOAT32_LIMIT = 1e18
# Differences of squared distances are inexact where ‖q‖² is larger than this times ‖k‖².
_FAR = 1e4
_EPSILON = float(np.finfo(np.float64).eps)


class SquaredDistances:
    """Squared distances of queries to the same keys (keys, features), in the type of the keys."""

    def __init__(self, keys: Array) -> None:
        self.keys = keys
        self._by_differences = keys.shape[1] <= _FEW_FEATURES
        with np.errstate(over="ignore", invalid="ignore"):  # then `blocks` turns to float64
            self._centre = keys.mean(0)
            self._doubled = -2 * (keys - self._centre)
            self._norms = _norms(self._doubled) / 4

    def blocks(self, queries: Array, *, relative: bool = False) -> Iterator[tuple[slice, Array]]:
        """Yield d² (rows, keys) for a few rows of `queries` (queries, features) at a time.

        Numbers of float32 whose squares are beyond it give float64. An array may be overwritten, and is valid until the
        next one.

        Args:
            queries: Finite numbers, of the type of the keys, or of float32.
            relative: Whether d² is needed up to a number for each query only. The differences of its distances are then
                exact far from all keys, too, where d² itself is rounded to the same number for all.
        """
        n_keys, n_features = self.keys.shape
        if self.keys.dtype == np.float32 and max(map(_largest, (queries, self.keys))) > _FLOAT32_LIMIT:
            yield from SquaredDistances(self.keys.astype(np.float64)).blocks(queries, relative=relative)
            return
        few = max(1, _PART_NUMBERS // n_keys)
        most = max(1, min(_PRODUCT_NUMBERS // n_keys, max(64, _QUERY_NUMBERS // n_features)))
        rows = few if self._by_differences else most
        # New memory costs page faults, and casting within a subtraction is slower.
        buffer, moved = (np.empty((min(rows, len(queries)), n), self.keys.dtype) for n in (n_keys, n_features))
        for first in range(0, len(queries), rows):
            block = queries[first : first + rows]
            centred = moved[: len(block)]
            centred[:] = block
            centred -= self._centre
            norms = _norms(centred)
            if not self._by_differences:
                np.matmul(centred, self._doubled.T, out=buffer[: len(block)])
            for start in range(0, len(block), few):
                part = slice(start, min(start + few, len(block)))
                sq_dist = buffer[part]
                if self._by_differences:
                    from scipy.spatial.distance import cdist  # its import takes some tenths of a second

                    sq_dist[:] = cdist(block[part], self.keys, "sqeuclidean")
                else:
                    self._complete(sq_dist, block[part], norms[part])
                if relative:
                    self._make_relative(sq_dist, block[part], norms[part])
                yield slice(first + part.start, first + part.stop), sq_dist

    def _complete(self, sq_dist: Array, queries: Array, norms: Array) -> None:
        """Add the norms to −2q·k, and compute small distances again, by differences."""
        sq_dist += self._norms
        sq_dist += norms[:, None]
        suspects = np.flatnonzero(sq_dist.min(1) < _CANCELLATION * (norms + self._norms.max()))
        near, columns = np.nonzero(sq_dist[suspects] < _CANCELLATION * (norms[suspects, None] + self._norms))
        sq_dist[suspects[near], columns] = _squares(queries, self.keys, suspects[near], columns, sq_dist.dtype)

    def _make_relative(self, sq_dist: Array, queries: Array, norms: Array) -> None:
        """Replace d² of queries far from all keys by ‖k‖² − 2q·k, less its smallest number, in float64."""
        far = np.flatnonzero(norms > _FAR * self._norms.max())
        if far.size:
            for rows, products, *_ in _products(queries[far], self.keys):
                sq_dist[far[rows]] = products - products.min(1, keepdims=True)


def squared_distances(points: Array, others: Array) -> Floats:
    """Return ‖x − y‖² (n, m) in float64; 0 for equal points."""
    squared = np.empty((len(points), len(others)))
    if squared.size:
        for rows, part in SquaredDistances(others.astype(np.float64)).blocks(points):
            squared[rows] = part
    return squared


def several_nearest(queries: Array, points: Array, n: int) -> tuple[Indices, Floats]:
    """Return the `n` nearest of `points` of each query, from the nearest on, and their distances, both (queries, n)."""
    squared = squared_distances(points, queries).T
    index = np.argsort(squared, axis=1, kind="stable")[:, :n]
    return index, np.sqrt(np.take_along_axis(squared, index, 1))


def nearest(points: Array, others: Array, own: Indices | None = None) -> tuple[Indices, Floats]:
    """Return for each of `points` (n, features) the index (n,) of the nearest of `others` and its distance (n,).

    Of equal distances the first counts.

    Args:
        points: Shape (n, features).
        others: Shape (m, features).
        own: The index of each point among the others, which does not count; None if it is not among them.
    """
    index, least = np.zeros(len(points), np.int64), np.full(len(points), np.inf)
    step = max(1, _KEY_NUMBERS // others.shape[1])
    for first in range(0, len(others), step):
        part = others[first : first + step]
        for rows, products, _, _, slack in _products(points, part):
            if own is not None:
                inside = np.flatnonzero((own[rows] >= first) & (own[rows] < first + len(part)))
                products[inside, own[rows][inside] - first] = np.inf
            place, squares = _first_nearest(products, slack, points[rows], part)
            closer = squares < least[rows]
            index[rows][closer] = first + place[closer]
            np.minimum(least[rows], squares, out=least[rows])
    return index, np.sqrt(least)


def mutually_nearest(points: Array, others: Array) -> tuple[tuple[Indices, Floats], tuple[Indices, Floats]]:
    """Return `nearest` of many points (n, features) among a few others, and of the others among the points."""
    index, squares = np.empty(len(points), np.int64), np.empty(len(points))
    other_index, least = np.zeros(len(others), np.int64), np.full(len(others), np.inf)
    for rows, products, norms, other_norms, slack in _products(points, others):
        index[rows], squares[rows] = _first_nearest(products, slack, points[rows], others)
        place, closest = _first_nearest((products + (norms[:, None] - other_norms)).T, slack, others, points[rows])
        closer = closest < least
        other_index[closer] = rows.start + place[closer]
        np.minimum(least, closest, out=least)
    return (index, np.sqrt(squares)), (other_index, np.sqrt(least))


def _products(points: Array, others: Array) -> Iterator[tuple[slice, Floats, Array, Array, float]]:
    """Yield for some rows ‖k‖² − 2x·k (rows, m), ‖x‖² (rows,), ‖k‖² (m,), and a bound of the error of d² by them."""
    centre = others[0].astype(np.float64)
    moved = others - centre
    norms = _norms(moved)
    n_features = points.shape[1]
    size = max(1, _QUERY_NUMBERS // (len(others) + n_features))
    for start in range(0, len(points), size):
        rows = slice(start, min(start + size, len(points)))
        block = points[rows].astype(np.float64)  # casting within the subtraction is slower
        block -= centre
        products = block @ moved.T
        products *= -2
        products += norms
        row_norms = _norms(block)
        slack = 4 * (n_features + 2) * _EPSILON * float(norms.max() + row_norms.max())
        yield rows, products, row_norms, norms, slack


def _first_nearest(products: Floats, slack: float, points: Array, others: Array) -> tuple[Indices, Floats]:
    """Return the index (n,) of the first nearest of others and its squared distance, from products with that error.

    The distances of all candidates that the error allows are computed by differences.
    """
    pairs = np.flatnonzero(products <= products.min(1, keepdims=True) + slack)
    row, candidate = np.divmod(pairs, len(others))
    squares = _squares(points, others, row, candidate)
    squares[np.isinf(products[row, candidate])] = np.inf  # nothing but the point itself
    order = np.lexsort((squares, row))  # stable, so that of equal distances the first counts
    first = order[np.searchsorted(row, np.arange(len(points)))]
    return candidate[first], squares[first]


def _norms(points: Array) -> Array:
    return np.asarray(np.einsum("...f,...f->...", points, points))


def _squares(points: Array, others: Array, i: Indices, j: Indices, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Return the squared distances of the pairs (i, j), by differences."""
    squares = np.empty(len(i), dtype)
    step = max(1, _PAIR_NUMBERS // points.shape[1])
    for start in range(0, len(i), step):
        pairs = slice(start, start + step)
        difference = points[i[pairs]].astype(dtype)
        difference -= others[j[pairs]]
        squares[pairs] = _norms(difference)
    return squares


def _largest(numbers: Array) -> float:
    """Return a bound of the norms of rows."""
    return math.sqrt(numbers.shape[1]) * max(float(numbers.max(initial=0)), -float(numbers.min(initial=0)))


# A pixel is active if it is not background in so large a part of the images.
_ACTIVE = 0.05
# The mean distance to the nearest other training point is estimated from this many points of larger data sets.
_NEIGHBOUR_POINTS = 500


def mean_neighbour_distance(inputs: NDArray[np.floating]) -> float:
    """Return the mean distance of one of `inputs` (n, features) to its nearest other one; 0 for one input.

    More than 500 inputs are represented by 500 of them at equal steps.
    """
    if len(inputs) < 2:
        return 0.0
    rows = np.unique(np.linspace(0, len(inputs) - 1, _NEIGHBOUR_POINTS).astype(np.int64))
    return float(nearest(inputs[rows], inputs, rows)[1].mean())


def feature_range(inputs: NDArray[np.floating]) -> tuple[Array, Array]:
    """Return the least and the greatest value (features,) of each feature of `inputs` (n, features).

    They are a little further apart: a number that was scaled and scaled back may differ in its last bits.
    """
    low, high = inputs.min(0), inputs.max(0)
    slack = 1e-5 * (high - low) + 1e-30
    return low - slack, high + slack


def active_pixels(images: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Return which pixels (features,) of images (m, features) are not background in at least 5 % of these."""
    return np.asarray((images > images.min()).mean(0) >= _ACTIVE)


def highest_correlations(keys: Array, images: Array) -> Floats:
    """Return the correlation (n,) of each key with the image that it is most like, over the active pixels.

    Args:
        keys: (n, features).
        images: The training images (m, features).
    """
    active = active_pixels(images)
    own = _standard(keys[:, active])
    highest = np.full(len(keys), -1.0)
    step = max(1, _QUERY_NUMBERS // max(1, own.shape[1]))
    for start in range(0, len(images), step):
        others = _standard(images[start : start + step, active])
        highest = np.maximum(highest, (own @ others.T).max(1))
    return highest


def _standard(rows: Array) -> Floats:
    """Return rows (n, features) with mean 0 and norm 1; constant ones are 0."""
    centred = rows - rows.mean(1, keepdims=True, dtype=np.float64)
    return np.asarray(centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), np.finfo(np.float64).tiny))


class PrototypeQuality:
    """Measures models of the same data, see the module; what depends on the data alone is computed once.

    Args:
        splits: The splits by name, among them ``train``; with labels they are those of a classification.
        are_images: Whether the inputs are images.
    """

    def __init__(self, splits: Mapping[str, Split], *, are_images: bool = False) -> None:
        self.splits, self._are_images = splits, are_images
        self._has_labels = splits["train"].targets.dtype == np.int64

    @cached_property
    def neighbour_distance(self) -> float:
        """The `mean_neighbour_distance` of the training inputs."""
        return mean_neighbour_distance(self.splits["train"].inputs)

    @cached_property
    def feature_range(self) -> tuple[Array, Array]:
        """The `feature_range` of the training inputs."""
        return feature_range(self.splits["train"].inputs)

    def metrics(self, keys: NDArray[np.floating], values: NDArray[np.floating]) -> Metrics:
        """Return the metrics by split and name for `keys` (prototypes, features) and `values` (prototypes, outputs)."""
        train = self.splits["train"]
        (key_of, to_key), (point_of, to_point) = mutually_nearest(train.inputs, keys)
        coverage, key_distance = to_key.mean(), to_point.mean()
        low, high = self.feature_range
        metrics = {
            ("train", "coverage"): coverage,
            ("train", "key_distance"): key_distance,
            ("train", "chamfer"): coverage + key_distance,
            ("train", "dead_keys"): len(keys) - len(np.unique(key_of)),
            ("train", "outside_features"): ((keys < low) | (keys > high)).mean(),
        }
        if self.neighbour_distance > 0:
            metrics["train", "relative_coverage"] = coverage / self.neighbour_distance
        if len(keys) > 1:
            metrics["train", "key_spacing"] = nearest(keys, keys, np.arange(len(keys)))[1].mean()
        if self._has_labels:
            labels = values.argmax(1)
            metrics["train", "key_agreement"] = (labels == train.labels[point_of]).mean()
            for name, split in self.splits.items():
                own = key_of if name == "train" else nearest(split.inputs, keys)[0]
                metrics[name, "nearest_key_accuracy"] = (labels[own] == split.labels).mean()
        if self._are_images:
            metrics["train", "key_correlation"] = highest_correlations(keys, train.inputs).mean()
        return {name: float(value) for name, value in metrics.items()}

    def run_metrics(self, run: RunResult) -> Metrics:
        """Return the `metrics` of a result, none if it has no keys and values."""
        if not {"keys", "values"} <= run.arrays.keys():
            return {}
        keys, values = (np.asarray(run.arrays[name], np.float32) for name in ("keys", "values"))
        return self.metrics(keys, values)
