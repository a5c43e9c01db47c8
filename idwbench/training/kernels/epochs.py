"""Training and evaluation of epochs: the entry point of the kernels."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from idwbench.training.kernels.denormals import flush_denormals, restore_denormals
from idwbench.training.kernels.jit import entry_kernel, inlined_kernel, kernel
from idwbench.training.kernels.network import (
    backward,
    cross_entropy,
    fill_similarities,
    forward,
    squared_error,
    weighted_loss,
)
from idwbench.training.kernels.scores import Score
from idwbench.training.kernels.scratch import Labels, Matrix, Scratch, SlopeScratch, Vector
from idwbench.training.kernels.slopes import add_slopes, fill_height_gradients, fill_heights, fill_slope_gradients
from idwbench.training.kernels.updates import (
    Optimizer,
    Step,
    add_key_penalty,
    clip_gradients,
    fill_key_gradients,
    make_step,
    update_all,
)

__all__ = ["Data", "Progress", "Samples", "Schedule", "Stack", "State", "run_stack"]

# Stages of an epoch; the last two follow the last epoch, if their outputs are wanted.
TRAIN, VALIDATION, TEST, TRAIN_OUTPUTS, HOLDOUT = range(-1, 4)

ZERO = np.float32(0.0)


class Samples(NamedTuple):
    """Inputs (n, features) with labels (n,) or targets (n, outputs); the other of the two is empty.

    `weights` (n,) multiply the loss of each row; empty for equal weights.
    """

    inputs: Matrix
    labels: Labels
    targets: Matrix
    weights: Vector


class Data(NamedTuple):
    """The data of a run; validation and holdout data may be empty, the latter are evaluated at the end only.

    `bounds` (2, features) are the least and the greatest number of a key by feature; (2, 0) without bounds.
    """

    train: Samples
    validation: Samples
    test: Samples
    holdout: Samples
    bounds: Matrix


class Schedule(NamedTuple):
    """Epochs to train.

    Attributes:
        batch_size: Batch size; the last batch of an epoch may be smaller.
        rates: Learning rate of each epoch, (epochs,).
        smoothing: Share of each label that is divided among all classes.
        key_penalty: The factor of the mean distance of a key to the nearest input of a batch, in the loss.
        first: Number of previous epochs.
        steps_done: Number of previous steps.
    """

    batch_size: int
    rates: NDArray[np.float64]
    smoothing: np.float32
    key_penalty: np.float32
    first: int
    steps_done: int


class State(NamedTuple):
    """Parameters with the state of the optimizer (see `update_all`).

    Attributes:
        keys: (4, prototypes, features), or (4, features, prototypes) if `narrow`.
        values: (4, outputs, prototypes).
        slope_inputs: W (4, rank · prototypes, features), see `idwbench.training.kernels.slopes`.
        slope_outputs: U (4, outputs, rank · prototypes).
        narrow: The layout of the keys.
    """

    keys: NDArray[np.float32]
    values: NDArray[np.float32]
    slope_inputs: NDArray[np.float32]
    slope_outputs: NDArray[np.float32]
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
        keys, values, slope_inputs, slope_outputs: See `State`.
        orders: Rows of the training data in the order of training, (runs, epochs, n).
        finite: The number of epochs after which loss, keys and values of each run were finite, (runs,).
    """

    parameters: Matrix
    keys: NDArray[np.float32]
    values: NDArray[np.float32]
    slope_inputs: NDArray[np.float32]
    slope_outputs: NDArray[np.float32]
    orders: NDArray[np.int64]
    finite: NDArray[np.int64]
    losses: NDArray[np.float64]
    totals: NDArray[np.float64]
    target_scale: NDArray[np.float64]
    validation_outputs: NDArray[np.float32]
    test_outputs: NDArray[np.float32]
    train_outputs: NDArray[np.float32]
    holdout_outputs: NDArray[np.float32]


