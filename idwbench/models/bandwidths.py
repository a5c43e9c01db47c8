"""Parameters of a kernel from the data: Scott's rule, and leave-one-out cross-validation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.attention.kernels import KERNELS, Kernel
from idwbench.errors import ConfigError
from idwbench.models.neighbours import SquaredDistances

__all__ = ["canonical_factor", "leave_one_out_errors", "leave_one_out_parameters", "scott_bandwidth"]

Array = NDArray[np.floating[Any]]

_COARSE, _FINE = 60, 15
_SAMPLE = 256
_GAUSSIAN = KERNELS["gaussian"]


def canonical_factor(kernel: Kernel, features: int) -> float:
    """Return the bandwidth of `kernel` that smooths as much as a Gaussian with h = 1.

    It is ((R(K)/μ₂(K)²) / (R(G)/μ₂(G)²))^(1/(features + 4)) with G the Gaussian, the ratio of the bandwidths with the
    smallest asymptotic mean squared error of the same density: Marron and Nolan (1988), "Canonical kernels for density
    estimation"; for `epanechnikov` Silverman (1986), "Density Estimation", Table 4.1.

    Raises:
        ConfigError: the kernel has no bandwidth.
    """
    if kernel.roughness is None or _GAUSSIAN.roughness is None:
        raise ConfigError(f"kernel '{kernel.name}' has no bandwidth", location=("kernel",))
    return math.exp((kernel.roughness(features) - _GAUSSIAN.roughness(features)) / (features + 4))


def scott_bandwidth(keys: Array, kernel: Kernel = _GAUSSIAN, row_weights: Array | None = None) -> float:
    """Return h = c σ n^(−1/(features + 4)), where σ² is the mean over features of the variance (n − 1) of `keys`.

    Scott (1992), "Multivariate Density Estimation", Eq. 6.42, with one bandwidth for all features. The rule is for
    Gaussians; c is the `canonical_factor` of the kernel. With weights n is their sum, as if a key of weight w were
    there w times.

    Raises:
        ConfigError: fewer than two distinct keys.
    """
    n, features = keys.shape
    if row_weights is None:
        variance = float(keys.var(0, ddof=1, dtype=np.float64).mean()) if n > 1 else 0.0
    else:
        n = float(row_weights.sum(dtype=np.float64))
        mean = row_weights @ keys.astype(np.float64) / n
        variance = float((row_weights @ (keys - mean) ** 2).mean() / (n - 1)) if n > 1 and len(keys) > 1 else 0.0
    if variance == 0:
        raise ConfigError("Scott's rule needs at least two distinct keys", location=("bandwidth",))
    return float(canonical_factor(kernel, features) * np.sqrt(variance) * n ** (-1 / (features + 4)))


def leave_one_out_errors(
    keys: Array,
    values: Array,
    kernel: Kernel,
    candidates: Sequence[Mapping[str, float]],
    row_weights: Array | None = None,
) -> NDArray[np.float64]:
    """Return the mean squared error of the values (keys, outputs), each predicted from all others, by candidate.

    Nothing is fitted again: without pair i, the estimate at k_i is (ŷ_i − a_ii v_i)/(1 − a_ii), computed as the sums
    over j ≠ i, since a_ii is 1 for `shepard` with ε = 0. A key without neighbours is predicted by the mean of the
    values. A candidate has the values of all parameters of the kernel. A key of weight w > 1 counts as w copies, of
    which one is left out.
    """
    ones = np.concatenate([values, np.ones((len(values), 1), values.dtype)], axis=1)
    weights = np.ones(len(values), values.dtype) if row_weights is None else row_weights
    sums, is_left_out = ones * weights[:, None], weights <= 1
    mean = values.mean(0, dtype=np.float64)
    if row_weights is not None:
        mean = row_weights @ values.astype(np.float64) / row_weights.sum(dtype=np.float64)
    errors = np.zeros(len(candidates))
    for rows, sq_dist in SquaredDistances(keys).blocks(keys):
        own = np.arange(rows.start, rows.stop)
        alone = own[is_left_out[own]]
        sq_dist[alone - rows.start, alone] = np.inf
        for index, parameters in enumerate(candidates):
            pair_weights = kernel.weights(sq_dist.copy(), parameters)
            other_sums = (pair_weights @ sums).astype(np.float64)
            if len(alone) < len(own):
                other_sums -= np.where(is_left_out[own], 0.0, pair_weights[own - rows.start, own])[:, None] * ones[rows]
            total = other_sums[:, -1:]
            predicted = np.where(total > 0, other_sums[:, :-1] / np.where(total > 0, total, 1), mean)
            errors[index] += float((((predicted - values[rows]) ** 2) * weights[rows, None]).sum())
    return np.asarray(errors / (float(weights.sum(dtype=np.float64)) * values.shape[1]))


def leave_one_out_parameters(
    keys: Array,
    values: Array,
    kernel: Kernel,
    others: Mapping[str, float] | None = None,
    row_weights: Array | None = None,
) -> dict[str, float]:
    """Return the parameters with the smallest of the `leave_one_out_errors`: a bandwidth, or the power of `shepard`.

    Of 60 values at equal ratios, and then of 15 between the neighbours of the best one. Bandwidths are from a fifth of
    the median distance of nearest neighbours to a bound of the largest distance, powers from 1/4 to 8 (features + 8).
    The error may have several minima. The cost is that of two matrix products of the keys with themselves, and of the
    kernel 75 times for each pair. `others` are the parameters that are not chosen, such as ε.

    Raises:
        ConfigError: fewer than two distinct keys.
    """
    name = "bandwidth" if kernel.has_bandwidth else "power"
    smallest, largest = _range(keys, name)
    if not kernel.has_bandwidth:
        smallest, largest = 0.25, 8.0 * (keys.shape[1] + 8)

    def best(numbers: NDArray[np.float64]) -> int:
        candidates = [{**(others or {}), name: float(number)} for number in numbers]
        return int(leave_one_out_errors(keys, values, kernel, candidates, row_weights).argmin())

    coarse = np.geomspace(smallest, largest, _COARSE)
    place = best(coarse)
    fine = np.geomspace(coarse[max(place - 1, 0)], coarse[min(place + 1, _COARSE - 1)], _FINE)
    return {**(others or {}), name: float(fine[best(fine)])}


def _range(keys: Array, name: str) -> tuple[float, float]:
    """Return a fifth of the median distance of a key to the nearest other key, and twice the radius of the keys."""
    largest = 2 * float(np.sqrt(((keys - keys.mean(0)) ** 2).sum(1).max()))
    rows = np.unique(np.linspace(0, len(keys) - 1, _SAMPLE).astype(np.int64))
    nearest = np.full(len(rows), np.inf)
    for part, sq_dist in SquaredDistances(keys).blocks(keys[rows]):
        nearest[part] = np.where(sq_dist > 0, sq_dist, np.inf).min(1)
    nearest = np.sqrt(nearest[np.isfinite(nearest)])
    if largest == 0 or not len(nearest):
        raise ConfigError("leave-one-out needs at least two distinct keys", location=(name,))
    return 0.2 * float(np.median(nearest)), largest
