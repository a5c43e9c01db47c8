"""Explanations of prototype networks, and of networks whose head is one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset, Scaling
from idwbench.errors import DatasetError
from idwbench.explanations.answers import ExplainedAnswer, MemoryItem
from idwbench.explanations.masks import parse_mask
from idwbench.explanations.queries import DatasetInputs, Request, read_query, task_names
from idwbench.explanations.weighted import WeightedMemory, explain_weighted
from idwbench.models.effects import data_difference
from idwbench.models.networks import Network
from idwbench.models.prototypes import PrototypeNetwork
from idwbench.models.saved_model import SavedModel
from idwbench.runs.config import RunConfig

__all__ = ["HEAD", "PROTOTYPES", "PrototypeAttention", "explain_head", "explain_prototypes"]

PROTOTYPES, HEAD = "prototypes", "head"


@dataclass(frozen=True)
class PrototypeAttention:
    """The weights and outputs of prototypes, for inputs or for their features under an encoder."""

    prototypes: PrototypeNetwork
    network: Network | None = None

    def weights(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the weight of each prototype (n, prototypes)."""
        with torch.no_grad():
            return np.asarray(self.prototypes.weights(torch.from_numpy(self._features(queries))).numpy())

    def outputs(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the outputs (n, outputs)."""
        return self.prototypes.outputs(self._features(queries))

    def without(self, where: NDArray[np.bool_]) -> PrototypeAttention:
        """Return the same without some prototypes (prototypes,); the weights of the others are normalised anew."""
        kept = torch.from_numpy(~where)
        keys, values = (part.detach()[kept] for part in (self.prototypes.keys, self.prototypes.values))
        method, parameters = self.prototypes.method, self.prototypes.parameters_of_method
        return PrototypeAttention(PrototypeNetwork(method, parameters, keys, values), self.network)

    def _features(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        return queries if self.network is None else self.network.features(queries)


def explain_prototypes(model: SavedModel, request: Request) -> ExplainedAnswer:
    """Return the prototypes behind an answer; a mask by class removes those whose value has its maximum there.

    Raises:
        ExplanationError: the input or the mask is not valid.
        DatasetError: the data set in `x` cannot be loaded.
    """
    query = read_query(request, model)
    mask = parse_mask(request.masks, model.class_names, data=f"the data set {model.config.dataset_label}")
    keys, values = (part.detach().numpy() for part in (model.network.keys, model.network.values))
    n_learned = len(keys) - len(model.patches)

    def item(place: int) -> MemoryItem:
        patched = f" (patch {place - n_learned + 1})" if place >= n_learned else ""
        return MemoryItem(f"prototype {place}{patched}", 0.0, None, model.scaling.invert(keys[place]))

    memory = WeightedMemory(
        model=model.config.model.label,
        kind="prototypes",
        layer=PROTOTYPES,
        attends=PrototypeAttention(model.network),
        values=values,
        item=item,
        class_names=model.class_names,
        image_shape=model.image_shape,
        target_scaling=model.target_scaling,
    )
    return explain_weighted(memory, query, request.top, mask, _test_data(model, request) if mask else (None, ""))


def _test_data(model: SavedModel, request: Request) -> tuple[Dataset | None, str]:
    """Return the data that a model was trained on, or None and why not."""
    unmeasured = "the effect on the test data is not measured"
    try:
        dataset = request.dataset(model.config)
    except DatasetError as error:
        return None, f"{unmeasured}: {error}"
    difference = data_difference(model, dataset)
    return (None, f"{unmeasured}: {difference}") if difference else (dataset, "")


def explain_head(
    config: RunConfig, network: Network, nearest: NDArray[np.int64], dataset: Dataset, request: Request
) -> ExplainedAnswer:
    """Return the prototypes in feature space behind an answer, each with its nearest training input.

    Args:
        config: The run.
        network: Its network, with a head of prototypes.
        nearest: (prototypes,), the training row whose features are nearest to each key.
        dataset: The data of the run.
        request: What to explain.

    Raises:
        ExplanationError: the input or the mask is not valid.
        DatasetError: the data set in `x` cannot be loaded.
    """
    head = network.head
    assert isinstance(head, PrototypeNetwork)
    query = read_query(request, DatasetInputs(config, dataset))
    mask = parse_mask(request.masks, dataset.class_names, data=f"the data set {config.dataset_label}")

    def item(place: int) -> MemoryItem:
        row = int(nearest[place])
        source = f"prototype {place}, nearest {config.dataset_label}:train:{row}"
        return MemoryItem(source, 0.0, None, dataset.scaling.invert(dataset.train.inputs[row]), row=row)

    memory = WeightedMemory(
        model=config.model.label,
        kind="prototypes",
        layer=HEAD,
        attends=PrototypeAttention(head, network),
        values=head.values.detach().numpy(),
        item=item,
        class_names=dataset.class_names,
        image_shape=dataset.image_shape,
        target_scaling=dataset.target_scaling if not dataset.class_names else Scaling.identity(),
    )
    return explain_weighted(memory, query, request.top, mask, (dataset, ""), task_names(config))
