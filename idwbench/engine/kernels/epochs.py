"""Softmax, cross-entropy, the step and the epoch.

Shapes: inputs (batch, features); scores, slopes, weights and their gradients (batch, prototypes); logits (batch,
classes). The state of the keys is (4, prototypes, features), or (4, features, prototypes) if *narrow*; that of the
values is (4, classes, prototypes): see `updates` for the four.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from idwbench.engine.kernels.elementary import exp32
from idwbench.engine.kernels.jit import kernel
from idwbench.engine.kernels.measures import (
    Matrix,
    distance_gradient,
    fill_distances,
    fill_products,
    product_gradient,
)
from idwbench.engine.kernels.scores import COSINE, FIRST_DISTANCE, RELU, Score, fill_scores
from idwbench.engine.kernels.updates import step_factors, update_row

__all__ = ["Progress", "Samples", "count_correct", "train_epochs", "train_step"]

Labels = NDArray[np.int64]
State = NDArray[np.float32]

ZERO = np.float32(0.0)
ONE = np.float32(1.0)
TWO = np.float32(2.0)
INFINITY = np.float32(np.inf)
EVALUATION_BATCH = 64


class Samples(NamedTuple):
    """Inputs (n, features) and labels (n,)."""

    inputs: Matrix
    labels: Labels


class Scratch(NamedTuple):
    """Memory that one batch after the other uses."""

    inputs: Matrix
    labels: Labels
    measures: Matrix
    scores: Matrix
    slopes: Matrix
    weights: Matrix
    logits: Matrix
    key_norms: NDArray[np.float32]
    key_row: NDArray[np.float32]
    value_row: NDArray[np.float32]


class Progress(NamedTuple):
    """What epochs report: summed cross-entropy and right answers on the test data, (epochs,) each."""

    losses: NDArray[np.float64]
    correct: NDArray[np.int64]


@kernel
def _scratch(n_batch: int, n_features: int, key_state: State, value_state: State) -> Scratch:
    n_classes, n_prototypes = value_state.shape[1:]
    return Scratch(
        np.empty((n_batch, n_features), np.float32),
        np.empty(n_batch, np.int64),
        np.empty((n_batch, n_prototypes), np.float32),
        np.empty((n_batch, n_prototypes), np.float32),
        np.empty((n_batch, n_prototypes), np.float32),
        np.empty((n_batch, n_prototypes), np.float32),
        np.empty((n_batch, n_classes), np.float32),
        np.empty(n_prototypes, np.float32),
        np.empty(key_state.shape[2], np.float32),
        np.empty(n_prototypes, np.float32),
    )


@kernel
def _normalise(inputs: Matrix, keys: Matrix, narrow: bool, key_norms: NDArray[np.float32], products: Matrix) -> None:
    """Turn x·k into x·k/(‖x‖ ‖k‖), 0 where a norm is 0; `key_norms` gets 1/‖k‖, or 0."""
    for p in range(len(key_norms)):
        total = ZERO
        if narrow:
            for f in range(keys.shape[0]):
                total += keys[f, p] * keys[f, p]
        else:
            for f in range(keys.shape[1]):
                total += keys[p, f] * keys[p, f]
        key_norms[p] = ONE / np.sqrt(total) if total != ZERO else ZERO
    for b in range(inputs.shape[0]):
        total = ZERO
        for f in range(inputs.shape[1]):
            total += inputs[b, f] * inputs[b, f]
        input_norm = ONE / np.sqrt(total) if total != ZERO else ZERO
        for p in range(len(key_norms)):
            products[b, p] *= input_norm * key_norms[p]


@kernel
def _fill_weights(relu: bool, scores: Matrix, slopes: Matrix, weights: Matrix) -> None:
    """Write relu or softmax of each row; scores of +∞ share the weight, and then no gradient flows to that row."""
    n_inputs, n_prototypes = scores.shape
    for b in range(n_inputs):
        if relu:
            for p in range(n_prototypes):
                positive = scores[b, p] > ZERO
                weights[b, p] = ZERO if scores[b, p] <= ZERO else scores[b, p]
                slopes[b, p] = slopes[b, p] if positive else ZERO
            continue
        top = -INFINITY
        for p in range(n_prototypes):
            top = max(top, scores[b, p])
        if top == INFINITY:
            for p in range(n_prototypes):
                weights[b, p] = ONE if scores[b, p] == INFINITY else ZERO
                slopes[b, p] = ZERO
        else:
            for p in range(n_prototypes):
                weights[b, p] = exp32(scores[b, p] - top)
        total = ZERO
        for p in range(n_prototypes):
            total += weights[b, p]
        share = ONE / total
        for p in range(n_prototypes):
            weights[b, p] *= share


@kernel
def _forward(score: Score, inputs: Matrix, keys: Matrix, values: Matrix, narrow: bool, scratch: Scratch) -> None:
    """Fill measures, scores, slopes, weights and logits of the first len(inputs) rows of `scratch`."""
    n = inputs.shape[0]
    measures, scores, slopes = scratch.measures[:n], scratch.scores[:n], scratch.slopes[:n]
    weights, logits = scratch.weights[:n], scratch.logits[:n]
    if score.code >= FIRST_DISTANCE:
        fill_distances(inputs, keys, narrow, measures)
    else:
        fill_products(inputs, keys, narrow, measures)
        if score.code == COSINE:
            _normalise(inputs, keys, narrow, scratch.key_norms, measures)
    fill_scores(score, measures.reshape(-1), scores.reshape(-1), slopes.reshape(-1))
    _fill_weights(score.code == RELU, scores, slopes, weights)
    for b in range(n):
        for c in range(values.shape[0]):
            total = ZERO
            for p in range(values.shape[1]):
                total += weights[b, p] * values[c, p]
            logits[b, c] = total


@kernel
def _cross_entropy(logits: Matrix, labels: Labels) -> float:
    """Return the summed cross-entropy and turn logits into the gradient of its mean."""
    n_inputs, n_classes = logits.shape
    share = ONE / np.float32(n_inputs)
    loss = 0.0
    for b in range(n_inputs):
        top = -INFINITY
        for c in range(n_classes):
            top = max(top, logits[b, c])
        true = logits[b, labels[b]] - top
        total = ZERO
        for c in range(n_classes):
            logits[b, c] = exp32(logits[b, c] - top)
            total += logits[b, c]
        loss += np.log(total) - true
        for c in range(n_classes):
            logits[b, c] *= share / total
        logits[b, labels[b]] -= share
    return loss


@kernel
def _backward(score: Score, inputs: Matrix, values: Matrix, scratch: Scratch) -> None:
    """Turn slopes into the factors with which each input moves each key; `scores` is overwritten."""
    n = inputs.shape[0]
    weights, slopes, toward = scratch.weights, scratch.slopes, scratch.scores
    n_prototypes = values.shape[1]
    for b in range(n):
        toward[b, :] = ZERO
        for c in range(values.shape[0]):
            error = scratch.logits[b, c]
            for p in range(n_prototypes):
                toward[b, p] += error * values[c, p]
        if score.code == RELU:
            for p in range(n_prototypes):
                slopes[b, p] *= toward[b, p]
            continue
        mean = ZERO
        for p in range(n_prototypes):
            mean += weights[b, p] * toward[b, p]
        scale = TWO if score.code >= FIRST_DISTANCE else ONE
        for p in range(n_prototypes):
            slopes[b, p] *= scale * weights[b, p] * (toward[b, p] - mean)
