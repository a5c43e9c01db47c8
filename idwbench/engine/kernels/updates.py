"""Adam with AMSGrad on one row, as `torch.optim.Adam(amsgrad=True)` does it (arXiv 1904.09237)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from idwbench.engine.kernels.jit import kernel

__all__ = ["step_factors", "update_row"]

DECAY_1 = 0.9
DECAY_2 = 0.999
NEW_1 = np.float32(1 - DECAY_1)
OLD_2 = np.float32(DECAY_2)
NEW_2 = np.float32(1 - DECAY_2)
GUARD = np.float32(1e-8)


@kernel
def step_factors(rate: float, step: int) -> tuple[np.float32, np.float32]:
    """Return rate/(1 − β₁ᵗ) and 1/√(1 − β₂ᵗ) of step t, counted from 1."""
    return np.float32(rate / (1 - DECAY_1**step)), np.float32(1 / np.sqrt(1 - DECAY_2**step))


@kernel
def update_row(
    state: NDArray[np.float32], row: int, gradient: NDArray[np.float32], rate: np.float32, root: np.float32
) -> None:
    """Move one row along its gradient.

    Loops are short on purpose: with more than five arrays in one, the compiler gives up vector instructions.

    Args:
        state: (4, rows, columns): the parameters, the mean and the mean square of gradients, its greatest so far.
        row: Which row.
        gradient: (columns,).
        rate: The first of `step_factors`.
        root: The second.
    """
    n = len(gradient)
    for j in range(n):
        state[1, row, j] += NEW_1 * (gradient[j] - state[1, row, j])
    for j in range(n):
        square = OLD_2 * state[2, row, j] + NEW_2 * gradient[j] * gradient[j]
        greatest = state[3, row, j]
        state[2, row, j] = square
        state[3, row, j] = square if square > greatest else greatest
    for j in range(n):
        state[0, row, j] -= rate * state[1, row, j] / (np.sqrt(state[3, row, j]) * root + GUARD)
