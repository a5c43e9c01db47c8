"""Forward and backward through softmax (or relu) and cross-entropy, written once for every score.

Shapes: inputs (batch, features); scores, slopes, weights and their gradients (batch, prototypes); logits (batch,
classes); keys as `measures` says; values (classes, prototypes), so that inner loops run over prototypes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from idwbench.engine.kernels.elementary import exp32
from idwbench.engine.kernels.jit import kernel, spliced_kernel
from idwbench.engine.kernels.measures import Matrix, fill_distances, fill_products
from idwbench.engine.kernels.scores import COSINE, FIRST_DISTANCE, RELU, Score, Vector, fill_scores

__all__ = ["Labels", "Scratch", "backward", "cross_entropy", "forward", "make_scratch"]

Labels = NDArray[np.int64]

ZERO = np.float32(0.0)
ONE = np.float32(1.0)
TWO = np.float32(2.0)
INFINITY = np.float32(np.inf)


class Scratch(NamedTuple):
    """Memory that one batch after the other uses; (batch, ...) unless said otherwise.

    Attributes:
        inverse_norms: 1/‖x‖ of the inputs, for cosine.
        key_norms: 1/‖k‖ of the keys, for cosine, (prototypes,).
        key_pulls: How much of itself each key loses, for cosine, (prototypes,).
        key_row: Gradient of one row of the keys.
        value_row: Gradient of one row of the values.
    """

    inputs: Matrix
    labels: Labels
    measures: Matrix
    scores: Matrix
    slopes: Matrix
    weights: Matrix
    logits: Matrix
    inverse_norms: Vector
    key_norms: Vector
    key_pulls: Vector
    key_row: Vector
    value_row: Vector


@kernel
def make_scratch(
    n_batch: int, n_features: int, key_state: NDArray[np.float32], value_state: NDArray[np.float32]
) -> Scratch:
    """Return memory for batches of at most `n_batch` and states (4, rows, columns)."""
    n_classes, n_prototypes = value_state.shape[1:]
    return Scratch(
        np.empty((n_batch, n_features), np.float32),
        np.empty(n_batch, np.int64),
        np.empty((n_batch, n_prototypes), np.float32),
        np.empty((n_batch, n_prototypes), np.float32),
        np.empty((n_batch, n_prototypes), np.float32),
        np.empty((n_batch, n_prototypes), np.float32),
        np.empty((n_batch, n_classes), np.float32),
        np.empty(n_batch, np.float32),
        np.empty(n_prototypes, np.float32),
        np.empty(n_prototypes, np.float32),
        np.empty(key_state.shape[2], np.float32),
        np.empty(n_prototypes, np.float32),
    )


@kernel
def _normalise(inputs: Matrix, keys: Matrix, narrow: bool, products: Matrix, scratch: Scratch) -> None:
    """Turn x·k into x·k/(‖x‖ ‖k‖), 0 where a norm is 0."""
    input_norms, key_norms = scratch.inverse_norms, scratch.key_norms
    key_norms[:] = ZERO
    for r in range(keys.shape[0]):
        for j in range(keys.shape[1]):
            key_norms[j if narrow else r] += keys[r, j] * keys[r, j]
    for p in range(len(key_norms)):
        key_norms[p] = ONE / np.sqrt(key_norms[p]) if key_norms[p] > ZERO else ZERO
    for b in range(inputs.shape[0]):
        total = ZERO
        for f in range(inputs.shape[1]):
            total += inputs[b, f] * inputs[b, f]
        input_norms[b] = ONE / np.sqrt(total) if total > ZERO else ZERO
        for p in range(len(key_norms)):
            products[b, p] *= input_norms[b] * key_norms[p]


@kernel
def _denormalise(n_inputs: int, scratch: Scratch) -> None:
    """Turn factors by x·k/(‖x‖ ‖k‖) into factors by x·k, and note what the gradient of ‖k‖ takes from each key."""
    factors, cosines = scratch.slopes, scratch.measures
    input_norms, key_norms, pulls = scratch.inverse_norms, scratch.key_norms, scratch.key_pulls
    pulls[:] = ZERO
    for b in range(n_inputs):
        for p in range(len(pulls)):
            pulls[p] += factors[b, p] * cosines[b, p] * key_norms[p] * key_norms[p]
            factors[b, p] *= input_norms[b] * key_norms[p]


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


@spliced_kernel
def forward(score: Score, inputs: Matrix, keys: Matrix, values: Matrix, narrow: bool, scratch: Scratch) -> None:
    """Fill measures, scores, slopes, weights and logits of the first len(inputs) rows of `scratch`."""
    n = inputs.shape[0]
    measures, scores, slopes = scratch.measures[:n], scratch.scores[:n], scratch.slopes[:n]
    weights, logits = scratch.weights[:n], scratch.logits[:n]
    if score.code >= FIRST_DISTANCE:
        fill_distances(inputs, keys, narrow, measures)
    else:
        fill_products(inputs, keys, narrow, measures)
        if score.code == COSINE:
            _normalise(inputs, keys, narrow, measures, scratch)
    fill_scores(score, measures.reshape(-1), scores.reshape(-1), slopes.reshape(-1))
    _fill_weights(score.code == RELU, scores, slopes, weights)
    for b in range(n):
        for c in range(values.shape[0]):
            total = ZERO
            for p in range(values.shape[1]):
                total += weights[b, p] * values[c, p]
            logits[b, c] = total


@kernel
def cross_entropy(logits: Matrix, labels: Labels) -> float:
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


@spliced_kernel
def backward(score: Score, inputs: Matrix, values: Matrix, scratch: Scratch) -> None:
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
    if score.code == COSINE:
        _denormalise(n, scratch)
