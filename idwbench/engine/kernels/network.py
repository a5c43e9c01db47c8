"""Forward and backward through softmax (or relu) and cross-entropy, written once for every score.

Shapes: inputs (batch, features); measures (batch, prototypes), which become *factors*: with how much of itself each
input moves each key. The rest is done in tiles of a few inputs that stay in cache: scores, slopes and weights (tile,
prototypes), logits (tile, classes). Values lie as (classes, prototypes), so that inner loops run over prototypes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from idwbench.engine.kernels.elementary import exp32
from idwbench.engine.kernels.jit import kernel, spliced_kernel
from idwbench.engine.kernels.measures import KEY_ROWS, Matrix, fill_distances, fill_products
from idwbench.engine.kernels.scores import COSINE, FIRST_DISTANCE, RELU, Score, Vector, fill_scores

__all__ = ["Labels", "Scratch", "backward", "cross_entropy", "fill_measures", "forward", "make_scratch"]

Labels = NDArray[np.int64]

ZERO = np.float32(0.0)
ONE = np.float32(1.0)
TWO = np.float32(2.0)
INFINITY = np.float32(np.inf)
# A tile holds at least 4 inputs, at most 64, and about this many (input, prototype) pairs: 64 KB an array.
TILE_PAIRS = 16384


class Scratch(NamedTuple):
    """Memory that one batch after the other uses.

    Attributes:
        inputs: (batch, features).
        labels: (batch,).
        measures: (batch, prototypes): x·k or d², then the factors of the gradient.
        scores: (tile, prototypes), then the gradient by the weights.
        slopes: (tile, prototypes): the score's derivative.
        weights: (tile, prototypes).
        logits: (tile, classes), then the gradient by them.
        input_norms: 1/‖x‖, for cosine, (batch,).
        key_norms: 1/‖k‖, for cosine, (prototypes,).
        key_pulls: How much of itself each key loses, for cosine, (prototypes,).
        key_rows: Gradient of some rows of the keys, (rows, columns).
        value_rows: Gradient of the values, (classes, prototypes).
    """

    inputs: Matrix
    labels: Labels
    measures: Matrix
    scores: Matrix
    slopes: Matrix
    weights: Matrix
    logits: Matrix
    input_norms: Vector
    key_norms: Vector
    key_pulls: Vector
    key_rows: Matrix
    value_rows: Matrix


def make_scratch(n_batch: int, n_features: int, n_prototypes: int, n_classes: int, narrow: bool) -> Scratch:
    """Return memory for batches of at most `n_batch`; made by Python, since kernels that allocate compile slowly."""
    n_tile = min(max(TILE_PAIRS // n_prototypes, 4), 64)
    return Scratch(
        inputs=np.empty((n_batch, n_features), np.float32),
        labels=np.empty(n_batch, np.int64),
        measures=np.empty((n_batch, n_prototypes), np.float32),
        scores=np.empty((n_tile, n_prototypes), np.float32),
        slopes=np.empty((n_tile, n_prototypes), np.float32),
        weights=np.empty((n_tile, n_prototypes), np.float32),
        logits=np.empty((n_tile, n_classes), np.float32),
        input_norms=np.empty(n_batch, np.float32),
        key_norms=np.empty(n_prototypes, np.float32),
        key_pulls=np.empty(n_prototypes, np.float32),
        key_rows=np.empty((KEY_ROWS, n_prototypes if narrow else n_features), np.float32),
        value_rows=np.empty((n_classes, n_prototypes), np.float32),
    )


@kernel
def _normalise(n_inputs: int, keys: Matrix, narrow: bool, scratch: Scratch) -> None:
    """Turn x·k into x·k/(‖x‖ ‖k‖), 0 where a norm is 0."""
    inputs, products = scratch.inputs, scratch.measures
    input_norms, key_norms = scratch.input_norms, scratch.key_norms
    key_norms[:] = ZERO
    for r in range(keys.shape[0]):
        for j in range(keys.shape[1]):
            key_norms[j if narrow else r] += keys[r, j] * keys[r, j]
    for p in range(len(key_norms)):
        key_norms[p] = ONE / np.sqrt(key_norms[p]) if key_norms[p] > ZERO else ZERO
    for b in range(n_inputs):
        total = ZERO
        for f in range(inputs.shape[1]):
            total += inputs[b, f] * inputs[b, f]
        input_norms[b] = ONE / np.sqrt(total) if total > ZERO else ZERO
        for p in range(len(key_norms)):
            products[b, p] *= input_norms[b] * key_norms[p]


@spliced_kernel
def fill_measures(score: Score, n_inputs: int, keys: Matrix, narrow: bool, scratch: Scratch) -> None:
    """Fill `scratch.measures` for the first inputs."""
    inputs, measures = scratch.inputs[:n_inputs], scratch.measures[:n_inputs]
    if score.code >= FIRST_DISTANCE:
        fill_distances(inputs, keys, narrow, measures)
    else:
        fill_products(inputs, keys, narrow, measures)
        if score.code == COSINE:
            _normalise(n_inputs, keys, narrow, scratch)
    scratch.key_pulls[:] = ZERO
    scratch.value_rows[:] = ZERO


@kernel
def _fill_weights(relu: bool, n_inputs: int, scratch: Scratch) -> None:
    """Fill relu or softmax of each row; scores of +∞ share the weight, and then no gradient flows to that row."""
    scores, slopes, weights = scratch.scores, scratch.slopes, scratch.weights
    n_prototypes = scores.shape[1]
    for b in range(n_inputs):
        if relu:
            for p in range(n_prototypes):
                weights[b, p] = ZERO if scores[b, p] <= ZERO else scores[b, p]
                slopes[b, p] = slopes[b, p] if scores[b, p] > ZERO else ZERO
            continue
        top = -INFINITY
        for p in range(n_prototypes):
            top = scores[b, p] if scores[b, p] > top else top
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
def _fill_logits(n_inputs: int, values: Matrix, scratch: Scratch) -> None:
    weights, logits = scratch.weights, scratch.logits
    for b in range(n_inputs):
        for c in range(values.shape[0]):
            total = ZERO
            for p in range(values.shape[1]):
                total += weights[b, p] * values[c, p]
            logits[b, c] = total


@spliced_kernel
def forward(score: Score, first: int, n_inputs: int, values: Matrix, scratch: Scratch) -> None:
    """Fill scores, slopes, weights and logits of a tile of measures."""
    n_prototypes = scratch.scores.shape[1]
    start, n = first * n_prototypes, n_inputs * n_prototypes
    measures, scores, slopes = scratch.measures.ravel(), scratch.scores.ravel(), scratch.slopes.ravel()
    fill_scores(score, measures[start : start + n], scores[:n], slopes[:n])
    _fill_weights(score.code == RELU, n_inputs, scratch)
    _fill_logits(n_inputs, values, scratch)


@kernel
def cross_entropy(n_inputs: int, n_batch: int, labels: Labels, logits: Matrix) -> float:
    """Return the summed cross-entropy of a tile and turn logits into the gradient of the batch's mean."""
    n_classes = logits.shape[1]
    share = ONE / np.float32(n_batch)
    loss = 0.0
    for b in range(n_inputs):
        top = -INFINITY
        for c in range(n_classes):
            top = logits[b, c] if logits[b, c] > top else top
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
def backward(score: Score, first: int, n_inputs: int, values: Matrix, scratch: Scratch) -> None:
    """Add a tile's gradient of the values to `value_rows` and turn its measures into factors."""
    weights, slopes, toward = scratch.weights, scratch.slopes, scratch.scores
    input_norms, key_norms, pulls = scratch.input_norms, scratch.key_norms, scratch.key_pulls
    n_prototypes = values.shape[1]
    scale = TWO if score.code >= FIRST_DISTANCE else ONE
    for b in range(n_inputs):
        toward[b, :] = ZERO
        for c in range(values.shape[0]):
            error = scratch.logits[b, c]
            for p in range(n_prototypes):
                toward[b, p] += error * values[c, p]
            for p in range(n_prototypes):
                scratch.value_rows[c, p] += error * weights[b, p]
        mean = ZERO
        for p in range(n_prototypes):
            mean += weights[b, p] * toward[b, p]
        for p in range(n_prototypes):
            passed = toward[b, p] if score.code == RELU else scale * weights[b, p] * (toward[b, p] - mean)
            slopes[b, p] *= passed
        measures = scratch.measures[first + b]
        if score.code == COSINE:
            for p in range(n_prototypes):
                pulls[p] += slopes[b, p] * measures[p] * key_norms[p] * key_norms[p]
                slopes[b, p] *= input_norms[first + b] * key_norms[p]
        for p in range(n_prototypes):
            measures[p] = slopes[b, p]
