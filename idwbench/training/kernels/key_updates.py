"""The update of the keys by the coefficients of a batch; see `similarities` for their layout."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from idwbench.training.kernels.jit import inlined_kernel, kernel
from idwbench.training.kernels.products import fill_gradient_by_products
from idwbench.training.kernels.scores import COSINE, SQ_DIST, Score
from idwbench.training.kernels.scratch import Matrix, Scratch, Vector
from idwbench.training.kernels.similarities import (
    Term,
    difference,
    distance_gradient,
    dot_gradient,
    four_coefficients,
    given_input,
)
from idwbench.training.kernels.updates import (
    KEY_ROWS,
    SGD,
    Optimizer,
    Step,
    adam_step,
    clip_gradients,
    clips,
    sgd_step,
    update_all,
)

__all__ = ["update_keys"]

Coefficients = tuple[np.float32, np.float32, np.float32, np.float32]

ZERO = np.float32(0.0)
ONE = np.float32(1.0)


@inlined_kernel
def update_keys(
    score: Score,
    optimizer: Optimizer,
    n: int,
    n_near: int,
    state: NDArray[np.float32],
    narrow: bool,
    scratch: Scratch,
    step: Step,
) -> None:
    """Update keys with the coefficients of n inputs in `scratch`, clipped together with the gradient of the values.

    `n_near` is the result of `fill_similarities`.
    """
    by_products = scratch.by_products and n_near >= 0
    if narrow or by_products or clips(optimizer):
        rows = scratch.key_gradients
        if by_products:
            fill_gradient_by_products(score, n, n_near, state[0], scratch)
        else:
            _fill_gradient(score, scratch.inputs[:n], state[0], narrow, 0, scratch.coefficients, rows)
        if by_products or score.similarity == COSINE:
            for r in range(rows.shape[0]):
                for j in range(rows.shape[1]):
                    rows[r, j] -= scratch.norm_coefficients[j if narrow else r] * state[0, r, j]
        clip_gradients(optimizer, rows, scratch.value_gradients)
        update_all(optimizer, state, rows, step)
    else:
        _update_rows(score, optimizer, n, state, scratch, step)


@kernel
def _fill_gradient(
    score: Score, inputs: Matrix, keys: Matrix, narrow: bool, first: int, coefficients: Matrix, rows: Matrix
) -> None:
    if score.similarity == SQ_DIST:
        distance_gradient(inputs, keys, narrow, first, coefficients, rows)
    else:
        dot_gradient(inputs, keys, narrow, first, coefficients, rows)


@kernel
def _update_rows(
    score: Score, optimizer: Optimizer, n: int, state: NDArray[np.float32], scratch: Scratch, step: Step
) -> None:
    """Update some rows at a time; the last four inputs are added to the gradient in the same pass as the update."""
    last, n_before, keys = n - 1, (n - 1) // 4 * 4, state[0]
    n_rows = min(scratch.key_gradients.shape[0], KEY_ROWS)
    scratch.key_gradients[0, :] = ZERO
    for first in range(0, keys.shape[0], n_rows):
        rows = scratch.key_gradients[: min(n_rows, keys.shape[0] - first)]
        if n_before > 0:
            _fill_gradient(score, scratch.inputs[:n_before], keys, False, first, scratch.coefficients, rows)
        for r in range(rows.shape[0]):
            p, own = first + r, step.decay
            if score.similarity == COSINE:
                own -= scratch.norm_coefficients[p]
            coefficients = four_coefficients(scratch.coefficients, p, n_before, last, True)
            if n_before == 0 and own == ZERO and optimizer.code != SGD:
                if score.similarity == SQ_DIST:
                    _update_by_distances(last, scratch.inputs, coefficients, state, p, step)
                else:
                    _update_by_products(last, scratch.inputs, coefficients, state, p, step)
            else:
                gradient = rows[r if n_before > 0 else 0]
                _update_row(
                    score, optimizer, n_before, last, scratch.inputs, coefficients, own, gradient, state, p, step
                )


@kernel
def _update_row(
    score: Score,
    optimizer: Optimizer,
    b0: int,
    last: int,
    inputs: Matrix,
    coefficients: Coefficients,
    own: np.float32,
    gradient: Vector,
    state: NDArray[np.float32],
    row: int,
    step: Step,
) -> None:
    """Update key k with gradient + own·k + Σ_b c_b·(k − x_b) over four inputs from b0, or with x_b for products."""
    b1, b2, b3 = min(b0 + 1, last), min(b0 + 2, last), min(b0 + 3, last)
    c0, c1, c2, c3 = coefficients
    # c·x = −c·(0·k − x): one loop serves distances and products.
    origin = ONE
    if score.similarity != SQ_DIST:
        origin, c0, c1, c2, c3 = ZERO, -c0, -c1, -c2, -c3
    if optimizer.code == SGD:
        for f in range(len(gradient)):
            key = state[0, row, f]
            k = origin * key
            x0, x1, x2, x3 = inputs[b0, f], inputs[b1, f], inputs[b2, f], inputs[b3, f]
            slope = gradient[f] + own * key + ((c0 * (k - x0) + c1 * (k - x1)) + (c2 * (k - x2) + c3 * (k - x3)))
            state[0, row, f], state[1, row, f] = sgd_step(optimizer, key, state[1, row, f], slope, step)
        return
    for f in range(len(gradient)):
        key = state[0, row, f]
        k = origin * key
        x0, x1, x2, x3 = inputs[b0, f], inputs[b1, f], inputs[b2, f], inputs[b3, f]
        slope = gradient[f] + own * key + ((c0 * (k - x0) + c1 * (k - x1)) + (c2 * (k - x2) + c3 * (k - x3)))
        state[0, row, f], state[1, row, f], state[2, row, f], state[3, row, f] = adam_step(
            key, state[1, row, f], state[2, row, f], state[3, row, f], slope, step
        )


def _make_short_update(term: Term) -> Callable[[int, Matrix, Coefficients, NDArray[np.float32], int, Step], None]:
    """Return a kernel for Adam that updates a key k with Σ_b c_b·term(x_b, k) over the first four inputs alone.

    `_update_row` can do the same, but with more numbers to load it takes 15 % longer.
    """

    @kernel
    def update(
        last: int, inputs: Matrix, coefficients: Coefficients, state: NDArray[np.float32], row: int, step: Step
    ) -> None:
        b1, b2, b3 = min(1, last), min(2, last), min(3, last)
        c0, c1, c2, c3 = coefficients
        for f in range(inputs.shape[1]):
            k = state[0, row, f]
            x0, x1, x2, x3 = inputs[0, f], inputs[b1, f], inputs[b2, f], inputs[b3, f]
            slope = (c0 * term(x0, k) + c1 * term(x1, k)) + (c2 * term(x2, k) + c3 * term(x3, k))
            state[0, row, f], state[1, row, f], state[2, row, f], state[3, row, f] = adam_step(
                k, state[1, row, f], state[2, row, f], state[3, row, f], slope, step
            )

    return update


_update_by_distances = _make_short_update(difference)
_update_by_products = _make_short_update(given_input)
