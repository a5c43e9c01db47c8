"""Training and evaluation of epochs: the entry point of the kernels."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from idwbench.training.kernels.denormals import flush_denormals, restore_denormals
from idwbench.training.kernels.jit import entry_kernel, kernel
from idwbench.training.kernels.network import (
    backward,
    cross_entropy,
    fill_similarities,
    forward,
    squared_error,
    weighted_loss,
)
from idwbench.training.kernels.scores import Score
from idwbench.training.kernels.scratch import Labels, Matrix, Scratch, Vector
from idwbench.training.kernels.updates import Optimizer, make_step, update_all, update_keys

__all__ = ["Progress", "Samples", "Stack", "State", "run_stack"]

ZERO = np.float32(0.0)


class Samples(NamedTuple):
    """Inputs (n, features) with labels (n,) or targets (n, outputs); the other of the two is empty.

    `weights` (n,) multiply the loss of each row; empty for equal weights.
    """

    inputs: Matrix
    labels: Labels
    targets: Matrix
    weights: Vector


class State(NamedTuple):
    """Parameters with the state of the optimizer (see `update_all`).

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
        validation_outputs, test_outputs, train_outputs, holdout_outputs: Outputs after the last epoch, (n, outputs);
            those for training and holdout data are computed if there is room for the former.
    """

    losses: NDArray[np.float64]
    totals: NDArray[np.float64]
    target_scale: NDArray[np.float64]
    validation_outputs: Matrix
    test_outputs: Matrix
    train_outputs: Matrix
    holdout_outputs: Matrix


class Stack(NamedTuple):
    """Several runs of one stack: what `Score`, `State` and `Progress` have of one run, with runs as leading axis.

    Attributes:
        parameters: The first and second parameter of the score of each run, (runs, 2).
        keys, values: See `State`.
        orders: Rows of the training data in the order of training, (runs, epochs, n).
        finite: The number of epochs after which loss, keys and values of each run were finite, (runs,).
    """

    parameters: Matrix
    keys: NDArray[np.float32]
    values: NDArray[np.float32]
    orders: NDArray[np.int64]
    finite: NDArray[np.int64]
    losses: NDArray[np.float64]
    totals: NDArray[np.float64]
    target_scale: NDArray[np.float64]
    validation_outputs: NDArray[np.float32]
    test_outputs: NDArray[np.float32]
    train_outputs: NDArray[np.float32]
    holdout_outputs: NDArray[np.float32]


@kernel
def _copy_sample(samples: Samples, row: int, scratch: Scratch, b: int) -> None:
    if samples.targets.shape[0] > 0:
        for c in range(scratch.targets.shape[1]):
            scratch.targets[b, c] = samples.targets[row, c]
    else:
        scratch.labels[b] = samples.labels[row]
    for f in range(scratch.inputs.shape[1]):
        scratch.inputs[b, f] = samples.inputs[row, f]


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
def _copy_outputs(outputs: Matrix, n: int, progress: Progress, evaluated: int, first: int) -> None:
    validation, test, train = progress.validation_outputs, progress.test_outputs, progress.train_outputs
    into = validation if evaluated == 0 else (test if evaluated == 1 else train)
    if evaluated == 3:
        into = progress.holdout_outputs
    for b in range(n):
        for c in range(outputs.shape[1]):
            into[first + b, c] = outputs[b, c]


@entry_kernel
def run_stack(
    score: Score,
    optimizer: Optimizer,
    train: Samples,
    validation: Samples,
    test: Samples,
    holdout: Samples,
    batch_size: int,
    rates: NDArray[np.float64],
    first: int,
    steps_done: int,
    narrow: bool,
    stack: Stack,
    scratch: Scratch,
) -> None:
    """Train and evaluate runs one after the other, those that were finite in all epochs before `first`."""
    control_word = flush_denormals()
    for r in range(stack.keys.shape[0]):
        if stack.finite[r] == first:
            state = State(stack.keys[r], stack.values[r], narrow)
            own = Score(score.similarity, score.formula, score.relu, stack.parameters[r, 0], stack.parameters[r, 1])
            progress = Progress(
                stack.losses[r],
                stack.totals[r],
                stack.target_scale,
                stack.validation_outputs[r],
                stack.test_outputs[r],
                stack.train_outputs[r],
                stack.holdout_outputs[r],
            )
            stack.finite[r] += _run_epochs(
                own,
                optimizer,
                train,
                validation,
                test,
                holdout,
                stack.orders[r],
                batch_size,
                rates,
                steps_done,
                state,
                scratch,
                progress,
            )
    restore_denormals(control_word)


@kernel
def _run_epochs(
    score: Score,
    optimizer: Optimizer,
    train: Samples,
    validation: Samples,
    test: Samples,
    holdout: Samples,
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
        holdout: More data, whose outputs are computed at the end; may be empty.
        orders: Rows of `train` in the order of training, (epochs, n).
        batch_size: Batch size; the last batch of an epoch may be smaller.
        rates: Learning rate of each epoch.
        steps_done: Number of previous steps.
        state: Updated in place.
        scratch: Memory for at least `batch_size` inputs.
        progress: Filled.
    """
    n_epochs, n_train = orders.shape
    n_tile = scratch.scores.shape[0]
    regression, weighted = train.targets.shape[0] > 0, train.weights.shape[0] > 0
    step, epoch, finite = steps_done, 0, True
    while finite and epoch < n_epochs:
        loss = 0.0
        progress.totals[epoch, :] = 0.0
        # Pass −1 trains, 0 and 1 evaluate after each epoch, 2 and 3 at the end.
        at_end = epoch == n_epochs - 1 and progress.train_outputs.shape[0] > 0
        for evaluated in range(-1, 4 if at_end else 2):
            training = evaluated < 0
            samples = validation if evaluated == 0 else (test if evaluated == 1 else train)
            if evaluated == 3:
                samples = holdout
            n_samples = n_train if training else samples.inputs.shape[0]
            n_most = batch_size if training else scratch.inputs.shape[0]
            for start in range(0, n_samples if finite else 0, n_most):
                n = min(n_most, n_samples - start)
                for b in range(n):
                    _copy_sample(samples, orders[epoch, start + b] if training else start + b, scratch, b)
                n_near = fill_similarities(score, n, state.keys[0], state.narrow, scratch)
                scratch.norm_coefficients[:] = ZERO
                scratch.value_gradients[:] = ZERO
                for first in range(0, n, n_tile):
                    n_here = min(n_tile, n - first)
                    labels = scratch.labels[first : first + n_here]
                    targets = scratch.targets[first : first + n_here]
                    forward(score, first, n_here, state.values[0], scratch)
                    if training:
                        if weighted:
                            rows = orders[epoch, start + first : start + first + n_here]
                            loss += weighted_loss(regression, n, rows, train.weights, scratch, labels, targets)
                        elif regression:
                            loss += squared_error(n_here, n, targets, scratch.outputs, scratch.output_gradients)
                        else:
                            loss += cross_entropy(n_here, n, labels, scratch.outputs, scratch.output_gradients)
                        backward(score, first, n_here, state.values[0], scratch)
                    else:
                        if regression:
                            total = _sum_squares(scratch.outputs, targets, progress.target_scale)
                        else:
                            total = float(_count_correct(scratch.outputs, labels))
                        if evaluated < 2:
                            progress.totals[epoch, evaluated] += total
                        _copy_outputs(scratch.outputs, n_here, progress, evaluated, start + first)
                if training:
                    step += 1
                    factors = make_step(optimizer, rates[epoch], step)
                    update_keys(score, optimizer, n, n_near, state.keys, state.narrow, scratch, factors)
                    update_all(optimizer, state.values, scratch.value_gradients, factors)
            if training:
                finite = np.isfinite(loss) and _all_finite(state.keys) and _all_finite(state.values)
        progress.losses[epoch] = loss / max(n_train, 1)
        epoch += finite
    return epoch
