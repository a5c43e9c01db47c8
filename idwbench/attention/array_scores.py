"""The built-in scores and their weightings in plain NumPy, in float64; the formulas of `idwbench.attention.scores`.

Exported NumPy modules hold the source of these functions, and exported ONNX graphs are recorded from them. They use
only what `idwbench.exports.onnx_graph` can record.

Shapes: inputs (n, features), keys (prototypes, features), squared distances, scores and weights (n, prototypes).
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ARRAY_METHODS",
    "DISTANCE_SCORES",
    "EXP_BOUND",
    "HIT_SQ_DIST",
    "PRODUCT_SCORES",
    "bounded_exp",
    "cosine",
    "dot",
    "gaussian",
    "idw",
    "inv_dist",
    "log_distance_power",
    "neg_dist",
    "relu",
    "scaled_dot",
    "shared_by_hits",
    "softmax",
    "squared_distances",
    "unit_vectors",
]

Array = NDArray[np.float64]

HIT_SQ_DIST = 1e-24  # an input nearer than 1e-12 to a key hits it
EXP_BOUND = math.log(1e9)  # beyond it a softmax over float32 scores is one-hot


def squared_distances(inputs: Array, keys: Array) -> Array:
    """Return d² = Σ (x − k)², by differences, which are exact near a key."""
    squares: Array = np.sum(np.square(np.expand_dims(inputs, 1) - keys), axis=-1)
    return squares


def log_distance_power(sq_dist: Array, power: float) -> Array:
    """Return p·log d, −∞ for a hit."""
    is_hit = sq_dist <= HIT_SQ_DIST
    return np.where(is_hit, -np.inf, power / 2 * np.log(np.where(is_hit, 1.0, sq_dist)))


def bounded_exp(exponent: Array) -> Array:
    """Return exp(x) up to x = log 1e9 and its tangent beyond."""
    tangent = math.exp(EXP_BOUND) * (exponent - EXP_BOUND + 1.0)
    return np.where(exponent <= EXP_BOUND, np.exp(np.minimum(exponent, EXP_BOUND)), tangent)


def unit_vectors(vectors: Array) -> Array:
    """Return vectors / norm, and 0 for the zero vector."""
    sq_norm = np.sum(np.square(vectors), axis=-1, keepdims=True)
    unit: Array = vectors / np.sqrt(np.where(sq_norm > 0.0, sq_norm, 1.0))
    return unit


def dot(inputs: Array, keys: Array) -> Array:
    """Return x·k."""
    product: Array = inputs @ keys.T
    return product


def scaled_dot(inputs: Array, keys: Array, *, scale: str) -> Array:
    """Return x·k/√features, or x·k/√prototypes."""
    prototypes, features = keys.shape
    return dot(inputs, keys) / math.sqrt(features if scale == "features" else prototypes)


def cosine(inputs: Array, keys: Array, *, temperature: float) -> Array:
    """Return x·k/(‖x‖ ‖k‖ temperature), 0 where a norm is 0."""
    return dot(unit_vectors(inputs), unit_vectors(keys)) / temperature


def neg_dist(sq_dist: Array, *, power: float) -> Array:
    """Return −d^p; with p ≠ 2, above d^p = 1e9, its tangent in p·log d."""
    return -sq_dist if power == 2 else -bounded_exp(log_distance_power(sq_dist, power))


def gaussian(sq_dist: Array, *, sigma_squared: float) -> Array:
    """Return exp(−d²/σ²)."""
    return np.exp(-sq_dist / sigma_squared)


def inv_dist(sq_dist: Array, *, power: float, epsilon: float) -> Array:
    """Return 1/(ε + d^p); above 1e9 the tangent of exp(−log(ε + d^p)); +∞ for a hit with ε = 0."""
    if power == 2 and epsilon > 0:
        return 1.0 / (sq_dist + epsilon) if epsilon >= 1e-9 else bounded_exp(-np.log(sq_dist + epsilon))
    return bounded_exp(idw(sq_dist, power=power, epsilon=epsilon))


def idw(sq_dist: Array, *, power: float, epsilon: float) -> Array:
    """Return −log(ε + d^p), without the overflow of d^p; +∞ for a hit with ε = 0."""
    if epsilon == 0:
        return -log_distance_power(sq_dist, power)
    epsilon = max(epsilon, 1e-30)
    if power == 2:
        return -np.log(sq_dist + epsilon)
    log_power, log_epsilon = log_distance_power(sq_dist, power), math.log(epsilon)
    return -np.maximum(log_power, log_epsilon) - np.log(1.0 + np.exp(-np.abs(log_power - log_epsilon)))


def softmax(scores: Array) -> Array:
    """Return exp(s) / Σ exp(s) over prototypes."""
    terms = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    weights: Array = terms / np.sum(terms, axis=-1, keepdims=True)
    return weights


def shared_by_hits(scores: Array) -> Array:
    """Return the softmax; keys that the input hits, whose score is +∞, share the weight equally."""
    hits = np.where(scores == np.inf, 1.0, 0.0)
    n_hits = np.sum(hits, axis=-1, keepdims=True)
    return np.where(n_hits > 0.0, hits / np.maximum(n_hits, 1.0), softmax(np.where(n_hits > 0.0, 0.0, scores)))


def relu(scores: Array) -> Array:
    """Return max(0, s)."""
    return np.maximum(scores, 0.0)


# The scores by the name of their method: functions of squared distances, and of inputs and keys.
DISTANCE_SCORES: dict[str, Callable[..., Array]] = {
    "neg_dist": neg_dist,
    "gaussian": gaussian,
    "inv_dist": inv_dist,
    "idw": idw,
}
PRODUCT_SCORES: dict[str, Callable[..., Array]] = {"fc_relu": dot, "scaled_dot": scaled_dot, "cosine": cosine}
ARRAY_METHODS = (*PRODUCT_SCORES, *DISTANCE_SCORES)
