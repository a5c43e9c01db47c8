"""A trained linear layer as attention over every input of its training."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

__all__ = ["LayerMemory", "release_pages"]

Array = NDArray[Any]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Slots = slice | NDArray[np.int64]

# Numbers in a chunk of keys, and in a block of attention: some 64 MB each, whatever the length of the training.
_CHUNK_NUMBERS = 2**22
_BLOCK_NUMBERS = 2**24


@dataclass(eq=False)
class LayerMemory:
    """A linear layer S(x) = f·W_0 x + Σ_t e_t (x_t·x), after arXiv 2202.05798, with attention α_t = x_t·x.

    A bias is the weight of a constant input 1: then α_t = x_t·x + 1. The error signal e_t is the coefficient of its
    step times the recorded gradient of the outputs. Everything is read from disk in chunks.

    Attributes:
        stored_keys: Keys x_t (slots, features); with `key_rows`, the distinct ones (rows, features).
        gradients: Gradients of the mean loss of a step with respect to the layer's outputs (slots, outputs).
        slot_steps: The step of each slot.
        coefficients: (steps,), or for Adam (steps, outputs).
        units: The unit of each step in which its gradients are stored (steps,).
        initial: W_0 (outputs, features); in a layer with a bias this is a last column.
        initial_factor: f, a number or for Adam (outputs,).
        final: W_T of the same shape, as the training computed it.
        residual: What the sum leaves out of W_T, for Adam, of the same shape; otherwise None.
        key_rows: The row of `stored_keys` of each slot if the keys are folded, otherwise None.
    """

    stored_keys: Array
    gradients: Array
    slot_steps: NDArray[np.int64]
    coefficients: Floats
    units: Floats
    initial: Array
    initial_factor: float | Floats
    final: Array
    residual: Array | None = None
    key_rows: NDArray[np.int64] | None = None

    @property
    def slots(self) -> int:
        """Return the number of slots."""
        return len(self.slot_steps)

    @property
    def features(self) -> int:
        """Return the length of a key."""
        return int(self.stored_keys.shape[1])

    @property
    def outputs(self) -> int:
        """Return the number of outputs."""
        return int(self.gradients.shape[1])

    @property
    def has_bias(self) -> bool:
        """Return whether the layer has a bias."""
        return bool(self.final.shape[1] > self.features)

    @property
    def weight(self) -> Array:
        """Return the weight after the training (outputs, features)."""
        return self.final[:, : self.features]

    @property
    def bias(self) -> Array | None:
        """Return the bias after the training (outputs,), or None."""
        return self.final[:, -1] if self.has_bias else None

    def keys(self, slots: Slots) -> Array:
        """Return keys x_t of a slice or an array of slots (n, features), in float32 or float64."""
        return _floating(self.stored_keys[slots if self.key_rows is None else self.key_rows[slots]], self.product_type)

    def errors(self, slots: Slots) -> Array:
        """Return error signals e_t of a slice or an array of slots (n, outputs), in float32 or float64."""
        gradients, coefficients = self.output_gradients(slots), self.coefficients[self.slot_steps[slots]]
        scaled = coefficients.astype(gradients.dtype)
        return np.asarray(gradients * (scaled[:, None] if scaled.ndim == 1 else scaled))

    def output_gradients(self, slots: Slots) -> Array:
        """Return the recorded gradients of the outputs (n, outputs), before clipping, in float32 or float64."""
        gradients = _floating(self.gradients[slots], self.product_type)
        return np.asarray(gradients * self.units[self.slot_steps[slots], None].astype(gradients.dtype))

    def answers(self, queries: Array) -> Floats:
        """Return the answers S(x) (n, outputs) to queries (n, features), by the dual form.

        Products are taken in the type of the recording, sums over chunks in float64.
        """
        inputs, constant = np.asarray(queries, np.float64), self.constant
        answers: Floats = inputs @ constant[:, : self.features].T
        if self.has_bias:
            answers += constant[:, -1]
        block = self.queries_at_once
        for start in range(0, len(inputs), block):
            part = slice(start, start + block)
            for slots in self.chunks():
                attention = torch.from_numpy(self.attention(queries[part], slots))
                answers[part] += (attention @ torch.from_numpy(self.errors(slots))).numpy()
        return answers

    def attention(self, queries: Array, slots: Slots | None = None) -> Array:
        """Return the attention α_t (n, slots) of queries (n, features) to all slots, or to some."""
        keys = torch.from_numpy(self.keys(slice(None) if slots is None else slots))
        inputs = torch.from_numpy(np.ascontiguousarray(queries)).to(keys)
        attention = torch.addmm(keys.new_ones(1), inputs, keys.T) if self.has_bias else inputs @ keys.T
        return np.asarray(attention.numpy())

    def contributions(self, queries: Array, output: int, slots: Slots | None = None) -> Array:
        """Return α_t·e_t[output] (n, slots): what each slot adds to an output; with W_0 they sum to the answer."""
        chosen = slice(None) if slots is None else slots
        return np.asarray(self.attention(queries, chosen) * self.errors(chosen)[:, output])

    def top(
        self,
        queries: Array,
        k: int,
        *,
        where: Mask | None = None,
        on_slots: Callable[[int, int], None] = lambda done, total: None,
    ) -> tuple[NDArray[np.int64], Array]:
        """Return slots and attention (n, k) of the largest attention of queries (n, features), largest first.

        Equal attention is ordered by slot. With fewer than k slots all of them are returned.

        Args:
            queries: (n, features).
            k: Number of slots.
            where: The slots (slots,) that are looked at; by default all.
            on_slots: Called after each chunk with the number of slots that were looked at, and of all.
        """
        best = np.zeros((len(queries), 0), np.int64), np.zeros((len(queries), 0), np.float32)
        for slots in self.chunks(max(1, _BLOCK_NUMBERS // max(1, len(queries)))):
            chosen = np.arange(slots.start, slots.stop)
            if where is not None:
                chosen = chosen[where[slots]]
            if len(chosen):
                best = _largest(best, chosen, self.attention(queries, slots if where is None else chosen), k)
            on_slots(slots.stop, self.slots)
        return best

    def totals(self, queries: Array, groups: NDArray[np.integer[Any]], n_groups: int) -> Floats:
        """Return the total attention Σ α_t (n, groups) of queries (n, features) to each group of slots.

        It is linear in the sum of a group's keys, so that one pass over the memory serves all queries.

        Args:
            queries: (n, features).
            groups: The group of each slot (slots,), from 0; slots of negative groups belong to none.
            n_groups: Number of groups.
        """
        sums, counts = torch.zeros(n_groups, self.features, dtype=torch.float64), np.zeros(n_groups)
        for slots in self.chunks():
            places = np.flatnonzero(groups[slots] >= 0)
            chosen = np.asarray(groups[slots][places], np.int64)
            keys = torch.from_numpy(self.keys(slots))[torch.from_numpy(places)]
            sums.index_add_(0, torch.from_numpy(chosen), keys.double())
            counts += np.bincount(chosen, minlength=n_groups)
        totals: Floats = np.asarray(queries, np.float64) @ sums.numpy().T
        return totals + counts if self.has_bias else totals

    def without(self, where: Mask) -> tuple[Array, Array | None]:
        """Return weight and bias of the layer without the slots in a mask (slots,), from one pass over these slots."""
        other = replace(self, final=(self.final - self.change(where)).astype(self.final.dtype))
        return other.weight, other.bias

    def change(self, where: Mask | None = None) -> Floats:
        """Return Σ_t e_t x_tᵀ (outputs, features), with a last column Σ_t e_t if the layer has a bias.

        Args:
            where: The slots (slots,) of the sum; by default all.
        """
        total = np.zeros((self.outputs, self.features + self.has_bias))
        for slots in self.chunks():
            chosen = slots if where is None else np.flatnonzero(where[slots]) + slots.start
            errors = self.errors(chosen)
            total[:, : self.features] += (torch.from_numpy(errors).T @ torch.from_numpy(self.keys(chosen))).numpy()
            if self.has_bias:
                total[:, -1] += errors.sum(0, dtype=np.float64)
        return total

    def remainder(self) -> Floats:
        """Return W_T − f·W_0 − Σ_t e_t x_tᵀ (outputs, features), with a last column for the bias.

        It is rounding for SGD, and the residual for Adam.
        """
        return self.final.astype(np.float64) - self._scaled_initial - self.change()

    @property
    def constant(self) -> Floats:
        """Return what of W_T is no sum over slots, f·W_0 and for Adam the residual, with a last column for the bias."""
        return self._scaled_initial + (0.0 if self.residual is None else self.residual)

    @property
    def _scaled_initial(self) -> Floats:
        """Return f·W_0, with a last column for the bias."""
        return np.broadcast_to(self.initial_factor, self.outputs)[:, None] * self.initial.astype(np.float64)

    @property
    def queries_at_once(self) -> int:
        """Return the number of queries whose attention to one of the `chunks` is a block of bounded memory."""
        return max(1, _BLOCK_NUMBERS // self._chunk)

    def chunks(self, largest: int | None = None) -> Iterator[slice]:
        """Yield all slots in order, in slices of bounded memory, each with at most `largest` slots.

        After each slice the pages of the memory maps are released.
        """
        chunk = self._chunk if largest is None else min(largest, self._chunk)
        for start in range(0, self.slots, chunk):
            yield slice(start, min(start + chunk, self.slots))
            release_pages(self.stored_keys)
            release_pages(self.gradients)

    @property
    def product_type(self) -> torch.dtype:
        """Return the type of products: float64 only if the gradients are stored so."""
        return torch.float64 if self.gradients.dtype == np.float64 else torch.float32

    @property
    def _chunk(self) -> int:
        return max(1, _CHUNK_NUMBERS // max(self.features, self.outputs))


def _largest(
    best: tuple[NDArray[np.int64], Array], slots: NDArray[np.int64], attention: Array, k: int
) -> tuple[NDArray[np.int64], Array]:
    """Return the slots and attention (n, at most k) of the largest of the best so far and of later slots.

    Args:
        best: Slots and attention so far, largest first, and equal ones by slot, as the result.
        slots: Later slots (columns,).
        attention: (n, columns).
        k: Largest number of slots for each query.
    """
    earlier, n_queries = best[0].shape[1], len(attention)
    every = np.concatenate([best[1].astype(attention.dtype), attention], axis=1)
    k = min(k, every.shape[1])
    if not k or not n_queries:
        return np.zeros((n_queries, k), np.int64), every[:, :k]
    if earlier == k:
        threshold = best[1][:, -1:]
    else:
        # The k-th largest is among them, and so are those that equal it.
        threshold = torch.topk(torch.from_numpy(every), k, dim=1, sorted=False).values.amin(1, keepdim=True).numpy()
    queries, columns = np.nonzero(~(every < threshold))
    order = np.lexsort((columns, -every[queries, columns], queries))
    order = order[np.arange(len(order)) - np.searchsorted(queries, queries) < k]
    places = columns[order].reshape(n_queries, k)
    chosen = slots[np.maximum(places - earlier, 0)]
    known = np.nonzero(places < earlier)
    chosen[known] = best[0][known[0], places[known]]
    return chosen, np.take_along_axis(every, places, 1)


def _floating(array: Array, dtype: torch.dtype) -> Array:
    """Return the array in a type; torch converts half precision faster than NumPy."""
    return np.asarray(torch.from_numpy(np.ascontiguousarray(array)).to(dtype).numpy())


def release_pages(array: NDArray[np.generic]) -> None:
    """Take the pages of a memory-mapped array out of the process; the system reads, writes or keeps them as before."""
    mapping = getattr(array, "_mmap", None)
    if mapping is not None and hasattr(mmap, "MADV_DONTNEED"):  # not on Windows
        mapping.madvise(mmap.MADV_DONTNEED)
