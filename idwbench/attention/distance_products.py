"""Squared distances of float32 vectors by matrix products in float64, and their gradients, on the CPU.

A matrix product is several times faster than differences, and ‖q‖² − 2q·k + ‖k‖² cancels for near pairs. In float64,
with n features and the origin at the mean of the keys, the error is below 2(n + 6)·2⁻⁵³·(‖q‖² + ‖k‖²). Pairs of which
this is more than 2⁻²⁶·d² are near: they are computed by differences. So the relative error of d² is below 2⁻²³.
"""

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["KeyDistances", "QueryRows"]

# Near pairs that are handled at a time.
_PAIRS_AT_A_TIME = 2**14


class QueryRows(NamedTuple):
    """Some queries with their squared distances to keys.

    Attributes:
        queries: The queries (stack, rows, features).
        centred: The queries around the origin, in float64.
        sq_dist: d² (stack, rows, keys); memory that the next rows use again.
        near: Stack, row and key of each near pair, each (pairs,).
    """

    queries: Tensor
    centred: Tensor
    sq_dist: Tensor
    near: tuple[Tensor, ...]


class KeyDistances:
    """Distances to the keys (stack, keys, features) of a stack, and the gradient of the keys from them."""

    def __init__(self, keys: Tensor, largest: int) -> None:
        """Allocate memory for `largest` distances at a time."""
        self.keys = keys
        self.origin = keys.double().mean(-2, keepdim=True)
        centred = keys.double() - self.origin
        sq_norm = centred.square().sum(-1, keepdim=True)
        self._limit = 4 * (keys.shape[-1] + 6) * 2.0**-27
        self._largest_sq_norm = sq_norm.amax()
        self._right = torch.cat([centred, torch.ones_like(sq_norm), sq_norm], -1).mT.contiguous()
        self._sums = torch.zeros_like(self._right[:, :-1])
        self._by_differences = torch.zeros_like(centred)
        self._product = torch.empty(largest, dtype=torch.float64)
        self._sq_dist = torch.empty(largest, dtype=torch.float32)

    def rows(self, queries: Tensor, n_keys: int) -> QueryRows:
        """Return d² of `queries` (stack, rows, features) and the first `n_keys` keys."""
        centred = queries.double() - self.origin
        sq_norm = centred.square().sum(-1, keepdim=True)
        left = torch.cat([-2 * centred, sq_norm, torch.ones_like(sq_norm)], -1)
        product = self._rows_of(self._product, queries, n_keys)
        sq_dist = self._rows_of(self._sq_dist, queries, n_keys)
        sq_dist.copy_(torch.bmm(left, self._right[..., :n_keys], out=product))
        limit = self._limit * (sq_norm.amax() + self._largest_sq_norm)
        near: tuple[Tensor, ...] = ()
        if sq_dist.amin() <= limit:
            near = torch.nonzero(sq_dist <= limit, as_tuple=True)
            for pairs in _parts(near):
                sq_dist[pairs] = self._differences(queries, pairs).square().sum(-1).float()
        return QueryRows(queries, centred, sq_dist, near)

    def backward(self, rows: QueryRows, gradient: Tensor) -> Tensor:
        """Return the gradient of the queries, from that of their distances, and add that of the keys."""
        n_keys = gradient.shape[-1]
        wide = self._rows_of(self._product, rows.queries, n_keys).copy_(gradient)
        of_near = wide[rows.near] if rows.near else None
        if rows.near:
            wide[rows.near] = 0.0
        centred, ones = rows.centred, torch.ones_like(rows.centred[..., :1])
        sums = (self._right[:, :-1, :n_keys] @ wide.mT).mT
        found = 2 * (centred * sums[..., -1:] - sums[..., :-1])
        self._sums[..., :n_keys] += torch.cat([centred, ones], -1).mT.contiguous() @ wide
        if of_near is not None:
            for pairs, part in zip(_parts(rows.near), torch.split(of_near, _PAIRS_AT_A_TIME), strict=True):
                step = 2 * part.unsqueeze(-1) * self._differences(rows.queries, pairs)
                found.index_put_(pairs[:2], step, accumulate=True)
                self._by_differences.index_put_((pairs[0], pairs[2]), -step, accumulate=True)
        return found

    def gradient(self) -> Tensor:
        """Return the gradient of the keys."""
        sums, centred = self._sums.mT, self._right[:, :-2].mT
        return 2 * (centred * sums[..., -1:] - sums[..., :-1]) + self._by_differences

    def _differences(self, queries: Tensor, pairs: tuple[Tensor, ...]) -> Tensor:
        stack, row, key = pairs
        return queries[stack, row].double() - self.keys[stack, key].double()

    @staticmethod
    def _rows_of(memory: Tensor, queries: Tensor, n_keys: int) -> Tensor:
        shape = (*queries.shape[:-1], n_keys)
        return memory[: shape[0] * shape[1] * n_keys].view(shape)


def _parts(pairs: tuple[Tensor, ...]) -> list[tuple[Tensor, ...]]:
    return list(zip(*(torch.split(part, _PAIRS_AT_A_TIME) for part in pairs), strict=True))
