"""Kernels of backpropagation through time in an LSTM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["find_gate_gradients", "join_gate_gradients"]

Array = NDArray[Any]
Function = TypeVar("Function", bound=Callable[..., Any])

# Largest difference of a mean of gradients by rounding in float32, as a share of the largest gradient.
CLOSE_MEAN = 1e-6


def _compiled(function: Function) -> Function:
    """Compile a function at its first call, and cache the machine code if there is a folder for it."""
    options: dict[str, Any] = {"fastmath": {"contract", "nsz"}, "error_model": "numpy", "nogil": True}
    try:
        compiled = cast(Any, numba.njit)(cache=True, **options)(function)
    except RuntimeError:  # no folder can be written
        compiled = cast(Any, numba.njit)(**options)(function)
    return cast(Function, compiled)


@_compiled
def join_gate_gradients(
    gates: Array,
    cells: Array,
    of_states: Array,
    of_cells: Array,
    states: Array,
    above: Array,
    of_bias: Array,
    found: Array,
    before: Array,
) -> bool:
    """Write the gradients of the pre-activations from the parts that a backward pass left, and compare their sum.

    Args:
        gates: i, f, g, o at the beginning of each row (length, batch, at least 4·units).
        cells: c_t of all steps but the last (length − 1, batch, units).
        of_states: Gradient of these h_t by later steps, at the beginning of each row.
        of_cells: Gradient of these c_t by later steps (length − 1, batch, units).
        states: h_t (length, batch, units).
        above: Gradient of h_t by all that follows but the LSTM itself (batch, length, units).
        of_bias: Gradient of the bias (4·units), which is the sum of what is written.
        found: What is written (batch, length, 4·units).
        before: h_{t−1}, written (batch, length, units); h_0 is zero.

    Returns:
        False if the sum is another one: then the parts are not what they should be.
    """
    length, batch, units = states.shape
    none = np.zeros(units, found.dtype)  # before the first step and after the last one
    sums, most = np.zeros(4 * units, found.dtype), np.zeros(4 * units, found.dtype)
    for t in range(length):
        for b in range(batch):
            row, cell, of_state, of_cell = found[b, t], none, none, none
            if t > 0:
                cell = cells[t - 1, b]
                before[b, t] = states[t - 1, b]
            else:
                before[b, t] = 0
            if t < length - 1:
                of_state, of_cell = of_states[t, b], of_cells[t, b]
            _join(gates[t, b], cell, of_state, of_cell, states[t, b], above[b, t], row)
            _sum(row, sums, most)
    bound = CLOSE_MEAN * length * batch * most.max()
    equal = True
    for j in range(4 * units):
        equal = equal and abs(sums[j] - of_bias[j]) <= bound  # false if it is not a number
    return equal


@_compiled
def _join(
    gates: Array, cells: Array, of_state: Array, of_cell: Array, states: Array, above: Array, found: Array
) -> None:
    """Write the gradients of one step of one sequence into `found` (4·units)."""
    units = len(states)
    for u in range(units):
        i, f, g, o = gates[u], gates[units + u], gates[2 * units + u], gates[3 * units + u]
        h, d = states[u], above[u] + of_state[u]
        tanh = h / o if o > 0 else o  # of c_t; it is not needed where the output gate is shut
        c = of_cell[u] + d * (o - h * tanh)
        found[u] = c * g * i * (1 - i)
        found[units + u] = c * cells[u] * f * (1 - f)
        found[2 * units + u] = c * i * (1 - g * g)
        found[3 * units + u] = d * h * (1 - o)


@_compiled
def _sum(row: Array, sums: Array, most: Array) -> None:
    """Add a row to the sums, and take the largest absolute values."""
    for j in range(len(row)):
        sums[j] += row[j]
        size = abs(row[j])
        most[j] = size if size > most[j] else most[j]


@_compiled
def find_gate_gradients(
    gates: Array, states: Array, above: Array, weight_hh: Array, found: Array, before: Array
) -> None:
    """Write the gradients of the pre-activations into `found`, and h_{t−1} into `before`; h_0 is zero.

    Args:
        gates: i, f, g, o at the beginning of each row (length, batch, at least 4·units).
        states: h_t (length, batch, units).
        above: Gradient of h_t by all that follows but the LSTM itself (batch, length, units).
        weight_hh: (4·units, units).
        found: What is written (batch, length, 4·units).
        before: What is written (batch, length, units).
    """
    length, batch, units = states.shape
    cells = np.zeros((1 + length, batch, units), states.dtype)
    for t in range(length):
        for b in range(batch):
            _find_cells(gates[t, b], cells[t, b], cells[t + 1, b])
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


@_compiled
def _find_cells(gates: Array, before: Array, cells: Array) -> None:
    """Write c_t = f c_{t−1} + i g of one sequence."""
    units = len(cells)
    for u in range(units):
        cells[u] = gates[u] * gates[2 * units + u] + gates[units + u] * before[u]


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
