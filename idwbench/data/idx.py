"""The IDX format of MNIST: two zero bytes, a type, the number of axes, their sizes, the values."""

from __future__ import annotations

import math
import struct

import numpy as np
from numpy.typing import NDArray

from idwbench.errors import DatasetError

__all__ = ["parse_idx"]

UNSIGNED_BYTE = 0x08


def parse_idx(content: bytes, name: str) -> NDArray[np.uint8]:
    """Return the array of unsigned bytes in the IDX file `name`; sizes are big-endian, 32 bits.

    Raises:
        DatasetError: another format or type, or the length does not match the sizes.
    """
    if len(content) < 4 or content[:3] != bytes((0, 0, UNSIGNED_BYTE)):
        raise DatasetError(f"{name}: not an IDX file of unsigned bytes: it begins with {content[:4].hex(' ')!r}")
    axes = content[3]
    start = 4 + 4 * axes
    if len(content) < start:
        raise DatasetError(f"{name}: ends within its header, after {len(content)} bytes")
    shape = struct.unpack(f">{axes}I", content[4:start])
    if len(content) - start != math.prod(shape):
        raise DatasetError(f"{name}: holds {len(content) - start} values, its header has {shape}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
