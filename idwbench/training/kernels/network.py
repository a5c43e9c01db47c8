"""Forward and backward pass through softmax (or relu) and the loss, for all scores.

Similarities and coefficients are computed for a batch, the rest for tiles of a few inputs that stay in the cache.
Values are stored as (outputs, prototypes), so that inner loops run over prototypes.
"""

import numpy as np

from idwbench.training.kernels.jit import inlined_kernel, kernel
from idwbench.training.kernels.scores import COSINE, SQ_DIST, Score, exp32, fill_scores
from idwbench.training.kernels.scratch import Labels, Matrix, Scratch, Vector
from idwbench.training.kernels.similarities import fill_by_products, fill_dot_products, fill_sq_dist

__all__ = [
    "backward",
    "cross_entropy",
    "fill_similarities",
    "forward",
    "squared_error",
    "weighted_loss",
]

ZERO = np.float32(0.0)
ONE = np.float32(1.0)
TWO = np.float32(2.0)
INFINITY = np.float32(np.inf)


@kernel
def _normalise(n_inputs: int, keys: Matrix, narrow: bool, scratch: Scratch) -> None:
    """Replace x·k by x·k/(‖x‖ ‖k‖), 0 where a norm is 0."""
    inputs, similarities = scratch.inputs, scratch.similarities
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
            similarities[b, p] *= input_norms[b] * key_norms[p]


@inlined_kernel
def fill_similarities(score: Score, n_inputs: int, keys: Matrix, narrow: bool, scratch: Scratch) -> int:
    """Fill `scratch.similarities` for the first inputs; return the number of near pairs, or −1 without products."""
    inputs, similarities = scratch.inputs[:n_inputs], scratch.similarities[:n_inputs]
    n_near = -1
    if scratch.by_products:
        n_near = fill_by_products(score, n_inputs, keys, scratch)
    elif score.similarity == SQ_DIST:
        fill_sq_dist(inputs, keys, narrow, similarities)
    else:
        fill_dot_products(inputs, keys, narrow, similarities)
    if score.similarity == COSINE:
        _normalise(n_inputs, keys, narrow, scratch)
    return n_near


@kernel
def _fill_weights(relu: bool, n_inputs: int, scratch: Scratch) -> None:
    """Fill relu or softmax of each row; scores of +∞ share the weight, and the gradient of that row is 0."""
    scores, derivatives, weights = scratch.scores, scratch.derivatives, scratch.weights
    n_prototypes = scores.shape[1]
    for b in range(n_inputs):
        if relu:
            for p in range(n_prototypes):
                weights[b, p] = ZERO if scores[b, p] <= ZERO else scores[b, p]
                derivatives[b, p] = derivatives[b, p] if scores[b, p] > ZERO else ZERO
            continue
        top = -INFINITY
        for p in range(n_prototypes):
            top = scores[b, p] if scores[b, p] > top else top
        if top == INFINITY:
            for p in range(n_prototypes):
                weights[b, p] = ONE if scores[b, p] == INFINITY else ZERO
                derivatives[b, p] = ZERO
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
def _fill_outputs(n_inputs: int, values: Matrix, scratch: Scratch) -> None:
    weights, outputs = scratch.weights, scratch.outputs
    for b in range(n_inputs):
        for c in range(values.shape[0]):
            total = ZERO
            for p in range(values.shape[1]):
                total += weights[b, p] * values[c, p]
            outputs[b, c] = total


@inlined_kernel
def forward(score: Score, first: int, n_inputs: int, values: Matrix, scratch: Scratch) -> None:
    """Fill scores, derivatives, weights and outputs of a tile."""
    n_prototypes = scratch.scores.shape[1]
    start, n = first * n_prototypes, n_inputs * n_prototypes
    similarities, scores, derivatives = (
        scratch.similarities.ravel(),
        scratch.scores.ravel(),
        scratch.derivatives.ravel(),
    )
    fill_scores(score, similarities[start : start + n], scores[:n], derivatives[:n])
    _fill_weights(score.relu, n_inputs, scratch)
    _fill_outputs(n_inputs, values, scratch)


