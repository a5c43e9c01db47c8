"""The scores: formula, function on tensors and parameters of each in one record, and the registry of methods.

Shapes: inputs (…, batch, features), keys (…, prototypes, features), squared distances and scores (…, batch,
prototypes). Leading axes stack runs. A score of the distance alone is a function of d². A numeric parameter is a
number, or a tensor that broadcasts against the scores and holds no special value (`Parameter.special`). Torch is
imported by the first call, since planning and reports do not need it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from idwbench.attention.records import Method, Parameter, find_record
from idwbench.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor

    Number = float | Tensor

__all__ = [
    "BUILT_IN_METHODS",
    "METHODS",
    "DistanceScore",
    "SquareForm",
    "all_parameters",
    "cosine",
    "dot",
    "find_unknown_methods",
    "gaussian",
    "get_method",
    "idw",
    "inv_dist",
    "log_inv_dist",
    "neg_dist",
    "register_method",
    "scaled_dot",
]


@dataclass(frozen=True)
class SquareForm:
    """A score with p = 2 and its derivative by d², without autograd.

    Attributes:
        terms: The function ``(squared_distances, **parameters) -> terms``, which overwrites its argument.
        slope: The function ``(terms, **parameters) -> derivatives of the scores``.
        exponential: Whether the terms are exp(score) instead of the score.
    """

    terms: Callable[..., Tensor]
    slope: Callable[..., Tensor]
    exponential: bool = False


@dataclass(frozen=True)
class DistanceScore:
    """A score that depends on the distance of input and key alone.

    Attributes:
        of_squares: The function ``(squared_distances, **parameters) -> scores``.
        square_form: The same with p = 2 and ε ≥ 1e-9, or None.
    """

    of_squares: Callable[..., Tensor]
    square_form: SquareForm | None = None

    def __call__(self, inputs: Tensor, keys: Tensor, **parameters: Any) -> Tensor:
        """Return the scores of inputs and keys."""
        from idwbench.attention.distances import squared_distances

        return self.of_squares(squared_distances(inputs, keys), **parameters)


def dot(inputs: Tensor, keys: Tensor) -> Tensor:
    """Return x·k."""
    from idwbench.attention.distances import stacked_product

    return stacked_product(inputs, keys.mT)


def scaled_dot(inputs: Tensor, keys: Tensor, *, scale: str) -> Tensor:
    """Return x·k/√features (Vaswani et al. 2017, Eq. 1), or x·k/√prototypes as in the IDW authors' code."""
    prototypes, features = keys.shape[-2:]
    return dot(inputs, keys) / math.sqrt(features if scale == "features" else prototypes)


def cosine(inputs: Tensor, keys: Tensor, *, temperature: Number) -> Tensor:
    """Return x·k/(‖x‖ ‖k‖ temperature), 0 where a norm is 0."""
    from idwbench.attention.distances import unit_vectors

    return dot(unit_vectors(inputs), unit_vectors(keys)) / temperature


def neg_dist(sq_dist: Tensor, *, power: Number) -> Tensor:
    """Return −d^p (arXiv 2310.18805, section 3); with p ≠ 2, above d^p = 1e9, its tangent in p·log d."""
    from idwbench.attention.distances import bounded_exp, is_number, log_distance_power

    if is_number(power, 2.0):
        return -sq_dist
    return -bounded_exp(log_distance_power(sq_dist, power))


def gaussian(sq_dist: Tensor, *, sigma_squared: Number) -> Tensor:
    """Return exp(−d²/σ²); the authors' code has σ² = 2."""
    return (-sq_dist / sigma_squared).exp()


def inv_dist(sq_dist: Tensor, *, power: Number, epsilon: Number) -> Tensor:
    """Return 1/(ε + d^p); above 1e9 the tangent of exp(−log(ε + d^p)); +∞ for a hit with ε = 0.

    With p = 2 and up to 1e9 it is a plain reciprocal: its relative error is that of d² plus 2⁻²³. Otherwise it is the
    exponential of the score of `idw`, whose absolute error becomes a relative one.
    """
    import torch

    from idwbench.attention.distances import HIT_SQ_DIST, bounded_exp, is_number

    if is_number(power, 2.0):
        if is_number(epsilon, 0.0):
            sq_dist = torch.where(sq_dist <= HIT_SQ_DIST, 0.0, sq_dist)
        total = sq_dist + epsilon
        if not isinstance(epsilon, torch.Tensor) and epsilon >= 1e-9:
            return total.reciprocal()
        is_plain = total >= 1e-9
        # Masked arguments avoid a gradient of 0 · ∞.
        plain = torch.where(is_plain, total, 1.0).reciprocal()
        beyond = bounded_exp(-torch.where(is_plain | (total == 0), 1.0, total).log())
        return torch.where(is_plain, plain, torch.where(total == 0, math.inf, beyond))
    score = log_inv_dist(sq_dist, power=power, epsilon=epsilon)
    return torch.where(torch.isposinf(score), score, bounded_exp(score.clamp(max=torch.finfo(score.dtype).max)))


