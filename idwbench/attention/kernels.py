"""The kernels of kernel regression: formula, parameters and function on arrays of each in one record.

A function takes squared distances (queries, keys), +∞ for a pair that does not count, and the values of its parameters,
and returns weights of the same shape, up to a factor for each query. It may overwrite the squared distances. NumPy is
imported by the first call, since planning does not need it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from idwbench.attention.definitions import Parameter, ParameterValue
from idwbench.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.floating[Any]]

__all__ = ["BANDWIDTH", "KERNELS", "RULES", "Kernel", "get_kernel", "kernel_parameters"]

# Ways to choose a parameter from the data, see `idwbench.models.bandwidths`.
RULES: dict[str, tuple[str, ...]] = {"bandwidth": ("scott", "loo"), "power": ("loo",)}
_HIT_SQ_DIST = 1e-24


@dataclass(frozen=True)
class Kernel:
    """One kernel; d is the distance of a query and a key, h the bandwidth.

    Attributes:
        roughness: log(R(K)/μ₂(K)²) of the kernel K with h = 1 as a density over a number of features, with
            R(K) = ∫ K² and μ₂(K) = ∫ x₁² K: kernels whose bandwidths differ by its exponential to the power
            1/(features + 4) smooth alike. None without a bandwidth.
    """

    name: str
    formula: str
    function: Callable[..., Any]
    parameters: tuple[Parameter, ...]
    source: str = ""
    roughness: Callable[[int], float] | None = None

    @property
    def has_bandwidth(self) -> bool:
        """Whether the bandwidth is a parameter."""
        return BANDWIDTH in self.parameters

    def label(self, values: Mapping[str, ParameterValue]) -> str:
        """Return ``h=0.5``, ``h=loo`` or ``p=2, ε=0`` for the values of its parameters."""
        known = [parameter for parameter in self.parameters if parameter.name in values]
        words = [(parameter, values[parameter.name]) for parameter in known]
        return ", ".join(f"{p.symbol}={value}" if isinstance(value, str) else p.label(value) for p, value in words)

    def weights(self, sq_dist: Array, parameters: Mapping[str, float]) -> Array:
        """Return the weights (queries, keys), up to a factor for each query; overwrites the squared distances."""
        import numpy as np

        with np.errstate(over="ignore"):  # a tiny bandwidth
            weights: Array = self.function(sq_dist, **parameters)
        return weights


def _gaussian(sq_dist: Array, *, bandwidth: float) -> Array:
    import numpy as np

    # Relative to the nearest key: plain weights of a query far from all keys would all be 0.
    sq_dist -= sq_dist.min(1, keepdims=True)
    sq_dist *= -0.5 / bandwidth**2
    return np.exp(sq_dist, out=sq_dist)


def _boxcar(sq_dist: Array, *, bandwidth: float) -> Array:
    import numpy as np

    return (np.sqrt(sq_dist, out=sq_dist) <= bandwidth).astype(sq_dist.dtype)


def _triangular(sq_dist: Array, *, bandwidth: float) -> Array:
    import numpy as np

    scaled = np.sqrt(sq_dist, out=sq_dist)
    scaled *= -1 / bandwidth
    scaled += 1
    return np.maximum(scaled, 0, out=scaled)


def _epanechnikov(sq_dist: Array, *, bandwidth: float) -> Array:
    import numpy as np

    scaled = np.sqrt(sq_dist, out=sq_dist)
    scaled /= bandwidth
    np.square(scaled, out=scaled)
    np.subtract(1, scaled, out=scaled)
    return np.maximum(scaled, 0, out=scaled)


def _shepard(sq_dist: Array, *, power: float, epsilon: float) -> Array:
    is_hit = sq_dist <= _HIT_SQ_DIST if epsilon == 0 else None
    weights = _inverse_square(sq_dist, epsilon) if power == 2 else _inverse_power(sq_dist, power, epsilon)
    if is_hit is not None and (rows := is_hit.any(1)).any():
        weights[rows] = is_hit[rows]  # equal weights, the limit of ε → 0
    return weights


def _inverse_square(sq_dist: Array, epsilon: float) -> Array:
    import numpy as np

    sq_dist += epsilon
    smallest = np.maximum(sq_dist.min(1, keepdims=True), np.finfo(sq_dist.dtype).tiny)
    weights: Array = np.divide(smallest, np.maximum(sq_dist, smallest, out=sq_dist), out=sq_dist)
    return weights


def _inverse_power(sq_dist: Array, power: float, epsilon: float) -> Array:
    import numpy as np

    # The logarithm before the power, as in the score of `idw`, since d^p may overflow for all keys.
    logarithm = np.log(np.maximum(sq_dist, _HIT_SQ_DIST, out=sq_dist), out=sq_dist)
    logarithm *= power / 2
    smallest = logarithm.min(1, keepdims=True)
    if epsilon == 0:
        np.subtract(smallest, logarithm, out=logarithm)
        return np.exp(logarithm, out=logarithm)
    # 1/(ε + d^p) up to the factor exp(c) with c = max(log ε, p log d of the nearest key).
    smallest = np.maximum(smallest, sq_dist.dtype.type(math.log(epsilon)))
    logarithm -= smallest
    np.exp(logarithm, out=logarithm)
    logarithm += np.exp(sq_dist.dtype.type(math.log(epsilon)) - smallest)
    return np.divide(1, logarithm, out=logarithm)


def _log_sphere(features: int) -> float:
    """Return the logarithm of the surface 2π^(features/2)/Γ(features/2) of the unit sphere."""
    return math.log(2) + features / 2 * math.log(math.pi) - math.lgamma(features / 2)


def _gaussian_roughness(features: int) -> float:
    return -features / 2 * math.log(4 * math.pi)


def _boxcar_roughness(features: int) -> float:
    return math.log(features) + 2 * math.log(features + 2) - _log_sphere(features)


def _triangular_roughness(features: int) -> float:
    roughness = 2 * features * (features + 1) / (features + 2)
    variance = (features + 1) / ((features + 2) * (features + 3))
    return math.log(roughness / variance**2) - _log_sphere(features)


def _epanechnikov_roughness(features: int) -> float:
    return math.log(2 * features * (features + 2) * (features + 4)) - _log_sphere(features)


BANDWIDTH = Parameter("bandwidth", 1.0, symbol="h", help="Bandwidth h of a kernel.", minimum=1e-12, maximum=1e12)
_POWER = Parameter("power", 2.0, symbol="p", minimum=0.0, exclusive=True, maximum=1e12)
_EPSILON = Parameter("epsilon", 0.0, symbol="ε", minimum=0.0)

# In the order of tables.
KERNELS: dict[str, Kernel] = {
    kernel.name: kernel
    for kernel in (
        Kernel(
            *("gaussian", "exp(−d²/(2h²))", _gaussian, (BANDWIDTH,), "Nadaraya 1964, Watson 1964"),
            roughness=_gaussian_roughness,
        ),
        Kernel("boxcar", "1{d ≤ h}", _boxcar, (BANDWIDTH,), roughness=_boxcar_roughness),
        Kernel("triangular", "max(0, 1 − d/h)", _triangular, (BANDWIDTH,), roughness=_triangular_roughness),
        Kernel(
            *("epanechnikov", "max(0, 1 − d²/h²)", _epanechnikov, (BANDWIDTH,), "Epanechnikov 1969"),
            roughness=_epanechnikov_roughness,
        ),
        Kernel("shepard", "1/(ε + d^p)", _shepard, (_POWER, _EPSILON), "Shepard 1968, with ε = 0"),
    )
}


def get_kernel(name: object) -> Kernel:
    """Return the kernel of that name.

    Raises:
        ConfigError: unknown kernel.
    """
    if not isinstance(name, str) or name not in KERNELS:
        hint = did_you_mean(str(name), KERNELS)
        raise ConfigError(f"unknown kernel {name!r}", location=("kernel",), hint=hint)
    return KERNELS[name]


def kernel_parameters(kernel: Kernel, given: Mapping[str, Any]) -> dict[str, ParameterValue]:
    """Return all parameters of `kernel`: the given values, and defaults for the others; see `RULES`.

    Raises:
        ConfigError: the kernel does not have a parameter, or a value is not valid; `location` is the parameter.
    """
    names = [parameter.name for parameter in kernel.parameters]
    for name in given:
        if name not in names:
            takes = f"it takes {' and '.join(names)}"
            raise ConfigError(f"kernel '{kernel.name}' does not take '{name}'", location=(name,), hint=takes)
    return {p.name: _parsed(p, given.get(p.name, p.default)) for p in kernel.parameters}


def _parsed(parameter: Parameter, value: object) -> ParameterValue:
    rules = RULES.get(parameter.name, ())
    if not rules or not isinstance(value, str):
        return parameter.parse(value)
    if value not in rules:
        hint = did_you_mean(value, rules)
        raise ConfigError(f"{value!r} is no number and no rule", location=(parameter.name,), hint=hint)
    return value
