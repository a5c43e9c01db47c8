"""Nearest neighbours of a stack of points by brute force in float64, for few features."""

import numpy as np
from numpy.typing import NDArray

from idwbench.training.kernels.jit import entry_kernel, exact_kernel

__all__ = ["nearest_in_stack"]

Numbers = NDArray[np.float64]
Indices = NDArray[np.int64]

_BLOCK = 512


@exact_kernel
def _search(columns: Numbers, others: Numbers, among_themselves: bool, index: Indices, least: Numbers) -> None:
    """Find the first nearest of `others` (m, features) of each point in `columns` (features, n), with its d²."""
    n = columns.shape[1]
    squared, place = np.empty(_BLOCK), np.empty(_BLOCK)
    for start in range(0, n, _BLOCK):
        size = min(_BLOCK, n - start)
        smallest = least[start : start + size]
        smallest[:] = np.inf
        place[:] = 0.0
        for j in range(len(others)):
            squared[:] = 0.0
            for f in range(len(columns)):
                column, number = columns[f, start : start + size], others[j, f]
                for b in range(size):
                    squared[b] += (column[b] - number) * (column[b] - number)
            if among_themselves and start <= j < start + size:
                squared[j - start] = np.inf
            for b in range(size):  # without branches, so that it is vectorised
                before = smallest[b]
                place[b] = float(j) if squared[b] < before else place[b]
                smallest[b] = squared[b] if squared[b] < before else before
        for b in range(size):
            index[start + b] = np.int64(place[b])


@entry_kernel
def _search_stack(columns: Numbers, others: Numbers, among_themselves: bool, index: Indices, least: Numbers) -> None:
    """Search for each run; one of the arguments may have a single run, which counts for all."""
    for r in range(len(index)):
        _search(columns[r % len(columns)], others[r % len(others)], among_themselves, index[r], least[r])


def nearest_in_stack(
    points: NDArray[np.float32], others: NDArray[np.float32], among_themselves: bool = False
) -> tuple[Indices, Numbers]:
    """Return index and distance (runs, n) of the nearest of `others` of each point, see `StackSearch`."""
    columns = np.ascontiguousarray(points.swapaxes(1, 2), np.float64)
    shape = (max(len(points), len(others)), points.shape[1])
    index, least = np.empty(shape, np.int64), np.empty(shape)
    _search_stack(columns, others.astype(np.float64, order="C"), among_themselves, index, least)
    return index, np.sqrt(least, out=least)
