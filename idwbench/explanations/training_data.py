"""Memories of training samples: those of kernel regression, and the history of training of a recorded network.

A linear layer trained by gradient descent is S(x) = W_0 x + Σ_t e_t (x_t·x): the attention to the input x_t of a
training step is α_t = x_t·x, and x_t·x + 1 with a bias (arXiv 2202.05798).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset
from idwbench.dual.memory import LayerMemory
from idwbench.dual.recording import Recording
from idwbench.errors import RecordingError
from idwbench.explanations.explanation import MemoryItem
from idwbench.explanations.memory import Layer, Memory, OnSlots, task_names
from idwbench.models.kernel_regression import KernelRegression, training_values
from idwbench.runs.config import RunConfig
from idwbench.runs.kinds.kernel_regression import KernelRegressionConfig
from idwbench.runs.metrics import Metrics

__all__ = ["TRAINING_DATA", "history_memory", "kernel_memory", "residual_warnings"]

TRAINING_DATA = "training_data"
_SLOTS_AT_ONCE = 2**14

Array = NDArray[Any]
Inputs = NDArray[np.float32]
LinearLayer = tuple[Array, Array | None]  # weight (outputs, features) and bias (outputs,)


def kernel_memory(config: RunConfig, metrics: Metrics, dataset: Dataset) -> Memory:
    """Return the training data of kernel regression; without neighbours its output is the mean value.

    Args:
        config: The run.
        metrics: Its metrics, which hold the parameters that a rule chose.
        dataset: The data of the run.
    """
    regression = _regression(config, metrics, dataset)
    return Memory(
        config=config,
        kind="training data",
        data=dataset,
        layers={
            TRAINING_DATA: Layer(
                lambda inputs, _: np.nan_to_num(regression.weights(inputs)[0]), lambda _, rows: regression.values[rows]
            )
        },
        outputs=partial(_estimates, regression),
        without=lambda where: partial(
            _estimates, replace(regression, keys=regression.keys[~where], values=regression.values[~where])
        ),
        item=partial(_training_item, config, dataset),
        labels=dataset.train.labels if dataset.class_names else None,
        tasks=dataset.train.tasks,
    )


def _regression(config: RunConfig, metrics: Metrics, dataset: Dataset) -> KernelRegression:
    """Return the regression with the bandwidth that the run has used."""
    model = config.model
    assert isinstance(model, KernelRegressionConfig)
    parameters = {
        name: metrics.get(("train", name), value) if isinstance(value, str) else value
        for name, value in model.parameters.items()
    }
    values = training_values(dataset)
    return KernelRegression.of(model.kernel, parameters, dataset.train.inputs, values, order=model.order)


def _estimates(regression: KernelRegression, inputs: Inputs) -> NDArray[np.floating]:
    """Return class frequencies, or scaled predictions (n, outputs); the mean value without neighbours."""
    estimates = regression.predict(inputs)
    mean = regression.values.mean(0, dtype=np.float64).astype(estimates.dtype)
    return np.where(np.isnan(estimates), mean, estimates)


def history_memory(config: RunConfig, recording: Recording, dataset: Dataset) -> Memory:
    """Return the slots of a recorded training: the input and the error signal of each sample at each step.

    The visits of one sample in all epochs are one item, with the sum of their attention. What is left out is missing
    in every layer.

    Raises:
        RecordingError: the data is not what was recorded.
    """
    expected, present = recording.facts.data_sha256, dataset.sha256
    if expected != present:
        raise RecordingError(
            f"the data {dataset.config.name} is not what was recorded (its SHA-256 starts with {present[:12]}, "
            f"that of the recorded data with {expected[:12]})",
            file=recording.folder,
        )
    train, rows = dataset.train, recording.rows
    memories = [*recording.layers.values()]
    trained = [(memory.weight, memory.bias) for memory in memories]
    layers = {
        name: Layer(
            partial(_attention, memory, trained[:number]),
            (lambda _, slots: memories[-1].errors(slots)) if memory is memories[-1] else None,
        )
        for number, (name, memory) in enumerate(recording.layers.items())
    }
    return Memory(
        config=config,
        kind="history of training",
        data=dataset,
        layers=layers,
        outputs=partial(_outputs, trained),
        without=lambda where: partial(_outputs, [memory.without(where) for memory in memories]),
        item=partial(_training_item, config, dataset),
        labels=train.labels[rows],
        tasks=None if train.tasks is None else train.tasks[rows],
        rows=rows,
        steps=recording.slot_steps,
        warnings=residual_warnings(recording),
    )


def residual_warnings(recording: Recording) -> tuple[str, ...]:
    """Return a line on the share of the update that the dual form leaves out, if there is one."""
    shares = {name: facts.residual_share for name, facts in recording.facts.layers.items()}
    listed = ", ".join(f"{100 * share:.2g} % in {name}" for name, share in shares.items() if share)
    return (
        (f"the dual form of {recording.facts.optimizer} leaves out a part of the update: {listed}",) if listed else ()
    )


def _attention(memory: LayerMemory, below: list[LinearLayer], inputs: Inputs, on_slots: OnSlots) -> Array:
    """Return the attention (slots,) of a layer to an input (1, features) of the network, in chunks."""
    query = np.maximum(_outputs(below, inputs), 0) if below else inputs
    attention = np.empty(memory.slots, np.float32)
    for slots in memory.chunks(_SLOTS_AT_ONCE):
        attention[slots] = memory.attention(query, slots)[0]
        on_slots(slots.stop, memory.slots)
    return attention


def _outputs(layers: Iterable[LinearLayer], inputs: Array) -> Array:
    """Return the outputs (n, outputs) of linear layers with ReLU between them."""
    outputs = inputs
    for number, (weight, bias) in enumerate(layers):
        outputs = (np.maximum(outputs, 0) if number else outputs) @ weight.T
        outputs = outputs if bias is None else outputs + bias
    return outputs


def _training_item(config: RunConfig, dataset: Dataset, row: int) -> MemoryItem:
    """Return a row of the training data as an entry; its source is a reference that names it as input."""
    train = dataset.train
    return MemoryItem(
        source=f"{config.dataset_label}:train:{row}",
        weight=0.0,
        label=None,
        picture=dataset.scaling.invert(train.inputs[row]),
        row=row,
        task="" if train.tasks is None else task_names(config)[train.tasks[row]],
    )
