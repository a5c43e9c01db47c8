"""The attention of one layer: its largest entries, and sums and largest attentions of each class."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from idwbench.explanations.answers import CURVE_SIZE, ExplainedLayer, MemoryItem

__all__ = ["class_curves", "class_totals", "explained_layer", "largest"]

Weights = NDArray[np.floating]


def explained_layer(
    name: str,
    weights: Weights,
    classes: NDArray[np.integer] | None,
    n_classes: int,
    item: Callable[[int], MemoryItem],
    top: int,
) -> ExplainedLayer:
    """Return the attention of one layer.

    Args:
        name: The layer.
        weights: (n,), of each entry of the memory.
        classes: (n,), the class of each entry; None for a regression.
        n_classes: Number of classes.
        item: Returns an entry by its position.
        top: Number of entries to return.
    """
    totals = np.zeros(0) if classes is None else class_totals(weights, classes, n_classes)
    curves = () if classes is None else class_curves(weights, classes, n_classes)
    items = tuple(item(int(place)) for place in largest(weights, top))
    return ExplainedLayer(name, len(weights), items, totals, curves)


def largest(weights: Weights, n: int) -> NDArray[np.intp]:
    """Return the positions of the `n` largest weights, in decreasing order; ties by position."""
    return np.argsort(-weights, kind="stable")[:n]


def class_totals(weights: Weights, classes: NDArray[np.integer], n_classes: int) -> NDArray[np.float64]:
    """Return Σ of the weights of each class (classes,), in float64."""
    return np.bincount(classes, weights=weights, minlength=n_classes).astype(np.float64)


def class_curves(
    weights: Weights, classes: NDArray[np.integer], n_classes: int, size: int = CURVE_SIZE
) -> tuple[NDArray[np.float64], ...]:
    """Return for each class its largest weights, at most `size`, in decreasing order."""
    groups = (weights[classes == label] for label in range(n_classes))
    return tuple(-np.sort(-group.astype(np.float64))[:size] for group in groups)
