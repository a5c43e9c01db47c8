"""Where prototypes lie in the training data: the nearest row of each, and its features beyond the range of the data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from idwbench.attention.scores import get_method
from idwbench.data.dataset import Dataset
from idwbench.errors import DatasetError
from idwbench.explanations.explanation import LayerAttention, MemoryItem, Nearest
from idwbench.explanations.memory import Memory, Request
from idwbench.models.inputs import data_difference
from idwbench.models.neighbours import nearest
from idwbench.models.saved_model import SavedModel
from idwbench.runs.datasets import dataset_label

__all__ = ["with_surroundings"]


def with_surroundings(
    memory: Memory, layers: tuple[LayerAttention, ...], request: Request
) -> tuple[LayerAttention, ...]:
    """Return the layers of a prototype network with what surrounds each of their prototypes in the training data.

    They are as given if the keys are no points among the inputs, or the training data cannot be loaded.
    """
    model = memory.data
    if not isinstance(model, SavedModel) or not get_method(model.config.model.method).has_points:
        return layers
    try:
        dataset = request.dataset(memory.config)
    except DatasetError:
        return layers
    if data_difference(model, dataset):
        return layers
    return tuple(replace(layer, items=_surrounded(layer.items, dataset)) for layer in layers)


def _surrounded(items: tuple[MemoryItem, ...], dataset: Dataset) -> tuple[MemoryItem, ...]:
    keys = dataset.scaling.apply(np.stack([item.picture for item in items]))
    inputs, name = dataset.train.inputs, dataset_label(dataset.config)
    # Own units and back: a bound may differ in its last bits.
    slack = 1e-5 * (inputs.max(0) - inputs.min(0)) + 1e-30
    outside = (keys < inputs.min(0) - slack) | (keys > inputs.max(0) + slack)
    rows, distances = nearest(keys, inputs)
    labels = dataset.train.labels[rows].tolist() if dataset.class_names else [None] * len(rows)
    found = zip(items, outside, rows.tolist(), distances.tolist(), labels, strict=True)
    return tuple(
        replace(item, nearest=Nearest(f"{name}:train:{row}", row, distance, label), outside=np.flatnonzero(beyond))
        for item, beyond, row, distance, label in found
    )
