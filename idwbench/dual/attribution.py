"""Scores of training rows by a recording: their attention, and what they add to an answer, summed over their slots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from idwbench.dual.memory import LayerMemory

__all__ = ["LayerQueries", "layer_queries", "own_contributions", "row_attention", "row_contributions"]

Array = NDArray[Any]
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class LayerQueries:
    """What an input asks of one layer.

    Attributes:
        inputs: Inputs of the layer (n, features).
        directions: Derivative of the explained number with respect to the layer's outputs (n, outputs).
    """

    inputs: Array
    directions: Array


def layer_queries(
    module: nn.Module, layers: Mapping[str, nn.Linear], inputs: Array, outputs: NDArray[np.integer[Any]]
) -> dict[str, LayerQueries]:
    """Return the queries to each layer whose answers make one output of a network for each input.

    In a network of linear layers and ReLU that output is ⟨direction, layer's output⟩ and what later biases add. So the
    contributions to it, with those of the initial weights, sum to it, for each layer.

    Args:
        module: The network, from inputs (n, features) to outputs (n, classes).
        layers: Some of its layers by name.
        inputs: (n, features).
        outputs: The number of the output that is explained for each input (n,).
    """
    seen: dict[str, tuple[Tensor, Tensor]] = {}

    def hook(name: str) -> Any:
        def keep(_: nn.Module, arguments: tuple[Tensor, ...], output: Tensor) -> None:
            seen[name] = arguments[0].detach(), output

        return keep

    handles = [layer.register_forward_hook(hook(name)) for name, layer in layers.items()]
    try:
        with torch.enable_grad():
            answers = module(torch.from_numpy(inputs))
            explained = answers.gather(1, torch.from_numpy(np.asarray(outputs, np.int64))[:, None]).sum()
            gradients = torch.autograd.grad(explained, [seen[name][1] for name in layers])
    finally:
        for handle in handles:
            handle.remove()
    return {
        name: LayerQueries(seen[name][0].numpy(), gradient.numpy())
        for name, gradient in zip(layers, gradients, strict=True)
    }


def row_attention(memory: LayerMemory, rows: Rows, n_rows: int, queries: Array) -> Array:
    """Return the attention Σ α_t (n, rows) of queries to each training row, over the slots of the row.

    Args:
        memory: The layer.
        rows: The training row of each slot (slots,).
        n_rows: Number of training rows.
        queries: Inputs of the layer (n, features).
    """
    return memory.totals(queries, rows, n_rows).astype(queries.dtype)


def row_contributions(memory: LayerMemory, rows: Rows, n_rows: int, queries: LayerQueries) -> Array:
    """Return the contributions Σ α_t·⟨e_t, direction⟩ (n, rows) of each training row, over the slots of the row.

    For the last layer and the unit vector of a class as direction this is Σ α_t·e_t[class]. The residual of Adam
    belongs to no row.

    Args:
        memory: The layer.
        rows: The training row of each slot (slots,).
        n_rows: Number of training rows.
        queries: Of `layer_queries`, or with directions of the caller's own.
    """
    contributions = np.empty((len(queries.inputs), n_rows), queries.inputs.dtype)
    for start in range(0, len(contributions), memory.queries_at_once):
        block = slice(start, start + memory.queries_at_once)
        inputs, directions = queries.inputs[block], queries.directions[block]
        totals = torch.zeros(n_rows, len(inputs), dtype=memory.product_type)
        for slots in memory.chunks():
            errors = torch.from_numpy(memory.errors(slots))
            along = errors @ torch.from_numpy(directions).to(errors).T
            attention = torch.from_numpy(memory.attention(inputs, slots))
            totals.index_add_(0, torch.from_numpy(rows[slots]), along.mul_(attention.T))
        contributions[block] = totals.T
    return contributions


def own_contributions(memory: LayerMemory, rows: Rows, queries: LayerQueries) -> Array:
    """Return what the slots of each training row add to the answer to this row itself (rows,).

    Args:
        memory: The layer.
        rows: The training row of each slot (slots,).
        queries: One query for each training row, in order.
    """
    totals = np.zeros(len(queries.inputs))
    for slots in memory.chunks():
        where = rows[slots]
        attention = (memory.keys(slots) * queries.inputs[where]).sum(1) + memory.has_bias
        error = (memory.errors(slots) * queries.directions[where]).sum(1)
        totals += np.bincount(where, weights=attention * error, minlength=len(totals))
    return totals
