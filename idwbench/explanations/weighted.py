"""Memories whose answer is Σ_j w_j v_j: prototypes, the head of a network, and kernel regression."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset, Scaling
from idwbench.explanations.accuracy import accuracy_changes
from idwbench.explanations.answers import Answer, ExplainedAnswer, MaskEffect, MemoryItem, Query
from idwbench.explanations.layers import explained_layer
from idwbench.explanations.masks import Mask

__all__ = ["Attends", "WeightedMemory", "explain_weighted"]

Array = NDArray[np.floating]
Inputs = NDArray[np.float32]


class Attends(Protocol):
    """What maps queries (n, features), in scaled units, to weights and outputs."""

    def weights(self, queries: Inputs) -> Array:
        """Return the weight (n, entries) of each entry of the memory; 0 for all if a query has no neighbours."""

    def outputs(self, queries: Inputs) -> Array:
        """Return the outputs (n, outputs), scaled."""

    def without(self, where: NDArray[np.bool_]) -> Attends:
        """Return the same without some entries (entries,) of the memory."""


@dataclass(frozen=True)
class WeightedMemory:
    """A memory of keys and values, and what its answers mean.

    Attributes:
        model: Label of the model.
        kind: What the keys are.
        layer: Name of the layer.
        attends: Weights and outputs.
        values: (entries, outputs), scaled.
        item: Returns source, picture, row and task of an entry by its position.
        class_names: Empty for a regression.
        image_shape: (height, width) if an input is an image.
        target_scaling: Scaling of the targets of a regression.
        tasks: (entries,), the part of the data set that each comes from, or None.
        outputs_are_frequencies: Whether the outputs of a classification are probabilities already, and not logits.
    """

    model: str
    kind: Literal["prototypes", "training data"]
    layer: str
    attends: Attends
    values: Array
    item: Callable[[int], MemoryItem]
    class_names: tuple[str, ...]
    image_shape: tuple[int, int] | None
    target_scaling: Scaling
    tasks: NDArray[np.int64] | None = None
    outputs_are_frequencies: bool = False

    @property
    def classes(self) -> NDArray[np.intp] | None:
        """The class (entries,) with the largest value; None for a regression."""
        return self.values.argmax(1) if self.class_names else None

    def answer(self, attends: Attends, query: Query) -> Answer:
        """Return the answer of `attends`, which may be without a part of the memory."""
        outputs = attends.outputs(query.inputs[None])[0]
        if not self.class_names:
            return Answer(self.target_scaling.invert(outputs))
        exact = np.asarray(outputs, np.float64)
        return Answer(exact, exact) if self.outputs_are_frequencies else Answer.of_logits(exact)

    def explained_item(self, place: int, weight: float, label: int | None) -> MemoryItem:
        """Return an entry with its weight, and what it adds to the output of the class `label`."""
        value = self.values[place]
        if label is None:
            return replace(self.item(place), weight=weight, value=self.target_scaling.invert(value))
        contribution = weight * float(value[label])
        exact = np.asarray(value, np.float64)
        return replace(
            self.item(place), weight=weight, label=int(value.argmax()), value=exact, contribution=contribution
        )


def explain_weighted(
    memory: WeightedMemory,
    query: Query,
    top: int,
    mask: Mask | None = None,
    test_data: tuple[Dataset | None, str] = (None, ""),
    task_names: tuple[str, ...] = (),
) -> ExplainedAnswer:
    """Return the answer to a query, its weights, and what a mask changes.

    Args:
        memory: The memory.
        query: The input.
        top: Number of entries to return.
        mask: The part of the memory to answer without, or None.
        test_data: The data set whose test data is then answered too, or None and the reason.
        task_names: Names of the parts of the data set.

    Raises:
        ExplanationError: the mask removes nothing or everything.
    """
    answer = memory.answer(memory.attends, query)
    weights = memory.attends.weights(query.inputs[None])[0]
    layer = explained_layer(
        memory.layer,
        weights,
        memory.classes,
        len(memory.class_names),
        lambda place: memory.explained_item(place, float(weights[place]), answer.label),
        top,
    )
    return ExplainedAnswer(
        model=memory.model,
        memory=memory.kind,
        query=query,
        answer=answer,
        layers=(layer,),
        class_names=memory.class_names,
        image_shape=memory.image_shape,
        effect=None if mask is None else _effect(memory, query, mask, test_data[0], task_names),
        warnings=(test_data[1],) if mask is not None and test_data[1] else (),
    )


def _effect(
    memory: WeightedMemory, query: Query, mask: Mask, dataset: Dataset | None, task_names: tuple[str, ...]
) -> MaskEffect:
    where = mask.removes(memory.classes, memory.tasks)
    rest = memory.attends.without(where)
    changes = () if dataset is None else accuracy_changes(dataset, task_names, memory.attends.outputs, rest.outputs)
    return MaskEffect(mask.conditions, int(where.sum()), len(where), memory.answer(rest, query), changes)
