"""Optimizer steps as in `torch.optim.Adam` (AMSGrad: arXiv 1904.09237) and `torch.optim.SGD`."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from idwbench.runs.protocol import Protocol
from idwbench.training.kernels.jit import kernel

__all__ = [
    "SGD",
    "Optimizer",
    "Step",
    "adam_step",
    "clip_gradients",
    "clips",
    "kernel_optimizer",
    "make_step",
    "sgd_step",
    "update_all",
]

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


class Step(NamedTuple):
    """Factors of step t, counted from 1: rate/(1 − β₁ᵗ), or the rate itself for SGD, 1/√(1 − β₂ᵗ), and weight decay."""

    rate: np.float32
    root: np.float32
    amsgrad: bool
    decay: np.float32


@kernel
def make_step(optimizer: Optimizer, rate: float, step: int) -> Step:
    """Return the factors of a step, counted from 1."""
    if optimizer.code == SGD:
        return Step(np.float32(rate), np.float32(1.0), False, optimizer.weight_decay)
    factor, root = np.float32(rate / (1 - DECAY_1**step)), np.float32(1 / np.sqrt(1 - DECAY_2**step))
    return Step(factor, root, optimizer.code == ADAM_AMSGRAD, optimizer.weight_decay)


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
def clips(optimizer: Optimizer) -> bool:
    """Return whether gradients are clipped."""
    return optimizer.gradient_clip > 0


@kernel
def sgd_step(
    optimizer: Optimizer, key: np.float32, velocity: np.float32, gradient: np.float32, step: Step
) -> tuple[np.float32, np.float32]:
    """Return a parameter and its momentum buffer after a step."""
    velocity = optimizer.momentum * velocity + gradient
    return key - step.rate * velocity, velocity


@kernel
def adam_step(
    key: np.float32, mean: np.float32, square: np.float32, greatest: np.float32, gradient: np.float32, step: Step
) -> tuple[np.float32, np.float32, np.float32, np.float32]:
    """Return a parameter, the mean of its gradients, the mean of their squares, and its maximum after a step."""
    mean += NEW_1 * (gradient - mean)
    square = OLD_2 * square + NEW_2 * gradient * gradient
    # Without amsgrad the mean square is the divisor.
    before = greatest if step.amsgrad else ZERO
    greatest = square if square > before else before
    return key - step.rate * mean / (np.sqrt(greatest) * step.root + GUARD), mean, square, greatest


@kernel
def update_all(optimizer: Optimizer, state: NDArray[np.float32], gradient: Matrix, step: Step) -> None:
    """Update parameters with their gradient (rows, columns), to which weight decay is added.

    `state` (4, rows, columns) has the parameters, the mean of gradients (or the momentum buffer of SGD), the mean of
    their squares, and its maximum.
    """
    n = state.shape[1] * state.shape[2]
    numbers, slope = state.reshape((4, n)), gradient.ravel()
    if optimizer.code == SGD:
        for j in range(n):
            key = numbers[0, j]
            numbers[0, j], numbers[1, j] = sgd_step(optimizer, key, numbers[1, j], slope[j] + step.decay * key, step)
        return
    for j in range(n):
        key = numbers[0, j]
        numbers[0, j], numbers[1, j], numbers[2, j], numbers[3, j] = adam_step(
            key, numbers[1, j], numbers[2, j], numbers[3, j], slope[j] + step.decay * key, step
        )
