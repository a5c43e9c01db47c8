"""The outputs of a module for many rows, in parts of bounded memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["outputs_in_parts"]

_ROWS_AT_ONCE = 1024


@torch.no_grad()
def outputs_in_parts(
    function: Callable[[Tensor], Tensor], inputs: NDArray[np.float32], device: torch.device
) -> NDArray[np.float32]:
    """Return the outputs (n, outputs) of a function of tensors for rows (n, features), contiguous.

    Args:
        function: A module, or another function of inputs (batch, features).
        inputs: The rows.
        device: Where the function computes.
    """
    parts = [function(part.to(device)) for part in torch.split(torch.from_numpy(inputs), _ROWS_AT_ONCE)]
    return np.ascontiguousarray(torch.cat(parts).cpu().numpy())
