"""Serialisation of arrays: one safetensors file for each array."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from idwbench.errors import ResultsError

__all__ = ["pack_array", "unpack_array"]


def pack_array(name: str, array: NDArray[np.generic]) -> bytes:
    """Return `array` as the bytes of a safetensors file with this one array."""
    from safetensors.numpy import save

    return save({name: np.ascontiguousarray(array)})


def unpack_array(name: str, data: bytes) -> NDArray[np.generic]:
    """Return the array that `pack_array` wrote.

    Raises:
        ResultsError: the bytes are not a safetensors file with an array of that name.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return load(data)[name]
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ResultsError(f"the stored array '{name}' cannot be read: {error}") from None
