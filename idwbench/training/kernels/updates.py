"""Optimizer steps as in `torch.optim.Adam` (AMSGrad: arXiv 1904.09237) and `torch.optim.SGD`."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from idwbench.runs.protocol import Protocol
from idwbench.training.kernels.jit import kernel

__all__ = ["Optimizer", "clip_gradients", "gradient_rows", "kernel_optimizer", "step_factors", "update_row"]

ADAM_AMSGRAD, ADAM, SGD = range(3)
CODES = {"adam_amsgrad": ADAM_AMSGRAD, "adam": ADAM, "sgd": SGD}

ZERO = np.float32(0.0)
DECAY_1 = 0.9
DECAY_2 = 0.999
NEW_1 = np.float32(1 - DECAY_1)
OLD_2 = np.float32(DECAY_2)
NEW_2 = np.float32(1 - DECAY_2)
GUARD = np.float32(1e-8)


Matrix = NDArray[np.float32]


class Optimizer(NamedTuple):
    """The optimizer of a protocol for kernels; `code` is one of `CODES`."""

    code: int
    momentum: np.float32
    weight_decay: np.float32
    gradient_clip: float


def kernel_optimizer(protocol: Protocol) -> Optimizer:
    """Return the optimizer of a protocol for kernels."""
    return Optimizer(
        CODES[protocol.optimizer],
        np.float32(protocol.momentum),
        np.float32(protocol.weight_decay),
        float(protocol.gradient_clip),
    )


@kernel
def step_factors(optimizer: Optimizer, rate: float, step: int) -> tuple[np.float32, np.float32]:
    """Return rate/(1 − β₁ᵗ) and 1/√(1 − β₂ᵗ) of step t, counted from 1; for SGD the rate itself."""
    if optimizer.code == SGD:
        return np.float32(rate), np.float32(1.0)
    return np.float32(rate / (1 - DECAY_1**step)), np.float32(1 / np.sqrt(1 - DECAY_2**step))


def gradient_rows(optimizer: Optimizer, n_rows: int, n_usual: int) -> int:
    """Return the number of rows of the gradient in memory: all of `n_rows` if its norm is needed."""
    return n_rows if optimizer.gradient_clip > 0 else n_usual


@kernel
def clip_gradients(optimizer: Optimizer, gradient: Matrix, other_gradient: Matrix) -> None:
    """Scale both by min(1, clip/(norm + 1e-6)) with their common norm, as `torch.nn.utils.clip_grad_norm_`."""
    if optimizer.gradient_clip <= 0:
        return
    total = 0.0
    for part in (gradient, other_gradient):
        for i in range(part.shape[0]):
            for j in range(part.shape[1]):
                total += float(part[i, j]) * float(part[i, j])
    factor = optimizer.gradient_clip / (np.sqrt(total) + 1e-6)
    factor32 = np.float32(1.0 if factor > 1.0 else factor)
    for part in (gradient, other_gradient):
        for i in range(part.shape[0]):
            for j in range(part.shape[1]):
                part[i, j] *= factor32


@kernel
def update_row(
    optimizer: Optimizer,
    state: NDArray[np.float32],
    row: int,
    gradient: NDArray[np.float32],
    rate: np.float32,
    root: np.float32,
) -> None:
    """Update one row with its gradient (columns,), to which weight decay is added; `rate, root` are `step_factors`.

    `state` (4, rows, columns) has the parameters, the mean of gradients (or the momentum buffer of SGD), the mean of
    their squares, and its maximum. Loops with more than five arrays would not be vectorised.
    """
    n = len(gradient)
    if optimizer.weight_decay > ZERO:
        for j in range(n):
            gradient[j] += optimizer.weight_decay * state[0, row, j]
    if optimizer.code == SGD:
        for j in range(n):
            state[1, row, j] = optimizer.momentum * state[1, row, j] + gradient[j]
            state[0, row, j] -= rate * state[1, row, j]
        return
    for j in range(n):
        state[1, row, j] += NEW_1 * (gradient[j] - state[1, row, j])
    if optimizer.code == ADAM:
        # Without a previous maximum the mean square is the divisor.
        state[3, row, :] = ZERO
    for j in range(n):
        square = OLD_2 * state[2, row, j] + NEW_2 * gradient[j] * gradient[j]
        greatest = state[3, row, j]
        state[2, row, j] = square
        state[3, row, j] = square if square > greatest else greatest
    for j in range(n):
        state[0, row, j] -= rate * state[1, row, j] / (np.sqrt(state[3, row, j]) * root + GUARD)