@inlined_kernel
def _samples_of_stage(stage: int, data: Data) -> Samples:
    samples = data.train
    if stage == VALIDATION:
        samples = data.validation
    elif stage == TEST:
        samples = data.test
    elif stage == HOLDOUT:
        samples = data.holdout
    return samples


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
def _copy_outputs(stage: int, outputs: Matrix, n: int, first: int, progress: Progress) -> None:
    validation, test, train = progress.validation_outputs, progress.test_outputs, progress.train_outputs
    into = validation if stage == VALIDATION else (test if stage == TEST else train)
    if stage == HOLDOUT:
        into = progress.holdout_outputs
    for b in range(n):
        for c in range(outputs.shape[1]):
            into[first + b, c] = outputs[b, c]


@entry_kernel
def run_stack(
    score: Score,
    optimizer: Optimizer,
    data: Data,
    schedule: Schedule,
    narrow: bool,
    stack: Stack,
    scratch: Scratch,
    own: SlopeScratch,
) -> None:
    """Train and evaluate runs one after the other, those that were finite in all previous epochs."""
    control_word = flush_denormals()
    for r in range(stack.keys.shape[0]):
        if stack.finite[r] == schedule.first:
            slopes = stack.slope_inputs[r], stack.slope_outputs[r]
            state = State(stack.keys[r], stack.values[r], slopes[0], slopes[1], narrow)
            first, second = stack.parameters[r, 0], stack.parameters[r, 1]
            score_of_run = Score(score.similarity, score.formula, score.relu, first, second)
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
                score_of_run, optimizer, data, schedule, stack.orders[r], state, scratch, own, progress
            )
    restore_denormals(control_word)


@kernel
def _run_epochs(
    score: Score,
    optimizer: Optimizer,
    data: Data,
    schedule: Schedule,
    orders: NDArray[np.int64],
    state: State,
    scratch: Scratch,
    own: SlopeScratch,
    progress: Progress,
) -> int:
    """Train and evaluate one epoch for each row of `orders`; return how many ended with finite loss, keys and values.

    All stages share one loop, to reduce the compilation time, and tuples of arrays are not passed on for each batch,
    which would count references. Without columns of `orders` it only evaluates.
    """
    n_epochs, n_train = orders.shape
    regression, weights, n_tile = data.train.targets.shape[0] > 0, data.train.weights, scratch.scores.shape[0]
    step, epoch, finite = schedule.steps_done, 0, True
    has_slopes = state.slope_inputs.shape[1] > 0
    while finite and epoch < n_epochs:
        loss = 0.0
        progress.totals[epoch, :] = 0.0
        at_end = epoch == n_epochs - 1 and progress.train_outputs.shape[0] > 0
        for stage in range(TRAIN, HOLDOUT + 1 if at_end else TEST + 1):
            samples = _samples_of_stage(stage, data)
            n_samples = n_train if stage == TRAIN else samples.inputs.shape[0]
            n_most = schedule.batch_size if stage == TRAIN else scratch.inputs.shape[0]
            for start in range(0, n_samples if finite else 0, n_most):
                n = min(n_most, n_samples - start)
                for b in range(n):
                    _copy_sample(samples, orders[epoch, start + b] if stage == TRAIN else start + b, scratch, b)
                n_near = fill_similarities(score, n, state.keys[0], state.narrow, scratch)
                if has_slopes:
                    fill_heights(n, state.slope_inputs[0], state.keys[0], state.narrow, scratch.inputs, own)
                    own.output_gradients[:] = ZERO
                scratch.norm_coefficients[:] = ZERO
                scratch.value_gradients[:] = ZERO
                for first in range(0, n, n_tile):
                    m = min(n_tile, n - first)
                    labels, targets = scratch.labels[first : first + m], scratch.targets[first : first + m]
                    forward(score, first, m, state.values[0], scratch)
                    if has_slopes:
                        add_slopes(first, m, state.slope_outputs[0], scratch, own)
                    if stage == TRAIN:
                        if len(weights) > 0:
                            rows = orders[epoch, start + first : start + first + m]
                            loss += weighted_loss(
                                regression, schedule.smoothing, n, rows, weights, scratch, labels, targets
                            )
                        else:
                            outputs, gradients = scratch.outputs, scratch.output_gradients
                            loss += _loss(regression, schedule.smoothing, n, labels, targets, outputs, gradients)
                        scratch.weight_gradients[:m] = ZERO
                        if has_slopes:
                            fill_height_gradients(first, m, state.slope_outputs[0], scratch, own)
                        backward(score, first, m, state.values[0], scratch)
                    else:
                        if stage < TRAIN_OUTPUTS:
                            total = _total(regression, labels, targets, scratch.outputs, progress.target_scale)
                            progress.totals[epoch, stage] += total
                        _copy_outputs(stage, scratch.outputs, m, start + first, progress)
                if stage == TRAIN:
                    step += 1
                    factors = make_step(optimizer, schedule.rates[epoch], step)
                    loss += n * _take_step(
                        score, optimizer, schedule.key_penalty, n, n_near, regression, state, scratch, own, factors
                    )
                    _project(state.keys[0], state.narrow, data.bounds)
            if stage == TRAIN:
                finite = np.isfinite(loss) and _all_finite(state.keys) and _all_finite(state.values)
                finite = finite and _all_finite(state.slope_inputs) and _all_finite(state.slope_outputs)
        progress.losses[epoch] = loss / max(n_train, 1)
        epoch += finite
    return epoch


