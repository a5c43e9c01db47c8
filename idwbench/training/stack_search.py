"""Nearest neighbours of the keys of a stack by a compiled kernel."""

import numpy as np
from numpy.typing import NDArray

from idwbench.models.quality import Neighbours
from idwbench.training.kernels.neighbours import search_stack

__all__ = ["MOST_FEATURES", "compiled_neighbours"]

# With more features matrix products are faster.
MOST_FEATURES = 8


def compiled_neighbours(
    columns: NDArray[np.float64], point_norms: NDArray[np.float64] | None, keys: NDArray[np.float32]
) -> Neighbours:
    """Return the nearest neighbours of keys (runs, prototypes, features), see `idwbench.models.quality.StackSearch`."""
    exact = keys.astype(np.float64)
    n_found = keys.shape[1] if point_norms is not None else 0
    key_of = np.zeros((len(keys), columns.shape[1]), np.int64)
    point_of, other_of = np.zeros((2, len(keys), n_found), np.int64)
    unused = np.empty(0)
    norms = np.einsum("rij,rij->ri", exact, exact)
    search_stack(columns, unused if point_norms is None else point_norms, -2 * exact, norms, key_of, point_of, other_of)
    return key_of, point_of, other_of
