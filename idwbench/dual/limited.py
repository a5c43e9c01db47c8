"""Answers of linear layers that keep a part of their memory, or as many new slots in place of all.

The sum over all slots is a matrix: a memory that grows with the training holds no more than min(features + 1, outputs)
slots can, see `merged_slots` (arXiv 2202.05798, second remark). The slots of a matrix are not unique (third remark).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from idwbench.dual.memory import LayerMemory

__all__ = ["Keep", "limited_outputs", "merged_slots"]

Keep = Literal["top", "recent", "random", "rescaled", "merged"]

# Numbers in a block of the attention of some queries to all slots, 64 MB.
_BLOCK_NUMBERS = 2**24

Array = NDArray[Any]
Floats = NDArray[np.float64]


def limited_outputs(
    memories: Sequence[LayerMemory], inputs: Array, keep: Keep, n: int, labels: NDArray[np.int64], seed: int = 0
) -> tuple[Floats, Floats | None]:
    """Return outputs (m, outputs) of a network whose layers keep n slots each, and the total attention of the last one.

    W_0 and what the sum over slots leaves out stay; each layer is asked with what the limited layers below it give.

    Args:
        memories: The layers, with ReLU between them.
        inputs: (m, features).
        keep: ``top`` of each query, ``recent``, ``random``, ``rescaled`` (random ones, times slots/n) or ``merged``.
        n: Number of slots; a layer that has fewer keeps all.
        labels: The class (slots,) of each slot.
        seed: Of random slots, which are the same in all layers.

    Returns:
        The outputs, and Σ α_t (m, classes) over the slots of each class that the last layer keeps; None if merged.
    """
    outputs, totals = np.asarray(inputs, np.float64), None
    for number, memory in enumerate(memories):
        queries = np.maximum(outputs, 0) if number else outputs
        if keep == "top":
            outputs, totals = _largest_alone(memory, queries, n, labels)
        else:
            where = _kept(keep, memory.slots, n, seed)
            outputs = _with_column(queries, memory) @ (memory.constant + _change(memory, keep, n, where)).T
            kept = np.where(where, labels, -1)
            totals = None if keep == "merged" else memory.totals(queries, kept, int(labels.max()) + 1)
    return outputs, totals


def merged_slots(memory: LayerMemory, n: int) -> tuple[Floats, Floats]:
    """Return keys (n, features + 1) and error signals (n, outputs) whose Σ e xᵀ is nearest to that of all slots.

    They are its singular vectors (Eckart and Young); with min(features + 1, outputs) of them the sums are equal. In a
    layer without a bias keys are (n, features). Fewer are returned if there are no more.
    """
    left, sizes, right = np.linalg.svd(memory.change(), full_matrices=False)
    return right[:n], (left * sizes).T[:n]


def _kept(keep: Keep, slots: int, n: int, seed: int) -> NDArray[np.bool_]:
    """Return which slots (slots,) are kept, the same for all queries."""
    order = np.arange(slots)[::-1] if keep == "recent" else np.random.default_rng(seed).permutation(slots)
    return np.isin(np.arange(slots), order[:n])


def _change(memory: LayerMemory, keep: Keep, n: int, where: NDArray[np.bool_]) -> Floats:
    """Return the sum Σ e xᵀ (outputs, features + 1) of the slots that are kept."""
    if keep == "merged":
        keys, errors = merged_slots(memory, n)
        return errors.T @ keys
    factor = len(where) / where.sum() if keep == "rescaled" else 1.0
    return factor * memory.change(where)


def _with_column(queries: Array, memory: LayerMemory) -> Array:
    """Return queries with the constant input of the bias, if the layer has one."""
    return np.hstack([queries, np.ones((len(queries), 1))]) if memory.has_bias else queries


def _largest_alone(memory: LayerMemory, queries: Array, n: int, labels: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return the answers (m, outputs) of a layer that keeps the n largest attentions, and their total by class."""
    answers: Floats = _with_column(queries, memory) @ memory.constant.T
    totals = np.zeros((len(queries), int(labels.max()) + 1))
    block = max(1, _BLOCK_NUMBERS // max(1, memory.slots))
    for start in range(0, len(queries), block):
        part = slice(start, start + block)
        kept = _largest(torch.cat([_attention(memory, queries[part], slots) for slots in memory.chunks()], 1), n)
        for slots in memory.chunks():
            answers[part] += (kept[:, slots] @ torch.from_numpy(memory.errors(slots))).double().numpy()
        for label in range(totals.shape[1]):
            totals[part, label] = kept[:, torch.from_numpy(labels == label)].sum(1, dtype=torch.float64)
    return answers, totals


def _attention(memory: LayerMemory, queries: Array, slots: slice) -> Tensor:
    return torch.from_numpy(memory.attention(queries, slots))


def _largest(attention: Tensor, n: int) -> Tensor:
    """Return attention (m, slots) with zeros in place of all but the n largest of each row; of equal ones the first."""
    if n >= attention.shape[1]:
        return attention
    least = torch.topk(attention, n, dim=1, sorted=False).values.amin(1, keepdim=True)
    above, equal = attention > least, attention == least
    is_kept = above | (equal & (equal.cumsum(1) <= n - above.sum(1, keepdim=True)))
    return attention * is_kept