@inlined_kernel
def _take_step(
    score: Score,
    optimizer: Optimizer,
    key_penalty: np.float32,
    n: int,
    n_near: int,
    regression: bool,
    state: State,
    scratch: Scratch,
    own: SlopeScratch,
    factors: Step,
) -> float:
    """Update keys and values after the forward and backward pass of a batch of n inputs; return the penalty of keys."""
    fill_key_gradients(score, n, n_near, state.keys[0], state.narrow, scratch)
    penalty = 0.0
    if key_penalty > 0:
        keys, values = state.keys[0], state.values[0]
        penalty = add_key_penalty(key_penalty, n, not regression, keys, values, state.narrow, scratch)
    if state.slope_inputs.shape[1] > 0:
        fill_slope_gradients(n, state.slope_inputs[0], state.keys[0], state.narrow, scratch, own)
    parts = scratch.key_gradients, scratch.value_gradients, own.input_gradients, own.output_gradients
    clip_gradients(optimizer, parts)
    update_all(optimizer, state.keys, scratch.key_gradients, factors)
    update_all(optimizer, state.values, scratch.value_gradients, factors)
    if state.slope_inputs.shape[1] > 0:
        update_all(optimizer, state.slope_inputs, own.input_gradients, factors)
        update_all(optimizer, state.slope_outputs, own.output_gradients, factors)
    return penalty


@kernel
def _project(keys: Matrix, narrow: bool, bounds: Matrix) -> None:
    """Move each number of a key that is outside of its bounds to the nearer of the two."""
    for i in range(keys.shape[0] if bounds.shape[1] > 0 else 0):
        for j in range(keys.shape[1]):
            f = i if narrow else j
            keys[i, j] = min(max(keys[i, j], bounds[0, f]), bounds[1, f])


@inlined_kernel
def _loss(
    regression: bool,
    smoothing: np.float32,
    n: int,
    labels: Labels,
    targets: Matrix,
    outputs: Matrix,
    gradients: Matrix,
) -> float:
    """Return the loss of a tile of a batch of n samples, and fill the gradients of its outputs."""
    if regression:
        loss = squared_error(len(targets), n, targets, outputs, gradients)
    else:
        loss = cross_entropy(smoothing, len(labels), n, labels, outputs, gradients)
    return loss


@kernel
def _total(
    regression: bool, labels: Labels, targets: Matrix, outputs: Matrix, target_scale: NDArray[np.float64]
) -> float:
    """Return the number of correct predictions of a tile, or the sum of its squared errors."""
    if regression:
        return _sum_squares(outputs, targets, target_scale)
    return float(_count_correct(outputs, labels))
