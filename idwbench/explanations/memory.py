"""What a model attends to, of the same shape for prototypes, training data and the history of training.

And what is asked for: an input, given as a text or as numbers, and a mask, a part of the memory to answer without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.errors import ExplanationError, PatchError, did_you_mean
from idwbench.explanations.explanation import (
    CURVE_SIZE,
    Answer,
    ClassAttention,
    LayerAttention,
    MemoryItem,
    MemoryKind,
    Query,
)
from idwbench.models.inputs import (
    LoadDataset,
    Reference,
    find_input,
    find_label,
    find_reference,
    missing_columns,
    scaled_input,
)
from idwbench.models.saved_model import SavedModel
from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import PartsConfig

__all__ = [
    "Layer",
    "Memory",
    "OnSlots",
    "Outputs",
    "Request",
    "chosen_layers",
    "layer_progress",
    "masked_entries",
    "read_query",
    "task_names",
]

_MOST_SHOWN = 6
_FIELDS = ("label", "task")

Array = NDArray[Any]
Inputs = NDArray[np.float32]
Entries = NDArray[np.int64]

# From scaled inputs (n, features) to outputs (n, outputs), scaled.
Outputs = Callable[[Inputs], Array]
OnSlots = Callable[[int, int], None]


class Layer(NamedTuple):
    """The attention of one layer, as functions.

    Attributes:
        weights: From a scaled input (1, features) of the model to the weight (entries,) of each entry of the memory.
            Its second argument is called with the number of slots of a recording that were looked at, and of all.
        values: From a scaled input (1, features) and positions (n,) to the values (n, outputs) of these entries, which
            depend on the input if they have a slope; None if they are not added to the outputs of the model, as in all
            but the last layer.
    """

    weights: Callable[[Inputs, OnSlots], Array]
    values: Callable[[Inputs, Entries], Array] | None


@dataclass(frozen=True)
class Memory:
    """The entries that a model attends to, and how it answers with them.

    Attributes:
        config: The run of the model.
        kind: What the entries are.
        data: What has scalings, class names and image shape: a model with its provenance, or the data of the run.
        layers: The layers that are explained, by name.
        outputs: The outputs of the model for scaled inputs.
        without: From entries (entries,) to the outputs of the model without them.
        item: Returns source, picture, row and task of an entry by its position, or by its row if there are `rows`.
        labels: The class (entries,) of each entry; None for a regression.
        tasks: The part of the data set (entries,) that each comes from, or None.
        rows: The row of the training data (entries,) of each slot of a history; entries of one row are one item.
        steps: The training step (entries,) of each slot, from 0.
        warnings: One line for each.
    """

    config: RunConfig
    kind: MemoryKind
    data: Dataset | SavedModel
    layers: Mapping[str, Layer]
    outputs: Outputs
    without: Callable[[NDArray[np.bool_]], Outputs]
    item: Callable[[int], MemoryItem]
    labels: Entries | None
    tasks: Entries | None = None
    rows: NDArray[np.int64] | None = None
    steps: NDArray[np.int64] | None = None
    warnings: tuple[str, ...] = ()

    def answer(self, inputs: Inputs, outputs: Outputs) -> Answer:
        """Return the answer to an input (features,) by `outputs`, which may be those without a part of the memory."""
        numbers = np.asarray(outputs(inputs[None])[0])
        if not self.data.class_names:
            return Answer(self.data.target_scaling.invert(numbers))
        # The training data gives class frequencies, everything else logits.
        return Answer.from_frequencies(numbers) if self.kind == "training data" else Answer.from_logits(numbers)

    def attention(self, name: str, inputs: Inputs, label: int | None, top: int, on_slots: OnSlots) -> LayerAttention:
        """Return the attention of a layer to the entries with the largest weights.

        Args:
            name: The layer.
            inputs: (features,), scaled.
            label: The class that is answered; None for a regression.
            top: Number of items; an input that no training sample is near to has none.
            on_slots: See `Layer`.
        """
        layer = self.layers[name]
        weights = layer.weights(inputs[None], on_slots)
        values = None if layer.values is None else partial(layer.values, inputs[None])
        sums = weights if self.rows is None else _row_sums(weights, self.rows)
        n_items = min(top, np.count_nonzero(sums > -np.inf))
        if self.kind == "training data" and not weights.any():
            n_items = 0
        # In local linear regression negative weights count as much as positive ones.
        sizes = np.abs(sums) if self.kind == "training data" else sums
        largest = np.argsort(-sizes, kind="stable")[:n_items]  # ties by position
        return LayerAttention(
            name=name,
            size=len(weights),
            items=tuple(self._item(int(place), float(sums[place]), weights, values, label) for place in largest),
            totals=self._class_totals(weights, self.labels),
            curves=self._class_curves(weights, self.labels),
            tasks=tuple(self._task_attention(weights)),
        )

    def _task_attention(self, weights: Array) -> Iterator[ClassAttention]:
        """Yield the attention to the entries of each class for each part of the data, if it has parts."""
        if self.tasks is None or self.labels is None:
            return
        for number, name in enumerate(task_names(self.config)):
            where = self.tasks == number
            part, labels = weights[where], self.labels[where]
            yield ClassAttention(name, self._class_totals(part, labels), self._class_curves(part, labels))

    def _item(
        self,
        place: int,
        weight: float,
        weights: Array,
        values_of: Callable[[Entries], Array] | None,
        label: int | None,
    ) -> MemoryItem:
        """Return an entry, or the entries of a row, with what they add to the output of the class `label`."""
        entries = np.array([place]) if self.rows is None else np.flatnonzero(self.rows == place)
        values = None if values_of is None else values_of(entries)
        item = replace(self.item(place), weight=weight, visits=len(entries))
        if self.labels is not None:
            item = replace(item, label=int(self.labels[entries[0]]))
        if values is not None and label is not None:
            item = replace(item, contribution=float(weights[entries].astype(np.float64) @ values[:, label]))
        if values is not None and self.rows is None:
            own = self.data.target_scaling.invert(values[0]) if label is None else values[0].astype(np.float64)
            item = replace(item, value=own)
        if self.steps is not None:
            item = replace(item, step=int(self.steps[entries[weights[entries].argmax()]]) + 1)
        return item

    def _class_totals(self, weights: Array, labels: Entries | None) -> NDArray[np.float64]:
        """Return Σ of the weights of each class (classes,), in float64."""
        if labels is None:
            return np.zeros(0)
        n_classes = len(self.data.class_names)
        return np.bincount(labels, weights=weights, minlength=n_classes).astype(np.float64)

    def _class_curves(self, weights: Array, labels: Entries | None) -> tuple[NDArray[np.float64], ...]:
        """Return for each class its largest weights, at most `CURVE_SIZE`, in decreasing order."""
        groups = (weights[labels == label].astype(np.float64) for label in range(len(self.data.class_names)))
        return tuple(-np.sort(-group)[:CURVE_SIZE] for group in groups)


def task_names(config: RunConfig) -> tuple[str, ...]:
    """Return the names of the parts of a joint or sequence data set; none for another one."""
    return config.dataset.of if isinstance(config.dataset, PartsConfig) else ()


def _row_sums(weights: Array, rows: NDArray[np.int64]) -> Array:
    """Return the sum of the weights of each row (rows,), −∞ for one without entries."""
    return np.where(np.bincount(rows) > 0, np.bincount(rows, weights=weights), -np.inf)


def layer_progress(on_slots: OnSlots, names: Sequence[str], name: str) -> OnSlots:
    """Return a function that reports the slots of one of several layers as a part of all."""
    before, n_layers = names.index(name), len(names)
    return lambda done, total: on_slots(before * total + done, n_layers * total)


def chosen_layers(names: Iterable[str], layer: str | None, unknown: str) -> list[str]:
    """Return the only layer that is asked for, or all; `unknown` begins the message for a name that is none of them."""
    names = [*names]
    if layer is None:
        return names
    if layer not in names:
        raise ExplanationError(f"{unknown} '{layer}'", location=("layer",), hint=did_you_mean(layer, names))
    return [layer]


@dataclass(frozen=True)
class Request:
    """What to explain: arguments of `idwbench.explanations.explain.explain`, and how data sets are loaded."""

    x: str | ArrayLike
    top: int = 10
    layer: str | None = None
    masks: Sequence[str] = ()
    data_dir: Path | None = None
    load: LoadDataset = load_dataset
    on_slots: OnSlots = lambda done, total: None

    def dataset(self, config: RunConfig) -> Dataset:
        """Return the data of a run; raises `DatasetError` if it cannot be loaded."""
        return self.load(config.dataset, self.data_dir)


def read_query(request: Request, memory: Memory) -> Query:
    """Return the input, with its class or target if it is a row of the data of the model.

    Raises:
        ExplanationError: the text is not valid, or the input does not fit the model; `location` is ``("x",)``.
        DatasetError: the data set in `x` cannot be loaded.
    """
    x, data_dir, load = request.x, request.data_dir, request.load
    try:
        if not isinstance(x, str):
            inputs = scaled_input(x, memory.data)
            picture = memory.data.scaling.invert(inputs)
            return Query(_text(picture.tolist()), inputs, picture, missing=missing_columns(x, memory.data))
        inputs = find_input(x, memory.config, memory.data, data_dir, load)
        reference = find_reference(x, memory.config, data_dir, load)
    except PatchError as error:
        raise ExplanationError(error.problem, location=error.location, hint=error.hint, file=error.file) from None
    missing = missing_columns(x, memory.data) if reference is None else ()
    query = Query(x, inputs, memory.data.scaling.invert(inputs), missing=missing)
    return query if reference is None else _with_target(query, reference, memory)


def _with_target(query: Query, reference: Reference, memory: Memory) -> Query:
    """Return the query with its class or target, which other data sets than that of the run do not have."""
    dataset = reference.dataset
    if dataset.config != memory.config.dataset and dataset.config.name not in task_names(memory.config):
        return query
    if dataset.task == "classification":
        return replace(query, label=int(reference.split.labels[reference.index]))
    target = np.asarray(reference.split.targets[reference.index], np.float32)
    return replace(query, target=dataset.target_scaling.invert(target))


def _text(numbers: Sequence[float]) -> str:
    more = ",..." if len(numbers) > _MOST_SHOWN else ""
    return ",".join(f"{number:g}" for number in numbers[:_MOST_SHOWN]) + more


def masked_entries(texts: Sequence[str], memory: Memory) -> NDArray[np.bool_] | None:
    """Return which entries (entries,) of a memory have what texts ``label=CLASS`` and ``task=NAME`` say; None for none.

    Several texts with the same word mean any of them; both words together mean what meets both.

    Raises:
        ExplanationError: another form, no such class or task, a memory without classes or tasks, or a part that is
            empty or the whole memory.
    """
    chosen: dict[str, set[int]] = {}
    for text in texts:
        field, sign, value = text.partition("=")
        if not sign or not value:
            raise ExplanationError(f"expected label=CLASS or task=NAME, got '{text}'", location=("mask",))
        if field not in _FIELDS:
            raise ExplanationError(f"unknown '{field}'", location=("mask",), hint=did_you_mean(field, _FIELDS))
        chosen.setdefault(field, set()).add((_label if field == "label" else _task)(value, memory))
    if not chosen:
        return None
    numbers: dict[str, Any] = {"label": memory.labels, "task": memory.tasks}
    where = np.logical_and.reduce([np.isin(numbers[field], sorted(values)) for field, values in chosen.items()])
    conditions = ", ".join(texts)
    if not where.any():
        raise ExplanationError(f"no part of the memory has {conditions}", location=("mask",))
    if where.all():
        raise ExplanationError(f"the whole memory has {conditions}; nothing is left to answer with", location=("mask",))
    return np.asarray(where)


def _label(text: str, memory: Memory) -> int:
    if not memory.data.class_names:
        raise ExplanationError(f"the data set {memory.config.dataset_label} has no classes", location=("mask",))
    try:
        return find_label(text, memory.data.class_names)
    except PatchError as error:
        raise ExplanationError(error.problem, location=("mask",), hint=error.hint) from None


def _task(text: str, memory: Memory) -> int:
    names = task_names(memory.config)
    if not names:
        problem = f"the data set {memory.config.dataset_label} has no tasks"
        raise ExplanationError(problem, location=("mask",), hint="only data sets of several parts have tasks")
    if text not in names:
        raise ExplanationError(f"no task is called '{text}'", location=("mask",), hint=did_you_mean(text, names))
    if memory.tasks is None:
        problem = "a prototype has a class but no task: it is learned from all parts of the data"
        raise ExplanationError(problem, location=("mask",), hint="expected label=CLASS")
    return names.index(text)
