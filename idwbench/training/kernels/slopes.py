"""Values with a slope, v + U W (x − k): the heights W (x − k), and the gradients of U, W and k.

The formula is that of `idwbench.attention.slopes`. W is stored as (rank · prototypes, features) and U as (outputs,
rank · prototypes), as the values. The products of whole batches are those of BLAS.
"""

import numpy as np

from idwbench.training.kernels.jit import kernel
from idwbench.training.kernels.scratch import Matrix, Scratch, SlopeScratch

__all__ = ["add_slopes", "fill_height_gradients", "fill_heights", "fill_slope_gradients"]

ZERO = np.float32(0.0)


@kernel
def fill_heights(n_inputs: int, slopes: Matrix, keys: Matrix, narrow: bool, inputs: Matrix, own: SlopeScratch) -> None:
    """Fill `own.heights` for the first inputs with W x − W k; `slopes` is W."""
    heights, n_prototypes = own.heights[:n_inputs], keys.shape[1] if narrow else keys.shape[0]
    np.dot(inputs[:n_inputs], slopes.T, heights)
    for i in range(slopes.shape[0]):
        p, total = i % n_prototypes, ZERO
        if narrow:
            for f in range(slopes.shape[1]):
                total += slopes[i, f] * keys[f, p]
        else:
            for f in range(slopes.shape[1]):
                total += slopes[i, f] * keys[p, f]
        own.sums[i] = total
    for b in range(n_inputs):
        for i in range(slopes.shape[0]):
            heights[b, i] -= own.sums[i]


@kernel
def add_slopes(first: int, n_inputs: int, slopes: Matrix, scratch: Scratch, own: SlopeScratch) -> None:
    """Add what slopes add to the outputs of a tile, and fill its `own.shares`; `slopes` is U."""
    weights, outputs, n_prototypes = scratch.weights, scratch.outputs, scratch.weights.shape[1]
    for b in range(n_inputs):
        for start in range(0, slopes.shape[1], n_prototypes):
            for p in range(n_prototypes):
                own.shares[b, start + p] = weights[b, p] * own.heights[first + b, start + p]
        for c in range(slopes.shape[0]):
            total = ZERO
            for i in range(slopes.shape[1]):
                total += own.shares[b, i] * slopes[c, i]
            outputs[b, c] += total


@kernel
def fill_height_gradients(first: int, n_inputs: int, slopes: Matrix, scratch: Scratch, own: SlopeScratch) -> None:
    """Fill `own.height_gradients` of a tile, and add to its `weight_gradients` and to the gradients of U, `slopes`."""
    n_prototypes = scratch.weights.shape[1]
    for b in range(n_inputs):
        gradients, heights = own.height_gradients[first + b], own.heights[first + b]
        gradients[:] = ZERO
        for c in range(slopes.shape[0]):
            error = scratch.output_gradients[b, c]
            for i in range(slopes.shape[1]):
                gradients[i] += error * slopes[c, i]
            for i in range(slopes.shape[1]):
                own.output_gradients[c, i] += error * own.shares[b, i]
        for start in range(0, slopes.shape[1], n_prototypes):
            for p in range(n_prototypes):
                scratch.weight_gradients[b, p] += gradients[start + p] * heights[start + p]
                gradients[start + p] *= scratch.weights[b, p]


@kernel
def fill_slope_gradients(
    n_inputs: int, slopes: Matrix, keys: Matrix, narrow: bool, scratch: Scratch, own: SlopeScratch
) -> None:
    """Fill the gradients of W, `slopes`, and add to those of the keys, from `own.height_gradients` of a batch."""
    gradients, rows, sums = own.height_gradients[:n_inputs], own.input_gradients, own.sums
    key_gradients, n_prototypes = scratch.key_gradients, keys.shape[1] if narrow else keys.shape[0]
    np.dot(gradients.T, scratch.inputs[:n_inputs], rows)
    sums[:] = ZERO
    for b in range(n_inputs):
        for i in range(len(sums)):
            sums[i] += gradients[b, i]
    for i in range(rows.shape[0]):
        p = i % n_prototypes
        if narrow:
            for f in range(rows.shape[1]):
                rows[i, f] -= sums[i] * keys[f, p]
                key_gradients[f, p] -= sums[i] * slopes[i, f]
        else:
            for f in range(rows.shape[1]):
                rows[i, f] -= sums[i] * keys[p, f]
                key_gradients[p, f] -= sums[i] * slopes[i, f]
