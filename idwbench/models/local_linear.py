"""Local linear regression: at each query the value of the plane that fits the data around it best.

Stone (1977), Cleveland (1979); Fan and Gijbels (1996), "Local Polynomial Modelling and Its Applications", Section 3.1.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["LARGEST_FEATURES", "linear_weights"]

LARGEST_FEATURES = 256  # each query solves for as many numbers
# Directions with less of the largest variance of the keys around a query have no slope.
_SMALLEST_SHARE = 1e-8


def linear_weights(
    weights: NDArray[np.floating], queries: NDArray[np.floating], keys: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Return the weights l of the values in local linear regression: the estimate at a query is Σ_j l_j v_j.

    It is α of the smallest Σ_j w_j (v_j − α − β·(k_j − q))². With s_j = w_j / Σ_i w_i, and the mean k̄ and the
    covariance C of the keys under s, l_j = s_j (1 + (q − k̄)ᵀ C⁺ (k_j − k̄)). They sum to 1, and may be negative. Where
    the keys around a query have no spread in a direction, the plane has no slope in it.

    Args:
        weights: w ≥ 0, (queries, keys).
        queries: q, (queries, features).
        keys: k, (keys, features).

    Returns:
        (queries, keys); NaN for a query whose weights are all 0.
    """
    found = np.full(weights.shape, np.nan)
    for row, query, own in zip(found, queries.astype(np.float64), weights.astype(np.float64), strict=True):
        near = np.flatnonzero(own)
        if not near.size:
            continue
        shares = own[near] / own[near].sum()
        mean = shares @ keys[near]
        centred = keys[near] - mean
        variances, axes = np.linalg.eigh((centred.T * shares) @ centred)
        kept = variances > _SMALLEST_SHARE * variances[-1]
        slope = axes[:, kept] @ ((axes[:, kept].T @ (query - mean)) / variances[kept])
        row[:] = 0.0
        row[near] = shares * (1.0 + centred @ slope)
    return found
