"""What oneDNN, which computes an LSTM in float32 on a CPU, leaves of its passes in its workspace.

This is not documented: what is found must be compared, as `idwbench.dual.lstm_kernels.join_gate_gradients` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

__all__ = ["LstmWorkspace", "kept_workspace"]

# In float32 numbers: each part begins at a page, and rows are padded to lines of the cache.
_PAGE, _LINE = 1024, 16


@dataclass(frozen=True)
class LstmWorkspace:
    """Views of a workspace, for an LSTM of one layer in one direction; the last two are filled by the backward pass.

    Attributes:
        gates: i, f, g, o at the beginning of each row (length, batch, at least 4·units).
        cells: c_t of all steps but the last (length − 1, batch, units).
        of_states: The gradient of these h_t by later steps, at the beginning of each row (length − 1, batch, at least
            units).
        of_cells: The gradient of these c_t by later steps (length − 1, batch, units).
    """

    gates: Tensor
    cells: Tensor
    of_states: Tensor
    of_cells: Tensor


def kept_workspace(states: Tensor, features: int) -> tuple[Any, LstmWorkspace] | None:
    """Return the node of the backward pass and its workspace, or None if there is none or it has another length.

    The parts are, in order: gates (length, batch, row); inputs and states, which may be left out; cells; gradients of
    inputs, of states and of cells. All but the gates are (2 levels, length + 1, batch, row). Cells are in the second
    level, with c_t at the place t + 1; gradients of what goes from step t − 1 to step t are in the first level at the
    place t.

    Args:
        states: h_t (batch, length, units), as the LSTM returned them.
        features: Length of its inputs.
    """
    node: Any = states.grad_fn
    while node is not None and node.name() == "TransposeBackward0":
        node = node.next_functions[0][0]
    stored = getattr(node, "_saved_result3", None)
    if node is None or node.name() != "MkldnnRnnLayerBackward0" or stored is None:
        return None
    batch, length, units = states.shape
    numbers = stored.detach().view(torch.uint8).flatten()
    numbers = numbers[: len(numbers) // 4 * 4].view(torch.float32)
    row, wide = _padded(4 * units), _padded(max(units, features))
    n_cells, n_states = (_rounded(2 * (length + 1) * batch * columns, _PAGE) for columns in (units, wide))
    of_cells = len(numbers) - n_cells
    of_states = of_cells - n_states
    cells = of_states - n_states - n_cells
    if cells < length * batch * row:
        return None

    def part(start: int, first: int, steps: int, columns: int) -> Tensor:
        start += first * batch * columns
        found: Tensor = numbers[start : start + steps * batch * columns].view(steps, batch, columns)
        return found

    between = length - 1
    return node, LstmWorkspace(
        gates=part(0, 0, length, row),
        cells=part(cells, length + 2, between, units),
        of_states=part(of_states, 1, between, wide),
        of_cells=part(of_cells, 1, between, units),
    )


def _padded(columns: int) -> int:
    """Return the length of a row: a multiple of 64 bytes, but not of 1,024, which would fall on the same cache sets."""
    row = _rounded(columns, _LINE)
    return row + _LINE * (row % 256 == 0)


def _rounded(numbers: int, unit: int) -> int:
    return -(-numbers // unit) * unit
