"""Nearest images, and the labels of the nearest rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["other_labels_nearby", "pixel_similarity"]

Scores = NDArray[np.floating]


def pixel_similarity(queries: NDArray[np.float32], inputs: NDArray[np.float32]) -> Scores:
    """Return −‖query − row‖ (queries, rows)."""
    squares = (queries**2).sum(1)[:, None] + (inputs**2).sum(1) - 2 * queries @ inputs.T
    return -np.sqrt(squares.clip(min=0))


def other_labels_nearby(
    scores: Scores, rows: NDArray[np.int64], labels: NDArray[np.int64], k: int
) -> NDArray[np.float64]:
    """Return the share of other labels among the k highest scores of each row, without itself.

    Args:
        scores: The scores (queries, rows) of all training rows for the queries.
        rows: The training row that each query is (queries,).
        labels: The labels of all training rows (rows,).
        k: Number of rows that are compared.
    """
    others = scores.copy()
    others[np.arange(len(rows)), rows] = -np.inf
    nearest = np.argpartition(-others, k - 1, axis=1)[:, :k]
    return (labels[nearest] != labels[rows][:, None]).mean(1)
