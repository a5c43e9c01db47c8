"""Each score and its derivative, elementwise: from x·k, or from d² = ‖x − k‖².

A score is told to the kernels by a `Score`: a code, and two numbers whose meaning depends on it. Distances of at most
1e-12 are *hits*: the score is its value at d = 0 and its derivative is 0. These are the formulas of `idwbench.scores`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from idwbench.engine.kernels.elementary import exp32, log32
from idwbench.engine.kernels.jit import kernel, spliced_kernel

__all__ = ["CODES", "COSINE", "FIRST_DISTANCE", "RELU", "Score", "Vector", "fill_scores"]

Vector = NDArray[np.float32]

RELU, PRODUCT, COSINE, NEG_DIST, GAUSSIAN, INV_DIST, IDW = range(7)
# Codes from here on measure d², those below x·k.
FIRST_DISTANCE = NEG_DIST
CODES = {
    "fc_relu": RELU,
    "scaled_dot": PRODUCT,
    "cosine": COSINE,
    "neg_dist": NEG_DIST,
    "gaussian": GAUSSIAN,
    "inv_dist": INV_DIST,
    "idw": IDW,
}

ZERO = np.float32(0.0)
ONE = np.float32(1.0)
TWO = np.float32(2.0)
HALF = np.float32(0.5)
INFINITY = np.float32(np.inf)
HIT_SQ_DIST = np.float32(1e-24)
# exp is replaced by its tangent above log 1e9: finite, in order, with finite gradients.
EXP_BOUND = np.float32(20.7232658369)
LARGEST_EXP = np.float32(1e9)


class Score(NamedTuple):
    """A score as kernels know it.

    Attributes:
        code: One of `CODES`.
        first: The factor of x·k (fc_relu, scaled_dot, cosine), 1/σ² (gaussian), or the power.
        second: ε (inv_dist, idw), or unused.
    """

    code: int
    first: np.float32
    second: np.float32


@spliced_kernel
def fill_scores(score: Score, measures: Vector, values: Vector, slopes: Vector) -> None:
    """Write the score of each measure and its derivative by that measure.

    Args:
        score: Which one.
        measures: x·k (already x·k/(‖x‖ ‖k‖) for cosine) or d², of any length.
        values: Out, the scores.
        slopes: Out, the derivatives.
    """
    if score.code < FIRST_DISTANCE:
        for i in range(len(measures)):
            values[i] = score.first * measures[i]
            slopes[i] = score.first
    elif score.code == NEG_DIST:
        _negative_distances(measures, score.first, values, slopes)
    elif score.code == GAUSSIAN:
        for i in range(len(measures)):
            height = exp32(-measures[i] * score.first)
            values[i] = height
            slopes[i] = ZERO if measures[i] <= HIT_SQ_DIST else -height * score.first
    else:
        _log_inverses(measures, score.first, score.second, values, slopes)
        if score.code == INV_DIST:
            _bounded_exps(values, slopes)


@kernel
def _negative_distances(measures: Vector, power: np.float32, values: Vector, slopes: Vector) -> None:
    """−d^p; p = 2 needs no logarithm below the bound and would lose half its digits by it."""
    half_power = HALF * power
    for i in range(len(measures)):
        hit = measures[i] <= HIT_SQ_DIST
        sq_dist = ONE if hit else measures[i]
        exponent = half_power * log32(sq_dist)
        height = exp32(exponent if exponent < EXP_BOUND else EXP_BOUND)
        height = sq_dist if power == TWO and sq_dist < LARGEST_EXP else height
        excess = exponent - EXP_BOUND
        value = -height * (ONE + (excess if excess > ZERO else ZERO))
        values[i] = ZERO if hit else value
        slopes[i] = ZERO if hit else -height * half_power / sq_dist


@kernel
def _log_inverses(measures: Vector, power: np.float32, epsilon: np.float32, values: Vector, slopes: Vector) -> None:
    """−log(ε + d^p) = −logaddexp(log ε, p·log d); p = 2 needs no logarithm of d."""
    log_epsilon = np.float32(np.log(epsilon)) if epsilon > ZERO else -INFINITY
    if power == TWO:
        for i in range(len(measures)):
            hit = measures[i] <= HIT_SQ_DIST
            total = epsilon + (ONE if hit else measures[i])
            values[i] = -log_epsilon if hit else -log32(total)
            slopes[i] = ZERO if hit else -ONE / total
        return
    half_power = HALF * power
    for i in range(len(measures)):
        hit = measures[i] <= HIT_SQ_DIST
        sq_dist = ONE if hit else measures[i]
        log_power = half_power * log32(sq_dist)
        gap = log_power - log_epsilon
        far = gap > ZERO
        ratio = exp32(-gap if far else gap)
        larger = log_power if far else log_epsilon
        values[i] = -log_epsilon if hit else -(larger + log32(ONE + ratio))
        share = (ONE if far else ratio) / (ONE + ratio)
        slopes[i] = ZERO if hit else -half_power / sq_dist * share


@kernel
def _bounded_exps(values: Vector, slopes: Vector) -> None:
    for i in range(len(values)):
        exponent = values[i]
        height = exp32(exponent if exponent < EXP_BOUND else EXP_BOUND)
        excess = exponent - EXP_BOUND
        values[i] = height * (ONE + (excess if excess > ZERO else ZERO))
        slopes[i] *= height
