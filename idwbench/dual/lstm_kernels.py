"""Kernels of backpropagation through time in an LSTM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["find_gate_gradients"]

Array = NDArray[Any]
Function = TypeVar("Function", bound=Callable[..., Any])

# Largest difference of states h_t, which are in ±1, by rounding in float32.
CLOSE = 1e-5


def _compiled(function: Function) -> Function:
    """Compile a function at its first call, and cache the machine code if there is a folder for it."""
    options: dict[str, Any] = {"fastmath": {"contract", "nsz"}, "error_model": "numpy", "nogil": True}
    try:
        compiled = cast(Any, numba.njit)(cache=True, **options)(function)
    except RuntimeError:  # no folder can be written
        compiled = cast(Any, numba.njit)(**options)(function)
    return cast(Function, compiled)


@_compiled
def find_gate_gradients(
    gates: Array, compared: bool, states: Array, above: Array, weight_hh: Array, found: Array, before: Array
) -> bool:
    """Write the gradients of the pre-activations into `found`, and h_{t−1} into `before`; h_0 is zero.

    Args:
        gates: i, f, g, o at the beginning of each row (length, batch, at least 4·units).
        compared: Whether to compare the states that the gates give with `states`.
        states: h_t (length, batch, units).
        above: Gradient of h_t by all that follows but the LSTM itself (batch, length, units).
        weight_hh: (4·units, units).
        found: What is written (batch, length, 4·units).
        before: What is written (batch, length, units).

    Returns:
        False, and nothing is written, if they were compared and differ.
    """
    length, batch, units = states.shape
    cells = np.zeros((1 + length, batch, units), states.dtype)
    for t in range(length):
        for b in range(batch):
            _find_cells(gates[t, b], cells[t, b], cells[t + 1, b])
    # A last cell is a sum over all steps: those between need not be compared.
    if compared and not (_give(gates[0], cells[1], states[0]) and _give(gates[-1], cells[-1], states[-1])):
        return False
    of_state, of_step = np.zeros((batch, units), above.dtype), np.empty((batch, 4 * units), above.dtype)
    of_cell = np.zeros_like(of_state)
    for t in range(length - 1, -1, -1):
        if t < length - 1:
            np.dot(of_step, weight_hh, of_state)
        for b in range(batch):
            _add(above[b, t], of_state[b])
            _find_in_row(gates[t, b], cells[t, b], states[t, b], of_state[b], of_cell[b], of_step[b])
            found[b, t] = of_step[b]
            if t < length - 1:
                before[b, t + 1] = states[t, b]
            if t == 0:
                before[b, 0] = 0
    return True


@_compiled
def _find_cells(gates: Array, before: Array, cells: Array) -> None:
    """Write c_t = f c_{t−1} + i g of one sequence."""
    units = len(cells)
    for u in range(units):
        cells[u] = gates[u] * gates[2 * units + u] + gates[units + u] * before[u]


@_compiled
def _give(gates: Array, cells: Array, states: Array) -> bool:
    """Return whether o tanh c_t are the states h_t (batch, units) of one step."""
    batch, units = states.shape
    for b in range(batch):
        for u in range(units):
            if not abs(gates[b, 3 * units + u] * np.tanh(cells[b, u]) - states[b, u]) < CLOSE:
                return False  # also if it is not a number
    return True


@_compiled
def _add(part: Array, total: Array) -> None:
    for u in range(len(total)):
        total[u] += part[u]


@_compiled
def _find_in_row(gates: Array, cells: Array, states: Array, of_state: Array, of_cell: Array, found: Array) -> None:
    """Write the gradients of one step of one sequence into `found` (4·units), and that of c_{t−1} into `of_cell`."""
    units = len(states)
    for u in range(units):
        i, f, g, o = gates[u], gates[units + u], gates[2 * units + u], gates[3 * units + u]
        h, d = states[u], of_state[u]
        tanh = h / o if o > 0 else o  # of c_t; it is not needed where the output gate is shut
        c = of_cell[u] + d * (o - h * tanh)
        found[u] = c * g * i * (1 - i)
        found[units + u] = c * cells[u] * f * (1 - f)
        found[2 * units + u] = c * i * (1 - g * g)
        found[3 * units + u] = d * h * (1 - o)
        of_cell[u] = c * f
