"""x·k and d² of a batch, and the gradient of the keys that flows through them.

Keys lie in one of two layouts, so that inner loops are long: *wide*, (prototypes, features), or *narrow*, (features,
prototypes), when there are few features. Distances are taken by differences: the expanded form is wrong by more than
a usual ε near a key.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from idwbench.engine.kernels.jit import kernel, spliced_kernel

__all__ = ["KEY_ROWS", "Matrix", "distance_gradient", "fill_distances", "fill_products", "product_gradient"]

Matrix = NDArray[np.float32]

ZERO = np.float32(0.0)
# Inputs that one pass over the keys meets: they stay in the nearest cache while the keys stream by.
TILE = 8
# Keys whose gradient is taken at once: it stays in the nearest cache while the inputs stream by.
KEY_ROWS = 8


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
    for tile in range(0, n_inputs, TILE):
        last = min(tile + TILE, n_inputs) - 1
        for p0 in range(0, keys.shape[0], 2):
            p1 = min(p0 + 1, keys.shape[0] - 1)
            for b0 in range(tile, last + 1, 4):
                # Past the end the last one is measured again, which costs less than another loop.
                b1, b2, b3 = min(b0 + 1, last), min(b0 + 2, last), min(b0 + 3, last)
                s00 = s10 = s20 = s30 = s01 = s11 = s21 = s31 = ZERO
                for f in range(n_features):
                    k0, k1 = keys[p0, f], keys[p1, f]
                    s00 += (inputs[b0, f] - k0) * (inputs[b0, f] - k0)
                    s01 += (inputs[b0, f] - k1) * (inputs[b0, f] - k1)
                    s10 += (inputs[b1, f] - k0) * (inputs[b1, f] - k0)
                    s11 += (inputs[b1, f] - k1) * (inputs[b1, f] - k1)
                    s20 += (inputs[b2, f] - k0) * (inputs[b2, f] - k0)
                    s21 += (inputs[b2, f] - k1) * (inputs[b2, f] - k1)
                    s30 += (inputs[b3, f] - k0) * (inputs[b3, f] - k0)
                    s31 += (inputs[b3, f] - k1) * (inputs[b3, f] - k1)
                sq_dist[b0, p0], sq_dist[b1, p0], sq_dist[b2, p0], sq_dist[b3, p0] = s00, s10, s20, s30
                sq_dist[b0, p1], sq_dist[b1, p1], sq_dist[b2, p1], sq_dist[b3, p1] = s01, s11, s21, s31


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
    for tile in range(0, n_inputs, TILE):
        last = min(tile + TILE, n_inputs) - 1
        for p0 in range(0, keys.shape[0], 2):
            p1 = min(p0 + 1, keys.shape[0] - 1)
            for b0 in range(tile, last + 1, 4):
                # Past the end the last one is measured again, which costs less than another loop.
                b1, b2, b3 = min(b0 + 1, last), min(b0 + 2, last), min(b0 + 3, last)
                s00 = s10 = s20 = s30 = s01 = s11 = s21 = s31 = ZERO
                for f in range(n_features):
                    k0, k1 = keys[p0, f], keys[p1, f]
                    s00 += inputs[b0, f] * k0
                    s01 += inputs[b0, f] * k1
                    s10 += inputs[b1, f] * k0
                    s11 += inputs[b1, f] * k1
                    s20 += inputs[b2, f] * k0
                    s21 += inputs[b2, f] * k1
                    s30 += inputs[b3, f] * k0
                    s31 += inputs[b3, f] * k1
                products[b0, p0], products[b1, p0], products[b2, p0], products[b3, p0] = s00, s10, s20, s30
                products[b0, p1], products[b1, p1], products[b2, p1], products[b3, p1] = s01, s11, s21, s31


@spliced_kernel
def _factors(
    factors: Matrix, p: int, b: int, last: int, wanted: bool
) -> tuple[np.float32, np.float32, np.float32, np.float32]:
    """Return the factors of one key and four inputs from b on, 0 past the last input or where nothing is wanted."""
    return (
        factors[b, p] if wanted else ZERO,
        factors[b + 1, p] if wanted and b + 1 <= last else ZERO,
        factors[b + 2, p] if wanted and b + 2 <= last else ZERO,
        factors[b + 3, p] if wanted and b + 3 <= last else ZERO,
    )


@kernel
def distance_gradient(
    inputs: Matrix, keys: Matrix, narrow: bool, first: int, factors: Matrix, gradient: Matrix
) -> None:
    """Write Σ_b factor_bp · (k_p − x_b) for the rows of `keys` from `first` on, as many as `gradient` has.

    The factors (batch, prototypes) hold the chain rule's 2.
    """
    n_inputs, n_features = inputs.shape
    gradient[:] = ZERO
    if narrow:
        for r in range(gradient.shape[0]):
            for b in range(n_inputs):
                x = inputs[b, first + r]
                for p in range(keys.shape[1]):
                    gradient[r, p] += factors[b, p] * (keys[first + r, p] - x)
        return
    last, last_row = n_inputs - 1, gradient.shape[0] - 1
    for b0 in range(0, n_inputs, 4):
        b1, b2, b3 = min(b0 + 1, last), min(b0 + 2, last), min(b0 + 3, last)
        for r in range(0, last_row + 1, 2):
            # Two rows at once use each input twice; a last row without a partner is its own, with factors 0.
            s = min(r + 1, last_row)
            p, q = first + r, first + s
            g0, g1, g2, g3 = _factors(factors, p, b0, last, True)
            h0, h1, h2, h3 = _factors(factors, q, b0, last, s > r)
            for f in range(n_features):
                k, m = keys[p, f], keys[q, f]
                x0, x1, x2, x3 = inputs[b0, f], inputs[b1, f], inputs[b2, f], inputs[b3, f]
                gradient[r, f] += (g0 * (k - x0) + g1 * (k - x1)) + (g2 * (k - x2) + g3 * (k - x3))
                gradient[s, f] += (h0 * (m - x0) + h1 * (m - x1)) + (h2 * (m - x2) + h3 * (m - x3))


@kernel
def product_gradient(inputs: Matrix, narrow: bool, first: int, factors: Matrix, gradient: Matrix) -> None:
    """Write Σ_b factor_bp · x_b for the rows of the keys from `first` on, as many as `gradient` has."""
    n_inputs, n_features = inputs.shape
    gradient[:] = ZERO
    if narrow:
        for r in range(gradient.shape[0]):
            for b in range(n_inputs):
                x = inputs[b, first + r]
                for p in range(gradient.shape[1]):
                    gradient[r, p] += factors[b, p] * x
        return
    last, last_row = n_inputs - 1, gradient.shape[0] - 1
    for b0 in range(0, n_inputs, 4):
        b1, b2, b3 = min(b0 + 1, last), min(b0 + 2, last), min(b0 + 3, last)
        for r in range(0, last_row + 1, 2):
            s = min(r + 1, last_row)
            g0, g1, g2, g3 = _factors(factors, first + r, b0, last, True)
            h0, h1, h2, h3 = _factors(factors, first + s, b0, last, s > r)
            for f in range(n_features):
                x0, x1, x2, x3 = inputs[b0, f], inputs[b1, f], inputs[b2, f], inputs[b3, f]
                gradient[r, f] += (g0 * x0 + g1 * x1) + (g2 * x2 + g3 * x3)
                gradient[s, f] += (h0 * x0 + h1 * x1) + (h2 * x2 + h3 * x3)
