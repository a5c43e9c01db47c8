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

# Distinct directions per query below which weighted sums of keys are cheaper than products with all slots.
_FEW = 0.25


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

    It is the product with the sum of a row's keys: one pass over the memory, whatever the number of queries.

    Args:
        memory: The layer.
        rows: The training row of each slot (slots,).
        n_rows: Number of training rows.
        queries: Inputs of the layer (n, features).
    """
    counts = torch.from_numpy(np.bincount(rows, minlength=n_rows))
    if memory.key_rows is not None:
        keys = _tensor(memory.stored_keys)
        return (_attention(memory, _like(queries, keys), keys) * counts.to(keys)).numpy()
    sums = _row_sums(memory, rows, n_rows, None)
    attention = _like(queries, sums) @ sums.T
    return (attention + counts.to(sums) if memory.has_bias else attention).numpy()


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
    if memory.key_rows is not None:
        return _folded_contributions(memory, rows, n_rows, queries)
    distinct, which = np.unique(queries.directions, axis=0, return_inverse=True)
    if len(distinct) > _FEW * len(queries.directions):
        return _contributions_by_slots(memory, rows, n_rows, queries)
    contributions = np.empty((len(queries.inputs), n_rows), memory.keys(slice(0, 1)).dtype)
    for number, direction in enumerate(distinct):
        sums = _row_sums(memory, rows, n_rows, direction)
        asked = which.reshape(-1) == number
        inputs = _like(queries.inputs[asked], sums)
        contributions[asked] = (inputs @ sums[:, : memory.features].T + sums[:, memory.features :].sum(1)).numpy()
    return contributions


def own_contributions(memory: LayerMemory, rows: Rows, queries: LayerQueries) -> Array:
    """Return what the slots of each training row add to the answer to this row itself (rows,).

    Args:
        memory: The layer.
        rows: The training row of each slot (slots,).
        queries: One query for each training row, in order.
    """
    totals = torch.zeros(len(queries.inputs), dtype=torch.float64)
    for slots in memory.chunks():
        where = rows[slots]
        attention = (_tensor(memory.keys(slots)) * torch.from_numpy(queries.inputs[where])).sum(1) + memory.has_bias
        error = (_tensor(memory.errors(slots)) * torch.from_numpy(queries.directions[where])).sum(1)
        totals.index_add_(0, torch.from_numpy(where), (attention * error).double())
    return totals.numpy()


def _folded_contributions(memory: LayerMemory, rows: Rows, n_rows: int, queries: LayerQueries) -> Array:
    """All slots of a row have the same key: attention to it times the sum of its error signals."""
    keys = _tensor(memory.stored_keys)
    errors = torch.zeros(n_rows, memory.outputs, dtype=keys.dtype)
    for slots in memory.chunks():
        errors.index_add_(0, _places(rows, slots), _like(memory.errors(slots), keys))
    attention = _attention(memory, _like(queries.inputs, keys), keys)
    return attention.mul_(_like(queries.directions, keys) @ errors.T).numpy()


def _contributions_by_slots(memory: LayerMemory, rows: Rows, n_rows: int, queries: LayerQueries) -> Array:
    block = memory.queries_at_once
    parts = []
    for start in range(0, len(queries.inputs), block):
        inputs, directions = queries.inputs[start : start + block], queries.directions[start : start + block]
        totals = None
        for slots in memory.chunks():
            keys, errors = _tensor(memory.keys(slots)), _tensor(memory.errors(slots))
            contributions = _attention(memory, keys, _like(inputs, keys)).mul_(errors @ _like(directions, errors).T)
            totals = keys.new_zeros(n_rows, len(inputs)) if totals is None else totals
            totals.index_add_(0, _places(rows, slots), contributions)
        assert totals is not None
        parts.append(totals.T)
    return torch.cat(parts).contiguous().numpy()


def _row_sums(memory: LayerMemory, rows: Rows, n_rows: int, direction: Array | None) -> Tensor:
    """Return the sum of x_t over each row's slots; with a direction, of ⟨e_t, direction⟩·[x_t, 1], the 1 for a bias."""
    sums = None
    for slots in memory.chunks():
        keys = _tensor(memory.keys(slots))
        if direction is not None:
            errors = _tensor(memory.errors(slots))
            weights = (errors @ _like(direction, errors))[:, None]
            keys = torch.cat([keys * weights, weights], 1) if memory.has_bias else keys * weights
        sums = keys.new_zeros(n_rows, keys.shape[1]) if sums is None else sums
        sums.index_add_(0, _places(rows, slots), keys)
    assert sums is not None
    return sums


def _attention(memory: LayerMemory, queries: Tensor, keys: Tensor) -> Tensor:
    attention = queries @ keys.T
    return attention.add_(1) if memory.has_bias else attention


def _places(rows: Rows, slots: slice) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(rows[slots]))


def _tensor(array: Array) -> Tensor:
    """Return a tensor, in single precision if the array has half precision."""
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return tensor.float() if tensor.dtype == torch.float16 else tensor


def _like(array: Array, tensor: Tensor) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).to(tensor.dtype)
