"""The scores: formula, function and parameters of each in one record, and the registry of methods.

Each function takes NumPy arrays and tensors alike; exported NumPy modules hold its source, and exported ONNX graphs are
recorded from it, so it uses only what `idwbench.exports.onnx_graph` can record. Derivatives of tensors are finite:
masked arguments avoid 0 · ∞.

Shapes: inputs (…, batch, features), keys (…, prototypes, features), squared distances and scores (…, batch,
prototypes). Leading axes stack runs. A score of the distance alone is a function of d². A numeric parameter is a
number, or a tensor that broadcasts against the scores and holds no special value (`Parameter.special`). Torch and NumPy
are imported by the first call, since planning and reports do not need them.

Powers of distances are computed as exp(p·log d), so that they do not overflow before a logarithm. An input nearer than
1e-12 to a key *hits* it: then d² and its gradient are 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from idwbench.attention.records import LearnedArray, Method, Parameter, Weighting, find_record
from idwbench.attention.weightings import get_weighting
from idwbench.errors import ConfigError

__all__ = [
    "BUILT_IN_METHODS",
    "EXP_BOUND",
    "FINDERS",
    "HIT_SQ_DIST",
    "METHODS",
    "DistanceScore",
    "additive",
    "all_parameters",
    "array_namespace",
    "bounded_exp",
    "cosine",
    "dot",
    "gaussian",
    "get_method",
    "idw",
    "inv_dist",
    "is_number",
    "log_distance_power",
    "log_inv_dist",
    "log_patch_weight",
    "matrix_product",
    "neg_dist",
    "new_axis",
    "register_method",
    "scaled_dot",
    "unit_vectors",
]

Array = Any  # a NumPy array or a tensor
Number = Any  # a number, or a tensor of them

HIT_SQ_DIST = 1e-24
# Beyond exp(20.7) = 1e9 a softmax over float32 scores is one-hot; see `bounded_exp`.
EXP_BOUND = math.log(1e9)


@dataclass(frozen=True)
class DistanceScore:
    """A score that depends on the distance of input and key alone.

    Attributes:
        function: The function ``(squared_distances, **parameters) -> scores``.
    """

    function: Callable[..., Any]

    def __call__(self, inputs: Array, keys: Array, **parameters: Any) -> Array:
        """Return the scores of tensors of inputs and keys."""
        from idwbench.attention.distances import squared_distances

        return self.function(squared_distances(inputs, keys), **parameters)


def array_namespace(array: Array) -> Any:
    """Return the module whose functions take `array`: torch for its tensors, otherwise NumPy."""
    if hasattr(array, "requires_grad"):
        import torch

        return torch
    import numpy as np

    return np


def is_number(parameter: Number, number: float) -> bool:
    """Return whether a parameter equals `number`; a tensor never does, since special values do not share a stack."""
    return not hasattr(parameter, "requires_grad") and bool(parameter == number)


def matrix_product(left: Array, right: Array) -> Array:
    """Return left · right; for tensors see `idwbench.attention.distances.stacked_product`."""
    if hasattr(left, "requires_grad"):
        from idwbench.attention.distances import stacked_product

        return stacked_product(left, right)
    return left @ right


def new_axis(array: Array, axis: int) -> Array:
    """Return the array with one more axis, of length 1."""
    return array.unsqueeze(axis) if hasattr(array, "requires_grad") else array_namespace(array).expand_dims(array, axis)


def unit_vectors(vectors: Array) -> Array:
    """Return vectors / norm, and 0 for the zero vector, with zero gradient there."""
    xp = array_namespace(vectors)
    sq_norm = xp.sum(xp.square(vectors), axis=-1, keepdims=True)
    is_zero = sq_norm == 0.0
    return xp.where(is_zero, 0.0, vectors) / xp.sqrt(xp.where(is_zero, 1.0, sq_norm))


def dot(inputs: Array, keys: Array) -> Array:
    """Return x·k."""
    return matrix_product(inputs, keys.swapaxes(-1, -2))


def scaled_dot(inputs: Array, keys: Array, *, scale: str) -> Array:
    """Return x·k/√features (Vaswani et al. 2017, Eq. 1), or x·k/√prototypes as in the IDW authors' code."""
    prototypes, features = keys.shape[-2:]
    return dot(inputs, keys) / math.sqrt(features if scale == "features" else prototypes)


def cosine(inputs: Array, keys: Array, *, temperature: Number) -> Array:
    """Return x·k/(‖x‖ ‖k‖ temperature), 0 where a norm is 0."""
    return dot(unit_vectors(inputs), unit_vectors(keys)) / temperature


