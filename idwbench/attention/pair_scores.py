"""Scores of the pairs of two sequences: what attention layers need of a score.

Shapes: queries (…, L, features), keys (…, S, features), scores (…, L, S).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from idwbench.attention.distances import distances_by_product
from idwbench.attention.records import ParameterValue
from idwbench.attention.scores import BUILT_IN_METHODS, DistanceScore, get_method, unit_vectors
from idwbench.errors import did_you_mean

__all__ = ["ADDITIVE_FORMS", "FEWEST_PAIRS", "AdditiveScore", "MethodScore", "PairScore", "Product", "WeightingScore"]

_PRODUCTS = ("scaled_dot", "cosine")
ADDITIVE_FORMS = ("tanh", "linear")
# With fewer pairs of queries and keys, differences are as fast as a product.
FEWEST_PAIRS = 2**15

# Queries, keys and a factor: factor · q·k is the score up to a number that is the same for all keys of a query.
Product = tuple[Tensor, Tensor, float]


class PairScore(Protocol):
    """A score of queries and keys, computed in two steps so that it can be computed for some queries at a time.

    Attributes:
        pairwise: Whether the score of a pair depends on no other key.
        autocasts: Whether autocast may lower the precision.
        may_hit: Whether the score may be +∞.
        numbers_per_pair: How many numbers the scores need for each pair while they are computed.
    """

    @property
    def pairwise(self) -> bool: ...  # noqa: D102

    @property
    def autocasts(self) -> bool: ...  # noqa: D102

    @property
    def may_hit(self) -> bool: ...  # noqa: D102

    @property
    def numbers_per_pair(self) -> int: ...  # noqa: D102

    def prepare(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Return what is computed once for each query and each key."""

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the scores of prepared queries and keys."""

    def product(self, queries: Tensor, keys: Tensor) -> Product | None:
        """Return an equivalent scaled inner product for a softmax, if there is one."""


@dataclass(frozen=True)
class MethodScore:
    """The score of a registered method, with all its parameters.

    Raises:
        ConfigError: unknown method or parameter, or a value out of range.
    """

    name: str
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    numbers_per_pair = 1

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

    @property
    def may_hit(self) -> bool:
        """Whether the score may be +∞: with ε = 0."""
        return self.name not in BUILT_IN_METHODS or self.parameters.get("epsilon") == 0.0

    def prepare(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Return queries and keys for `scores`: scaled for an inner product, otherwise in float32 at least."""
        if self.name in _PRODUCTS:
            queries, keys, factor = self._inner_product(queries, keys)
            return queries * factor, keys
        return _widened(queries), _widened(keys)

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the scores of prepared queries and keys."""
        if self.name in _PRODUCTS:
            return queries @ keys.mT
        score = get_method(self.name).score
        scores: Tensor
        if isinstance(score, DistanceScore) and _is_product_faster(queries, keys):
            scores = score.function(distances_by_product(queries, keys), **self.parameters)
        else:
            scores = score(queries, keys, **self.parameters)
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


@dataclass(frozen=True)
class WeightingScore:
    """The score that a weighting brings along, in place of the layer's.

    Attributes:
        function: The function ``(queries, keys) -> scores``.
    """

    function: Callable[[Tensor, Tensor], Tensor]
    pairwise = True
    autocasts = True
    may_hit = False
    numbers_per_pair = 1

    def prepare(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Return queries and keys in float32 at least."""
        return _widened(queries), _widened(keys)

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the scores of prepared queries and keys."""
        return self.function(queries, keys)

    def product(self, queries: Tensor, keys: Tensor) -> Product | None:
        """Return None: there is no equivalent inner product."""
        return None


class AdditiveScore(nn.Module):
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

    pairwise = True
    autocasts = True
    may_hit = False

    def __init__(
        self, num_heads: int, head_dim: int, *, form: str = "tanh", hidden: int | None = None, **factory: Any
    ) -> None:
        super().__init__()
        if form not in ADDITIVE_FORMS:
            raise ValueError(f"unknown form {form!r} of additive attention ({did_you_mean(str(form), ADDITIVE_FORMS)})")
        hidden = head_dim if hidden is None else hidden
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
