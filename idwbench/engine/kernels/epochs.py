"""The step, the epoch, and the count of right answers: the kernels that the engine calls."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from idwbench.engine.kernels.jit import entry_kernel, kernel, spliced_kernel
from idwbench.engine.kernels.measures import Matrix, distance_gradient, product_gradient
from idwbench.engine.kernels.network import (
    Labels,
    Scratch,
    backward,
    cross_entropy,
    fill_measures,
    forward,
)
from idwbench.engine.kernels.scores import COSINE, FIRST_DISTANCE, Score
from idwbench.engine.kernels.updates import step_factors, update_row

__all__ = ["Progress", "Samples", "State", "run_epochs"]


class Samples(NamedTuple):
    """Inputs (n, features) and labels (n,)."""

    inputs: Matrix
    labels: Labels


class State(NamedTuple):
    """What training changes: each number, the mean and mean square of its gradients, and the greatest mean square.

    Attributes:
        keys: (4, prototypes, features), or (4, features, prototypes) if `narrow`.
        values: (4, classes, prototypes).
        narrow: Which of the two.
    """

    keys: NDArray[np.float32]
    values: NDArray[np.float32]
    narrow: bool


class Progress(NamedTuple):
    """What epochs report: mean cross-entropy and right answers on the test data, (epochs,) each."""

    losses: NDArray[np.float64]
    correct: NDArray[np.int64]


@kernel
def _copy_sample(samples: Samples, row: int, scratch: Scratch, b: int) -> None:
    scratch.labels[b] = samples.labels[row]
    for f in range(scratch.inputs.shape[1]):
        scratch.inputs[b, f] = samples.inputs[row, f]


@spliced_kernel
def _update(score: Score, n: int, state: State, scratch: Scratch, rate: np.float32, root: np.float32) -> None:
    """Move keys and values by what n inputs have left in `scratch`."""
    inputs, factors = scratch.inputs[:n], scratch.measures[:n]
    keys, narrow = state.keys[0], state.narrow
    for c in range(scratch.value_rows.shape[0]):
        update_row(state.values, c, scratch.value_rows[c], rate, root)
    n_most = scratch.key_rows.shape[0]
    for first in range(0, keys.shape[0], n_most):
        rows = scratch.key_rows[: min(n_most, keys.shape[0] - first)]
        if score.code >= FIRST_DISTANCE:
            distance_gradient(inputs, keys, narrow, first, factors, rows)
        else:
            product_gradient(inputs, narrow, first, factors, rows)
        for r in range(rows.shape[0]):
            if score.code == COSINE:
                for j in range(rows.shape[1]):
                    rows[r, j] -= scratch.key_pulls[j if narrow else first + r] * keys[first + r, j]
            update_row(state.keys, first + r, rows[r], rate, root)


@kernel
def _all_finite(state: NDArray[np.float32]) -> bool:
    finite = True
    for i in range(state.shape[1]):
        for j in range(state.shape[2]):
            finite = finite and np.isfinite(state[0, i, j])
    return finite


@kernel
def _count_correct(logits: Matrix, labels: Labels) -> int:
    """Return how many rows have their own label's logit greatest; of equal logits the first class wins."""
    correct = 0
    for b in range(len(labels)):
        best = 0
        for c in range(1, logits.shape[1]):
            if logits[b, c] > logits[b, best]:
                best = c
        correct += best == labels[b]
    return correct


@entry_kernel
def run_epochs(
    score: Score,
    train: Samples,
    test: Samples,
    orders: NDArray[np.int64],
    batch_size: int,
    rates: NDArray[np.float64],
    steps_done: int,
    state: State,
    scratch: Scratch,
    progress: Progress,
) -> int:
    """Train and test one epoch for each row of `orders`; return how many ended with finite loss, keys and values.

    Both passes share one loop, since its body is what takes long to compile. An epoch without columns tests only.

    Args:
        score: The method.
        train: What is learned.
        test: What is counted after each epoch.
        orders: Rows of `train` in the order of their visit, (epochs, n).
        batch_size: Rows of a batch; the last one of an epoch may have fewer.
        rates: The learning rate of each epoch.
        steps_done: Steps that `state` has behind it.
        state: Changed in place.
        scratch: Memory for batches of at least `batch_size`; tests take all of it.
        progress: Out.
    """
    n_epochs, n_train = orders.shape
    n_tile = scratch.scores.shape[0]
    step = steps_done
    for epoch in range(n_epochs):
        loss, correct = 0.0, 0
        for testing in (False, True):
            samples = test if testing else train
            n_samples = len(test.labels) if testing else n_train
            n_most = scratch.inputs.shape[0] if testing else batch_size
            for start in range(0, n_samples, n_most):
                n = min(n_most, n_samples - start)
                for b in range(n):
                    _copy_sample(samples, start + b if testing else orders[epoch, start + b], scratch, b)
                fill_measures(score, n, state.keys[0], state.narrow, scratch)
                for first in range(0, n, n_tile):
                    n_here = min(n_tile, n - first)
                    labels = scratch.labels[first : first + n_here]
                    forward(score, first, n_here, state.values[0], scratch)
                    if testing:
                        correct += _count_correct(scratch.logits, labels)
                    else:
                        loss += cross_entropy(n_here, n, labels, scratch.logits)
                        backward(score, first, n_here, state.values[0], scratch)
                if not testing:
                    step += 1
                    rate, root = step_factors(rates[epoch], step)
                    _update(score, n, state, scratch, rate, root)
            if not testing and not (np.isfinite(loss) and _all_finite(state.keys) and _all_finite(state.values)):
                return epoch
        progress.losses[epoch] = loss / max(n_train, 1)
        progress.correct[epoch] = correct
    return len(orders)
