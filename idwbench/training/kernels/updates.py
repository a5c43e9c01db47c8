"""Optimizer steps as in `torch.optim.Adam` (AMSGrad: arXiv 1904.09237) and `torch.optim.SGD`."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from idwbench.runs.protocol import Protocol
from idwbench.training.kernels.jit import inlined_kernel, kernel
from idwbench.training.kernels.scores import COSINE, SQ_DIST, Score
from idwbench.training.kernels.scratch import Matrix, Scratch
from idwbench.training.kernels.similarities import distance_gradient, dot_gradient, fill_gradient_by_products

__all__ = [
    "Optimizer",
    "Step",
    "add_key_penalty",
    "clip_gradients",
    "fill_key_gradients",
    "kernel_optimizer",
    "make_step",
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


@inlined_kernel
def clip_gradients(optimizer: Optimizer, gradients: tuple[Matrix, ...]) -> None:
    """Scale all by min(1, clip/(norm + 1e-6)) with their common norm, as `torch.nn.utils.clip_grad_norm_`."""
    if optimizer.gradient_clip > 0:
        _clip(optimizer.gradient_clip, gradients)


@kernel
def _clip(clip: float, gradients: tuple[Matrix, ...]) -> None:
    total = 0.0
    for part in gradients:
        for i in range(part.shape[0]):
            for j in range(part.shape[1]):
                total += float(part[i, j]) * float(part[i, j])
    factor = clip / (np.sqrt(total) + 1e-6)
    factor32 = np.float32(1.0 if factor > 1.0 else factor)
    for part in gradients:
        for i in range(part.shape[0]):
            for j in range(part.shape[1]):
                part[i, j] *= factor32


@kernel
def update_all(optimizer: Optimizer, state: NDArray[np.float32], gradient: Matrix, step: Step) -> None:
    """Update parameters with their gradient (rows, columns), to which weight decay is added.

    `state` (4, rows, columns) has the parameters, the mean of gradients (or the momentum buffer of SGD), the mean of
    their squares, and its maximum.
    """
    n = state.shape[1] * state.shape[2]
    numbers, gradients = state.reshape((4, n)), gradient.ravel()
    if optimizer.code == SGD:
        for j in range(n):
            numbers[1, j] = optimizer.momentum * numbers[1, j] + (gradients[j] + step.decay * numbers[0, j])
            numbers[0, j] -= step.rate * numbers[1, j]
        return
    for j in range(n):
        slope = gradients[j] + step.decay * numbers[0, j]
        mean = numbers[1, j] + NEW_1 * (slope - numbers[1, j])
        square = OLD_2 * numbers[2, j] + NEW_2 * slope * slope
        # Without amsgrad the mean square is the divisor.
        before = numbers[3, j] if step.amsgrad else ZERO
        greatest = square if square > before else before
        numbers[0, j] -= step.rate * mean / (np.sqrt(greatest) * step.root + GUARD)
        numbers[1, j], numbers[2, j], numbers[3, j] = mean, square, greatest


@inlined_kernel
def fill_key_gradients(score: Score, n: int, n_near: int, keys: Matrix, narrow: bool, scratch: Scratch) -> None:
    """Fill the gradients of keys with the coefficients of n inputs; `n_near` is the result of `fill_similarities`."""
    by_products = scratch.by_products and n_near >= 0
    inputs, rows = scratch.inputs[:n], scratch.key_gradients
    if by_products:
        fill_gradient_by_products(score, n, n_near, keys, scratch)
    elif score.similarity == SQ_DIST:
        distance_gradient(inputs, keys, narrow, scratch.coefficients, rows)
    else:
        dot_gradient(inputs, keys, narrow, scratch.coefficients, rows)
    if by_products or score.similarity == COSINE:
        for r in range(rows.shape[0]):
            for j in range(rows.shape[1]):
                rows[r, j] -= scratch.norm_coefficients[j if narrow else r] * keys[r, j]


@kernel
def add_key_penalty(
    key_penalty: np.float32, n: int, has_labels: bool, keys: Matrix, values: Matrix, narrow: bool, scratch: Scratch
) -> float:
    """Return λ · mean_j min_b ‖x_b − k_j‖ over a batch of n inputs, and add its gradient to that of the keys.

    λ is `key_penalty`; similarities are squared distances. With labels the inputs are those of the class that the value
    of a key is largest for; a key without any has no penalty. The gradient is 0 where a key equals an input.
    """
    sq_dist, inputs, rows = scratch.similarities, scratch.inputs, scratch.key_gradients
    share = key_penalty / np.float32(sq_dist.shape[1])
    total = 0.0
    for p in range(sq_dist.shape[1]):
        label = 0
        for c in range(1, values.shape[0]):
            label = c if values[c, p] > values[label, p] else label
        nearest = -1
        for b in range(n):
            if (not has_labels or scratch.labels[b] == label) and (nearest < 0 or sq_dist[b, p] < sq_dist[nearest, p]):
                nearest = b
        if nearest < 0:
            continue
        distance = np.sqrt(sq_dist[nearest, p])
        total += float(share * distance)
        factor = share / distance if distance > ZERO else ZERO
        for f in range(inputs.shape[1]):
            i, j = (f, p) if narrow else (p, f)
            rows[i, j] += factor * (keys[i, j] - inputs[nearest, f])
    return total
