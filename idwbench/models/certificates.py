"""What is certain of a patch: the radius within which its label holds, and how far it reaches.

For an input x within ρ of q, a prototype at distance d_j from q is at a distance of d_j − ρ to d_j + ρ from x, which
bounds its weight; a score of dot products changes by at most ρ‖k_j‖. The label c certainly holds at x while for each
other class k

    Σ_j [g_j > 0] w_j⁻ g_j + [g_j < 0] w_j⁺ g_j > 0,   g_j = v_jc − v_jk,

over all prototypes and patches, with w⁻ and w⁺ the bounds of their weights: the sum of weights, by which logits are
divided, does not matter. A value with a slope, v_j + A_j (x − k_j), changes by at most ρ‖A_j‖ from what it is at q: g_j
is the least that it can be. At a distance D from q a patch changes a logit by at most w/(w + S⁻) times the range of the
values at that distance, with S⁻ the least sum of the other weights there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from idwbench.attention.scores import DistanceScore, cosine, scaled_dot, unit_vectors
from idwbench.models.array_weights import ArrayNetwork
from idwbench.models.neighbours import squared_distances
from idwbench.models.patches import Floats, PatchPrototypes, log_expm1

__all__ = ["SMALL_CHANGE", "certified_radius", "reach"]

SMALL_CHANGE = 0.01
# A radius is bisected to this part of it, and a reach found in so many steps; no radius is smaller than 2⁻⁶⁰ of the
# largest distance.
_PRECISION, _STEPS = 1e-9, 60
# Rounding of the sums, as a part of their largest term times their length.
_ROUNDING = 1e-12
# An input is rounded to float32 by at most this part of its length.
_RESOLUTION = 1e-7


def certified_radius(
    base: ArrayNetwork, patches: PatchPrototypes, query: NDArray[np.floating], label: int
) -> float | None:
    """Return the largest ρ for which every input within ρ of `query` (features,) certainly gets `label`.

    0 if that is not certain of the query itself, and None for a method whose scores have no known bounds.
    """
    if not _has_bounds(base):
        return None
    point = query.astype(np.float64)[None]
    values = np.concatenate([base.values_at(point[0]), patches.values])
    leads = np.delete(values[:, [label]] - values, label, axis=1)  # (prototypes + patches, classes − 1)
    contrasts = np.delete(np.eye(values.shape[1])[label] - np.eye(values.shape[1]), label, axis=0)
    slopes = np.concatenate([base.slope_norms(contrasts), np.zeros((len(patches), len(contrasts)))])
    own = np.sqrt(squared_distances(point, patches.keys.astype(np.float64))[0])

    def is_certain(radius: float) -> bool:
        at_patches = [patches.log_weights_at(np.square(np.maximum(own + sign * radius, 0))) for sign in (1, -1)]
        low, high = (np.concatenate(pair) for pair in zip(_score_bounds(base, point, radius), at_patches, strict=True))
        if np.isposinf(high).any():
            return False
        least = leads - radius * slopes
        terms = np.exp(np.where(least > 0, low[:, None], high[:, None]) - high.max()) * least
        return bool((terms.sum(0) > _ROUNDING * len(terms) * np.abs(terms).max(0, initial=0.0)).all())

    if not is_certain(0.0):
        return 0.0
    low, high = 0.0, float(np.linalg.norm(base.keys - point, axis=1).max() + own.max(initial=0.0))
    for _ in range(_STEPS):
        if high - low > _PRECISION * high:
            middle = (low + high) / 2
            low, high = (middle, high) if is_certain(middle) else (low, middle)
    return max(low - _rounding(point, low), 0.0)


def reach(base: ArrayNetwork, patches: PatchPrototypes, place: int, farthest: float) -> float | None:
    """Return the distance from patch `place` beyond which it changes no logit by more than 0.01.

    None if that is not certain of any distance below `farthest`, the largest that matters, or not of this method.
    """
    if not _has_bounds(base):
        return None
    patch, distance = patches.take([place]), farthest
    values = np.concatenate([base.values_at(patch.keys[0]), patches.values])
    slopes = np.concatenate([base.slope_norms(np.eye(values.shape[1])), np.zeros_like(patches.values)])
    # From the farthest inwards, to where the weight is small beside the least sum of the others, which grows inwards.
    for _ in range(_STEPS):
        rise = distance * slopes
        change = ((values + rise).max(0) - (values - rise).min(0)).max()
        if change <= SMALL_CHANGE:
            distance = 0.0
            break
        least = np.logaddexp.reduce(_score_bounds(base, patch.keys.astype(np.float64), distance)[0])
        excess = patch.log_peaks[0] - least - np.log(SMALL_CHANGE / (change - SMALL_CHANGE))
        nearer = float(patch.radii[0] * np.exp(log_expm1(excess) / patch.steepness[0]))
        if not nearer < distance:
            break
        distance = nearer
    return distance + _rounding(patch.keys, distance) if distance < farthest else None


def _rounding(point: NDArray[np.floating], distance: float) -> float:
    """Return by how much the distance of an input from a point may differ from what it is before its rounding."""
    return _RESOLUTION * (float(np.linalg.norm(point)) + distance)


def _has_bounds(base: ArrayNetwork) -> bool:
    score = base.method.score
    return base.method.sha256 is None and (isinstance(score, DistanceScore) or score in (scaled_dot, cosine))


def _score_bounds(base: ArrayNetwork, point: Floats, radius: float) -> tuple[Floats, Floats]:
    """Return the least and the largest scores (prototypes,) within a radius of a point (1, features)."""
    score, parameters, keys = base.method.score, base.parameters, base.keys.astype(np.float64)
    if isinstance(score, DistanceScore):
        distances = np.sqrt(squared_distances(point, keys)[0])
        both = (np.square(np.maximum(distances + sign * radius, 0.0)) for sign in (1, -1))
        low, high = (np.asarray(score.function(one, **parameters), np.float64) for one in both)
        return low, high
    if score is scaled_dot:
        change = radius * np.diagonal(base.scores(unit_vectors(keys)))
        return base.scores(point)[0] - change, base.scores(point)[0] + change
    # The angle between x and q is at most arcsin(ρ/‖q‖).
    length = np.linalg.norm(point)
    widest = np.arcsin(radius / length) if radius < length else np.pi
    unit, units = unit_vectors(point), unit_vectors(keys)
    # More exact than the arccosine of small and large angles.
    angles = 2 * np.arctan2(np.linalg.norm(unit - units, axis=1), np.linalg.norm(unit + units, axis=1))
    low, high = (np.cos(one) for one in (np.minimum(angles + widest, np.pi), np.maximum(angles - widest, 0.0)))
    return low / float(parameters["temperature"]), high / float(parameters["temperature"])
