"""Attention over sequences with a score of the distance: for some queries at a time, on the CPU, in float32.

The backward pass computes the weights again, so that memory grows linearly with the length of the sequences.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from idwbench.attention.distance_products import KeyDistances
from idwbench.attention.distance_weights import DistanceWeights
from idwbench.attention.masks import Masks

__all__ = ["FEWEST_PAIRS", "PAIRS_AT_A_TIME", "attend"]

# Pairs of queries and keys that are computed at a time: 4 MiB with their distances in both precisions.
PAIRS_AT_A_TIME = 2**18
# With fewer pairs in all, keeping the weights for the backward pass is faster.
FEWEST_PAIRS = 2**15
# Fewer queries at a time make slow matrix products.
_FEWEST_ROWS = 32


def attend(queries: Tensor, keys: Tensor, values: Tensor, weights: DistanceWeights) -> Tensor:
    """Return Σ_j a_ij · v_j (batch, heads, L, features), where the weights a are a function of squared distances.

    Shapes: queries (batch, heads, L, head_dim), keys (batch, heads, S, head_dim), values (batch, heads, S, features).
    """
    seed = int(torch.randint(2**62, ())) if weights.dropout > 0 else 0
    result: Tensor = _DistanceAttention.apply(queries, keys, values, weights, seed)  # type: ignore[no-untyped-call]
    return result


class _Block(NamedTuple):
    """Some sequences and heads.

    Attributes:
        batch: The sequences.
        heads: The heads.
        shape: How many sequences and heads.
        rows: The queries that are computed at a time.
        n_pairs: Largest number of pairs that are computed at a time.
    """

    batch: slice
    heads: slice
    shape: tuple[int, int]
    rows: list[slice]
    n_pairs: int

    def of(self, tensor: Tensor, rows: slice = slice(None)) -> Tensor:
        """Return the part (stack, rows, features) of a tensor (batch, heads, length, features)."""
        return tensor[self.batch, self.heads, rows].flatten(0, 1)

    def fill(self, tensor: Tensor, part: Tensor, rows: slice = slice(None)) -> None:
        """Set the part of a tensor."""
        tensor[self.batch, self.heads, rows] = self.heads_of(part)

    def heads_of(self, stacked: Tensor) -> Tensor:
        """Return (batch, heads, rows, …) of a part (stack, rows, …)."""
        return stacked.reshape(*self.shape, *stacked.shape[1:])


def _blocks(queries: Tensor, keys: Tensor) -> Iterator[_Block]:
    batch, heads, length = queries.shape[:3]
    n_rows = min(length, max(_FEWEST_ROWS, PAIRS_AT_A_TIME // keys.shape[-2]))
    n_heads = min(heads, max(1, PAIRS_AT_A_TIME // (n_rows * keys.shape[-2])))
    n_batch = min(batch, max(1, PAIRS_AT_A_TIME // (n_heads * n_rows * keys.shape[-2])))
    rows = list(_slices(length, n_rows))
    for sequences in _slices(batch, n_batch):
        for some_heads in _slices(heads, n_heads):
            shape = sequences.stop - sequences.start, some_heads.stop - some_heads.start
            yield _Block(sequences, some_heads, shape, rows, math.prod(shape) * n_rows * keys.shape[-2])


def _slices(length: int, step: int) -> Iterator[slice]:
    return (slice(start, min(start + step, length)) for start in range(0, length, step))


class _DistanceAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, values: Tensor, weights: DistanceWeights, seed: int) -> Tensor:
        ctx.save_for_backward(queries, keys, values)
        ctx.weights, ctx.seed = weights, seed
        output = values.new_empty(*queries.shape[:-1], values.shape[-1])
        dropout = _Dropout(weights.dropout, seed)
        for block in _blocks(queries, keys):
            distances, block_values = KeyDistances(block.of(keys), block.n_pairs), block.of(values)
            for rows, n_keys in _rows(block, weights.masks, keys):
                sq_dist = block.heads_of(distances.rows(block.of(queries, rows), n_keys).sq_dist)
                found = weights.of(sq_dist, weights.masks.part(block.batch, block.heads), rows.start)
                kept = dropout.apply(found.flatten(0, 1))[0]
                block.fill(output, torch.bmm(kept, block_values[:, :n_keys]), rows)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        queries, keys, values = ctx.saved_tensors
        of_queries, of_keys, of_values = (torch.empty_like(part) for part in (queries, keys, values))
        dropout = _Dropout(ctx.weights.dropout, ctx.seed)
        for block in _blocks(queries, keys):
            distances, block_values = KeyDistances(block.of(keys), block.n_pairs), block.of(values).mT.contiguous()
            sums = torch.zeros_like(block_values)
            for rows, n_keys in _rows(block, ctx.weights.masks, keys):
                found, outer = distances.rows(block.of(queries, rows), n_keys), block.of(gradient, rows)
                masks = ctx.weights.masks.part(block.batch, block.heads)
                weights, pullback = ctx.weights.with_pullback(block.heads_of(found.sq_dist), masks, rows.start)
                of_kept = torch.bmm(outer, block_values[..., :n_keys])
                kept, of_weights = dropout.apply(weights.flatten(0, 1), of_kept)
                sums[..., :n_keys] += torch.bmm(outer.mT.contiguous(), kept)
                of_distances = pullback(block.heads_of(of_weights)).flatten(0, 1)
                block.fill(of_queries, distances.backward(found, of_distances), rows)
            block.fill(of_keys, distances.gradient())
            block.fill(of_values, sums.mT)
        return of_queries, of_keys, of_values, None, None


def _rows(block: _Block, masks: Masks, keys: Tensor) -> Iterator[tuple[slice, int]]:
    """Return the rows of a block, and how many keys they may attend to."""
    for rows in block.rows:
        yield rows, min(rows.stop, keys.shape[-2]) if masks.causal else keys.shape[-2]


class _Dropout:
    """Draws which weights are kept, in the same order in the forward and the backward pass."""

    def __init__(self, probability: float, seed: int) -> None:
        self.kept = 1 - probability
        self.generator = torch.Generator().manual_seed(seed)

    def apply(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return tensors of one shape times the same factors, 0 or 1 / (1 − probability)."""
        if self.kept == 1:
            return tensors
        factors = torch.empty_like(tensors[0]).bernoulli_(self.kept, generator=self.generator).div_(self.kept)
        return tuple(tensor * factors for tensor in tensors)
