"""x·k and d² of a batch, and the gradient of the keys that flows through them.

Keys lie in one of two layouts, so that inner loops are long: *wide*, (prototypes, features), or *narrow*, (features,
prototypes), when there are few features. Distances are taken by differences: the expanded form is wrong by more than
a usual ε near a key.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from idwbench.engine.kernels.jit import kernel

__all__ = ["Matrix", "distance_gradient", "fill_distances", "fill_products", "product_gradient"]

Matrix = NDArray[np.float32]

ZERO = np.float32(0.0)


@kernel
def fill_distances(inputs: Matrix, keys: Matrix, narrow: bool, sq_dist: Matrix) -> None:
    """Write d² of inputs (batch, features) and keys into (batch, prototypes)."""
    n_inputs, n_features = inputs.shape
    if narrow:
        for b in range(n_inputs):
            sq_dist[b, :] = ZERO
            for f in range(n_features):
                x = inputs[b, f]
                for p in range(keys.shape[1]):
                    sq_dist[b, p] += (x - keys[f, p]) * (x - keys[f, p])
        return
    fours = n_inputs - n_inputs % 4
    for b in range(0, fours, 4):
        for p in range(keys.shape[0]):
            s0 = s1 = s2 = s3 = ZERO
            for f in range(n_features):
                k = keys[p, f]
                s0 += (inputs[b, f] - k) * (inputs[b, f] - k)
                s1 += (inputs[b + 1, f] - k) * (inputs[b + 1, f] - k)
                s2 += (inputs[b + 2, f] - k) * (inputs[b + 2, f] - k)
                s3 += (inputs[b + 3, f] - k) * (inputs[b + 3, f] - k)
            sq_dist[b, p], sq_dist[b + 1, p], sq_dist[b + 2, p], sq_dist[b + 3, p] = s0, s1, s2, s3
    for b in range(fours, n_inputs):
        for p in range(keys.shape[0]):
            s0 = ZERO
            for f in range(n_features):
                s0 += (inputs[b, f] - keys[p, f]) * (inputs[b, f] - keys[p, f])
            sq_dist[b, p] = s0


@kernel
def fill_products(inputs: Matrix, keys: Matrix, narrow: bool, products: Matrix) -> None:
    """Write x·k of inputs (batch, features) and keys into (batch, prototypes)."""
    n_inputs, n_features = inputs.shape
    if narrow:
        for b in range(n_inputs):
            products[b, :] = ZERO
            for f in range(n_features):
                x = inputs[b, f]
                for p in range(keys.shape[1]):
                    products[b, p] += x * keys[f, p]
        return
    fours = n_inputs - n_inputs % 4
    for b in range(0, fours, 4):
        for p in range(keys.shape[0]):
            s0 = s1 = s2 = s3 = ZERO
            for f in range(n_features):
                k = keys[p, f]
                s0 += inputs[b, f] * k
                s1 += inputs[b + 1, f] * k
                s2 += inputs[b + 2, f] * k
                s3 += inputs[b + 3, f] * k
            products[b, p], products[b + 1, p], products[b + 2, p], products[b + 3, p] = s0, s1, s2, s3
    for b in range(fours, n_inputs):
        for p in range(keys.shape[0]):
            s0 = ZERO
            for f in range(n_features):
                s0 += inputs[b, f] * keys[p, f]
            products[b, p] = s0


@kernel
def distance_gradient(
    inputs: Matrix, keys: Matrix, narrow: bool, row: int, factors: Matrix, gradient: NDArray[np.float32]
) -> None:
    """Write Σ_b factor_bp · (k_p − x_b) for one row of `keys`; factors (batch, prototypes) hold the chain rule's 2."""
    n_inputs, n_features = inputs.shape
    gradient[:] = ZERO
    if narrow:
        for b in range(n_inputs):
            x = inputs[b, row]
            for p in range(keys.shape[1]):
                gradient[p] += factors[b, p] * (keys[row, p] - x)
        return
    twos = n_inputs - n_inputs % 2
    for b in range(0, twos, 2):
        g0, g1 = factors[b, row], factors[b + 1, row]
        for f in range(n_features):
            k = keys[row, f]
            gradient[f] += g0 * (k - inputs[b, f]) + g1 * (k - inputs[b + 1, f])
    if twos < n_inputs:
        g0 = factors[twos, row]
        for f in range(n_features):
            gradient[f] += g0 * (keys[row, f] - inputs[twos, f])


@kernel
def product_gradient(
    inputs: Matrix, narrow: bool, row: int, factors: Matrix, gradient: NDArray[np.float32]
) -> None:
    """Write Σ_b factor_bp · x_b for one row of the keys."""
    n_inputs, n_features = inputs.shape
    gradient[:] = ZERO
    if narrow:
        for b in range(n_inputs):
            x = inputs[b, row]
            for p in range(len(gradient)):
                gradient[p] += factors[b, p] * x
        return
    twos = n_inputs - n_inputs % 2
    for b in range(0, twos, 2):
        g0, g1 = factors[b, row], factors[b + 1, row]
        for f in range(n_features):
            gradient[f] += g0 * inputs[b, f] + g1 * inputs[b + 1, f]
    if twos < n_inputs:
        g0 = factors[twos, row]
        for f in range(n_features):
            gradient[f] += g0 * inputs[twos, f]
