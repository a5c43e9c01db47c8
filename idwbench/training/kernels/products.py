"""Similarities and gradients of large batches by matrix products, and by differences for near pairs.

‖x − k‖² = ‖x‖² + ‖k‖² − 2 x·k loses digits near a key: its relative error is at most about (features + 4)·u·s/d² with
u = 2⁻²⁴ and s = ‖x‖² + ‖k‖², in practice √features instead of features. Pairs with d² < s/8 are therefore computed by
differences, here and in the gradient c·(k − x) = c·k − c·x. If they are more than an eighth, all pairs of a batch are.
The products are those of one thread of BLAS, or of a team of threads that each compute some rows; see `team`.
"""

import numpy as np

from idwbench.training.kernels.denormals import flush_denormals, restore_denormals
from idwbench.training.kernels.jit import entry_kernel, kernel
from idwbench.training.kernels.scores import SQ_DIST, Score
from idwbench.training.kernels.scratch import Scratch
from idwbench.training.kernels.similarities import Matrix, fill_sq_dist
from idwbench.training.kernels.team import (
    GRADIENT,
    SIMILARITIES,
    STOP,
    begin,
    finish,
    job_done,
    share,
    shares,
    team_of,
    wait_for_job,
)

__all__ = ["fill_by_products", "fill_gradient_by_products", "work_in_team"]

ZERO = np.float32(0.0)
TWO = np.float32(2.0)
# Below this share of ‖x‖² + ‖k‖² a squared distance is near.
NEAR = np.float32(0.125)


@kernel
def fill_by_products(score: Score, n_inputs: int, keys: Matrix, scratch: Scratch) -> int:
    """Fill `scratch.similarities`, and `near_pairs` of distances; return their number, −1 if they are too many."""
    inputs, similarities = scratch.inputs[:n_inputs], scratch.similarities[:n_inputs]
    _fill_products(n_inputs, keys, scratch)
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
    _fill_gradient(n_inputs, scratch)
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


@kernel
def _fill_products(n_inputs: int, keys: Matrix, scratch: Scratch) -> None:
    """Fill x·k, in `similarities`."""
    if shares(team_of(scratch.labels), n_inputs, keys.shape[0], keys.shape[1]):
        begin(team_of(scratch.labels), SIMILARITIES, n_inputs)
        _fill_share_of_products(0, n_inputs, keys, scratch)
        finish(team_of(scratch.labels))
    else:
        np.dot(scratch.inputs[:n_inputs], keys.T, scratch.similarities[:n_inputs])


@kernel
def _fill_gradient(n_inputs: int, scratch: Scratch) -> None:
    """Fill Σ_b c_bp x_b, in `key_gradients`."""
    gradient = scratch.key_gradients
    if shares(team_of(scratch.labels), n_inputs, gradient.shape[0], gradient.shape[1]):
        begin(team_of(scratch.labels), GRADIENT, n_inputs)
        _fill_share_of_gradient(0, n_inputs, scratch)
        finish(team_of(scratch.labels))
    else:
        np.dot(scratch.coefficients[:n_inputs].T, scratch.inputs[:n_inputs], gradient)


@kernel
def _fill_share_of_products(member: int, n_inputs: int, keys: Matrix, scratch: Scratch) -> None:
    first, last = share(team_of(scratch.labels), member, n_inputs)
    if first < last:
        np.dot(scratch.inputs[first:last], keys.T, scratch.similarities[first:last])


@kernel
def _fill_share_of_gradient(member: int, n_inputs: int, scratch: Scratch) -> None:
    first, last = share(team_of(scratch.labels), member, scratch.key_gradients.shape[0])
    if first < last:
        # A product takes whole rows: those of the share's columns are copied. Similarities are no longer needed.
        n, similarities = last - first, scratch.similarities.ravel()
        coefficients = similarities[n_inputs * first : n_inputs * last].reshape((n_inputs, n))
        for b in range(n_inputs):
            for p in range(n):
                coefficients[b, p] = scratch.coefficients[b, first + p]
        np.dot(coefficients.T, scratch.inputs[:n_inputs], scratch.key_gradients[first:last])


@entry_kernel
def work_in_team(member: int, keys: Matrix, scratch: Scratch) -> None:
    """Compute the shares of a member in the products of a training, until its end."""
    control_word = flush_denormals()
    while True:
        job, n_inputs = wait_for_job(team_of(scratch.labels), member)
        if job == STOP:
            break
        if job == SIMILARITIES:
            _fill_share_of_products(member, n_inputs, keys, scratch)
        elif job == GRADIENT:
            _fill_share_of_gradient(member, n_inputs, scratch)
        job_done(team_of(scratch.labels))
    restore_denormals(control_word)
