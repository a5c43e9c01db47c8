"""Explanations of networks whose training was recorded, by the dual form of their linear layers.

S(x) = W_0 x + Σ_t e_t (x_t·x): the attention to the input x_t of a training step is α_t = x_t·x, and x_t·x + 1 with a
bias (arXiv 2202.05798).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset
from idwbench.dual.memory import LayerMemory
from idwbench.dual.recording import Recording
from idwbench.errors import RecordingError
from idwbench.explanations.accuracy import accuracy_changes
from idwbench.explanations.answers import Answer, ExplainedAnswer, ExplainedLayer, MaskEffect, MemoryItem
from idwbench.explanations.layers import class_curves, class_totals, largest
from idwbench.explanations.masks import Mask, parse_mask
from idwbench.explanations.queries import DatasetInputs, Request, read_query, task_names
from idwbench.explanations.training_rows import training_item
from idwbench.runs.config import RunConfig

__all__ = ["LinearLayers", "explain_history"]

_SLOTS_AT_ONCE = 2**14

Array = NDArray[Any]


@dataclass(frozen=True)
class LinearLayers:
    """Weights (outputs, features) and biases (outputs,) of linear layers, in order, with ReLU between them."""

    layers: tuple[tuple[Array, Array | None], ...]

    @classmethod
    def of_memories(cls, memories: Sequence[LayerMemory], where: NDArray[np.bool_] | None = None) -> LinearLayers:
        """Return the layers as they were trained, or without the slots (slots,) of a mask."""
        if where is None:
            return cls(tuple((memory.weight, memory.bias) for memory in memories))
        return cls(tuple(memory.without(where) for memory in memories))

    def layer_inputs(self, inputs: Array) -> tuple[list[Array], Array]:
        """Return the input (n, features of the layer) of each layer, and the outputs (n, outputs) of the last."""
        found, outputs = [], inputs
        for number, (weight, bias) in enumerate(self.layers):
            found.append(np.maximum(outputs, 0) if number else outputs)
            outputs = found[-1] @ weight.T + (0 if bias is None else bias)
        return found, outputs

    def outputs(self, inputs: Array) -> Array:
        """Return the outputs (n, outputs) of the last layer."""
        return self.layer_inputs(inputs)[1]


def explain_history(config: RunConfig, recording: Recording, dataset: Dataset, request: Request) -> ExplainedAnswer:
    """Return for each layer the training samples with the largest attention, and the attention to each class.

    The visits of one sample in all epochs are one entry, with the sum of their attention. Totals and curves are those
    of single slots. A mask removes its slots from every layer.

    Raises:
        ExplanationError: the input or the mask is not valid.
        RecordingError: the data is not what was recorded.
        DatasetError: the data set in `x` cannot be loaded.
    """
    _check_data(recording, dataset)
    query = read_query(request, DatasetInputs(config, dataset))
    mask = parse_mask(request.masks, dataset.class_names, task_names(config), f"the data set {config.dataset_label}")
    network = LinearLayers.of_memories(list(recording.layers.values()))
    inputs, outputs = network.layer_inputs(query.inputs[None])
    answer = Answer.of_logits(outputs[0])
    of_layers = dict(zip(recording.layers, inputs, strict=True))
    chosen = [name for name in of_layers if request.layer in (None, name)]
    layers = []
    for place, name in enumerate(chosen):
        on_slots = _counted(request.on_slots, place, len(chosen), len(recording.rows))
        attention = _attention(recording.layers[name], of_layers[name], on_slots)
        output = answer.label if name == [*of_layers][-1] else None
        layers.append(_explained_layer(name, attention, recording, config, dataset, request.top, output))
    return ExplainedAnswer(
        model=config.model.label,
        memory="history of training",
        query=query,
        answer=answer,
        layers=tuple(layers),
        class_names=dataset.class_names,
        image_shape=dataset.image_shape,
        effect=None if mask is None else _effect(config, recording, dataset, network, query.inputs, mask),
        warnings=_residual_warnings(recording),
    )


def _check_data(recording: Recording, dataset: Dataset) -> None:
    expected, found = recording.facts.data_sha256, dataset.sha256
    if expected != found:
        raise RecordingError(
            f"the data {dataset.config.name} is not what was recorded (its SHA-256 starts with {found[:12]}, "
            f"that of the recorded data with {expected[:12]})",
            file=recording.folder,
        )


def _residual_warnings(recording: Recording) -> tuple[str, ...]:
    shares = {name: facts.residual_share for name, facts in recording.facts.layers.items()}
    listed = ", ".join(f"{100 * share:.2g} % in {name}" for name, share in shares.items() if share)
    return (
        (f"the dual form of {recording.facts.optimizer} leaves out a part of the update: {listed}",) if listed else ()
    )


def _counted(on_slots: Callable[[int, int], None], place: int, n_layers: int, n_slots: int) -> Callable[[int], None]:
    """Return a function that reports the slots of one of several layers as a part of all."""
    return lambda done: on_slots(place * n_slots + done, n_layers * n_slots)


def _attention(memory: LayerMemory, query: Array, on_slots: Callable[[int], None]) -> Array:
    """Return the attention (slots,) of one query (1, features), in chunks."""
    found = np.empty(memory.slots, np.float32)
    for slots in memory.chunks(_SLOTS_AT_ONCE):
        found[slots] = memory.attention(query, slots)[0]
        on_slots(slots.stop)
    return found


def _explained_layer(
    name: str, attention: Array, recording: Recording, config: RunConfig, dataset: Dataset, top: int, output: int | None
) -> ExplainedLayer:
    rows, n_rows, n_classes = recording.rows, len(dataset.train), len(dataset.class_names)
    visits = np.bincount(rows, minlength=n_rows)
    sums = np.where(visits > 0, np.bincount(rows, weights=attention, minlength=n_rows), -np.inf)
    items = []
    for row in largest(sums, min(top, int(np.count_nonzero(visits)))):
        sample = training_item(config, dataset, int(row), float(sums[row]))
        items.append(_visited(sample, name, recording, attention, output))
    classes = dataset.train.labels[rows]
    return ExplainedLayer(
        name=name,
        size=len(rows),
        items=tuple(items),
        totals=class_totals(attention, classes, n_classes),
        curves=class_curves(attention, classes, n_classes),
    )


def _visited(sample: MemoryItem, name: str, recording: Recording, attention: Array, output: int | None) -> MemoryItem:
    """Return a sample with its visits, and what they add to an output of the layer."""
    slots = np.flatnonzero(recording.rows == sample.row)
    step = int(recording.slot_steps[slots[attention[slots].argmax()]]) + 1
    contribution = None
    if output is not None:
        contribution = float(attention[slots] @ recording.layers[name].errors(slots)[:, output])
    return replace(sample, visits=len(slots), step=step, contribution=contribution)


def _effect(
    config: RunConfig,
    recording: Recording,
    dataset: Dataset,
    network: LinearLayers,
    inputs: NDArray[np.float32],
    mask: Mask,
) -> MaskEffect:
    train, rows = dataset.train, recording.rows
    where = mask.removes(train.labels[rows], None if train.tasks is None else train.tasks[rows])
    rest = LinearLayers.of_memories(list(recording.layers.values()), where)
    changes = accuracy_changes(dataset, task_names(config), network.outputs, rest.outputs)
    return MaskEffect(
        mask.conditions, int(where.sum()), len(where), Answer.of_logits(rest.outputs(inputs[None])[0]), changes
    )