def additive(inputs: Array, keys: Array, *, form: str, query_weight: Array, key_weight: Array, vector: Array) -> Array:
    """Return vᵀ tanh(W_q x + W_k k) (Bahdanau et al. 2015), or vᵀ (W_q x + W_k k) (arXiv 2310.18805, section 2).

    In the linear form the part of the input is the same for all keys, so that a softmax over keys gives every input the
    same weights. Shapes: W_q and W_k (…, hidden, features), v (…, hidden).
    """
    xp = array_namespace(inputs)
    queries = matrix_product(inputs, query_weight.swapaxes(-1, -2))
    memory = matrix_product(keys, key_weight.swapaxes(-1, -2))
    units = new_axis(queries, -2) + new_axis(memory, -3)
    units = xp.tanh(units) if form == "tanh" else units
    return xp.sum(units * new_axis(new_axis(vector, -2), -2), axis=-1)


def log_distance_power(sq_dist: Array, power: Number) -> Array:
    """Return p·log d, −∞ for a hit."""
    xp = array_namespace(sq_dist)
    is_hit = sq_dist <= HIT_SQ_DIST
    return xp.where(is_hit, -math.inf, power * (0.5 * xp.log(xp.where(is_hit, 1.0, sq_dist))))


def bounded_exp(exponent: Array) -> Array:
    """Return exp(x) up to x = log 1e9 and its tangent beyond: monotonic, with finite values and gradients."""
    xp = array_namespace(exponent)
    is_plain = exponent <= EXP_BOUND
    tangent = math.exp(EXP_BOUND) * (1.0 + (exponent - EXP_BOUND))
    return xp.where(is_plain, xp.exp(xp.where(is_plain, exponent, EXP_BOUND)), tangent)


def neg_dist(sq_dist: Array, *, power: Number) -> Array:
    """Return −d^p (arXiv 2310.18805, section 3); with p ≠ 2, above d^p = 1e9, its tangent in p·log d."""
    return -sq_dist if is_number(power, 2.0) else -bounded_exp(log_distance_power(sq_dist, power))


def gaussian(sq_dist: Array, *, sigma_squared: Number) -> Array:
    """Return exp(−d²/σ²); the authors' code has σ² = 2."""
    xp = array_namespace(sq_dist)
    return xp.exp(-sq_dist / sigma_squared)


def inv_dist(sq_dist: Array, *, power: Number, epsilon: Number) -> Array:
    """Return 1/(ε + d^p); above 1e9 the tangent of exp(−log(ε + d^p)); +∞ for a hit with ε = 0.

    With p = 2 and up to 1e9 it is a plain reciprocal: its relative error is that of d² plus 2⁻²³. Otherwise it is the
    exponential of the score of `idw`, whose absolute error becomes a relative one.
    """
    xp = array_namespace(sq_dist)
    if not is_number(power, 2.0):
        return bounded_exp(log_inv_dist(sq_dist, power=power, epsilon=epsilon))
    if is_number(epsilon, 0.0):
        sq_dist = xp.where(sq_dist <= HIT_SQ_DIST, 0.0, sq_dist)
    total = sq_dist + epsilon
    if not hasattr(epsilon, "requires_grad") and epsilon >= 1e-9:
        return 1.0 / total
    is_plain = total >= 1e-9
    is_hit = total == 0.0
    beyond = bounded_exp(-xp.log(xp.where(is_plain | is_hit, 1.0, total)))
    return xp.where(is_plain, 1.0 / xp.where(is_plain, total, 1.0), xp.where(is_hit, math.inf, beyond))


def log_inv_dist(sq_dist: Array, *, power: Number, epsilon: Number) -> Array:
    """Return −log(ε + d^p), so that softmax weights are the normalised 1/(ε + d^p) (arXiv 2310.18805, Eq. 3-4).

    Computed as −max(a, b) − log(1 + exp(min(a, b) − max(a, b))) with a = log ε and b = p·log d, which does not
    overflow; with p = 2 as the plain form. +∞ for a hit with ε = 0; an ε between 0 and 1e-30 counts as 1e-30, so that
    gradients stay within float32. The error in float32 is at most p·δ/2 + 4u·(1 + |score| + p·|log d|), where δ is the
    relative error of d² and u = 2⁻²⁴.
    """
    xp = array_namespace(sq_dist)
    if is_number(epsilon, 0.0):
        return -log_distance_power(sq_dist, power)
    epsilon = xp.zeros((), dtype=sq_dist.dtype) + epsilon
    epsilon = xp.where(epsilon > 1e-30, epsilon, 1e-30)
    if is_number(power, 2.0):
        return -xp.log(sq_dist + epsilon)
    log_power, log_epsilon = log_distance_power(sq_dist, power), xp.log(epsilon)
    is_power = log_power > log_epsilon
    larger, smaller = xp.where(is_power, log_power, log_epsilon), xp.where(is_power, log_epsilon, log_power)
    # The last bit of torch.logaddexp depends on the position in memory, and so on the size of the stack.
    return -larger - xp.log1p(xp.exp(smaller - larger))


