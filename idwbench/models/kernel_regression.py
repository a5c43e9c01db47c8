"""Kernel regression: attention whose memory is the data, Σ_j a_j v_j with a_j = K(‖q − k_j‖) / Σ_i K(‖q − k_i‖).

Nadaraya (1964), Watson (1964); with the kernel ``shepard`` the interpolation of Shepard (1968). Torch is not needed.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from idwbench.attention.kernels import Kernel, get_kernel
from idwbench.attention.records import ParameterValue
from idwbench.data.dataset import TrainingData
from idwbench.errors import ConfigError, NoNeighboursWarning
from idwbench.models.bandwidths import leave_one_out_parameters, scott_bandwidth
from idwbench.models.neighbours import SquaredDistances

__all__ = ["KernelRegression", "kernel_regression", "kernel_weights", "training_values"]

Array = NDArray[np.floating[Any]]
ArrayOrTensor = TypeVar("ArrayOrTensor")


@dataclass(frozen=True)
class KernelRegression:
    """A kernel with its memory.

    Attributes:
        kernel: A record of `idwbench.attention.kernels`.
        parameters: The numbers of its parameters.
        keys: (keys, features), float32 or float64, which is the type of all results.
        values: (keys, outputs), of the same type.
        row_weights: Factors (keys,) of the weights of the keys, of the same type; None for equal factors.
    """

    kernel: Kernel
    parameters: Mapping[str, float]
    keys: Array
    values: Array
    row_weights: Array | None = None

    @classmethod
    def of(
        cls,
        kernel: str,
        parameters: Mapping[str, ParameterValue],
        keys: Array,
        values: Array,
        row_weights: Array | None = None,
    ) -> KernelRegression:
        """Return the regression with parameters that are numbers or rules, see `idwbench.attention.kernels`.

        Raises:
            ConfigError: unknown kernel, or the keys allow no such choice.
        """
        chosen = get_kernel(kernel)
        numbers = {name: value for name, value in parameters.items() if not isinstance(value, str)}
        rules = set(parameters.values()) - set(numbers.values())
        if "scott" in rules:
            numbers["bandwidth"] = scott_bandwidth(keys, chosen, row_weights)
        elif "loo" in rules:
            numbers = {**leave_one_out_parameters(keys, values, chosen, numbers, row_weights)}
        return cls(chosen, numbers, keys, values, row_weights)

    @cached_property
    def _distances(self) -> SquaredDistances:
        return SquaredDistances(self.keys)

    def predict(self, queries: Array) -> Array:
        """Return the estimates (queries, outputs); NaN for a query without neighbours, whose weights are all 0."""
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

    def weights(self, queries: Array) -> Array:
        """Return the normalised weights (queries, keys); NaN for a query without neighbours."""
        shares = np.empty((len(queries), len(self.keys)), self.keys.dtype)
        for rows, weights in self._weights(queries):
            shares[rows] = weights
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
) -> ArrayOrTensor:
    """Return Σ_j K(‖q − k_j‖) v_j / Σ_j K(‖q − k_j‖) for each query, without gradient.

    The computation is in float32 if all arguments are, otherwise in float64, in chunks of bounded memory.

    Args:
        queries: q, (queries, features), an array or tensor.
        keys: k, (keys, features).
        values: v, (keys,) or (keys, outputs): targets, or one-hot labels, which give class frequencies.
        kernel: ``gaussian`` exp(−d²/(2h²)), ``boxcar`` 1{d ≤ h}, ``triangular`` max(0, 1 − d/h), ``epanechnikov``
            max(0, 1 − d²/h²), or ``shepard`` 1/(ε + d^p).
        bandwidth: h > 0 in the units of the keys; ``scott`` for Scott's rule, or ``loo`` for leave-one-out
            cross-validation, see `idwbench.models.bandwidths`. ``shepard`` has none and ignores it.
        power: p > 0 of ``shepard``, or ``loo``.
        epsilon: ε ≥ 0 of ``shepard``; with 0, a query that equals keys gets the mean of their values.

    Returns:
        (queries,) or (queries, outputs), an array, or a tensor on the device of `queries`. A query without neighbours,
        whose weights are all 0, gives NaN and a `NoNeighboursWarning`.

    Raises:
        ConfigError: unknown kernel, a parameter out of range, or arrays that do not fit or are not finite.
    """
    arrays = _arrays(queries, keys, values)
    memory = KernelRegression.of(kernel, _parameters(kernel, bandwidth, power, epsilon), *arrays[1:])
    estimates = memory.predict(arrays[0])
    _warn(int(np.isnan(estimates[:, 0]).sum()), len(estimates))
    result: ArrayOrTensor = _like(queries, estimates if _array(values).ndim == 2 else estimates[:, 0])
    return result


def kernel_weights(
    queries: ArrayOrTensor,
    keys: ArrayOrTensor,
    kernel: str = "gaussian",
    bandwidth: float | str = 1.0,
    *,
    power: float | str = 2.0,
    epsilon: float = 0.0,
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
    memory = KernelRegression.of(kernel, parameters, *arrays[1:])
    weights = memory.weights(arrays[0])
    _warn(int(np.isnan(weights[:, 0]).sum()), len(weights))
    result: ArrayOrTensor = _like(queries, weights)
    return result


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


def _like(given: Any, result: Array) -> Any:
    """Return the result as a tensor if `given` is one."""
    if not _is_tensor(given):
        return result
    import torch

    return torch.from_numpy(np.ascontiguousarray(result)).to(given.device)


def _warn(n: int, total: int) -> None:
    if n:
        message = f"{n:,} of {total:,} queries have no neighbours within the bandwidth; their result is NaN"
        warnings.warn(message, NoNeighboursWarning, stacklevel=3)
