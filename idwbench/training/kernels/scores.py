"""Scores in kernels: the value and the derivative of each formula.

A score is a formula of a *similarity*: x·k, the cosine x·k/(‖x‖ ‖k‖), or d² = ‖x − k‖². A new formula needs a code, a
branch in `fill_scores` and a record in `KERNEL_SCORES`. Formulas are those of `idwbench.attention.scores`.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from idwbench.attention.records import ParameterValue
from idwbench.attention.scores import get_method
from idwbench.runs.kinds.prototypes import PrototypesConfig
from idwbench.training.kernels.elementary import exp32, log32
from idwbench.training.kernels.jit import exact_kernel, inlined_kernel, kernel

__all__ = ["COSINE", "DOT", "KERNEL_SCORES", "SQ_DIST", "KernelScore", "Score", "Vector", "fill_scores", "kernel_score"]

Vector = NDArray[np.float32]
Parameters = Mapping[str, ParameterValue]
Pack = Callable[[Parameters, int, int], tuple[float, float]]

# Similarities.
DOT, COSINE, SQ_DIST = range(3)
# Formulas of a similarity.
LINEAR, NEG_DIST, GAUSSIAN, INV_DIST, IDW = range(5)

ZERO = np.float32(0.0)
ONE = np.float32(1.0)
TWO = np.float32(2.0)
HALF = np.float32(0.5)
INFINITY = np.float32(np.inf)
SMALLEST_NORMAL = float(np.finfo(np.float32).smallest_normal)
# Up to this d² an input hits a key: d and its gradient are 0.
HIT_SQ_DIST = np.float32(1e-24)
# Above log 1e9 exp is continued by its tangent.
EXP_BOUND = np.float32(20.7232658369)
LARGEST_EXP = np.float32(1e9)
SMALLEST_PLAIN = np.float32(1e-9)


class Score(NamedTuple):
    """The score of a run for kernels.

    Attributes:
        similarity: `DOT`, `COSINE` or `SQ_DIST`.
        formula: `LINEAR`, `NEG_DIST`, `GAUSSIAN`, `INV_DIST` or `IDW`.
        relu: Whether weights are relu(scores) instead of softmax.
        first: The factor of `LINEAR`, 1/σ² of `GAUSSIAN`, or the power p.
        second: ε, or unused.
    """

    similarity: int
    formula: int
    relu: bool
    first: np.float32
    second: np.float32


class KernelScore(NamedTuple):
    """The record of one method; ``pack(parameters, n_prototypes, n_features)`` returns the numbers of `Score`."""

    similarity: int
    formula: int
    pack: Pack


def _pack_one(parameters: Parameters, n_prototypes: int, n_features: int) -> tuple[float, float]:
    return 1.0, 0.0


def _pack_scale(parameters: Parameters, n_prototypes: int, n_features: int) -> tuple[float, float]:
    return 1 / math.sqrt(n_features if parameters["scale"] == "features" else n_prototypes), 0.0


def _pack_inverse(name: str) -> Pack:
    return lambda parameters, n_prototypes, n_features: (1 / float(parameters[name]), 0.0)


def _pack_power(parameters: Parameters, n_prototypes: int, n_features: int) -> tuple[float, float]:
    epsilon = float(parameters.get("epsilon", 0.0))
    # Denormal numbers are flushed to zero, and ε = 0 has another formula.
    return float(parameters["power"]), max(epsilon, SMALLEST_NORMAL) if epsilon > 0 else 0.0


KERNEL_SCORES = {
    "fc_relu": KernelScore(DOT, LINEAR, _pack_one),
    "scaled_dot": KernelScore(DOT, LINEAR, _pack_scale),
    "cosine": KernelScore(COSINE, LINEAR, _pack_inverse("temperature")),
    "neg_dist": KernelScore(SQ_DIST, NEG_DIST, _pack_power),
    "gaussian": KernelScore(SQ_DIST, GAUSSIAN, _pack_inverse("sigma_squared")),
    "inv_dist": KernelScore(SQ_DIST, INV_DIST, _pack_power),
    "idw": KernelScore(SQ_DIST, IDW, _pack_power),
}


def kernel_score(model: PrototypesConfig, n_features: int) -> Score:
    """Return the score of a model for kernels."""
    record = KERNEL_SCORES[model.method]
    first, second = record.pack(model.parameters, model.prototypes, n_features)
    relu = get_method(model.method).weighting == "relu"
    return Score(record.similarity, record.formula, relu, np.float32(first), np.float32(second))


@inlined_kernel
def fill_scores(score: Score, similarities: Vector, scores: Vector, derivatives: Vector) -> None:
    """Fill the score of each similarity, and its derivative with respect to the similarity."""
    if score.formula == LINEAR:
        for i in range(len(similarities)):
            scores[i] = score.first * similarities[i]
            derivatives[i] = score.first
    elif score.formula == NEG_DIST:
        _fill_neg_dist(similarities, score.first, scores, derivatives)
    elif score.formula == GAUSSIAN:
        _fill_gaussian(similarities, score.first, scores, derivatives)
    elif score.formula == INV_DIST and score.first == TWO:
        _fill_inverse_squares(similarities, score.second, scores, derivatives)
    else:
        _fill_log_inverses(similarities, score.first, score.second, scores, derivatives)
        if score.formula == INV_DIST:
            _take_bounded_exp(scores, derivatives)


@kernel
def _fill_neg_dist(sq_dist: Vector, power: np.float32, scores: Vector, derivatives: Vector) -> None:
    """−d^p, continued by its tangent in p·log d above 1e9; −d² has no bound."""
    if power == TWO:
        for i in range(len(sq_dist)):
            scores[i] = -sq_dist[i]
            derivatives[i] = -ONE
        return
    half_power = HALF * power
    for i in range(len(sq_dist)):
        hit = sq_dist[i] <= HIT_SQ_DIST
        square = ONE if hit else sq_dist[i]
        exponent = half_power * log32(square)
        height = exp32(exponent if exponent < EXP_BOUND else EXP_BOUND)
        excess = exponent - EXP_BOUND
        score = -height * (ONE + (excess if excess > ZERO else ZERO))
        scores[i] = ZERO if hit else score
        derivatives[i] = ZERO if hit else -height * half_power / square


@kernel
def _fill_gaussian(sq_dist: Vector, inverse_variance: np.float32, scores: Vector, derivatives: Vector) -> None:
    """exp(−d²/σ²)."""
    for i in range(len(sq_dist)):
        height = exp32(-sq_dist[i] * inverse_variance)
        scores[i] = height
        derivatives[i] = -height * inverse_variance


@exact_kernel
def _fill_inverse_squares(sq_dist: Vector, epsilon: np.float32, scores: Vector, derivatives: Vector) -> None:
    """1/(ε + d²), continued by the tangent of exp(−log(ε + d²)) above 1e9; +∞ for a hit with ε = 0."""
    for i in range(len(sq_dist)):
        total = epsilon + (ZERO if sq_dist[i] <= HIT_SQ_DIST else sq_dist[i])
        hit = total == ZERO
        inverse = ONE / (ONE if hit else total)
        plain = total >= SMALLEST_PLAIN
        beyond = LARGEST_EXP * (ONE - log32(ONE if hit else total) - EXP_BOUND)
        score = inverse if plain else beyond
        scores[i] = INFINITY if hit else score
        derivatives[i] = ZERO if hit else -inverse * (inverse if plain else LARGEST_EXP)


@exact_kernel
def _fill_log_inverses(
    sq_dist: Vector, power: np.float32, epsilon: np.float32, scores: Vector, derivatives: Vector
) -> None:
    """−log(ε + d^p) = −logaddexp(log ε, p·log d); +∞ for a hit with ε = 0."""
    if power == TWO and epsilon > ZERO:
        for i in range(len(sq_dist)):
            total = epsilon + sq_dist[i]
            scores[i] = -log32(total)
            derivatives[i] = -ONE / total
        return
    log_epsilon = np.float32(np.log(epsilon)) if epsilon > ZERO else -INFINITY
    half_power = HALF * power
    for i in range(len(sq_dist)):
        hit = sq_dist[i] <= HIT_SQ_DIST
        square = ONE if hit else sq_dist[i]
        log_power = half_power * log32(square)
        gap = log_power - log_epsilon
        far = gap > ZERO
        ratio = exp32(-gap if far else gap)
        larger = log_power if far else log_epsilon
        scores[i] = -log_epsilon if hit else -(larger + log32(ONE + ratio))
        share = (ONE if far else ratio) / (ONE + ratio)
        derivatives[i] = ZERO if hit else -half_power / square * share


@kernel
def _take_bounded_exp(scores: Vector, derivatives: Vector) -> None:
    """Replace scores by exp(scores), above log 1e9 by its tangent, and update derivatives."""
    for i in range(len(scores)):
        exponent = scores[i]
        height = exp32(exponent if exponent < EXP_BOUND else EXP_BOUND)
        excess = exponent - EXP_BOUND
        scores[i] = height * (ONE + (excess if excess > ZERO else ZERO))
        derivatives[i] *= height
