"""Attention over sequences: by PyTorch's fused function where the score allows it, otherwise in chunks of queries.

Shapes: queries (batch, heads, L, head_dim), keys and values (batch, heads, S, head_dim), weights (batch, heads, L, S).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from idwbench.attention.forward import apply_weighting
from idwbench.attention.masks import Masks, exclude
from idwbench.attention.pair_scores import PairScore, Product
from idwbench.attention.records import ParameterValue
from idwbench.attention.weightings import get_weighting

__all__ = ["NUMBERS_AT_A_TIME", "SequenceAttention"]

# Largest number of elements of the scores that are computed at a time: 4 MiB in float32.
NUMBERS_AT_A_TIME = 2**20


@dataclass(frozen=True)
class SequenceAttention:
    """Σ_j a_ij · v_j with the weights a of a score and a weighting, and dropout of weights.

    Attributes:
        score: The score.
        weighting: How scores become weights.
        dropout: Probability with which a weight is set to 0; the others are divided by 1 − dropout.
        parameters: Parameters of the weighting.
    """

    score: PairScore
    weighting: str = "softmax"
    dropout: float = 0.0
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)

    def with_weights(self, queries: Tensor, keys: Tensor, values: Tensor, masks: Masks) -> tuple[Tensor, Tensor]:
        """Return the attention (batch, heads, L, head_dim) and the weights a after dropout.

        A query that may attend to no key gets NaN, as with `torch.nn.MultiheadAttention`.
        """
        queries, keys = self.score.prepare(queries, keys)
        scores = self.score.scores(queries, keys)
        mask = masks.rows(0, queries.shape[-2], keys.shape[-2], scores)
        weights = functional.dropout(self._weights(scores, mask).to(values.dtype), self.dropout)
        return weights @ values, weights

    def without_weights(self, queries: Tensor, keys: Tensor, values: Tensor, masks: Masks) -> Tensor:
        """Return the attention (batch, heads, L, head_dim) in memory that grows linearly with L and S.

        A query that may attend to no key gets 0, as with PyTorch's `scaled_dot_product_attention`.
        """
        transformed = torch._C._are_functorch_transforms_active()  # the fused function has no rule for `vmap`
        product = self.score.product(queries, keys) if self.weighting == "softmax" and not transformed else None
        if product is not None:
            return _fused(product, values, masks, self.dropout)
        queries, keys = self.score.prepare(queries, keys)
        n_rows = self._rows_at_a_time(queries, keys)
        chunks = torch.split(queries, n_rows, -2)
        attend = self._attend_rows if len(chunks) == 1 else self._recomputed
        outputs = [attend(chunk, keys, values, masks, n * n_rows) for n, chunk in enumerate(chunks)]
        return torch.cat(outputs, -2)

    def _rows_at_a_time(self, queries: Tensor, keys: Tensor) -> int:
        per_query = math.prod(queries.shape[:-2]) * keys.shape[-2] * self.score.numbers_per_pair
        return max(1, NUMBERS_AT_A_TIME // max(1, per_query))

    def _recomputed(self, queries: Tensor, keys: Tensor, values: Tensor, masks: Masks, start: int) -> Tensor:
        """Return the attention of a chunk, whose scores and weights are computed again in the backward pass.

        The transforms of `torch.func` do not support this; within them the weights are kept.
        """
        if not torch.is_grad_enabled() or torch._C._are_functorch_transforms_active():
            return self._attend_rows(queries, keys, values, masks, start)
        options: dict[str, Any] = {"use_reentrant": False, "preserve_rng_state": self.dropout > 0}
        result: Tensor = checkpoint(self._attend_rows, queries, keys, values, masks, start, **options)
        return result

    def _attend_rows(self, queries: Tensor, keys: Tensor, values: Tensor, masks: Masks, start: int) -> Tensor:
        """Return the attention of the queries from number `start`."""
        stop, n_keys = start + queries.shape[-2], keys.shape[-2]
        if masks.causal and self.score.pairwise:
            n_keys = min(stop, n_keys)
        weights = self._rows(self.score.scores(queries, keys[..., :n_keys, :]), masks, start)
        return functional.dropout(weights.to(values.dtype), self.dropout) @ values[..., :n_keys, :]

    def _rows(self, scores: Tensor, masks: Masks, start: int) -> Tensor:
        """Return the weights of the queries from number `start`, 0 for a query without keys."""
        mask = masks.rows(start, start + scores.shape[-2], scores.shape[-1], scores)
        empty = None if mask is None else torch.isneginf(mask).all(-1, keepdim=True)
        if mask is not None and empty is not None:
            mask = mask.masked_fill(empty, 0.0)  # a softmax over no key would have NaN as its gradient
        weights = self._weights(scores, mask)
        return weights if empty is None else weights.masked_fill(empty, 0.0)

    def _weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        """Return the weights of scores (…, L, S) with a mask that is added to them; a softmax over no key is NaN."""
        scores, weighting = exclude(scores, mask), get_weighting(self.weighting)
        weights: Tensor
        if self.score.may_hit:
            weights = apply_weighting(weighting, self.parameters, scores)
        else:
            weights = weighting.function(scores, **self.parameters)
        return weights


def _fused(product: Product, values: Tensor, masks: Masks, dropout: float) -> Tensor:
    """Return softmax(factor · q·k + mask) · v by PyTorch's function; fast kernels need equal numbers of features."""
    queries, keys, factor = product
    features = values.shape[-1]
    width = max(queries.shape[-1], features)
    queries, keys, widened = (
        functional.pad(part, (0, width - part.shape[-1])) if part.shape[-1] < width else part
        for part in (queries, keys, values.to(queries.dtype))
    )
    causal = masks.causal and masks.attention is None and masks.padding is None
    mask = None if causal else masks.rows(0, queries.shape[-2], keys.shape[-2], queries)
    if mask is not None and mask.dim() == 2:
        mask = mask[None, None]
    result = functional.scaled_dot_product_attention(
        queries, keys, widened, attn_mask=mask, dropout_p=dropout, is_causal=causal, scale=factor
    )
    return result[..., :features].to(values.dtype)
