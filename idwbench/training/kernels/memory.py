"""Memory for kernels: aligned arrays."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["aligned_zeros"]

# Vector registers are up to 64 bytes wide; reading across the border of a cache line takes twice as long.
LINE_BYTES = 64


def aligned_zeros(*shape: int) -> NDArray[np.float32]:
    """Return a new float32 array that starts at a cache line."""
    n_bytes = 4 * int(np.prod(shape))
    memory = np.zeros(n_bytes + LINE_BYTES, np.uint8)
    start = -memory.ctypes.data % LINE_BYTES
    return memory[start : start + n_bytes].view(np.float32).reshape(shape)
