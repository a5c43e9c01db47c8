"""Similarities x·k and squared distances d² of a batch, and the gradient of the keys through them.

Keys are stored as (prototypes, features) or, *narrow*, for few features, as (features, prototypes), so that inner loops
are long. Distances are computed by differences, since ‖x − k‖² = ‖x‖² + ‖k‖² − 2 x·k loses digits near a key: its
relative error is at most about (features + 4)·u·s/d² with u = 2⁻²⁴ and s = ‖x‖² + ‖k‖², in practice √features instead
of features. Large batches are computed by matrix products, and pairs with d² < s/8 by differences, here and in the
gradient c·(k − x) = c·k − c·x. If they are more than an eighth, all pairs of a batch are.
"""

from collections.abc import Callable

import numpy as np

from idwbench.training.kernels.jit import inlined_kernel, kernel
from idwbench.training.kernels.scores import SQ_DIST, Score
from idwbench.training.kernels.scratch import Matrix, Scratch, Vector

__all__ = [
    "distance_gradient",
    "dot_gradient",
    "fill_by_products",
    "fill_dot_products",
    "fill_gradient_by_products",
    "fill_sq_dist",
]

Term = Callable[[np.float32, np.float32], np.float32]

ZERO = np.float32(0.0)
TWO = np.float32(2.0)
# Below this share of ‖x‖² + ‖k‖² a squared distance is near.
NEAR = np.float32(0.125)
# Number of inputs in one pass over the keys; they stay in the L1 cache.
TILE = 8


@kernel
def _product(x: np.float32, k: np.float32) -> np.float32:
    return x * k


@kernel
def _sq_difference(x: np.float32, k: np.float32) -> np.float32:
    return (x - k) * (x - k)


@kernel
def _given_input(x: np.float32, k: np.float32) -> np.float32:
    return x


@kernel
def _difference(x: np.float32, k: np.float32) -> np.float32:
    return k - x


def _make_fill(term: Term) -> Callable[[Matrix, Matrix, bool, Matrix], None]:
    """Return a kernel that writes Σ_f term(x_bf, k_pf) of inputs (batch, features) and keys to (batch, prototypes)."""

    @kernel
    def fill(inputs: Matrix, keys: Matrix, narrow: bool, sums: Matrix) -> None:
        n_inputs, n_features = inputs.shape
        if narrow:
            for b in range(n_inputs):
                sums[b, :] = ZERO
                for f in range(n_features):
                    x = inputs[b, f]
                    for p in range(keys.shape[1]):
                        sums[b, p] += term(x, keys[f, p])
            return
        for tile in range(0, n_inputs, TILE):
            last = min(tile + TILE, n_inputs) - 1
            for p0 in range(0, keys.shape[0], 2):
                p1 = min(p0 + 1, keys.shape[0] - 1)
                for b0 in range(tile, last + 1, 4):
                    # Beyond the end the last input is repeated, which is faster than another loop.
                    b1, b2, b3 = min(b0 + 1, last), min(b0 + 2, last), min(b0 + 3, last)
                    s00 = s10 = s20 = s30 = s01 = s11 = s21 = s31 = ZERO
                    for f in range(n_features):
                        k0, k1 = keys[p0, f], keys[p1, f]
                        x0, x1, x2, x3 = inputs[b0, f], inputs[b1, f], inputs[b2, f], inputs[b3, f]
                        s00 += term(x0, k0)
                        s01 += term(x0, k1)
                        s10 += term(x1, k0)
                        s11 += term(x1, k1)
                        s20 += term(x2, k0)
                        s21 += term(x2, k1)
                        s30 += term(x3, k0)
                        s31 += term(x3, k1)
                    sums[b0, p0], sums[b1, p0], sums[b2, p0], sums[b3, p0] = s00, s10, s20, s30
                    sums[b0, p1], sums[b1, p1], sums[b2, p1], sums[b3, p1] = s01, s11, s21, s31

    return fill


@inlined_kernel
def _four_coefficients(
    coefficients: Matrix, p: int, b: int, last: int, used: bool
) -> tuple[np.float32, np.float32, np.float32, np.float32]:
    """Return the coefficients of key p and the four inputs from b, 0 after the last input or if not `used`."""
    return (
        coefficients[b, p] if used else ZERO,
        coefficients[b + 1, p] if used and b + 1 <= last else ZERO,
        coefficients[b + 2, p] if used and b + 2 <= last else ZERO,
        coefficients[b + 3, p] if used and b + 3 <= last else ZERO,
    )


