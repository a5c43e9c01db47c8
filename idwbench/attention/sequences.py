"""Attention over sequences: by PyTorch's fused function where the score allows it, otherwise in chunks of queries.

Shapes: queries (…, heads, L, head_dim), keys and values (…, heads, S, head_dim), scores and weights (…, heads, L, S).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from idwbench.attention.distances import distances_by_product
from idwbench.attention.forward import apply_weighting
from idwbench.attention.masks import Masks
from idwbench.attention.records import ParameterValue
from idwbench.attention.scores import BUILT_IN_METHODS, DistanceScore, get_method, unit_vectors
from idwbench.attention.weightings import get_weighting
from idwbench.errors import did_you_mean

__all__ = [
    "ADDITIVE_FORMS",
    "FEWEST_PAIRS",
    "NUMBERS_AT_A_TIME",
    "AdditiveScore",
    "MethodScore",
    "PairScore",
    "Product",
    "SequenceAttention",
    "WeightingScore",
]

# Largest number of elements of the scores that are computed at a time: 4 MiB in float32.
NUMBERS_AT_A_TIME = 2**20
_PRODUCTS = ("scaled_dot", "cosine")
ADDITIVE_FORMS = ("tanh", "linear")
# With fewer pairs of queries and keys, differences are as fast as a product.
FEWEST_PAIRS = 2**15

# Queries, keys and a factor: factor · q·k is the score up to a number that is the same for all keys of a query.
Product = tuple[Tensor, Tensor, float]


class PairScore:
    """A score of queries and keys, computed in two steps so that it can be computed for some queries at a time.

    Attributes:
        numbers_per_pair: How many numbers the scores need for each pair while they are computed.
    """

    numbers_per_pair = 1

    @property
    def pairwise(self) -> bool:
        """Whether the score of a pair depends on no other key."""
        return True

    @property
    def autocasts(self) -> bool:
        """Whether autocast may lower the precision."""
        return True

    def prepare(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Return what is computed once for each query and each key: by default they themselves, in float32 at least."""
        return _widened(queries), _widened(keys)

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the scores of prepared queries and keys."""
        raise NotImplementedError

    def product(self, queries: Tensor, keys: Tensor) -> Product | None:
        """Return an equivalent scaled inner product for a softmax, if there is one."""
        return None


@dataclass(frozen=True)
class MethodScore(PairScore):
    """The score of a registered method, with all its parameters.

    Raises:
        ConfigError: unknown method or parameter, or a value out of range.
    """

    name: str
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Give the missing parameters their defaults."""
        object.__setattr__(self, "parameters", get_method(self.name).resolve(self.parameters))

    @property
    def pairwise(self) -> bool:
        """Whether the score of a pair depends on no other key; of the scores of plugins nothing is known."""
        return self.name in BUILT_IN_METHODS

    @property
    def autocasts(self) -> bool:
        """Whether autocast may lower the precision: not of distances, which cancel."""
        return self.name in _PRODUCTS

    def prepare(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Return queries and keys for `scores`: scaled for an inner product, otherwise in float32 at least."""
        if self.name in _PRODUCTS:
            queries, keys, factor = self._inner_product(queries, keys)
            return queries * factor, keys
        return super().prepare(queries, keys)

    def scores(
        self, queries: Tensor, keys: Tensor, parameters: Mapping[str, ParameterValue | Tensor] | None = None
    ) -> Tensor:
        """Return the scores of prepared queries and keys, with other parameters than its own if they are given."""
        if self.name in _PRODUCTS:
            return queries @ keys.mT
        score, parameters = get_method(self.name).score, self.parameters if parameters is None else parameters
        scores: Tensor
        if isinstance(score, DistanceScore) and _is_product_faster(queries, keys):
            scores = score.function(distances_by_product(queries, keys), **parameters)
        else:
            scores = score(queries, keys, **parameters)
        return scores

    def product(self, queries: Tensor, keys: Tensor) -> Product | None:
        """Return an equivalent scaled inner product for a softmax, if there is one.

        For −d² it is 2·[q, 1]·[k, −‖k‖²/2] = −d² + ‖q‖². The origin is moved to the first key, which changes no
        distance and lets a common offset of queries and keys cancel before it is squared.
        """
        if self.name in _PRODUCTS:
            return self._inner_product(queries, keys)
        if self.name != "neg_dist" or self.parameters["power"] != 2.0 or keys.shape[-2] == 0:
            return None
        queries, keys = _widened(queries), _widened(keys)
        origin = keys[..., :1, :].detach()
        queries, keys = queries - origin, keys - origin
        half_norms = -keys.square().sum(-1, keepdim=True) / 2
        ones = torch.ones_like(queries[..., :1])
        return torch.cat([queries, ones], -1), torch.cat([keys, half_norms], -1), 2.0

    def _inner_product(self, queries: Tensor, keys: Tensor) -> Product:
        if self.name == "cosine":
            return unit_vectors(queries), unit_vectors(keys), 1 / float(self.parameters["temperature"])
        count = keys.shape[-1] if self.parameters["scale"] == "features" else keys.shape[-2]
        return queries, keys, 1 / math.sqrt(max(count, 1))


class WeightingScore(PairScore):
    """The score that a weighting brings along, a function ``(queries, keys) -> scores``, in place of the layer's."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.function = function

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the scores of prepared queries and keys."""
        return self.function(queries, keys)


class AdditiveScore(nn.Module, PairScore):
    """vᵀ tanh(W [q; k]) (Bahdanau et al. 2015) or vᵀ W [q; k] (arXiv 2310.18805, section 2), with weights per head.

    W [q; k] = W_q q + W_k k. In the linear form the part of the query is the same for all keys, so a softmax over keys
    gives every query the same weights.

    Shapes: queries (…, heads, L, head_dim), keys (…, heads, S, head_dim), scores (…, heads, L, S).

    Attributes:
        weight: W (heads, hidden, 2·head_dim).
        vector: v (heads, hidden).

    Raises:
        ValueError: unknown form, or a hidden layer without units.
    """

    def __init__(
        self, num_heads: int, head_dim: int, *, form: str = "tanh", hidden: float | None = None, **factory: Any
    ) -> None:
        super().__init__()
        if form not in ADDITIVE_FORMS:
            raise ValueError(f"unknown form {form!r} of additive attention ({did_you_mean(str(form), ADDITIVE_FORMS)})")
        hidden = head_dim if hidden is None else int(hidden)
        if hidden <= 0:
            raise ValueError(f"hidden must be greater than 0, got {hidden}")
        self.form, self.head_dim = form, head_dim
        self.numbers_per_pair = hidden if form == "tanh" else 1  # each pair has a hidden layer of its own
        self.weight = nn.Parameter(torch.empty(num_heads, hidden, 2 * head_dim, **factory))
        self.vector = nn.Parameter(torch.empty(num_heads, hidden, **factory))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights uniformly in ±√(3/columns), so that scores have about the variance of their inputs."""
        for parameter in (self.weight, self.vector):
            bound = (3 / parameter.shape[-1]) ** 0.5
            nn.init.uniform_(parameter, -bound, bound)

    def prepare(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Return W_q q and W_k k, or vᵀ W_q q and vᵀ W_k k in the linear form."""
        weight = self.weight if self.form == "tanh" else self.vector.unsqueeze(-2) @ self.weight
        query_weight, key_weight = torch.split(weight, self.head_dim, -1)
        return queries @ query_weight.mT, keys @ key_weight.mT

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the scores of prepared queries and keys."""
        if self.form == "linear":
            return queries + keys.mT
        hidden = (queries.unsqueeze(-2) + keys.unsqueeze(-3)).tanh()
        return (hidden.flatten(-3, -2) @ self.vector.unsqueeze(-1)).view(hidden.shape[:-1])

    def product(self, queries: Tensor, keys: Tensor) -> Product | None:
        """Return 1 · (vᵀ W_k k) in the linear form, equivalent for a softmax."""
        if self.form == "tanh":
            return None
        queries, keys = self.prepare(queries, keys)
        return torch.ones_like(queries), keys, 1.0


def _is_product_faster(queries: Tensor, keys: Tensor) -> bool:
    """Return whether distances of queries and keys are computed by a product: for many pairs, eagerly, on the CPU."""
    if queries.device.type != "cpu" or queries.dtype != torch.float32 or keys.dtype != torch.float32:
        return False
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    return math.prod(queries.shape[:-1]) * keys.shape[-2] >= FEWEST_PAIRS


def _widened(vectors: Tensor) -> Tensor:
    return vectors.float() if vectors.dtype in (torch.bfloat16, torch.float16) else vectors


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
        weights = apply_weighting(get_weighting(self.weighting), self.parameters, scores, mask)
        weights = functional.dropout(weights.to(values.dtype), self.dropout)
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
        per_query = math.prod(queries.shape[:-2]) * keys.shape[-2] * self.score.numbers_per_pair
        n_rows = max(1, NUMBERS_AT_A_TIME // max(1, per_query))
        chunks = torch.split(queries, n_rows, -2)
        attend = self._attend_rows if len(chunks) == 1 else self._recomputed
        outputs = [attend(chunk, keys, values, masks, n * n_rows) for n, chunk in enumerate(chunks)]
        return torch.cat(outputs, -2)

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
        weights = apply_weighting(get_weighting(self.weighting), self.parameters, scores, mask)
        return weights if empty is None else weights.masked_fill(empty, 0.0)


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
