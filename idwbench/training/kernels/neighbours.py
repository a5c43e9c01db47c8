"""Nearest neighbours of a stack of keys by brute force in float64, for few features."""

import numpy as np
from numpy.typing import NDArray

from idwbench.training.kernels.jit import entry_kernel, exact_kernel

__all__ = ["search_stack"]

Numbers = NDArray[np.float64]
Indices = NDArray[np.int64]

_BLOCK = 512


@exact_kernel
def _fill_products(columns: Numbers, start: int, doubled: Numbers, products: Numbers) -> None:
    """Set `products` to −2x·k for as many columns from `start`."""
    n = len(products)
    column, factor = columns[0][start : start + n], doubled[0]
    for b in range(n):
        products[b] = column[b] * factor
    for f in range(1, len(doubled)):
        column, factor = columns[f][start : start + n], doubled[f]
        for b in range(n):
            products[b] += column[b] * factor


@exact_kernel
def _keep_nearest(products: Numbers, norm: float, j: float, least: Numbers, index: Numbers) -> None:
    """Add ‖k‖² of key `j`, and replace what is further; without branches, so that it is vectorised."""
    for b in range(len(products)):
        squared, before = products[b] + norm, least[b]
        products[b] = squared
        index[b] = j if squared < before else index[b]
        least[b] = squared if squared < before else before


@exact_kernel
def _keep_nearest_of_two(
    first: Numbers, second: Numbers, doubled: Numbers, norms: Numbers, j: int, least: Numbers, index: Numbers
) -> None:
    """Replace what is further than keys `j` and `j` + 1 from points with two features, without memory for products."""
    a, b, norm, place = doubled[j, 0], doubled[j, 1], norms[j], float(j)
    c, d, next_norm, next_place = doubled[j + 1, 0], doubled[j + 1, 1], norms[j + 1], float(j + 1)
    for i in range(len(first)):
        x, y, before, at = first[i], second[i], least[i], index[i]
        squared = (x * a + y * b) + norm
        at = place if squared < before else at
        before = squared if squared < before else before
        squared = (x * c + y * d) + next_norm
        index[i] = next_place if squared < before else at
        least[i] = squared if squared < before else before


@exact_kernel
def _search(
    columns: Numbers, point_norms: Numbers, doubled: Numbers, norms: Numbers, key_of: Indices, point_of: Indices
) -> None:
    """Find the first nearest key of each point, and the first nearest point of each key if there is room for it."""
    n, n_keys = columns.shape[1], len(norms)
    squared, least, index = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK)
    closest = np.full(n_keys, np.inf)
    for start in range(0, n, _BLOCK):
        size = min(_BLOCK, n - start)
        least[:] = np.inf
        index[:] = 0.0
        n_done = n_keys - n_keys % 2 if columns.shape[0] == 2 and len(point_of) == 0 else 0
        for j in range(0, n_done, 2):
            first, second = columns[0, start : start + size], columns[1, start : start + size]
            _keep_nearest_of_two(first, second, doubled, norms, j, least[:size], index[:size])
        for j in range(n_done, n_keys):
            _fill_products(columns, start, doubled[j], squared[:size])
            _keep_nearest(squared[:size], norms[j], float(j), least[:size], index[:size])
            for b in range(size if len(point_of) else 0):
                distance = squared[b] + point_norms[start + b]
                if distance < closest[j]:
                    closest[j] = distance
                    point_of[j] = start + b
        for b in range(size):
            key_of[start + b] = np.int64(index[b])


@exact_kernel
def _search_others(doubled: Numbers, norms: Numbers, other_of: Indices) -> None:
    """Find the first nearest other key of each key."""
    for j in range(len(other_of)):
        least = np.inf
        for i in range(len(norms)):
            product = 0.0
            for f in range(doubled.shape[1]):
                product += doubled[i, f] * doubled[j, f]
            squared = norms[i] - product / 2  # of doubled keys: −2 k_i·k_j
            if i != j and squared < least:
                least = squared
                other_of[j] = i


@entry_kernel
def search_stack(
    columns: Numbers,
    point_norms: Numbers,
    doubled: Numbers,
    norms: Numbers,
    key_of: Indices,
    point_of: Indices,
    other_of: Indices,
) -> None:
    """Fill the indices of nearest neighbours for each run.

    Args:
        columns: Points, (features, n).
        point_norms: ‖x‖² of the points, (n,); not read without `point_of`.
        doubled: −2 times the keys of each run, (runs, prototypes, features).
        norms: ‖k‖², (runs, prototypes).
        key_of: Filled with the nearest key of each point, (runs, n), zeros before.
        point_of: With the nearest point of each key, (runs, prototypes), zeros before; or (runs, 0).
        other_of: With the nearest other key of each key, in the same way.
    """
    for r in range(doubled.shape[0]):
        _search(columns, point_norms, doubled[r], norms[r], key_of[r], point_of[r])
        _search_others(doubled[r], norms[r], other_of[r])
