"""What is certain of a patch: the radius within which its label holds, and how far it reaches.

For an input x within ρ of q, a prototype at distance d_j from q is at a distance of d_j − ρ to d_j + ρ from x, which
bounds its weight; a score of dot products changes by at most ρ‖k_j‖. The label c certainly holds at x while for each
other class k

    Σ_j [g_j > 0] w_j⁻ g_j + [g_j < 0] w_j⁺ g_j > 0,   g_j = v_jc − v_jk,

over all prototypes and patches, with w⁻ and w⁺ the bounds of their weights: the sum of weights, by which logits are
divided, does not matter. At a distance D from q a patch changes a logit by at most w/(w + S⁻) times the range of the
values, with S⁻ the least sum of the other weights for inputs within the range of the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from idwbench.attention.scores import BUILT_IN_METHODS, DistanceScore, log_patch_weight, scaled_dot
from idwbench.models.neighbours import squared_distances
from idwbench.models.patches import Base, Floats, PatchPrototypes

__all__ = ["SMALL_CHANGE", "Box", "certified_radius", "reach"]

SMALL_CHANGE = 0.01
_HALVINGS = 60
# The intervals of distances of a reach, each of which is divided again.
_INTERVALS, _ROUNDS = 64, 4
# Rounding of the sums, as a part of their largest term times their length.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Box:
    """The range of the data: the least and the largest value of each feature (features,), scaled."""

    low: Floats
    high: Floats

    @classmethod
    def of(cls, inputs: NDArray[np.floating]) -> Box:
        """Return the range of inputs (n, features)."""
        return cls(inputs.min(0).astype(np.float64), inputs.max(0).astype(np.float64))

    def farthest(self, points: NDArray[np.floating]) -> Floats:
        """Return the largest distance (n,) of an input in the box from points (n, features)."""
        return np.asarray(np.sqrt(np.square(np.maximum(np.abs(points - self.low), np.abs(points - self.high))).sum(1)))


def certified_radius(base: Base, patches: PatchPrototypes, query: NDArray[np.floating], label: int) -> float | None:
    """Return the largest ρ for which every input within ρ of `query` (features,) certainly gets `label`.

    0 if that is not certain of the query itself, and None for a method whose scores have no known bounds.
    """
    bounds = _Bounds.at(base, patches, query)
    if bounds is None:
        return None
    values = np.concatenate([base.values.astype(np.float64), patches.values])
    leads = np.delete(values[:, [label]] - values, label, axis=1)  # (prototypes, classes − 1)
    if not _is_certain(bounds, leads, 0.0):
        return 0.0
    low, high = 0.0, float(bounds.distances.max())
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _is_certain(bounds, leads, middle) else (low, middle)
    return low


def reach(base: Base, patches: PatchPrototypes, place: int, box: Box) -> float | None:
    """Return the distance from patch `place` beyond which it changes no logit by more than 0.01 for inputs in a box.

    None if that is not certain of any distance, or not of this method.
    """
    patch = patches.take([place])
    bounds = _Bounds.at(base, patches.take([]), patch.keys[0])
    if bounds is None:
        return None
    values = np.concatenate([base.values.astype(np.float64), patches.values])
    largest = float((values.max(0) - values.min(0)).max())
    if largest <= SMALL_CHANGE:
        return 0.0
    farthest = float(box.farthest(patch.keys)[0])
    low, high = 0.0, farthest
    limit, lowest = np.log(SMALL_CHANGE / (largest - SMALL_CHANGE)), bounds.lowest(box)
    # The bound may fall and rise again with the distance: it is that of whole intervals, and the last large one counts.
    for _ in range(_ROUNDS):
        edges = np.linspace(low, high, _INTERVALS + 1)
        least = [np.logaddexp.reduce(np.maximum(bounds.scores(edge)[0], lowest)) for edge in edges[1:].tolist()]
        large = np.flatnonzero(_patch_weights(patch, edges[:-1]) - np.array(least) > limit)
        if not large.size:
            return low
        low, high = edges[large[-1] : large[-1] + 2].tolist()
    return high if high < farthest else None


def _is_certain(bounds: _Bounds, leads: Floats, radius: float) -> bool:
    low, high = bounds.log_weights(radius)
    if np.isposinf(high).any():
        return False
    largest = high.max()
    weights = np.where(leads > 0, np.exp(low - largest)[:, None], np.exp(high - largest)[:, None])
    terms = weights * leads
    return bool((terms.sum(0) > _ROUNDING * len(terms) * np.abs(terms).max(0, initial=0.0)).all())


def _patch_weights(patches: PatchPrototypes, distances: Floats) -> Floats:
    return np.asarray(
        log_patch_weight(np.square(distances), patches.log_peaks, patches.radii, patches.steepness), np.float64
    )


@dataclass(frozen=True)
class _Bounds:
    """A query (features,) with its distances (prototypes + patches,) from all keys."""

    base: Base
    patches: PatchPrototypes
    query: Floats
    distances: Floats

    @classmethod
    def at(cls, base: Base, patches: PatchPrototypes, query: NDArray[np.floating]) -> _Bounds | None:
        """Return the bounds at a query, or None if the scores of the method have none."""
        if base.method.name not in BUILT_IN_METHODS or base.method.sha256 is not None:
            return None
        point = query.astype(np.float64)
        keys = np.concatenate([base.keys, patches.keys]).astype(np.float64)
        return cls(base, patches, point, np.sqrt(squared_distances(point[None], keys)[0]))

    def log_weights(self, radius: float) -> tuple[Floats, Floats]:
        """Return the least and the largest log weights (prototypes + patches,) within a radius."""
        own = self.distances[len(self.base.keys) :]
        low, high = (_patch_weights(self.patches, np.maximum(own + sign * radius, 0.0)) for sign in (1, -1))
        base_low, base_high = self.scores(radius)
        return np.concatenate([base_low, low]), np.concatenate([base_high, high])

    def scores(self, radius: float) -> tuple[Floats, Floats]:
        """Return the least and the largest scores (prototypes,) of the network within a radius."""
        base, method = self.base, self.base.method
        if isinstance(method.score, DistanceScore):
            distances = self.distances[: len(base.keys)]
            both = (np.square(np.maximum(distances + sign * radius, 0.0)) for sign in (1, -1))
            low, high = (np.asarray(method.score.function(one, **base.parameters), np.float64) for one in both)
            return low, high
        scores = base.scores(self.query[None])[0]
        if method.score is scaled_dot:
            change = radius * self._slopes
            return scores - change, scores + change
        # The angle between x and q is at most arcsin(ρ/‖q‖).
        norm, temperature = float(np.linalg.norm(self.query)), float(base.parameters["temperature"])
        widest = np.arcsin(radius / norm) if radius < norm else np.pi
        angles = np.arccos(np.clip(scores * temperature, -1, 1))
        low, high = (np.cos(one) for one in (np.minimum(angles + widest, np.pi), np.maximum(angles - widest, 0)))
        return low / temperature, high / temperature

    def lowest(self, box: Box) -> Floats:
        """Return the least scores (prototypes,) of the network for inputs in a box."""
        base, keys = self.base, self.base.keys.astype(np.float64)
        if isinstance(base.method.score, DistanceScore):
            farthest = np.square(box.farthest(keys))
            return np.asarray(base.method.score.function(farthest, **base.parameters), np.float64)
        if base.method.score is scaled_dot:
            least = np.minimum(keys * box.low, keys * box.high).sum(1)
            return np.asarray(least * self._slopes / np.maximum(np.linalg.norm(keys, axis=1), 1e-300))
        return np.full(len(keys), -1 / float(base.parameters["temperature"]))

    @cached_property
    def _slopes(self) -> Floats:
        """Return how much scores of `scaled_dot` change at most for a change of the input by 1."""
        keys = self.base.keys.astype(np.float64)
        units = keys / np.maximum(np.linalg.norm(keys, axis=1, keepdims=True), 1e-300)
        return np.diagonal(np.asarray(scaled_dot(units, keys, scale=str(self.base.parameters["scale"]))))
