"""Projections of scores onto the probability simplex that give sparse weights, exact by sorting, differentiable.

Scores (…, keys), finite or −∞, with a largest score m in each row. Only scores above m − c can have a positive weight
(c = 1 for sparsemax, 2 for entmax 1.5), so scores below are raised to m − c: the weights stay the same, sums over
large negative numbers do not cancel, and −∞ needs no case of its own. A row of −∞ alone gives NaN, as a softmax does.
"""

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["entmax15", "sparsemax"]


def sparsemax(scores: Float[Tensor, "*stack keys"]) -> Float[Tensor, "*stack keys"]:
    """Return max(0, s_j − τ) with τ such that the weights sum to 1: the point of the simplex nearest to the scores.

    Martins and Astudillo (2016), "From Softmax to Sparsemax", Algorithm 1. The derivative is
    ∂w_i/∂s_j = 1{i = j} − 1/K among the K keys of positive weight, and 0 elsewhere.
    """
    shifted = (scores - scores.amax(-1, keepdim=True).detach()).clamp(min=-1)
    with torch.no_grad():
        ordered = shifted.sort(-1, descending=True).values
        ranks = _ranks(ordered)
        size = (1 + ranks * ordered > ordered.cumsum(-1)).sum(-1, keepdim=True).clamp(min=1)
        is_support = shifted >= ordered.gather(-1, size - 1)
    count = is_support.sum(-1, keepdim=True)
    threshold = (torch.where(is_support, shifted, 0.0).sum(-1, keepdim=True) - 1) / count
    return (shifted - threshold).relu()


def entmax15(scores: Float[Tensor, "*stack keys"]) -> Float[Tensor, "*stack keys"]:
    """Return max(0, s_j/2 − τ)² with τ such that the weights sum to 1: entmax with α = 1.5, sparser than a softmax.

    Peters, Niculae and Martins (2019), "Sparse Sequence-to-Sequence Models", Algorithm 2. With r = √w the derivative
    is ∂w_i/∂s_j = r_i 1{i = j} − r_i r_j / Σ r.
    """
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
    return torch.arange(1, ordered.shape[-1] + 1, dtype=ordered.dtype, device=ordered.device)
