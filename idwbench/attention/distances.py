"""Distances and products of tensors, differentiable and stable in float32.

Shapes: inputs (…, batch, features), keys (…, prototypes, features), results (…, batch, prototypes). Leading axes stack
runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["distances_by_product", "distances_to_batch", "squared_distances", "stacked_product"]

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


def distances_to_batch(
    inputs: Float[Tensor, "*#stack batch features"],
    keys: Float[Tensor, "*#stack prototypes features"],
    counts: Tensor | None = None,
) -> Float[Tensor, "*#stack prototypes"]:
    """Return min_b ‖x_b − k_j‖, the distance of each key to the nearest input; the gradient is 0 at an input.

    With `counts` (…, prototypes, batch) the inputs of a key are those for which it is true; without any it is 0.
    """
    distances = torch.cdist(keys, inputs, compute_mode="donot_use_mm_for_euclid_dist")
    if counts is None:
        return distances.min(-1).values
    return distances.masked_fill(~counts, torch.inf).min(-1).values.where(counts.any(-1), 0.0)


def distances_by_product(queries: Tensor, keys: Tensor) -> Tensor:
    """Return d² of float32 vectors as ‖q‖² − 2q·k + ‖k‖² in float64, several times faster than by differences.

    With n features and the origin at the mean of the keys, the error is below 2(n + 6)·2⁻⁵³·(‖q‖² + ‖k‖²). If for some
    pair this may be more than 2⁻²⁶·d², all are computed by differences. So the relative error of d² is below 2⁻²³.
    """
    origin = keys.detach().double().mean(-2, keepdim=True)
    left, right = queries.double() - origin, keys.double() - origin
    squares, key_squares = (part.square().sum(-1, keepdim=True) for part in (left, right))
    wide = torch.cat([-2 * left, squares, torch.ones_like(squares)], -1)
    sq_dist = wide @ torch.cat([right, torch.ones_like(key_squares), key_squares], -1).mT
    limit = 4 * (keys.shape[-1] + 6) * 2.0**-27 * (squares.amax() + key_squares.amax())
    return squared_distances(queries, keys) if sq_dist.amin() <= limit else sq_dist.float()


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
