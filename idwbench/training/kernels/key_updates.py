"""The update of the keys by the coefficients of a batch; see `similarities` for their layout."""

import numpy as np
from numpy.typing import NDArray

from idwbench.training.kernels.jit import inlined_kernel, kernel
from idwbench.training.kernels.products import fill_gradient_by_products
from idwbench.training.kernels.scores import COSINE, SQ_DIST, Score
from idwbench.training.kernels.scratch import Matrix, Scratch
from idwbench.training.kernels.similarities import (
    distance_gradient,
    dot_gradient,
)
from idwbench.training.kernels.updates import (
    Optimizer,
    Step,
    clip_gradients,
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


@kernel
def _fill_gradient(
    score: Score, inputs: Matrix, keys: Matrix, narrow: bool, first: int, coefficients: Matrix, rows: Matrix
) -> None:
    if score.similarity == SQ_DIST:
        distance_gradient(inputs, keys, narrow, first, coefficients, rows)
    else:
        dot_gradient(inputs, keys, narrow, first, coefficients, rows)
