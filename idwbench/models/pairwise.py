"""Squared distances of many pairs in chunks, by a matrix product whose small results are computed again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["PairwiseDistances"]

Array = NDArray[np.floating[Any]]

# Rows of one matrix product, and numbers of one part of it that stays in the cache.
_PRODUCT_NUMBERS = 2**25
_PART_NUMBERS = 2**19
# Below this number of features, differences are as fast as a product.
_FEW_FEATURES = 8
# d² = ‖q‖² − 2q·k + ‖k‖² is inexact where it is small against ‖q‖² + ‖k‖².
_CANCELLATION = 1e-2


class PairwiseDistances:
    """Squared distances of queries to the same keys (keys, features), in the type of the keys."""

    def __init__(self, keys: Array) -> None:
        self.keys = keys
        self._is_plain = keys.shape[1] <= _FEW_FEATURES
        if not self._is_plain:
            # Smaller norms give a smaller error of the product.
            self._centre = keys.mean(0)
            self._centred = keys - self._centre
            self._norms = np.einsum("kf,kf->k", self._centred, self._centred)

    def parts(self, queries: Array) -> Iterator[tuple[slice, Array]]:
        """Yield d² (rows, keys) for a few rows of `queries` (queries, features) at a time.

        An array may be overwritten, and is valid until the next one.
        """
        n_keys = len(self.keys)
        rows, few = max(1, _PRODUCT_NUMBERS // n_keys), max(1, _PART_NUMBERS // n_keys)
        if self._is_plain:
            for start in range(0, len(queries), few):
                chosen = slice(start, min(start + few, len(queries)))
                yield chosen, self._by_differences(queries[chosen])
            return
        buffer = np.empty((min(rows, len(queries)), n_keys), self.keys.dtype)  # new memory costs page faults
        for first in range(0, len(queries), rows):
            block = queries[first : first + rows]
            centred = block - self._centre
            norms = np.einsum("qf,qf->q", centred, centred)
            centred *= -2
            products = np.matmul(centred, self._centred.T, out=buffer[: len(block)])
            for start in range(0, len(block), few):
                part = slice(start, min(start + few, len(block)))
                sq_dist = self._completed(products[part], block[part], norms[part])
                yield slice(first + part.start, first + part.stop), sq_dist

    def _by_differences(self, queries: Array) -> Array:
        total = np.zeros((len(queries), len(self.keys)), self.keys.dtype)
        for query, key in zip(queries.T, self.keys.T, strict=True):
            total += (query[:, None] - key) ** 2
        return total

    def _completed(self, sq_dist: Array, queries: Array, norms: Array) -> Array:
        """Add the norms to −2q·k, and compute small distances again, by differences."""
        sq_dist += self._norms
        sq_dist += norms[:, None]
        suspects = np.flatnonzero(sq_dist.min(1) < _CANCELLATION * (norms + self._norms.max()))
        for row in suspects:
            near = np.flatnonzero(sq_dist[row] < _CANCELLATION * (norms[row] + self._norms))
            for start in range(0, len(near), _PART_NUMBERS // self.keys.shape[1] + 1):
                some = near[start : start + _PART_NUMBERS // self.keys.shape[1] + 1]
                sq_dist[row, some] = ((self.keys[some] - queries[row]) ** 2).sum(1)
        return sq_dist
