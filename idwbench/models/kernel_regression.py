"""Kernel regression: attention whose memory is the data, Σ_j a_j v_j with a_j = K(‖q − k_j‖) / Σ_i K(‖q − k_i‖).

Nadaraya (1964), Watson (1964); with the kernel ``shepard`` the interpolation of Shepard (1968). Torch is not needed.
Parameters of a kernel can be chosen from the data: by Scott's rule, or by leave-one-out cross-validation.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from idwbench.attention.kernels import KERNELS, Kernel, get_kernel
from idwbench.attention.records import ParameterValue
from idwbench.data.dataset import TrainingData
from idwbench.errors import ConfigError, NoNeighboursWarning
from idwbench.models.local_linear import LARGEST_FEATURES, linear_weights
from idwbench.models.neighbours import SquaredDistances

__all__ = [
    "KernelRegression",
    "canonical_factor",
    "kernel_regression",
    "kernel_weights",
    "leave_one_out_errors",
    "leave_one_out_parameters",
    "scott_bandwidth",
    "training_values",
]

Array = NDArray[np.floating[Any]]
ArrayOrTensor = TypeVar("ArrayOrTensor")

# Numbers of candidates of leave-one-out, and of keys whose nearest other key is looked for.
_COARSE, _FINE, _SAMPLE = 60, 15, 256
_GAUSSIAN = KERNELS["gaussian"]


@dataclass(frozen=True)
class KernelRegression:
    """A kernel with its memory.

    Attributes:
        kernel: A record of `idwbench.attention.kernels`.
        parameters: The numbers of its parameters.
        keys: (keys, features), float32 or float64, which is the type of all results.
        values: (keys, outputs), of the same type.
        row_weights: Factors (keys,) of the weights of the keys, of the same type; None for equal factors.
        order: 0 for the weighted mean of the values, 1 for local linear regression.
    """

    kernel: Kernel
    parameters: Mapping[str, float]
    keys: Array
    values: Array
    row_weights: Array | None = None
    order: int = 0

    @classmethod
    def of(
        cls,
        kernel: str,
        parameters: Mapping[str, ParameterValue],
        keys: Array,
        values: Array,
        row_weights: Array | None = None,
        order: int = 0,
    ) -> KernelRegression:
        """Return the regression with parameters that are numbers or rules, see `idwbench.attention.kernels`.

        Raises:
            ConfigError: unknown kernel or order, the keys allow no such choice, or have too many features for a slope.
        """
        chosen = get_kernel(kernel)
        if order not in (0, 1):
            raise ConfigError(f"expected 0 or 1, got {order!r}", location=("order",))
        if order and keys.shape[1] > LARGEST_FEATURES:
            problem = f"local linear regression takes at most {LARGEST_FEATURES} features, got {keys.shape[1]}"
            raise ConfigError(problem, location=("order",))
        numbers = {name: value for name, value in parameters.items() if not isinstance(value, str)}
        rules = set(parameters.values()) - set(numbers.values())
        if "scott" in rules:
            numbers["bandwidth"] = scott_bandwidth(keys, chosen, row_weights)
        elif "loo" in rules:
            numbers = {**leave_one_out_parameters(keys, values, chosen, numbers, row_weights, order)}
        return cls(chosen, numbers, keys, values, row_weights, order)

    @cached_property
    def _distances(self) -> SquaredDistances:
        return SquaredDistances(self.keys)

    def predict(self, queries: Array) -> Array:
        """Return the estimates (queries, outputs); NaN for a query without neighbours, whose weights are all 0."""
        if self.order:
            answers = np.empty((len(queries), self.values.shape[1]), self.values.dtype)
            for rows, weights in self._linear_weights(queries):
                np.matmul(weights, self.values, out=answers[rows])
            return answers
        sums = np.concatenate([self.values, np.ones((len(self.values), 1), self.values.dtype)], axis=1)
        if self.row_weights is not None:
            sums *= self.row_weights[:, None]
        totals = np.empty((len(queries), sums.shape[1]), self.values.dtype)
        for rows, weights in self._weights(queries):
            np.matmul(weights, sums, out=totals[rows])
        with np.errstate(invalid="ignore"):
            return np.asarray(totals[:, :-1] / totals[:, -1:])

    def _weights(self, queries: Array) -> Iterator[tuple[slice, Array]]:
        """Yield the weights (rows, keys) of a few queries at a time, up to a factor for each query."""
        # Only the Gaussian does not change when a number is added to all squared distances of a query.
        for rows, sq_dist in self._distances.blocks(queries, relative=self.kernel.name == "gaussian"):
            yield rows, self.kernel.weights(sq_dist, self.parameters)

    def _linear_weights(self, queries: Array) -> Iterator[tuple[slice, Array]]:
        """Yield the weights (rows, keys) of local linear regression of a few queries at a time."""
        for rows, weights in self._weights(queries):
            factors = weights if self.row_weights is None else weights * self.row_weights
            yield rows, linear_weights(factors, queries[rows], self.keys).astype(self.keys.dtype)

    def weights(self, queries: Array) -> Array:
        """Return the weights (queries, keys), which sum to 1; NaN for a query without neighbours."""
        shares = np.empty((len(queries), len(self.keys)), self.keys.dtype)
        for rows, weights in self._linear_weights(queries) if self.order else self._weights(queries):
            shares[rows] = weights
        if self.order:
            return shares
        if self.row_weights is not None:
            shares *= self.row_weights
        with np.errstate(invalid="ignore"):
            return np.asarray(shares / shares.sum(1, keepdims=True))


def training_values(dataset: TrainingData) -> NDArray[np.float32]:
    """Return the values of a memory of the training data: one-hot labels, or scaled targets (n, outputs)."""
    if dataset.task == "regression":
        return dataset.train.targets.astype(np.float32)
    return np.eye(dataset.n_outputs, dtype=np.float32)[dataset.train.labels]


def kernel_regression(
    queries: ArrayOrTensor,
    keys: ArrayOrTensor,
    values: ArrayOrTensor,
    kernel: str = "gaussian",
    bandwidth: float | str = 1.0,
    *,
    power: float | str = 2.0,
    epsilon: float = 0.0,
    order: int = 0,
) -> ArrayOrTensor:
    """Return Σ_j K(‖q − k_j‖) v_j / Σ_j K(‖q − k_j‖) for each query, without gradient; or a local linear regression.

    The computation is in float32 if all arguments are, otherwise in float64, in chunks of bounded memory.

    Args:
        queries: q, (queries, features), an array or tensor.
        keys: k, (keys, features).
        values: v, (keys,) or (keys, outputs): targets, or one-hot labels, which give class frequencies.
        kernel: ``gaussian`` exp(−d²/(2h²)), ``boxcar`` 1{d ≤ h}, ``triangular`` max(0, 1 − d/h), ``epanechnikov``
            max(0, 1 − d²/h²), or ``shepard`` 1/(ε + d^p).
        bandwidth: h > 0 in the units of the keys; ``scott`` for Scott's rule, or ``loo`` for leave-one-out
            cross-validation, see `leave_one_out_parameters`. ``shepard`` has none and ignores it.
        power: p > 0 of ``shepard``, or ``loo``.
        epsilon: ε ≥ 0 of ``shepard``; with 0, a query that equals keys gets the mean of their values.
        order: 1 for local linear regression: the value at q of the plane with the smallest squared errors under the
            weights K, see `idwbench.models.local_linear`. It has no bias at the boundary of the data, where all
            neighbours lie on one side.

    Returns:
        (queries,) or (queries, outputs), an array, or a tensor on the device of `queries`. A query without neighbours,
        whose weights are all 0, gives NaN and a `NoNeighboursWarning`.

    Raises:
        ConfigError: unknown kernel or order, a parameter out of range, arrays that do not fit or are not finite, or
            more than 256 features with order 1.
    """
    arrays = _arrays(queries, keys, values)
    parameters = _parameters(kernel, bandwidth, power, epsilon)
    memory = KernelRegression.of(kernel, parameters, *arrays[1:], order=order)
    estimates: ArrayOrTensor = _answer(queries, memory.predict(arrays[0]))
    return estimates if _array(values).ndim == 2 else estimates[:, 0]  # type: ignore[index]


def kernel_weights(
    queries: ArrayOrTensor,
    keys: ArrayOrTensor,
    kernel: str = "gaussian",
    bandwidth: float | str = 1.0,
    *,
    power: float | str = 2.0,
    epsilon: float = 0.0,
    order: int = 0,
) -> ArrayOrTensor:
    """Return the normalised weights (queries, keys) of `kernel_regression`, whose arguments it has but ``loo``.

    Raises:
        ConfigError: as `kernel_regression`; ``loo``, which needs values.
    """
    parameters = _parameters(kernel, bandwidth, power, epsilon)
    for name, value in parameters.items():
        if value == "loo":
            raise ConfigError("leave-one-out needs values", location=(name,))
    arrays = _arrays(queries, keys, np.zeros(len(keys), np.float32))  # type: ignore[arg-type]
    memory = KernelRegression.of(kernel, parameters, *arrays[1:], order=order)
    weights: ArrayOrTensor = _answer(queries, memory.weights(arrays[0]))
    return weights


def _parameters(kernel: str, bandwidth: object, power: object, epsilon: object) -> dict[str, ParameterValue]:
    chosen, given = get_kernel(kernel), {"bandwidth": bandwidth, "power": power, "epsilon": epsilon}
    return chosen.resolve({p.name: given[p.name] for p in chosen.parameters})


def _arrays(queries: object, keys: object, values: object) -> tuple[Array, Array, Array]:
    """Return the arguments as arrays of two axes and one floating type."""
    named = {name: _array(given) for name, given in (("queries", queries), ("keys", keys), ("values", values))}
    is_single = all(array.dtype in (np.float32, np.float16) for array in named.values())
    for name, array in named.items():
        if array.ndim != 2 and not (name == "values" and array.ndim == 1):
            raise ConfigError(f"expected two axes (n, columns), got the shape {array.shape}", location=(name,))
        if array.dtype.kind not in "fiub":
            raise ConfigError(f"expected numbers, got {array.dtype}", location=(name,))
        named[name] = np.ascontiguousarray(array, np.float32 if is_single else np.float64)
        if not np.isfinite(named[name]).all():
            raise ConfigError("expected finite numbers", location=(name,))
    asked, memory, targets = named.values()
    if not memory.size:
        raise ConfigError(f"expected at least one key, got the shape {memory.shape}", location=("keys",))
    if asked.shape[1] != memory.shape[1]:
        problem = f"expected {memory.shape[1]} features, those of the keys, got {asked.shape[1]}"
        raise ConfigError(problem, location=("queries",))
    if len(targets) != len(memory):
        raise ConfigError(f"expected {len(memory)}, one for each key, got {len(targets)}", location=("values",))
    return asked, memory, targets.reshape(len(targets), -1)


def _array(given: Any) -> NDArray[Any]:
    if not _is_tensor(given):
        return np.asarray(given)
    tensor = given.detach().cpu()
    # NumPy has no bfloat16, all whose numbers are in float32.
    return np.asarray(tensor.float() if tensor.dtype.itemsize == 2 and tensor.is_floating_point() else tensor)


def _is_tensor(given: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(given, torch.Tensor)


def _answer(queries: Any, answer: Array) -> Any:
    """Return an answer (queries, columns) as a tensor if the queries are one; warns of queries without neighbours."""
    if n := int(np.isnan(answer[:, 0]).sum()):
        message = f"{n:,} of {len(answer):,} queries have no neighbours within the bandwidth; their result is NaN"
        warnings.warn(message, NoNeighboursWarning, stacklevel=3)
    if not _is_tensor(queries):
        return answer
    import torch

    return torch.from_numpy(np.ascontiguousarray(answer)).to(queries.device)


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
    order: int = 0,
) -> NDArray[np.float64]:
    """Return the mean squared error of the values (keys, outputs), each predicted from all others, by candidate.

    Nothing is fitted again: without pair i, the estimate at k_i is (ŷ_i − a_ii v_i)/(1 − a_ii), computed as the sums
    over j ≠ i, since a_ii is 1 for `shepard` with ε = 0. With order 1 the plane at each key is fitted to all others. A
    key without neighbours is predicted by the mean of the
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
            pair_weights = kernel.weights(sq_dist, parameters)
            if order:
                factors = pair_weights * weights
                factors[own - rows.start, own] -= np.where(is_left_out[own], 0.0, pair_weights[own - rows.start, own])
                pair_weights = linear_weights(factors, keys[rows], keys)
                predicted = np.where(np.isnan(pair_weights[:, :1]), mean, pair_weights @ values)
                errors[index] += float((((predicted - values[rows]) ** 2) * weights[rows, None]).sum())
                continue
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
    order: int = 0,
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
        return int(leave_one_out_errors(keys, values, kernel, candidates, row_weights, order).argmin())

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
