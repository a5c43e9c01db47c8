"""Reusable memory of the kernels, in aligned arrays."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Labels", "Matrix", "Scratch", "SlopeScratch", "Vector", "aligned_zeros", "make_scratch", "slope_scratch"]

Labels = NDArray[np.int64]
Matrix = NDArray[np.float32]
Vector = NDArray[np.float32]

# Vector registers are up to 64 bytes wide; reading across the border of a cache line takes twice as long.
LINE_BYTES = 64
# A tile has 4 to 64 inputs and about this many pairs of input and prototype: 64 KB for each array.
TILE_PAIRS = 16384
# One in so many pairs may be near.
NEAR_SHARE = 8


class Scratch(NamedTuple):
    """Reusable memory for a batch."""

    inputs: Matrix  # (batch, features)
    labels: Labels  # (batch,), of a classification
    targets: Matrix  # (batch, outputs), of a regression
    similarities: Matrix  # (batch, prototypes)
    coefficients: Matrix  # (batch, prototypes), of inputs (or differences) in the gradient of a key
    scores: Matrix  # (tile, prototypes)
    derivatives: Matrix  # (tile, prototypes), of scores with respect to similarities
    weights: Matrix  # (tile, prototypes)
    weight_gradients: Matrix  # (tile, prototypes)
    outputs: Matrix  # (tile, outputs)
    output_gradients: Matrix  # (tile, outputs)
    input_norms: Vector  # (batch,), 1/‖x‖ for cosine, ‖x‖² by products
    key_norms: Vector  # (prototypes,), 1/‖k‖ for cosine, ‖k‖² by products
    norm_coefficients: Vector  # (prototypes,), of each key in its own gradient, for cosine and by products
    key_gradients: Matrix  # (rows, columns)
    value_gradients: Matrix  # (outputs, prototypes)
    near_pairs: NDArray[np.int32]  # (most, 2), input and key of near pairs, by products
    near_coefficients: Vector  # (most,), coefficients of near pairs
    by_products: bool


class SlopeScratch(NamedTuple):
    """Reusable memory for values with a slope; apart, since each call with an array in a tuple counts a reference."""

    heights: Matrix  # (batch, rank · prototypes), W (x − k)
    height_gradients: Matrix  # (batch, rank · prototypes)
    shares: Matrix  # (tile, rank · prototypes), weights times heights
    sums: Vector  # (rank · prototypes,), W k, and later the negative gradient by it
    input_gradients: Matrix  # (rank · prototypes, features), of W
    output_gradients: Matrix  # (outputs, rank · prototypes), of U


def aligned_zeros(*shape: int) -> NDArray[np.float32]:
    """Return a new float32 array that starts at a cache line."""
    n_bytes = 4 * int(np.prod(shape))
    memory = np.zeros(n_bytes + LINE_BYTES, np.uint8)
    start = -memory.ctypes.data % LINE_BYTES
    return memory[start : start + n_bytes].view(np.float32).reshape(shape)


def make_scratch(n_batch: int, keys: Matrix, values: Matrix, *, narrow: bool, by_products: bool) -> Scratch:
    """Return memory for batches of at most `n_batch`; kernels that allocate compile slowly."""
    n_outputs, n_prototypes = values.shape
    n_near = n_batch * n_prototypes // NEAR_SHARE if by_products else 0
    n_tile = min(max(TILE_PAIRS // n_prototypes, 4), 64)

    return Scratch(
        inputs=aligned_zeros(n_batch, keys.shape[0] if narrow else keys.shape[1]),
        labels=np.zeros(n_batch, np.int64),
        targets=aligned_zeros(n_batch, n_outputs),
        similarities=aligned_zeros(n_batch, n_prototypes),
        coefficients=aligned_zeros(n_batch, n_prototypes),
        scores=aligned_zeros(n_tile, n_prototypes),
        derivatives=aligned_zeros(n_tile, n_prototypes),
        weights=aligned_zeros(n_tile, n_prototypes),
        weight_gradients=aligned_zeros(n_tile, n_prototypes),
        outputs=aligned_zeros(n_tile, n_outputs),
        output_gradients=aligned_zeros(n_tile, n_outputs),
        input_norms=aligned_zeros(n_batch),
        key_norms=aligned_zeros(n_prototypes),
        norm_coefficients=aligned_zeros(n_prototypes),
        key_gradients=aligned_zeros(*keys.shape),
        value_gradients=aligned_zeros(n_outputs, n_prototypes),
        near_pairs=np.zeros((n_near, 2), np.int32),
        near_coefficients=aligned_zeros(n_near),
        by_products=by_products,
    )


def slope_scratch(scratch: Scratch, n_slopes: int) -> SlopeScratch:
    """Return memory for `n_slopes` = rank · prototypes, beside that of a network."""
    n_batch, n_features = scratch.inputs.shape
    return SlopeScratch(
        heights=aligned_zeros(n_batch, n_slopes),
        height_gradients=aligned_zeros(n_batch, n_slopes),
        shares=aligned_zeros(len(scratch.scores), n_slopes),
        sums=aligned_zeros(n_slopes),
        input_gradients=aligned_zeros(n_slopes, n_features),
        output_gradients=aligned_zeros(len(scratch.value_gradients), n_slopes),
    )