def log_patch_weight(sq_dist: Array, log_peak: Array, radius: Array, steepness: Array) -> Array:
    """Return log w₀ − log(1 + (d/r)^s): the score of `idw` with p = s and ε = r^s, scaled to w₀ at d = 0.

    Within the radius r the weight is at least w₀/2, and at 2r it is about w₀·2⁻ˢ. Shapes: squared distances
    (batch, patches), the others (patches,).
    """
    xp = array_namespace(sq_dist)
    exponent = log_distance_power(sq_dist, steepness) - steepness * xp.log(radius)
    return log_peak - xp.where(exponent > 0.0, exponent, 0.0) - xp.log1p(xp.exp(-xp.abs(exponent)))


idw = DistanceScore(log_inv_dist)

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
_FORM = Parameter("form", "tanh", help="Form of the additive score.", choices=("tanh", "linear"))
_HIDDEN = Parameter(
    "hidden", 16.0, help="Number of hidden units of the additive score.", minimum=1.0, maximum=1e6, whole=True
)
_WEIGHTS = tuple(LearnedArray(name, ("hidden", "features")) for name in ("query_weight", "key_weight"))

_BUILT_IN = (
    Method("fc_relu", "x·k", dot, "kaiming", "relu"),
    Method("scaled_dot", "x·k / √features, or x·k / √prototypes", scaled_dot, "kaiming", parameters=(_SCALE,)),
    Method("cosine", "x·k / (‖x‖ ‖k‖ temperature)", cosine, "kaiming", parameters=(_TEMPERATURE,)),
    Method(
        *("additive", "vᵀ tanh(W_q x + W_k k), or vᵀ (W_q x + W_k k)", additive, "kaiming"),
        parameters=(_FORM, _HIDDEN),
        labelled=("hidden",),
        learned=(*_WEIGHTS, LearnedArray("vector", ("hidden",))),
        not_scored=("hidden",),
    ),
    Method("neg_dist", "−d^p", DistanceScore(neg_dist), parameters=(_POWER,)),
    Method("gaussian", "exp(−d²/σ²)", DistanceScore(gaussian), parameters=(_SIGMA_SQUARED,)),
    Method("inv_dist", "1/(ε + d^p)", DistanceScore(inv_dist), parameters=(_POWER, _EPSILON)),
    Method("idw", "−log(ε + d^p)", idw, parameters=(_POWER, _EPSILON)),
)

# In the order of tables; plugins come after the built-in methods.
BUILT_IN_METHODS: dict[str, Method] = {method.name: method for method in _BUILT_IN}
METHODS = dict(BUILT_IN_METHODS)
# Each is called once to register further methods when a name is not found.
FINDERS: list[Callable[[], object]] = []


def register_method(method: Method) -> None:
    """Add a method to the registry.

    Raises:
        ConfigError: another method already has that name.
    """
    present = METHODS.get(method.name)
    if present is not None and present.sha256 != method.sha256:
        raise ConfigError(f"method '{method.name}' is already registered")
    METHODS[method.name] = method


def get_method(name: object, weighting: str | None = None) -> Method:
    """Return the method of that name, with another weighting than its own if one is given.

    Its parameters are then those of the score and of the weighting.

    Raises:
        ConfigError: unknown method or weighting, a weighting that compares inputs and keys itself, or one that has a
            parameter of the same name as the score.
    """
    while str(name) not in METHODS and FINDERS:
        FINDERS.pop()()
    try:
        method = find_record(METHODS, name, "method")
    except ConfigError as error:
        if not error.hint.startswith("did you mean"):
            error.hint += "; if a plugin defines it, load the plugin first"
        raise
    return method if weighting in (None, method.weighting) else _weighted(method, get_weighting(weighting))


def _weighted(method: Method, chosen: Weighting) -> Method:
    """Return a method with another weighting; raises as `get_method`."""
    if chosen.own_score is not None:
        problem = f"'{chosen.name}' compares inputs and keys itself, and no method has a part in it"
        raise ConfigError(problem, location=("weighting",), hint="choose straight_through")
    for name in (one.name for one in chosen.parameters if method.takes(one.name)):
        raise ConfigError(f"'{chosen.name}' and '{method.name}' have a parameter '{name}'", location=("weighting",))
    return replace(
        method,
        weighting=chosen.name,
        parameters=(*method.parameters, *chosen.parameters),
        not_scored=(*method.not_scored, *(one.name for one in chosen.parameters)),
    )


def all_parameters() -> dict[str, Parameter]:
    """Return the parameters of all registered methods by name."""
    return {parameter.name: parameter for method in METHODS.values() for parameter in method.parameters}