@kernel
def cross_entropy(
    smoothing: np.float32, n_inputs: int, n_batch: int, labels: Labels, outputs: Matrix, gradients: Matrix
) -> float:
    """Return the summed cross-entropy of a tile of logits, and fill the gradients of the mean over the batch.

    The share `smoothing` of each label is divided among all classes.
    """
    n_classes = outputs.shape[1]
    share = ONE / np.float32(n_batch)
    of_class = smoothing / np.float32(n_classes)
    loss = 0.0
    for b in range(n_inputs):
        top = -INFINITY
        for c in range(n_classes):
            top = outputs[b, c] if outputs[b, c] > top else top
        true = outputs[b, labels[b]] - top
        total = ZERO
        for c in range(n_classes):
            gradients[b, c] = exp32(outputs[b, c] - top)
            total += gradients[b, c]
        loss += np.log(total) - true
        for c in range(n_classes):
            gradients[b, c] *= share / total
        gradients[b, labels[b]] -= share
        if smoothing > ZERO:
            gradients[b, labels[b]] += share * smoothing
            for c in range(n_classes):
                loss += of_class * (true - (outputs[b, c] - top))
                gradients[b, c] -= share * of_class
    return loss


@kernel
def squared_error(n_inputs: int, n_batch: int, targets: Matrix, outputs: Matrix, gradients: Matrix) -> float:
    """Return the sum of squared errors of a tile (mean over outputs), and fill the gradients of the mean."""
    n_outputs = outputs.shape[1]
    share = TWO / np.float32(n_batch * n_outputs)
    loss = 0.0
    for b in range(n_inputs):
        for c in range(n_outputs):
            error = outputs[b, c] - targets[b, c]
            loss += float(error) * float(error)
            gradients[b, c] = share * error
    return float(loss / n_outputs)


@kernel
def weighted_loss(
    regression: bool,
    smoothing: np.float32,
    n_batch: int,
    rows: Labels,
    weights: Vector,
    scratch: Scratch,
    labels: Labels,
    targets: Matrix,
) -> float:
    """Return the loss of a tile, and fill its gradients, with the loss of each row times its weight.

    `weights` (n,) are those of all training data, `rows` (tile,) the rows in the tile.
    """
    loss = 0.0
    for b in range(len(rows)):
        outputs, gradients = scratch.outputs[b : b + 1], scratch.output_gradients[b : b + 1]
        weight = weights[rows[b]]
        if regression:
            loss += weight * squared_error(1, n_batch, targets[b : b + 1], outputs, gradients)
        else:
            loss += weight * cross_entropy(smoothing, 1, n_batch, labels[b : b + 1], outputs, gradients)
        for c in range(gradients.shape[1]):
            gradients[0, c] *= weight
    return loss


@kernel
def backward(score: Score, first: int, n_inputs: int, values: Matrix, scratch: Scratch) -> None:
    """Fill the coefficients of a tile, and add its gradient of the values to `value_gradients`.

    What values with a slope add to the gradients of weights is in `weight_gradients` before, or 0.
    """
    weights, derivatives, weight_gradients = scratch.weights, scratch.derivatives, scratch.weight_gradients
    value_gradients = scratch.value_gradients
    key_norms, norm_coefficients = scratch.key_norms, scratch.norm_coefficients
    n_prototypes = values.shape[1]
    scale = TWO if score.similarity == SQ_DIST else ONE
    for b in range(n_inputs):
        coefficients = scratch.coefficients[first + b]
        for c in range(values.shape[0]):
            error = scratch.output_gradients[b, c]
            for p in range(n_prototypes):
                weight_gradients[b, p] += error * values[c, p]
            for p in range(n_prototypes):
                value_gradients[c, p] += error * weights[b, p]
        mean = ZERO
        for p in range(n_prototypes):
            mean += weights[b, p] * weight_gradients[b, p]
        if score.relu:
            for p in range(n_prototypes):
                coefficients[p] = scale * weight_gradients[b, p] * derivatives[b, p]
        else:
            for p in range(n_prototypes):
                coefficients[p] = scale * weights[b, p] * (weight_gradients[b, p] - mean) * derivatives[b, p]
        if score.similarity == COSINE:
            similarities, input_norm = scratch.similarities[first + b], scratch.input_norms[first + b]
            for p in range(n_prototypes):
                norm_coefficients[p] += coefficients[p] * similarities[p] * key_norms[p] * key_norms[p]
                coefficients[p] *= input_norm * key_norms[p]
