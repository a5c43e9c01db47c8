"""Distances and their powers: what scores are made of, differentiable and stable in float32.

Shapes: inputs (…, batch, features), keys (…, prototypes, features), results (…, batch, prototypes). Leading axes stack
runs. A numeric parameter is a number, or a tensor that broadcasts against the result.

Powers of distances are exp(p·log d), and the logarithm comes first, so that no power overflows on its way to a
logarithm. An input nearer than 1e-12 to a key *hits* it: d² is then 0, and so is its gradient.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = [
    "EXP_BOUND",
    "HIT_SQ_DIST",
    "bounded_exp",
    "is_number",
    "log_distance_power",
    "squared_distances",
    "stacked_product",
    "unit_vectors",
]

HIT_SQ_DIST = 1e-24
# Beyond exp(20.7) = 1e9 a softmax over float32 scores has long been one-hot; see `bounded_exp`.
EXP_BOUND = math.log(1e9)
# Multiplications from which a call of BLAS for each run costs little beside the work.
_SMALL_PRODUCT = 2**15


def squared_distances(
    inputs: Float[Tensor, "*#stack batch features"], keys: Float[Tensor, "*#stack prototypes features"]
) -> Float[Tensor, "*#stack batch prototypes"]:
    """Return d² = Σ (x − k)² by differences, never below 0 and exactly 0 for an input that equals a key.

    The expanded form ‖x‖² − 2x·k + ‖k‖², which `torch.cdist` takes by default above 25 rows, is faster for large
    shapes, but in float32 its error exceeds a usual ε for inputs near a key, which is where inverse distances and
    patches matter. The gradient is finite everywhere and 0 at a key.
    """
    return torch.cdist(inputs, keys, compute_mode="donot_use_mm_for_euclid_dist").square()


def log_distance_power(sq_dist: Tensor, power: float | Tensor) -> Tensor:
    """Return p·log d, −∞ for a hit; the masked argument keeps 0·∞ out of the gradient."""
    hits = sq_dist <= HIT_SQ_DIST
    log_distance = 0.5 * torch.where(hits, 1.0, sq_dist).log()
    return torch.where(hits, -math.inf, power * log_distance)


def bounded_exp(exponent: Tensor) -> Tensor:
    """Return exp(x) up to x = log 1e9 and its tangent beyond: finite, ordered as exp is, with finite gradients."""
    tangent = math.exp(EXP_BOUND) * (1 + (exponent - EXP_BOUND))
    return torch.where(exponent <= EXP_BOUND, exponent.clamp(max=EXP_BOUND).exp(), tangent)


def unit_vectors(vectors: Tensor) -> Tensor:
    """Return vectors / norm, and 0 for the zero vector, with zero gradient there."""
    sq_norm = vectors.square().sum(-1, keepdim=True)
    is_zero = sq_norm == 0
    return torch.where(is_zero, 0.0, vectors) / torch.where(is_zero, 1.0, sq_norm).sqrt()


def is_number(parameter: float | Tensor, number: int | float) -> bool:
    """Return whether a parameter is `number`; a tensor never is, since special values do not share a stack."""
    return not isinstance(parameter, Tensor) and parameter == number


def stacked_product(
    left: Float[Tensor, "*#stack rows inner"], right: Float[Tensor, "*#stack inner columns"]
) -> Float[Tensor, "*#stack rows columns"]:
    """Return left · right, on the CPU bit for bit the same for a run alone and in a stack (first axis).

    BLAS has one routine for a single product and another for several, and they round differently. So small products
    are sums of elementwise products, and the large ones of a stack are computed one by one.
    """
    if left.device.type != "cpu":
        return left @ right
    if left.shape[-2] * left.shape[-1] * right.shape[-1] < _SMALL_PRODUCT:
        return (left.unsqueeze(-1) * right.unsqueeze(-3)).sum(-2)
    if left.ndim != 3 or right.ndim != 3:
        return left @ right
    runs = max(len(left), len(right))
    pairs = zip(left.expand(runs, -1, -1), right.expand(runs, -1, -1), strict=True)
    return torch.stack([one @ other for one, other in pairs])
