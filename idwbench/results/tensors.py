"""Arrays as bytes: one safetensors file for each tensor, so that nothing is ever unpickled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from idwbench.errors import ResultsError

__all__ = ["TENSOR_NAMES", "pack_tensor", "unpack_tensor"]

# What a complete run has: (prototypes, features) and (prototypes, classes).
TENSOR_NAMES = ("keys", "values")


def pack_tensor(name: str, array: NDArray[np.generic]) -> bytes:
    """Return `array` as the bytes of a safetensors file that holds it alone, under `name`."""
    return save({name: np.ascontiguousarray(array)})


def unpack_tensor(name: str, data: bytes) -> NDArray[np.generic]:
    """Return the array that `pack_tensor` wrote.

    Raises:
        ResultsError: the bytes are no safetensors file, or hold no tensor of that name.
    """
    try:
        return load(data)[name]
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ResultsError(f"the stored tensor '{name}' cannot be read: {error}") from None