def _make_gradient(term: Term) -> Callable[[Matrix, Matrix, bool, Matrix, Matrix], None]:
    """Return a kernel that writes Σ_b coefficient_bp · term(x_b, k_p) for all keys."""

    @kernel
    def fill_gradient(inputs: Matrix, keys: Matrix, narrow: bool, coefficients: Matrix, gradient: Matrix) -> None:
        n_inputs, n_features = inputs.shape
        gradient[:] = ZERO
        if narrow:
            for r in range(gradient.shape[0]):
                for b in range(n_inputs):
                    x = inputs[b, r]
                    for p in range(keys.shape[1]):
                        gradient[r, p] += coefficients[b, p] * term(x, keys[r, p])
            return
        last, last_row = n_inputs - 1, gradient.shape[0] - 1
        for b0 in range(0, n_inputs, 4):
            b1, b2, b3 = min(b0 + 1, last), min(b0 + 2, last), min(b0 + 3, last)
            for r in range(0, last_row + 1, 2):
                # Two rows at once use each input twice; an odd last row is paired with itself, with coefficients 0.
                s = min(r + 1, last_row)
                g0, g1, g2, g3 = _four_coefficients(coefficients, r, b0, last, True)
                h0, h1, h2, h3 = _four_coefficients(coefficients, s, b0, last, s > r)
                for f in range(n_features):
                    k, m = keys[r, f], keys[s, f]
                    x0, x1, x2, x3 = inputs[b0, f], inputs[b1, f], inputs[b2, f], inputs[b3, f]
                    gradient[r, f] += (g0 * term(x0, k) + g1 * term(x1, k)) + (g2 * term(x2, k) + g3 * term(x3, k))
                    gradient[s, f] += (h0 * term(x0, m) + h1 * term(x1, m)) + (h2 * term(x2, m) + h3 * term(x3, m))

    return fill_gradient


fill_dot_products = _make_fill(_product)
fill_sq_dist = _make_fill(_sq_difference)
dot_gradient = _make_gradient(_given_input)
# Half the gradient of d²: the coefficients include the factor 2.
distance_gradient = _make_gradient(_difference)


@kernel
def fill_by_products(score: Score, n_inputs: int, keys: Matrix, scratch: Scratch) -> int:
    """Fill `scratch.similarities`, and `near_pairs` of distances; return their number, −1 if they are too many."""
    inputs, similarities = scratch.inputs[:n_inputs], scratch.similarities[:n_inputs]
    np.dot(inputs, keys.T, similarities)
    if score.similarity != SQ_DIST:
        return 0
    _fill_sq_norms(inputs, scratch.input_norms)
    _fill_sq_norms(keys, scratch.key_norms)
    n_near = 0
    for b in range(n_inputs):
        own, n_here = scratch.input_norms[b], 0
        for p in range(keys.shape[0]):
            size = own + scratch.key_norms[p]
            similarities[b, p] = size - TWO * similarities[b, p]
            # NaN, from norms that overflow, counts as near.
            n_here += not similarities[b, p] >= NEAR * size
        if n_near + n_here > scratch.near_pairs.shape[0]:
            fill_sq_dist(inputs, keys, False, similarities)
            return -1
        if n_here > 0:
            for p in range(keys.shape[0]):
                if not similarities[b, p] >= NEAR * (own + scratch.key_norms[p]):
                    scratch.near_pairs[n_near, 0], scratch.near_pairs[n_near, 1] = b, p
                    n_near += 1
    for i in range(n_near):
        b, p = scratch.near_pairs[i, 0], scratch.near_pairs[i, 1]
        total = ZERO
        for f in range(keys.shape[1]):
            total += (inputs[b, f] - keys[p, f]) * (inputs[b, f] - keys[p, f])
        similarities[b, p] = total
    return n_near


@kernel
def fill_gradient_by_products(score: Score, n_inputs: int, n_near: int, keys: Matrix, scratch: Scratch) -> None:
    """Fill `key_gradients` without −`norm_coefficients` times the key; the coefficients are overwritten."""
    inputs, coefficients = scratch.inputs[:n_inputs], scratch.coefficients[:n_inputs]
    gradient, own = scratch.key_gradients, scratch.norm_coefficients
    for i in range(n_near):
        b, p = scratch.near_pairs[i, 0], scratch.near_pairs[i, 1]
        scratch.near_coefficients[i] = coefficients[b, p]
        coefficients[b, p] = ZERO
    if score.similarity == SQ_DIST:
        for b in range(n_inputs):
            for p in range(keys.shape[0]):
                own[p] -= coefficients[b, p]
                coefficients[b, p] = -coefficients[b, p]
    np.dot(coefficients.T, inputs, gradient)
    for i in range(n_near):
        b, p = scratch.near_pairs[i, 0], scratch.near_pairs[i, 1]
        for f in range(keys.shape[1]):
            gradient[p, f] += scratch.near_coefficients[i] * (keys[p, f] - inputs[b, f])


@kernel
def _fill_sq_norms(rows: Matrix, norms: Vector) -> None:
    for r in range(rows.shape[0]):
        total = ZERO
        for f in range(rows.shape[1]):
            total += rows[r, f] * rows[r, f]
        norms[r] = total
