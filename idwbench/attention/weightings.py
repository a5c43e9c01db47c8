"""The built-in weightings: formula, gradient, function on tensors and parameters of each in one record.

Scores (…, keys) become weights (…, keys). A score of −∞ has weight 0; a row of −∞ alone gives NaN, as a softmax does.
Scores of +∞ are treated alike for all, see `idwbench.attention.forward.apply_weighting`. Torch is imported by the
first call, since planning and reports do not need it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from idwbench.attention.records import Parameter, Weighting, find_record

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["WEIGHTINGS", "entmax15", "get_weighting", "sparsemax"]


def _softmax(scores: Tensor) -> Tensor:
    return scores.softmax(-1)


def _relu(scores: Tensor) -> Tensor:
    return scores.relu()


def _none(scores: Tensor) -> Tensor:
    return scores.masked_fill(scores == -math.inf, 0.0)


def _argmax(scores: Tensor) -> Tensor:
    largest = _is_largest(scores)
    return largest.to(scores.dtype) / largest.sum(-1, keepdim=True)


def _straight_through(scores: Tensor) -> Tensor:
    soft = scores.softmax(-1)
    return _argmax(scores) + (soft - soft.detach())  # the bracket is 0 and has the gradient


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


def sparsemax(scores: Tensor) -> Tensor:
    """Return max(0, s_j − τ) with τ such that the weights sum to 1: the point of the simplex nearest to the scores.

    Martins and Astudillo (2016), "From Softmax to Sparsemax", Algorithm 1. The derivative is
    ∂w_i/∂s_j = 1{i = j} − 1/K among the K keys of positive weight, and 0 elsewhere. Only scores within 1 of the largest
    can have a positive weight: others are raised to that, so that sums over large numbers do not cancel.
    """
    import torch

    shifted = (scores - scores.amax(-1, keepdim=True).detach()).clamp(min=-1)
    with torch.no_grad():
        ordered = shifted.sort(-1, descending=True).values
        size = (1 + _ranks(ordered) * ordered > ordered.cumsum(-1)).sum(-1, keepdim=True).clamp(min=1)
        is_support = shifted >= ordered.gather(-1, size - 1)
    count = is_support.sum(-1, keepdim=True)
    threshold = (torch.where(is_support, shifted, 0.0).sum(-1, keepdim=True) - 1) / count
    return (shifted - threshold).relu()


def entmax15(scores: Tensor) -> Tensor:
    """Return max(0, s_j/2 − τ)² with τ such that the weights sum to 1: entmax with α = 1.5, sparser than a softmax.

    Peters, Niculae and Martins (2019), "Sparse Sequence-to-Sequence Models", Algorithm 2. With r = √w the derivative
    is ∂w_i/∂s_j = r_i 1{i = j} − r_i r_j / Σ r. Scores more than 2 below the largest are raised to that, as above.
    """
    import torch

    shifted = ((scores - scores.amax(-1, keepdim=True).detach()) / 2).clamp(min=-1)
    with torch.no_grad():
        ordered = shifted.sort(-1, descending=True).values
        ranks = _ranks(ordered)
        mean = ordered.cumsum(-1) / ranks
        variation = ordered.square().cumsum(-1) - ranks * mean.square()
        thresholds = mean - ((1 - variation) / ranks).clamp(min=0).sqrt()
        size = (thresholds <= ordered).sum(-1, keepdim=True).clamp(min=1)
        is_support = shifted >= ordered.gather(-1, size - 1)
    count = is_support.sum(-1, keepdim=True)
    mean = torch.where(is_support, shifted, 0.0).sum(-1, keepdim=True) / count
    variation = torch.where(is_support, shifted - mean, 0.0).square().sum(-1, keepdim=True)
    threshold = mean - ((1 - variation) / count).clamp(min=torch.finfo(scores.dtype).tiny).sqrt()
    return (shifted - threshold).relu().square()


def _ranks(ordered: Tensor) -> Tensor:
    """Return 1, 2, …, in the type and on the device of `ordered`."""
    import torch

    return torch.arange(1, ordered.shape[-1] + 1, dtype=ordered.dtype, device=ordered.device)


_K = Parameter("k", 8.0, help="Number of largest scores that get weight.", minimum=1.0, maximum=1e6, whole=True)
_SAME, _SHARE = "get the same weight", "the largest share equally"

# In the order of tables.
WEIGHTINGS: dict[str, Weighting] = {
    weighting.name: weighting
    for weighting in (
        Weighting("softmax", "exp(s_j) / Σ_i exp(s_i)", "w_i (1{i = j} − w_j)", _SAME, _softmax),
        Weighting("relu", "max(0, s_j)", "1{s_j > 0}, for i = j", _SAME, _relu),
        Weighting("none", "s_j", "1, for i = j", _SAME, _none, "Katharopoulos et al. 2020, linear attention"),
        Weighting("argmax", "1{s_j = max s}", "0", _SHARE, _argmax),
        Weighting(
            "straight_through",
            "1{s_j = max s}",
            "as softmax",
            _SHARE,
            _straight_through,
            "Bengio et al. 2013, section 4",
        ),
        Weighting("max", "s_j 1{s_j = max s}", "1{s_j = max s}, for i = j", _SHARE, _max),
        Weighting(
            *("exact_match", "1{q = k_j}", "0", "equal keys share equally; none: all weights 0", _exact_match),
            own_score=_equality,
        ),
        Weighting(
            "top_k",
            "softmax over the k largest scores, 0 for others",
            "as softmax, among the k",
            "all that equal the k-th largest count",
            _top_k,
            parameters=(_K,),
        ),
        Weighting(
            "sparsemax",
            "max(0, s_j − τ), where τ makes the sum 1",
            "1{i = j} − 1/K, among the K keys of positive weight",
            _SAME,
            sparsemax,
            "Martins and Astudillo 2016",
        ),
        Weighting(
            "entmax15",
            "max(0, s_j/2 − τ)², where τ makes the sum 1",
            "r_i 1{i = j} − r_i r_j / Σ r, with r = √w",
            _SAME,
            entmax15,
            "Peters, Niculae and Martins 2019",
        ),
    )
}


def get_weighting(name: object) -> Weighting:
    """Return the weighting of that name.

    Raises:
        ConfigError: unknown weighting.
    """
    return find_record(WEIGHTINGS, name, "weighting")
