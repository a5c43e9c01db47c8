"""The memory of prototype networks, and of networks whose head is one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset
from idwbench.explanations.explanation import MemoryItem
from idwbench.explanations.memory import Layer, Memory, OnSlots, Outputs
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.networks import Network
from idwbench.models.saved_model import SavedModel
from idwbench.runs.config import RunConfig

__all__ = ["HEAD", "PROTOTYPES", "head_memory", "prototype_memory"]

PROTOTYPES, HEAD = "prototypes", "head"


def prototype_memory(model: SavedModel) -> Memory:
    """Return the prototypes of a model; the class of each is that of its largest value."""
    keys, numbers = model.keys, model.repairs.numbers(len(model.network.keys))

    def item(place: int) -> MemoryItem:
        patched = f" (patch {numbers[place]})" if numbers[place] else ""
        return MemoryItem(f"prototype {place}{patched}", 0.0, None, model.scaling.invert(keys[place]))

    return _memory(model.config, PROTOTYPES, model, lambda inputs: inputs, model, item)


def head_memory(config: RunConfig, network: Network, nearest: NDArray[np.int64], dataset: Dataset) -> Memory:
    """Return the prototypes in feature space of a network, each shown as its nearest training input.

    Args:
        config: The run.
        network: Its network, with a head of prototypes.
        nearest: (prototypes,), the training row whose features are nearest to each key.
        dataset: The data of the run.
    """
    head = network.head
    assert isinstance(head, PrototypeNetwork)

    def item(place: int) -> MemoryItem:
        row = int(nearest[place])
        source = f"prototype {place}, nearest {config.dataset_label}:train:{row}"
        return MemoryItem(source, 0.0, None, dataset.scaling.invert(dataset.train.inputs[row]), row=row)

    return _memory(config, HEAD, head, network.features, dataset, item)


def _memory(
    config: RunConfig,
    layer: str,
    network: SavedModel | PrototypeNetwork,
    features: Outputs,
    data: SavedModel | Dataset,
    item: Callable[[int], MemoryItem],
) -> Memory:
    values = network.values if isinstance(network, SavedModel) else network.values.detach().numpy()

    def weights(inputs: NDArray[np.float32], _: OnSlots) -> NDArray[np.floating]:
        if isinstance(network, SavedModel):
            return np.asarray(network.weights(features(inputs))[0])
        with torch.no_grad():
            return np.asarray(network.weights(torch.from_numpy(features(inputs)))[0].numpy())

    def values_of(inputs: NDArray[np.float32], places: NDArray[np.int64]) -> NDArray[np.floating]:
        at_input = network.values_at(inputs[0]) if isinstance(network, SavedModel) else values
        return np.asarray(at_input[places])

    def without(where: NDArray[np.bool_]) -> Outputs:
        rest = network.without(where)
        return lambda inputs: rest.outputs(features(inputs))

    return Memory(
        config=config,
        kind="prototypes",
        data=data,
        layers={layer: Layer(weights, values_of)},
        outputs=lambda inputs: network.outputs(features(inputs)),
        without=without,
        item=item,
        labels=values.argmax(1) if data.class_names else None,
    )
