"""What a softened hash table recalls, and which keys a query reaches.

For queries q_b for items i(b), with answers o_b, weights a_bj and values v_j of D numbers:

- ``recall``: the fraction of queries for which v_i(b) is the stored value nearest to o_b.
- ``gradient_share``: the fraction of keys k_j with ∂ℓ_b/∂k_j ≠ 0 in float32, mean over queries, where
  ℓ_b = ‖o_b − v_i(b)‖²/D is the squared error of one answer.
- ``gradient_norm``: ‖∂ℓ_b/∂K‖ over all keys, mean over queries.
- ``weight_entropy``: −Σ_j a_bj log a_bj in nats, mean over queries; for weightings whose weights sum to 1.
- ``score_variance``: the variance of the scaled scores over all pairs of a query and a key that is not its own.

The first `GRADIENT_QUERIES` queries have gradients, each by itself.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from idwbench.data.lookup import LookupTable, Queries
from idwbench.models.hash_table import HashTable
from idwbench.runs.metrics import nearest_values

__all__ = ["GRADIENT_QUERIES", "measured", "recall"]

GRADIENT_QUERIES = 32
_DISTRIBUTIONS = ("softmax", "argmax", "top_k", "sparsemax", "entmax15")
_NUMBERS_AT_ONCE = 2**22


def recall(hash_table: HashTable, table: LookupTable, queries: Queries) -> float:
    """Return the fraction of right answers; an answer that is not finite is wrong."""
    keys, values = torch.from_numpy(table.keys), torch.from_numpy(table.values)
    with torch.no_grad():
        parts = [hash_table.answers(part, keys, values).numpy() for part in _parts(queries, table)]
    return _fraction_right(np.concatenate(parts), table, queries)


def measured(hash_table: HashTable, table: LookupTable, queries: Queries) -> dict[str, float]:
    """Return the metrics of the module by name, without those that are not defined."""
    keys, values = torch.from_numpy(table.keys), torch.from_numpy(table.values)
    outputs: list[NDArray[np.float32]] = []
    entropies: list[Tensor] = []
    scores: list[Tensor] = []
    with torch.no_grad():
        for part in _parts(queries, table):
            scores.append(hash_table.scores(part, keys))
            weights = hash_table.weights(scores[-1])
            entropies.append(torch.special.entr(weights).sum(-1))
            outputs.append((weights @ values).numpy())
    found = {
        "recall": _fraction_right(np.concatenate(outputs), table, queries),
        "weight_entropy": float(torch.cat(entropies).double().mean()),
        "score_variance": _variance_of_others(torch.cat(scores).numpy(), queries),
        **_gradients(hash_table, keys, values, queries),
    }
    if hash_table.config.weighting not in _DISTRIBUTIONS:
        del found["weight_entropy"]
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _parts(queries: Queries, table: LookupTable) -> tuple[Tensor, ...]:
    """Return the queries in parts whose scores fit into some megabytes."""
    return torch.split(torch.from_numpy(queries.inputs), max(1, _NUMBERS_AT_ONCE // len(table.keys)))


def _fraction_right(outputs: NDArray[np.float32], table: LookupTable, queries: Queries) -> float:
    return float((nearest_values(outputs, table.values) == queries.items).mean())


def _variance_of_others(scores: NDArray[np.float32], queries: Queries) -> float:
    """Return the variance of the scores of other keys; NaN with one key, or with infinite scores."""
    if scores.shape[1] < 2:
        return math.nan
    own = scores[np.arange(len(scores)), queries.items].astype(np.float64)
    n = scores.size - len(own)
    with np.errstate(invalid="ignore"):
        total = scores.sum(dtype=np.float64) - own.sum()
        centred = scores.astype(np.float64) - total / n
        own -= total / n
        return float(((centred**2).sum() - (own**2).sum()) / n)


def _gradients(hash_table: HashTable, keys: Tensor, values: Tensor, queries: Queries) -> dict[str, float]:
    """Return share and norm; each query has its own copy of the keys."""
    inputs = torch.from_numpy(queries.inputs[:GRADIENT_QUERIES])
    targets = values[torch.from_numpy(queries.items[:GRADIENT_QUERIES])]
    at_once = max(1, _NUMBERS_AT_ONCE // keys.numel())
    norms: list[Tensor] = []
    shares: list[Tensor] = []
    for some, wanted in zip(torch.split(inputs, at_once), torch.split(targets, at_once), strict=True):
        copies = keys.expand(len(some), -1, -1).clone().requires_grad_()
        answers = hash_table.answers(some.unsqueeze(1), copies, values).squeeze(1)
        losses = (answers - wanted).square().mean(-1)
        gradient = torch.zeros_like(copies)
        if losses.requires_grad:
            gradient = torch.autograd.grad(losses.sum(), copies, allow_unused=True, materialize_grads=True)[0]
        shares.append((gradient != 0).any(-1).double().mean(-1))
        norms.append(gradient.double().flatten(1).norm(dim=1))
    return {"gradient_share": float(torch.cat(shares).mean()), "gradient_norm": float(torch.cat(norms).mean())}
