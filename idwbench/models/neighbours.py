"""Nearest neighbours by brute force, exact near 0, in float64 and in blocks.

Candidates are found by ‖x‖² − 2x·k + ‖k‖², of which only what depends on the candidate is computed; the distance is
computed from the difference.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["Nearest", "mutual_nearest", "nearest", "nearest_index", "other_distances", "squared_norms"]

# Numbers of one matrix product with its points, and of differences, which stay in the cache.
_CHUNK_NUMBERS = 2**20
_DIFFERENCE_NUMBERS = 2**16

Points = NDArray[np.floating]
Indices = NDArray[np.int64]
Distances = NDArray[np.float64]
Nearest = tuple[Indices, Distances]


def nearest(points: Points, others: Points) -> Nearest:
    """Return for each of `points` (n, features) the index (n,) of the nearest of `others` and its distance (n,)."""
    index = nearest_index(points, others)
    return index, _distances(points, others, index)


def nearest_index(points: Points, others: Points) -> Indices:
    """Return the index of `nearest` without the distance."""
    norms = _norms(others)
    index = np.empty(len(points), np.int64)
    for rows, _, squared in _products(points, others):
        squared += norms
        squared.argmin(1, out=index[rows])
    return index


def mutual_nearest(points: Points, others: Points, norms: Distances | None = None) -> tuple[Nearest, Nearest]:
    """Return `nearest` in both directions, in one pass over `points`.

    Args:
        points: Shape (n, features).
        others: Shape (m, features).
        norms: The `squared_norms` of the points (n,), if they are known.
    """
    own_norms = _norms(others)
    index, distance = np.empty(len(points), np.int64), np.empty(len(points))
    closest = _Closest(len(others))
    for rows, part, squared in _products(points, others):
        squared += own_norms
        squared.argmin(1, out=index[rows])
        distance[rows] = _distances(part, others, index[rows])
        squared += (squared_norms(part) if norms is None else norms[rows])[:, None]
        closest.add(rows.start, squared)
    return (index, distance), (closest.index, _distances(others, points, closest.index))


def other_distances(points: Points, chosen: Indices) -> Distances:
    """Return the distance of each row of `chosen` (m,) to the nearest other of `points` (n, features), (m,)."""
    others = points[chosen]
    closest = _Closest(len(others))
    for rows, part, squared in _products(points, others):
        squared += squared_norms(part)[:, None]
        own = np.flatnonzero((chosen >= rows.start) & (chosen < rows.stop))
        squared[chosen[own] - rows.start, own] = np.inf  # not the point itself
        closest.add(rows.start, squared)
    return _distances(others, points, closest.index)


def squared_norms(points: Points) -> Distances:
    """Return ‖x‖² of `points` (n, features) in float64, (n,)."""
    norms = np.empty(len(points))
    for rows in _blocks(len(points), _DIFFERENCE_NUMBERS // points.shape[1]):
        norms[rows] = (points[rows].astype(np.float64) ** 2).sum(1)
    return norms


class _Closest:
    """For each column the row of the smallest number so far."""

    def __init__(self, n_columns: int) -> None:
        self.index = np.zeros(n_columns, np.int64)
        self._columns, self._smallest = np.arange(n_columns), np.full(n_columns, np.inf)

    def add(self, start: int, squared: Distances) -> None:
        """Look at the rows from `start`."""
        found = squared.argmin(0)
        smallest = squared[found, self._columns]
        closer = smallest < self._smallest
        self.index[closer] = start + found[closer]
        self._smallest = np.minimum(self._smallest, smallest)


def _products(points: Points, others: Points) -> Iterator[tuple[slice, Distances, Distances]]:
    """Yield rows of `points`, these in float64, and −2x·k (rows, others), which may be overwritten."""
    doubled = (-2 * others.astype(np.float64)).T  # a power of two, which changes no rounding
    for rows in _blocks(len(points), _CHUNK_NUMBERS // (points.shape[1] + len(others))):
        part = points[rows].astype(np.float64)
        yield rows, part, part @ doubled


def _distances(points: Points, others: Points, index: Indices) -> Distances:
    """Return the distance of each point to that of `others` with its index."""
    distances = np.empty(len(points))
    for rows in _blocks(len(points), _DIFFERENCE_NUMBERS // points.shape[1]):
        difference = others[index[rows]].astype(np.float64)
        np.subtract(points[rows], difference, out=difference)
        distances[rows] = np.square(difference, out=difference).sum(1)
    return np.sqrt(distances)


def _norms(others: Points) -> Distances:
    exact = others.astype(np.float64)
    return np.asarray(np.einsum("ij,ij->i", exact, exact))


def _blocks(n: int, size: int) -> Iterator[slice]:
    """Yield slices of `size` rows, at least one."""
    size = max(1, size)
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
