"""Scores in kernels: the value and the derivative of each formula.

A score is a formula of a *similarity*: x·k, the cosine x·k/(‖x‖ ‖k‖), or d² = ‖x − k‖². A new formula needs a code, a
branch in `fill_scores` and an entry in `KERNEL_SCORES`. Formulas are those of `idwbench.attention.scores`.
`exp32` and `log32` have no branches, so that loops can be vectorised; their error is at most 2 ulp.
"""

import math
from typing import NamedTuple

import numpy as np

from idwbench.attention import scores as formulas
from idwbench.runs.kinds.prototypes import PrototypesConfig
from idwbench.training.kernels.jit import exact_kernel, inlined_kernel, kernel
from idwbench.training.kernels.scratch import Vector

__all__ = [
    "COSINE",
    "DOT",
    "KERNEL_SCORES",
    "SQ_DIST",
    "Score",
    "exp32",
    "fill_scores",
    "kernel_score",
    "log32",
]

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
HIT_SQ_DIST, EXP_BOUND = np.float32(formulas.HIT_SQ_DIST), np.float32(formulas.EXP_BOUND)
LARGEST_EXP = np.float32(1e9)
SMALLEST_PLAIN = np.float32(1e-9)
LOG2_E = np.float32(1.44269504)
# ln 2, and the same in two parts whose products with small integers are exact.
LN_2 = np.float32(0.693147181)
LN_2_HIGH = np.float32(0.693359375)
LN_2_LOW = np.float32(-2.12194440e-4)
# Adding and subtracting 1.5·2²³ rounds to the nearest integer.
ROUNDER = np.float32(12582912.0)
SMALLEST = np.float32(-87.0)
LARGEST = np.float32(88.0)
# The remainder of exp beyond 1 + r + r²·(...), and of log beyond f − f²/2 + f³·(...): Cephes' minimax coefficients.
EXP_5, EXP_4, EXP_3, EXP_2, EXP_1, EXP_0 = (
    np.float32(c) for c in (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 0.5)
)
LOG_8, LOG_7, LOG_6, LOG_5, LOG_4, LOG_3, LOG_2, LOG_1, LOG_0 = (
    np.float32(c)
    for c in (
        7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
        -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
    )
)  # fmt: skip
SQRT_HALF_BITS = np.int32(0x3F3504F3)


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


# Similarity and formula of each method.
KERNEL_SCORES = {
    "fc_relu": (DOT, LINEAR),
    "scaled_dot": (DOT, LINEAR),
    "cosine": (COSINE, LINEAR),
    "neg_dist": (SQ_DIST, NEG_DIST),
    "gaussian": (SQ_DIST, GAUSSIAN),
    "inv_dist": (SQ_DIST, INV_DIST),
    "idw": (SQ_DIST, IDW),
}


def kernel_score(model: PrototypesConfig, n_features: int) -> Score:
    """Return the score of a model for kernels."""
    parameters = model.parameters
    if "scale" in parameters:
        first = 1 / math.sqrt(n_features if parameters["scale"] == "features" else model.prototypes)
    elif "power" in parameters:
        first = float(parameters["power"])
    else:
        first = 1 / float(parameters.get("temperature", parameters.get("sigma_squared", 1.0)))
    epsilon = float(parameters.get("epsilon", 0.0))
    # Denormal numbers are flushed to zero, and ε = 0 has another formula.
    second = max(epsilon, SMALLEST_NORMAL) if epsilon > 0 else 0.0
    relu = formulas.get_method(model.method).weighting == "relu"
    return Score(*KERNEL_SCORES[model.method], relu, np.float32(first), np.float32(second))


@exact_kernel
def exp32(x: np.float32) -> np.float32:
    """Return eˣ; 0 below −87, +∞ above 88, NaN for NaN."""
    bounded = x if x > SMALLEST else SMALLEST
    bounded = bounded if bounded < LARGEST else LARGEST
    n = (bounded * LOG2_E + ROUNDER) - ROUNDER
    r = (bounded - n * LN_2_HIGH) - n * LN_2_LOW
    p = ((((EXP_5 * r + EXP_4) * r + EXP_3) * r + EXP_2) * r + EXP_1) * r + EXP_0
    power_of_two = np.int32((np.int32(n) + 127) << 23).view(np.float32)
    result = (p * (r * r) + r + ONE) * power_of_two
    result = np.float32(0.0) if x < SMALLEST else result
    result = INFINITY if x > LARGEST else result
    return result if x == x else x


@exact_kernel
def log32(x: np.float32) -> np.float32:
    """Return ln x of a positive normal number; +∞ for +∞ and NaN for NaN."""
    bits = np.float32(x).view(np.int32)
    exponent = np.int32((bits - SQRT_HALF_BITS) >> 23)
    f = np.int32(bits - (exponent << 23)).view(np.float32) - ONE
    p = LOG_8
    p = ((((p * f + LOG_7) * f + LOG_6) * f + LOG_5) * f + LOG_4) * f + LOG_3
    p = ((p * f + LOG_2) * f + LOG_1) * f + LOG_0
    square = f * f
    result = p * f * square - HALF * square + f + np.float32(exponent) * LN_2
    return result if x < INFINITY else x


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
