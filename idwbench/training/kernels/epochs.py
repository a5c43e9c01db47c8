"""Training and evaluation of epochs: the entry point of the kernels."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from idwbench.training.kernels.denormals import flush_denormals, restore_denormals
from idwbench.training.kernels.jit import entry_kernel, inlined_kernel, kernel
from idwbench.training.kernels.network import (
    Labels,
    Scratch,
    backward,
    cross_entropy,
    fill_similarities,
    forward,
    squared_error,
)
from idwbench.training.kernels.scores import COSINE, SQ_DIST, Score
from idwbench.training.kernels.similarities import Matrix, distance_gradient, dot_gradient
from idwbench.training.kernels.updates import Optimizer, clip_gradients, step_factors, update_row

__all__ = ["Progress", "Samples", "State", "run_epochs"]

ZERO = np.float32(0.0)


class Samples(NamedTuple):
    """Inputs (n, features) with labels (n,) or targets (n, outputs); the other of the two is empty."""

    inputs: Matrix
    labels: Labels
    targets: Matrix


class State(NamedTuple):
    """Parameters with the state of the optimizer (see `update_row`).

    Attributes:
        keys: (4, prototypes, features), or (4, features, prototypes) if `narrow`.
        values: (4, outputs, prototypes).
        narrow: The layout of the keys.
    """

    keys: NDArray[np.float32]
    values: NDArray[np.float32]
    narrow: bool


class Progress(NamedTuple):
    """Results of epochs.

    Attributes:
        losses: Mean loss of each epoch, (epochs,).
        totals: Number of correct predictions on validation and test data after each epoch, or the sum of squared errors
            in the targets' own units, (epochs, 2).
        target_scale: Scale of the targets, (outputs,).
        outputs: Outputs for the test data after the last epoch, (n, outputs).
    """

    losses: NDArray[np.float64]
    totals: NDArray[np.float64]
    target_scale: NDArray[np.float64]
    outputs: Matrix


@kernel
def _copy_sample(samples: Samples, row: int, scratch: Scratch, b: int) -> None:
    if samples.targets.shape[0] > 0:
        for c in range(scratch.targets.shape[1]):
            scratch.targets[b, c] = samples.targets[row, c]
    else:
        scratch.labels[b] = samples.labels[row]
    for f in range(scratch.inputs.shape[1]):
        scratch.inputs[b, f] = samples.inputs[row, f]


@inlined_kernel
def _update(
    score: Score, optimizer: Optimizer, n: int, state: State, scratch: Scratch, rate: np.float32, root: np.float32
) -> None:
    """Update keys and values with the coefficients of n inputs in `scratch`."""
    inputs, coefficients = scratch.inputs[:n], scratch.coefficients[:n]
    keys, narrow = state.keys[0], state.narrow
    n_most = scratch.key_gradients.shape[0]
    for first in range(0, keys.shape[0], n_most):
        rows = scratch.key_gradients[: min(n_most, keys.shape[0] - first)]
        if score.similarity == SQ_DIST:
            distance_gradient(inputs, keys, narrow, first, coefficients, rows)
        else:
            dot_gradient(inputs, keys, narrow, first, coefficients, rows)
        if score.similarity == COSINE:
            for r in range(rows.shape[0]):
                for j in range(rows.shape[1]):
                    rows[r, j] -= scratch.norm_coefficients[j if narrow else first + r] * keys[first + r, j]
        # If gradients are clipped, `key_gradients` has all rows, and this loop runs once.
        clip_gradients(optimizer, rows, scratch.value_gradients)
        for r in range(rows.shape[0]):
            update_row(optimizer, state.keys, first + r, rows[r], rate, root)
    for c in range(scratch.value_gradients.shape[0]):
        update_row(optimizer, state.values, c, scratch.value_gradients[c], rate, root)


@kernel
def _all_finite(state: NDArray[np.float32]) -> bool:
    finite = True
    for i in range(state.shape[1]):
        for j in range(state.shape[2]):
            finite = finite and np.isfinite(state[0, i, j])
    return finite


@kernel
def _count_correct(outputs: Matrix, labels: Labels) -> int:
    """Return the number of correct predictions; for equal logits the first class is predicted."""
    correct = 0
    for b in range(len(labels)):
        best = 0
        for c in range(1, outputs.shape[1]):
            if outputs[b, c] > outputs[b, best]:
                best = c
        correct += best == labels[b]
    return correct


@kernel
def _sum_squares(outputs: Matrix, targets: Matrix, target_scale: NDArray[np.float64]) -> float:
    total = 0.0
    for b in range(targets.shape[0]):
        for c in range(targets.shape[1]):
            error = (float(outputs[b, c]) - float(targets[b, c])) * target_scale[c]
            total += error * error
    return total


@kernel
def _copy_outputs(outputs: Matrix, n: int, into: Matrix, first: int) -> None:
    for b in range(n):
        for c in range(outputs.shape[1]):
            into[first + b, c] = outputs[b, c]


@entry_kernel
def run_epochs(
    score: Score,
    optimizer: Optimizer,
    train: Samples,
    validation: Samples,
    test: Samples,
    orders: NDArray[np.int64],
    batch_size: int,
    rates: NDArray[np.float64],
    steps_done: int,
    state: State,
    scratch: Scratch,
    progress: Progress,
) -> int:
    """Train and evaluate one epoch for each row of `orders`; return how many ended with finite loss, keys and values.

    Training and evaluation share one loop, to reduce the compilation time. Without columns of `orders` it only
    evaluates.

    Args:
        score: The score.
        optimizer: The optimizer.
        train: Training data.
        validation: Validation data; may be empty.
        test: Test data.
        orders: Rows of `train` in the order of training, (epochs, n).
        batch_size: Batch size; the last batch of an epoch may be smaller.
        rates: Learning rate of each epoch.
        steps_done: Number of previous steps.
        state: Updated in place.
        scratch: Memory for at least `batch_size` inputs.
        progress: Filled.
    """
    control_word = flush_denormals()
    n_epochs, n_train = orders.shape
    n_tile = scratch.scores.shape[0]
    regression = train.targets.shape[0] > 0
    step, epoch, finite = steps_done, 0, True
    while finite and epoch < n_epochs:
        loss = 0.0
        progress.totals[epoch, :] = 0.0
        # Pass −1 trains, 0 and 1 evaluate.
        for evaluated in range(-1, 2):
            training = evaluated < 0
            samples = train if training else (test if evaluated == 1 else validation)
            n_samples = n_train if training else samples.inputs.shape[0]
            n_most = batch_size if training else scratch.inputs.shape[0]
            for start in range(0, n_samples if finite else 0, n_most):
                n = min(n_most, n_samples - start)
                for b in range(n):
                    _copy_sample(samples, orders[epoch, start + b] if training else start + b, scratch, b)
                fill_similarities(score, n, state.keys[0], state.narrow, scratch)
                scratch.norm_coefficients[:] = ZERO
                scratch.value_gradients[:] = ZERO
                for first in range(0, n, n_tile):
                    n_here = min(n_tile, n - first)
                    labels = scratch.labels[first : first + n_here]
                    targets = scratch.targets[first : first + n_here]
                    forward(score, first, n_here, state.values[0], scratch)
                    if training:
                        if regression:
                            loss += squared_error(n_here, n, targets, scratch.outputs, scratch.output_gradients)
                        else:
                            loss += cross_entropy(n_here, n, labels, scratch.outputs, scratch.output_gradients)
                        backward(score, first, n_here, state.values[0], scratch)
                    else:
                        if regression:
                            total = _sum_squares(scratch.outputs, targets, progress.target_scale)
                        else:
                            total = float(_count_correct(scratch.outputs, labels))
                        progress.totals[epoch, evaluated] += total
                        if evaluated == 1:
                            _copy_outputs(scratch.outputs, n_here, progress.outputs, start + first)
                if training:
                    step += 1
                    rate, root = step_factors(optimizer, rates[epoch], step)
                    _update(score, optimizer, n, state, scratch, rate, root)
            if training:
                finite = np.isfinite(loss) and _all_finite(state.keys) and _all_finite(state.values)
        progress.losses[epoch] = loss / max(n_train, 1)
        epoch += finite
    restore_denormals(control_word)
    return epoch
