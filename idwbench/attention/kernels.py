"""The kernels of kernel regression: formula, parameters and function on arrays of each in one record.

A function takes squared distances (queries, keys), +∞ for a pair that does not count, and the values of its parameters,
and returns weights of the same shape, up to a factor for each query. NumPy is imported by the first call, since
planning does not need it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from idwbench.attention.records import Parameter, Record, find_record
from idwbench.attention.scores import HIT_SQ_DIST

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.floating[Any]]

__all__ = ["BANDWIDTH", "KERNELS", "Kernel", "get_kernel"]


@dataclass(frozen=True)
class Kernel(Record):
    """One kernel; d is the distance of a query and a key, h the bandwidth.

    Attributes:
        roughness: log(R(K)/μ₂(K)²) of the kernel K with h = 1 as a density over a number of features, with
            R(K) = ∫ K² and μ₂(K) = ∫ x₁² K: kernels whose bandwidths differ by its exponential to the power
            1/(features + 4) smooth alike. None without a bandwidth.
    """

    noun: ClassVar[str] = "kernel"

    function: Callable[..., Any]
    source: str = ""
    roughness: Callable[[int], float] | None = None

    @property
    def has_bandwidth(self) -> bool:
        """Whether the bandwidth is a parameter."""
        return BANDWIDTH in self.parameters

    def weights(self, sq_dist: Array, parameters: Mapping[str, float]) -> Array:
        """Return the weights (queries, keys), up to a factor for each query."""
        import numpy as np

        with np.errstate(over="ignore"):  # a tiny bandwidth
            weights: Array = self.function(sq_dist, **parameters)
        return weights


def _gaussian(sq_dist: Array, *, bandwidth: float) -> Array:
    import numpy as np

    # Relative to the nearest key: plain weights of a query far from all keys would all be 0.
    weights: Array = np.exp((sq_dist - sq_dist.min(1, keepdims=True)) * (-0.5 / bandwidth**2))
    return weights


def _boxcar(sq_dist: Array, *, bandwidth: float) -> Array:
    return (sq_dist**0.5 <= bandwidth).astype(sq_dist.dtype)


def _triangular(sq_dist: Array, *, bandwidth: float) -> Array:
    return (sq_dist**0.5 * (-1 / bandwidth) + 1).clip(0)


def _epanechnikov(sq_dist: Array, *, bandwidth: float) -> Array:
    return (1 - (sq_dist**0.5 / bandwidth) ** 2).clip(0)


def _shepard(sq_dist: Array, *, power: float, epsilon: float) -> Array:
    weights = _inverse_square(sq_dist, epsilon) if power == 2 else _inverse_power(sq_dist, power, epsilon)
    if epsilon == 0 and (rows := (is_hit := sq_dist <= HIT_SQ_DIST).any(1)).any():
        weights[rows] = is_hit[rows]  # equal weights, the limit of ε → 0
    return weights


def _inverse_square(sq_dist: Array, epsilon: float) -> Array:
    import numpy as np

    total = sq_dist + epsilon
    smallest = np.maximum(total.min(1, keepdims=True), np.finfo(sq_dist.dtype).tiny)
    weights: Array = smallest / np.maximum(total, smallest)
    return weights


def _inverse_power(sq_dist: Array, power: float, epsilon: float) -> Array:
    import numpy as np

    # The logarithm before the power, as in the score of `idw`, since d^p may overflow for all keys.
    logarithm = np.log(np.maximum(sq_dist, HIT_SQ_DIST)) * (power / 2)
    smallest = logarithm.min(1, keepdims=True)
    weights: Array
    if epsilon == 0:
        weights = np.exp(smallest - logarithm)
    else:  # 1/(ε + d^p) up to the factor exp(c) with c = max(log ε, p log d of the nearest key)
        log_epsilon = sq_dist.dtype.type(math.log(epsilon))
        factor = np.maximum(smallest, log_epsilon)
        weights = 1 / (np.exp(logarithm - factor) + np.exp(log_epsilon - factor))
    return weights


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


# The words are ways to choose a parameter from the data, see `idwbench.models.kernel_regression`.
BANDWIDTH = Parameter(
    "bandwidth",
    1.0,
    symbol="h",
    help="Bandwidth h of a kernel.",
    minimum=1e-12,
    maximum=1e12,
    words=("scott", "loo"),
    other_words="a rule",
)
_POWER = Parameter(
    *("power", 2.0, "p"), minimum=0.0, exclusive=True, maximum=1e12, words=("loo",), other_words="a rule"
)
_EPSILON = Parameter("epsilon", 0.0, symbol="ε", minimum=0.0)
_SHEPARD = (_POWER, _EPSILON)

# In the order of tables.
KERNELS: dict[str, Kernel] = {
    kernel.name: kernel
    for kernel in (
        Kernel(
            *("gaussian", "exp(−d²/(2h²))", _gaussian, "Nadaraya 1964, Watson 1964", _gaussian_roughness),
            parameters=(BANDWIDTH,),
        ),
        Kernel("boxcar", "1{d ≤ h}", _boxcar, roughness=_boxcar_roughness, parameters=(BANDWIDTH,)),
        Kernel("triangular", "max(0, 1 − d/h)", _triangular, roughness=_triangular_roughness, parameters=(BANDWIDTH,)),
        Kernel(
            *("epanechnikov", "max(0, 1 − d²/h²)", _epanechnikov, "Epanechnikov 1969", _epanechnikov_roughness),
            parameters=(BANDWIDTH,),
        ),
        Kernel("shepard", "1/(ε + d^p)", _shepard, "Shepard 1968, with ε = 0", parameters=_SHEPARD),
    )
}


def get_kernel(name: object) -> Kernel:
    """Return the kernel of that name.

    Raises:
        ConfigError: unknown kernel.
    """
    return find_record(KERNELS, name, "kernel")
