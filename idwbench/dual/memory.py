"""A trained linear layer as attention over every input of its training."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

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
        units: The unit of each step in which its gradients are stored (steps,), or None for 1.
        initial: W_0 (outputs, features).
        initial_bias: (outputs,), or None.
        initial_factor: f, a number or for Adam (outputs,).
        weight: The weight after the training, as the training computed it (outputs, features).
        bias: (outputs,), or None.
        residual: What the sum leaves out of the weight, for Adam (outputs, features); otherwise None.
        residual_bias: The same of the bias.
        key_rows: The row of `stored_keys` of each slot if the keys are folded, otherwise None.
    """

    stored_keys: Array
    gradients: Array
    slot_steps: NDArray[np.int64]
    coefficients: Floats
    units: Floats | None
    initial: Array
    initial_bias: Array | None
    initial_factor: float | Floats
    weight: Array
    bias: Array | None
    residual: Array | None = None
    residual_bias: Array | None = None
    key_rows: NDArray[np.int64] | None = None
    _sums: list[tuple[Array, int, Floats]] = field(default_factory=list, init=False, repr=False)

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
        return self.bias is not None

    def keys(self, slots: Slots) -> Array:
        """Return keys x_t of a slice or an array of slots (n, features), in float32 or float64."""
        return _floating(self.stored_keys[slots if self.key_rows is None else self.key_rows[slots]], self._dtype)

    def errors(self, slots: Slots) -> Array:
        """Return error signals e_t of a slice or an array of slots (n, outputs), in float32 or float64."""
        return self._scaled_gradients(slots, self._error_factors)

    def output_gradients(self, slots: Slots) -> Array:
        """Return the recorded gradients of the outputs (n, outputs), before clipping, in float32 or float64."""
        return self._scaled_gradients(slots, np.ones(1) if self.units is None else self.units)

    def answers(self, queries: Array) -> Floats:
        """Return the answers S(x) (n, outputs) to queries (n, features), by the dual form.

        Products are taken in the type of the recording, sums over chunks in float64.
        """
        inputs = np.asarray(queries, np.float64)
        factor = np.broadcast_to(self.initial_factor, self.outputs)
        answers: Floats = inputs @ (factor[:, None] * self.initial).T
        if self.initial_bias is not None:
            answers += factor * self.initial_bias
        if self.residual is not None:
            answers += inputs @ self.residual.T
        if self.residual_bias is not None:
            answers += self.residual_bias
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

        It is linear in the sum of a group's keys. These sums are made by one pass over the memory and kept; products
        with them are taken in the type of the queries.

        Args:
            queries: (n, features).
            groups: The group of each slot (slots,), from 0; slots of negative groups belong to none.
            n_groups: Number of groups.
        """
        sums = self._group_sums(groups, n_groups)
        products = np.asarray(queries) @ sums[:, : self.features].T.astype(queries.dtype)
        totals: Floats = products.astype(np.float64)
        return totals + sums[:, self.features] if self.has_bias else totals

    def without(self, where: Mask) -> tuple[Array, Array | None]:
        """Return weight and bias of the layer without the slots in a mask (slots,), from one pass over these slots."""
        change, dtype = self.change(where), self.weight.dtype
        weight = (self.weight - change[:, : self.features]).astype(dtype)
        return weight, None if self.bias is None else (self.bias - change[:, -1]).astype(dtype)

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
        factor = np.broadcast_to(self.initial_factor, self.outputs)[:, None]
        return _joined(self.weight, self.bias) - factor * _joined(self.initial, self.initial_bias) - self.change()

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
    def _dtype(self) -> torch.dtype:
        """Return the type of products: float64 only if the gradients are stored so."""
        return torch.float64 if self.gradients.dtype == np.float64 else torch.float32

    @cached_property
    def _error_factors(self) -> Floats:
        """Return what the stored gradients of each step are multiplied by."""
        if self.units is None:
            return self.coefficients
        return self.coefficients * (self.units if self.coefficients.ndim == 1 else self.units[:, None])

    def _scaled_gradients(self, slots: Slots, factors: Floats) -> Array:
        gradients = _floating(self.gradients[slots], self._dtype)
        chosen = factors[self.slot_steps[slots]] if len(factors) > 1 else factors
        scaled = chosen.astype(gradients.dtype)
        return np.asarray(gradients * (scaled[:, None] if scaled.ndim == 1 else scaled))

    @property
    def _chunk(self) -> int:
        return max(1, _CHUNK_NUMBERS // max(self.features, self.outputs))

    def _group_sums(self, groups: NDArray[np.integer[Any]], n_groups: int) -> Floats:
        """Return sums of keys, and in the last column numbers of slots (groups, features + 1)."""
        for known, n_known, sums in self._sums:
            if n_known == n_groups and np.array_equal(known, groups):
                return sums
        sums = np.zeros((n_groups, self.features + 1))
        for slots in self.chunks():
            keys = torch.from_numpy(self.keys(slots))
            members = _memberships(torch.from_numpy(np.ascontiguousarray(groups[slots])), n_groups)
            sums[:, :-1] += (members.to(keys) @ keys).numpy()
            sums[:, -1] += members.sum(1).numpy()
        self._sums.append((groups.copy(), n_groups, sums))
        return sums


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


def _memberships(groups: Tensor, n_groups: int) -> Tensor:
    """Return whether each slot is in each group (groups, slots)."""
    return groups == torch.arange(n_groups)[:, None]


def _joined(weight: Array, bias: Array | None) -> Floats:
    """Return [weight, bias] in float64, or the weight without a bias."""
    return np.asarray(weight if bias is None else np.column_stack([weight, bias]), np.float64)


def _floating(array: Array, dtype: torch.dtype) -> Array:
    """Return the array in a type; torch converts half precision faster than NumPy."""
    return np.asarray(torch.from_numpy(np.ascontiguousarray(array)).to(dtype).numpy())


def release_pages(array: NDArray[np.generic]) -> None:
    """Take the pages of a memory-mapped array out of the process; the system reads, writes or keeps them as before."""
    mapping = getattr(array, "_mmap", None)
    if mapping is not None and hasattr(mmap, "MADV_DONTNEED"):  # not on Windows
        mapping.madvise(mmap.MADV_DONTNEED)
