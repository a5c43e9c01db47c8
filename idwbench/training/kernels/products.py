"""Similarities and gradients of large batches by matrix products, and by differences for near pairs.

‖x − k‖² = ‖x‖² + ‖k‖² − 2 x·k loses digits near a key: its relative error is at most about (features + 4)·u·s/d² with
u = 2⁻²⁴ and s = ‖x‖² + ‖k‖², in practice √features instead of features. Pairs with d² < s/8 are therefore computed by
differences, here and in the gradient c·(k − x) = c·k − c·x. If they are more than an eighth, all pairs of a batch are.
"""

import numpy as np

from idwbench.training.kernels.jit import kernel
from idwbench.training.kernels.scores import SQ_DIST, Score
from idwbench.training.kernels.scratch import Scratch
from idwbench.training.kernels.similarities import Matrix, fill_sq_dist

__all__ = ["fill_by_products", "fill_gradient_by_products"]

ZERO = np.float32(0.0)
TWO = np.float32(2.0)
# Below this share of ‖x‖² + ‖k‖² a squared distance is near.
NEAR = np.float32(0.125)


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
def _fill_sq_norms(rows: Matrix, norms: Matrix) -> None:
    for r in range(rows.shape[0]):
        total = ZERO
        for f in range(rows.shape[1]):
            total += rows[r, f] * rows[r, f]
        norms[r] = total
