"""Small data with names and labels of several types."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

NAMES = np.array(["width", "height", "depth"])


def rows(n: int = 60) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """Three clusters in a space of three features, with labels that are words."""
    generator = np.random.default_rng(1)
    groups = np.arange(n) % 3
    X = generator.normal(size=(n, 3)) * 0.5 + 2 * np.eye(3)[groups]
    return X, np.array(["low", "middle", "top"])[groups]
