"""Distances and their powers, differentiable and stable in float32.

Shapes: inputs (…, batch, features), keys (…, prototypes, features), results (…, batch, prototypes). Leading axes stack
runs. A numeric parameter is a number, or a tensor that broadcasts against the result.

Powers of distances are computed as exp(p·log d), so that they do not overflow before a logarithm. An input nearer than
1e-12 to a key *hits* it: then d² and its gradient are 0.
"""

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
# Beyond exp(20.7) = 1e9 a softmax over float32 scores is one-hot; see `bounded_exp`.
EXP_BOUND = math.log(1e9)
# Number of multiplications above which one BLAS call for each run has little overhead.
_SMALL_PRODUCT = 2**15


def squared_distances(
    inputs: Float[Tensor, "*#stack batch features"], keys: Float[Tensor, "*#stack prototypes features"]
) -> Float[Tensor, "*#stack batch prototypes"]:
    """Return d² = Σ (x − k)², computed by differences; the gradient is finite everywhere and 0 at a key.

    The expanded form ‖x‖² − 2x·k + ‖k‖², the default of `torch.cdist` above 25 rows, is faster for large shapes, but
    in float32 its error exceeds a usual ε for inputs near a key.
    """
    return torch.cdist(inputs, keys, compute_mode="donot_use_mm_for_euclid_dist").square()


def log_distance_power(sq_dist: Tensor, power: float | Tensor) -> Tensor:
    """Return p·log d, −∞ for a hit; the masked argument avoids 0·∞ in the gradient."""
    hits = sq_dist <= HIT_SQ_DIST
    log_distance = 0.5 * torch.where(hits, 1.0, sq_dist).log()
    return torch.where(hits, -math.inf, power * log_distance)


def bounded_exp(exponent: Tensor) -> Tensor:
    """Return exp(x) up to x = log 1e9 and its tangent beyond: monotonic, with finite values and gradients."""
    tangent = math.exp(EXP_BOUND) * (1 + (exponent - EXP_BOUND))
    return torch.where(exponent <= EXP_BOUND, exponent.clamp(max=EXP_BOUND).exp(), tangent)


def unit_vectors(vectors: Tensor) -> Tensor:
    """Return vectors / norm, and 0 for the zero vector, with zero gradient there."""
    sq_norm = vectors.square().sum(-1, keepdim=True)
    is_zero = sq_norm == 0
    return torch.where(is_zero, 0.0, vectors) / torch.where(is_zero, 1.0, sq_norm).sqrt()


def is_number(parameter: float | Tensor, number: int | float) -> bool:
    """Return whether a parameter equals `number`; a tensor never does, since special values do not share a stack."""
    return not isinstance(parameter, Tensor) and parameter == number


def stacked_product(
    left: Float[Tensor, "*#stack rows inner"], right: Float[Tensor, "*#stack inner columns"]
) -> Float[Tensor, "*#stack rows columns"]:
    """Return left · right; on the CPU bit-identical for a run alone and in a stack (first axis).

    BLAS routines for single and for batched products round differently. So small products are sums of elementwise
    products, and the large ones of a stack are computed one by one.
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
