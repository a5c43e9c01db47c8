"""Additive attention: a score with learned weights, as the IDW attention paper prints it and as Bahdanau's."""

from typing import Any

import torch
from torch import Tensor, nn

from idwbench.attention.pair_scores import Product
from idwbench.errors import did_you_mean

__all__ = ["ADDITIVE_FORMS", "AdditiveScore"]

ADDITIVE_FORMS = ("tanh", "linear")


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
    of_squares = None
    square_form = None

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
        of_query, of_key = torch.split(weight, self.head_dim, -1)
        return queries @ of_query.mT, keys @ of_key.mT

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the scores of prepared queries and keys."""
        if self.form == "linear":
            return queries + keys.mT
        hidden = (queries.unsqueeze(-2) + keys.unsqueeze(-3)).tanh()
        return (hidden.flatten(-3, -2) @ self.vector.unsqueeze(-1)).view(hidden.shape[:-1])

    def numbers_per_pair(self, queries: Tensor) -> int:
        """Return the size of the hidden layer: each pair has its own."""
        return queries.shape[-1]

    def product(self, queries: Tensor, keys: Tensor) -> Product | None:
        """Return 1 · (vᵀ W_k k) in the linear form, equivalent for a softmax."""
        if self.form == "tanh":
            return None
        of_queries, of_keys = self.prepare(queries, keys)
        return torch.ones_like(of_queries), of_keys, 1.0
