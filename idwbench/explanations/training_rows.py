"""Training samples as entries of a memory."""

from __future__ import annotations

from idwbench.data.dataset import Dataset
from idwbench.explanations.answers import MemoryItem
from idwbench.explanations.queries import task_names
from idwbench.runs.config import RunConfig

__all__ = ["training_item"]


def training_item(config: RunConfig, dataset: Dataset, row: int, weight: float = 0.0) -> MemoryItem:
    """Return a row of the training data as an entry of a memory; its source is a reference that names it as input."""
    train = dataset.train
    return MemoryItem(
        source=f"{config.dataset_label}:train:{row}",
        weight=weight,
        label=int(train.labels[row]) if dataset.class_names else None,
        picture=dataset.scaling.invert(train.inputs[row]),
        row=row,
        task="" if train.tasks is None else task_names(config)[train.tasks[row]],
    )
