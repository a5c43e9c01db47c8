"""The built-in weightings: formula, gradient, function on tensors and parameters of each in one record.

Scores (…, keys) become weights (…, keys). A score of −∞ has weight 0; a row of −∞ alone gives NaN, as a softmax does.
Scores of +∞ are treated alike for all, see `idwbench.attention.weightings.weights_of`. Torch is imported by the first
call, since planning and reports do not need it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from idwbench.attention.definitions import Parameter, WeightingDefinition
from idwbench.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["WEIGHTINGS", "get_weighting"]


def _softmax(scores: Tensor) -> Tensor:
    return scores.softmax(-1)


def _relu(scores: Tensor) -> Tensor:
    return scores.relu()


def _none(scores: Tensor) -> Tensor:
    return scores.masked_fill(scores == -math.inf, 0.0)


def _argmax(scores: Tensor) -> Tensor:
    largest = _is_largest(scores)
    return largest.to(scores.dtype) / largest.sum(-1, keepdim=True)


def _max(scores: Tensor) -> Tensor:
    largest = _is_largest(scores)
    return scores.masked_fill(~largest, 0.0) / largest.sum(-1, keepdim=True)


def _is_largest(scores: Tensor) -> Tensor:
    fixed = scores.detach()
    return (fixed == fixed.amax(-1, keepdim=True)) & (fixed > -math.inf)


def _top_k(scores: Tensor, *, k: float) -> Tensor:
    smallest = scores.detach().topk(min(int(k), scores.shape[-1]), dim=-1).values[..., -1:]
    return scores.masked_fill(scores < smallest, -math.inf).softmax(-1)


def _exact_match(scores: Tensor) -> Tensor:
    matches = scores > -math.inf
    return matches.to(scores.dtype) / matches.sum(-1, keepdim=True).clamp(min=1)


def _equality(inputs: Tensor, keys: Tensor) -> Tensor:
    """Return 0 where all numbers of an input equal those of a key, −∞ elsewhere, without gradient."""
    import torch

    differences = torch.cdist(inputs.detach(), keys.detach(), p=math.inf)
    return torch.zeros_like(differences).masked_fill(differences != 0, -math.inf)


def _sparsemax(scores: Tensor) -> Tensor:
    from idwbench.attention.simplex import sparsemax

    return sparsemax(scores)


def _entmax15(scores: Tensor) -> Tensor:
    from idwbench.attention.simplex import entmax15

    return entmax15(scores)


_K = Parameter("k", 8.0, help="Number of largest scores that get weight.", minimum=1.0, maximum=1e6, whole=True)
_SAME, _SHARE = "get the same weight", "the largest share equally"

# In the order of tables.
WEIGHTINGS: dict[str, WeightingDefinition] = {
    weighting.name: weighting
    for weighting in (
        WeightingDefinition("softmax", "exp(s_j) / Σ_i exp(s_i)", "w_i (1{i = j} − w_j)", _SAME, _softmax),
        WeightingDefinition("relu", "max(0, s_j)", "1{s_j > 0}, for i = j", _SAME, _relu),
        WeightingDefinition(
            "none", "s_j", "1, for i = j", _SAME, _none, source="Katharopoulos et al. 2020, linear attention"
        ),
        WeightingDefinition("argmax", "1{s_j = max s}", "0", _SHARE, _argmax),
        WeightingDefinition("max", "s_j 1{s_j = max s}", "1{s_j = max s}, for i = j", _SHARE, _max),
        WeightingDefinition(
            *("exact_match", "1{q = k_j}", "0", "equal keys share equally; none: all weights 0", _exact_match),
            own_score=_equality,
        ),
        WeightingDefinition(
            "top_k",
            "softmax over the k largest scores, 0 for others",
            "as softmax, among the k",
            "all that equal the k-th largest count",
            _top_k,
            (_K,),
        ),
        WeightingDefinition(
            "sparsemax",
            "max(0, s_j − τ), where τ makes the sum 1",
            "1{i = j} − 1/K, among the K keys of positive weight",
            _SAME,
            _sparsemax,
            source="Martins and Astudillo 2016",
        ),
        WeightingDefinition(
            "entmax15",
            "max(0, s_j/2 − τ)², where τ makes the sum 1",
            "r_i 1{i = j} − r_i r_j / Σ r, with r = √w",
            _SAME,
            _entmax15,
            source="Peters, Niculae and Martins 2019",
        ),
    )
}


def get_weighting(name: str) -> WeightingDefinition:
    """Return the weighting of that name.

    Raises:
        ConfigError: unknown weighting.
    """
    try:
        return WEIGHTINGS[name]
    except KeyError:
        hint = did_you_mean(name, WEIGHTINGS)
        raise ConfigError(f"unknown weighting '{name}'", location=("weighting",), hint=hint) from None