def log_inv_dist(sq_dist: Tensor, *, power: Number, epsilon: Number) -> Tensor:
    """Return −log(ε + d^p), so that softmax weights are the normalised 1/(ε + d^p) (arXiv 2310.18805, Eq. 3-4).

    Computed as −max(a, b) − log(1 + exp(−|a − b|)) with a = log ε and b = p·log d, which does not overflow; with p = 2
    as the plain form. +∞ for a hit with ε = 0; an ε between 0 and 1e-30 counts as 1e-30, so that gradients stay within
    float32. The error in float32 is at most p·δ/2 + 4u·(1 + |score| + p·|log d|), where δ is the relative error of d²
    and u = 2⁻²⁴.
    """
    import torch

    from idwbench.attention.distances import is_number, log_distance_power

    if is_number(epsilon, 0.0):
        return -log_distance_power(sq_dist, power)
    epsilon = epsilon.clamp(min=1e-30) if isinstance(epsilon, torch.Tensor) else max(epsilon, 1e-30)
    if is_number(power, 2.0):
        return -(sq_dist + epsilon).log()
    log_power = log_distance_power(sq_dist, power)
    log_epsilon = torch.as_tensor(epsilon, dtype=log_power.dtype, device=log_power.device).log()
    # The last bit of torch.logaddexp depends on the position in memory, and so on the size of the stack.
    return -torch.maximum(log_epsilon, log_power) - (-(log_epsilon - log_power).abs()).exp().log1p()


def _inverse(sq_dist: Tensor, *, power: Number, epsilon: Number) -> Tensor:
    return sq_dist.add_(epsilon).reciprocal_()


idw = DistanceScore(log_inv_dist, SquareForm(_inverse, lambda inverse, *, power, epsilon: -inverse, exponential=True))
_INV_DIST = DistanceScore(inv_dist, SquareForm(_inverse, lambda inverse, *, power, epsilon: inverse.square().neg_()))
_GAUSSIAN = DistanceScore(
    gaussian,
    SquareForm(
        lambda sq_dist, *, sigma_squared: sq_dist.div_(-sigma_squared).exp_(),
        lambda score, *, sigma_squared: score / -sigma_squared,
    ),
)

# The ranges are those in which scores and their gradients stay within float32.
_POWER = Parameter(
    "power", 2.0, symbol="p", help="Power p of the distance.", minimum=0.0, exclusive=True, maximum=1e12, special=(2.0,)
)
_SCALE = Parameter(
    "scale", "features", symbol="1/√", help="Count whose square root divides x·k.", choices=("features", "prototypes")
)
_TEMPERATURE = Parameter("temperature", 1.0, symbol="T", help="Divisor of the cosine.", minimum=1e-12, maximum=1e12)
_SIGMA_SQUARED = Parameter("sigma_squared", 2.0, symbol="σ²", help="σ² of the Gaussian.", minimum=1e-12, maximum=1e12)
_EPSILON = Parameter("epsilon", 1e-3, symbol="ε", help="ε, added to the distance.", minimum=0.0, special=(0.0,))

BUILT_IN_METHODS = (
    Method("fc_relu", "x·k", dot, "kaiming", "relu"),
    Method("scaled_dot", "x·k / √features, or x·k / √prototypes", scaled_dot, "kaiming", parameters=(_SCALE,)),
    Method("cosine", "x·k / (‖x‖ ‖k‖ temperature)", cosine, "kaiming", parameters=(_TEMPERATURE,)),
    Method("neg_dist", "−d^p", DistanceScore(neg_dist), parameters=(_POWER,)),
    Method("gaussian", "exp(−d²/σ²)", _GAUSSIAN, parameters=(_SIGMA_SQUARED,)),
    Method("inv_dist", "1/(ε + d^p)", _INV_DIST, parameters=(_POWER, _EPSILON)),
    Method("idw", "−log(ε + d^p)", idw, parameters=(_POWER, _EPSILON)),
)

# In the order of tables; plugins come after the built-in methods.
METHODS: dict[str, Method] = {method.name: method for method in BUILT_IN_METHODS}
_finders: list[Callable[[], object]] = []


def register_method(method: Method) -> None:
    """Add a method to the registry.

    Raises:
        ConfigError: another method already has that name.
    """
    present = METHODS.get(method.name)
    if present is not None and present.sha256 != method.sha256:
        raise ConfigError(f"method '{method.name}' is already registered")
    METHODS[method.name] = method


def find_unknown_methods(finder: Callable[[], object]) -> None:
    """Call `finder` to register further methods when a name is not found."""
    _finders.append(finder)


def get_method(name: str) -> Method:
    """Return the method of that name.

    Raises:
        ConfigError: unknown method.
    """
    while name not in METHODS and _finders:
        _finders.pop()()
    return find_record(METHODS, name, "method")


def all_parameters() -> dict[str, Parameter]:
    """Return the parameters of all registered methods by name."""
    return {parameter.name: parameter for method in METHODS.values() for parameter in method.parameters}
