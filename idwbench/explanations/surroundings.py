"""What surrounds an answer: where prototypes lie in the training data, and in a plane the answers to all inputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from idwbench.attention.scores import get_method
from idwbench.data.dataset import Dataset
from idwbench.errors import DatasetError
from idwbench.explanations.explanation import LayerAttention, MemoryItem, Nearest, Plane, Query
from idwbench.explanations.memory import Memory, Request
from idwbench.models.inputs import data_difference
from idwbench.models.neighbours import feature_range, nearest
from idwbench.models.saved_model import SavedModel
from idwbench.runs.datasets import dataset_label

__all__ = ["answers_in_plane", "with_surroundings"]

_GRID = 120  # points of the grid of answers in each direction
_MARGIN = 0.1  # around the data, as a part of its range


def with_surroundings(
    memory: Memory, layers: tuple[LayerAttention, ...], request: Request
) -> tuple[LayerAttention, ...]:
    """Return the layers of a prototype network with what surrounds each of their prototypes in the training data.

    They are as given if the keys are no points among the inputs, or the training data cannot be loaded.
    """
    model = memory.data
    if not isinstance(model, SavedModel) or not get_method(model.config.model.method).has_points:
        return layers
    dataset = _training_data(memory, request)
    return (
        layers
        if dataset is None
        else tuple(replace(layer, items=_surrounded(layer.items, dataset)) for layer in layers)
    )


def _training_data(memory: Memory, request: Request) -> Dataset | None:
    """Return the data that a model was trained on, or None if it cannot be loaded or is not the same."""
    if isinstance(memory.data, Dataset):
        return memory.data
    try:
        dataset = request.dataset(memory.config)
    except DatasetError:
        return None
    return None if data_difference(memory.data, dataset) else dataset


def answers_in_plane(memory: Memory, request: Request, query: Query) -> Plane | None:
    """Return the answers of a classifier of two features around its training data and the input; None for others."""
    is_plane = memory.data.n_features == 2 and bool(memory.data.class_names) and memory.kind != "history of training"
    dataset = _training_data(memory, request) if is_plane else None
    if dataset is None:
        return None
    points = dataset.scaling.invert(dataset.train.inputs)
    seen = np.vstack([points, query.picture])
    margin = _MARGIN * np.maximum(seen.max(0) - seen.min(0), 1e-6)
    low, high = seen.min(0) - margin, seen.max(0) + margin
    # The middles of equal parts of both axes.
    x, y = (np.linspace(low[axis], high[axis], 2 * _GRID + 1)[1::2] for axis in (0, 1))
    grid = np.stack([axis.ravel() for axis in np.meshgrid(x, y)], axis=1)
    outputs = np.asarray(memory.outputs(dataset.scaling.apply(grid)), np.float64)
    if memory.kind == "prototypes":  # logits; the training data gives class frequencies
        outputs = np.exp(outputs - outputs.max(1, keepdims=True))
    outputs = np.maximum(outputs, 0.0)  # local linear regression may give negative ones
    probabilities = (outputs / outputs.sum(1, keepdims=True)).reshape(_GRID, _GRID, -1)
    extent = float(low[0]), float(high[0]), float(low[1]), float(high[1])
    return Plane(extent, probabilities, points, dataset.train.labels)


def _surrounded(items: tuple[MemoryItem, ...], dataset: Dataset) -> tuple[MemoryItem, ...]:
    keys = dataset.scaling.apply(np.stack([item.picture for item in items]))
    inputs, name = dataset.train.inputs, dataset_label(dataset.config)
    low, high = feature_range(inputs)
    outside = (keys < low) | (keys > high)
    rows, distances = nearest(keys, inputs)
    labels = dataset.train.labels[rows].tolist() if dataset.class_names else [None] * len(rows)
    found = zip(items, outside, rows.tolist(), distances.tolist(), labels, strict=True)
    return tuple(
        replace(item, nearest=Nearest(f"{name}:train:{row}", row, distance, label), outside=np.flatnonzero(beyond))
        for item, beyond, row, distance, label in found
    )
