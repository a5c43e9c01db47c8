"""Kernels of backpropagation through time in an LSTM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["add_cells", "find_gate_gradients"]

Array = NDArray[Any]


def _compiled(function: Callable[..., None]) -> Callable[..., None]:
    """Compile a function at its first call, and cache the machine code if there is a folder for it."""
    options: dict[str, Any] = {"fastmath": {"contract", "nsz"}, "error_model": "numpy", "nogil": True}
    try:
        compiled = cast(Any, numba.njit)(cache=True, **options)(function)
    except RuntimeError:  # no folder can be written
        compiled = cast(Any, numba.njit)(**options)(function)
    return cast(Callable[..., None], compiled)


@_compiled
def add_cells(gates: Array, cells: Array) -> None:
    """Write c_t = f c_{t−1} + i g into `cells` (length, batch, units), from i, f, g, o (length, batch, 4, units)."""
    length, batch, _, units = gates.shape
    for b in range(batch):
        for u in range(units):
            cells[0, b, u] = gates[0, b, 0, u] * gates[0, b, 2, u]
    for t in range(1, length):
        for b in range(batch):
            for u in range(units):
                cells[t, b, u] = gates[t, b, 0, u] * gates[t, b, 2, u] + gates[t, b, 1, u] * cells[t - 1, b, u]


@_compiled
def find_gate_gradients(
    gates: Array, cells: Array, squashed: Array, above: Array, weight_hh: Array, found: Array
) -> None:
    """Write the gradients of the pre-activations into `found` (length, batch, 4, units).

    Args:
        gates: i, f, g, o (length, batch, 4, units).
        cells: c_t (length, batch, units).
        squashed: tanh c_t.
        above: Gradient of h_t by all that follows but the LSTM itself.
        weight_hh: (4·units, units).
        found: What is written.
    """
    length, batch, _, units = gates.shape
    flat = found.reshape(length, batch, 4 * units)
    of_state = above[length - 1].copy()
    of_cell, initial = np.zeros_like(of_state), np.zeros_like(of_state)
    for t in range(length - 1, -1, -1):
        cells_before = cells[t - 1] if t else initial
        for b in range(batch):
            row_i, row_f, row_g, row_o = gates[t, b, 0], gates[t, b, 1], gates[t, b, 2], gates[t, b, 3]
            of_i, of_f, of_g, of_o = found[t, b, 0], found[t, b, 1], found[t, b, 2], found[t, b, 3]
            for u in range(units):
                i, f, g, o = row_i[u], row_f[u], row_g[u], row_o[u]
                s, d = squashed[t, b, u], of_state[b, u]
                c = of_cell[b, u] + d * o * (1 - s * s)
                of_i[u] = c * g * i * (1 - i)
                of_f[u] = c * cells_before[b, u] * f * (1 - f)
                of_g[u] = c * i * (1 - g * g)
                of_o[u] = d * s * o * (1 - o)
                of_cell[b, u] = c * f
        if t:
            np.dot(flat[t], weight_hh, of_state)
            for b in range(batch):
                for u in range(units):
                    of_state[b, u] += above[t - 1, b, u]
