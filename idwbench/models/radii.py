"""The radii of patches: the largest for which no right prediction changes.

A row with the sum S of weights and the outputs z, of which a patch of weight w and value v has the share λ = w/(S + w),
gets (1 − λ) z + λ v. What it must keep are leads, which are linear in the outputs and may not become negative: in a
classification those of its label y over each other class, z_y − z_k; in a regression, where an error may grow by no
more than 1 % of the targets' standard deviation, what each output may still rise and fall. With the leads l of z and l'
of v, (1 − λ) l + λ l' is 0 at the largest share λ* = l/(l − l'), so at the largest weight w* = S λ*/(1 − λ*), and with
w(d) = w₀/(1 + (d/r)^s) the radius is r ≤ d / (w₀/w* − 1)^(1/s).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.attention.scores import HIT_SQ_DIST
from idwbench.models.array_weights import ArrayNetwork, States
from idwbench.models.demands import DEFAULT_STEEPNESS, STEEPEST
from idwbench.models.neighbours import SquaredDistances, squared_distances
from idwbench.models.patches import Floats, PatchPrototypes

__all__ = ["Fence", "Mask", "Rows", "error_slack", "largest_cap"]

Mask = NDArray[np.bool_]

# The part of the targets' standard deviation by which an error may grow.
_TOLERANCE = 0.01
_CAP_QUANTILE, _CAP_SAMPLE = 0.95, 64
# A patch harms a row if it pulls with this part of the largest pull there.
_MOST = 0.5
# Rows matter to which the patches give this part of the weight with which they would harm; η may grow by its inverse.
_MATTERS = 1e-3
_STRICT = 1 - 1e-9


@dataclass(frozen=True)
class Rows:
    """Inputs (n, features), scaled, and their labels (n,), or scaled targets (n, outputs), for a network."""

    base: ArrayNetwork
    inputs: NDArray[np.float32]
    targets: NDArray[Any]
    _sq_dist: dict[bytes, Floats] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def states(self) -> States:
        """The network at the inputs."""
        return self.base.states(self.inputs)

    @cached_property
    def box(self) -> Floats:
        """The least and the largest value of each feature, (2, features)."""
        return np.stack([self.inputs.min(0), self.inputs.max(0)]).astype(np.float64)

    def sq_dist(self, keys: NDArray[np.float32]) -> Floats:
        """Return the squared distances (n, keys) from `keys` (keys, features), which are kept for the next call."""
        if keys.tobytes() not in self._sq_dist:
            self._sq_dist.clear()  # those for many patches take much memory
            self._sq_dist[keys.tobytes()] = squared_distances(self.inputs, keys.astype(np.float64))
        return self._sq_dist[keys.tobytes()]


@dataclass(frozen=True)
class Fence:
    """Inputs at which no patch may do harm, and the network there without patches.

    Attributes:
        sq_dist: Squared distances (n, patches) from the keys of the patches.
        states: The network at the inputs.
        targets: The labels (n,) or targets (n, outputs) that they must keep.
        slack: Of a regression, by how much the error of each output may grow (n, outputs); of a classification, which
            lead a patch alone must leave (n, 1).
    """

    sq_dist: Floats
    states: States
    targets: NDArray[Any]
    slack: Floats

    @classmethod
    def right(cls, rows: Rows, keys: NDArray[np.float32]) -> Fence:
        """Return the fence of the rows that can stay as they are for patches at `keys` (patches, features).

        They are those with the right label, unless it is no larger than another, which any patch changes, and no patch
        is at them.
        """
        sq_dist, slack = rows.sq_dist(keys), error_slack(rows.targets)
        fence = cls(sq_dist, rows.states, rows.targets, np.broadcast_to(slack, (len(sq_dist), slack.size)))
        return fence.take((sq_dist > HIT_SQ_DIST).all(1) & (fence.leads(rows.states.outputs) > 0).all(1))

    def take(self, rows: Any, patches: Any = slice(None)) -> Fence:
        """Return the fence of some rows and some patches."""
        return Fence(self.sq_dist[rows][:, patches], self.states.take(rows), self.targets[rows], self.slack[rows])

    def leads(self, outputs: Floats) -> Floats:
        """Return the leads (n, leads) of outputs (n, outputs), or of one value (outputs,); ∞ of a label over itself."""
        if self.targets.ndim == 2:
            room, errors = np.abs(self.states.outputs - self.targets) + self.slack, outputs - self.targets
            return np.hstack([room - errors, room + errors])
        places = np.arange(len(self.targets)), self.targets
        outputs = np.broadcast_to(outputs, self.states.outputs.shape)
        leads = np.asarray(outputs[places][:, None] - outputs)
        leads[places] = np.inf
        return leads

    def patched(self, patches: PatchPrototypes) -> Floats:
        """Return the outputs (n, outputs) with patches."""
        return self.states.patched(patches.log_weights_at(self.sq_dist), patches.values)

    def harmful(self, patches: PatchPrototypes) -> Mask:
        """Return which patches (patches,) pull most at a row that all of them at once break."""
        outputs = self.patched(patches)
        broken = (self.leads(outputs) <= 0).any(1)
        pulls = self.states.take(broken).shares(patches.log_weights_at(self.sq_dist[broken]))[1]
        if self.targets.ndim == 1:
            wrong, right = outputs[broken].argmax(1), self.targets[broken]
            pulls = pulls * (patches.values[:, wrong] - patches.values[:, right]).T
        return np.asarray((pulls > _MOST * pulls.max(1, keepdims=True, initial=0.0)).any(0))

    def largest_log_weights(self, values: Floats) -> Floats:
        """Return log w* (n, patches), the largest weights of patches of `values` (patches, outputs) that do no harm."""
        leads = self.leads(self.states.outputs)
        spare = np.maximum(leads - (self.slack if self.targets.ndim == 1 else 0.0), 0.0)
        limits = np.empty(self.sq_dist.shape)
        for place, value in enumerate(values):
            with np.errstate(divide="ignore", invalid="ignore"):
                changes = leads - self.leads(value)
                shares = np.where(changes > 0, spare / changes, np.inf).min(1)
                limits[:, place] = np.log(np.where(shares < 1, shares / (1 - shares), np.inf) * _STRICT)
        is_hit = np.isposinf(self.states.log_sum)  # such a row no patch can change
        limits[is_hit] = np.inf
        return limits + np.where(is_hit, 0.0, self.states.log_sum)[:, None]

    def _log_ratios(self, patches: PatchPrototypes) -> tuple[Floats, Floats]:
        """Return log(w₀/w* − 1) and log d (n, patches); −∞ and ∞ where a patch cannot do harm."""
        excess = patches.log_peaks - self.largest_log_weights(patches.values)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_ratio = np.where(excess > 0, excess + np.log(-np.expm1(-np.maximum(excess, 1e-300))), -np.inf)
            log_distances = np.log(np.where(self.sq_dist > HIT_SQ_DIST, self.sq_dist, 0.0)) / 2
        return log_ratio, np.where(excess > 0, log_distances, np.inf)

    def largest_radii(self, patches: PatchPrototypes) -> Floats:
        """Return the largest radii (patches,) with which each patch alone does no harm; 0 for a row at its key."""
        log_ratio, log_distances = self._log_ratios(patches)
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(log_distances - log_ratio / patches.steepness).min(0, initial=np.inf))

    def least_steepness(self, patches: PatchPrototypes, cap: float) -> Floats:
        """Return 32·2ᵏ (patches,), the least steepness whose radius is half of that of the steepest patch, or more.

        The latter, D, is the distance of the nearest row that can be harmed, or the cap. A row at the distance d leaves
        the radius d·(w₀/w* − 1)^(−1/s), which is no less than D/2 if s ≥ log(w₀/w* − 1)/log(2d/D).
        """
        log_ratio, log_distances = self._log_ratios(patches)
        steepest = np.minimum(log_distances.min(0, initial=np.inf), np.log(cap))
        is_limit = log_ratio > 0
        least = np.where(is_limit, log_ratio, 0.0) / np.where(is_limit, log_distances - steepest + np.log(2), 1.0)
        doublings = np.ceil(np.log2(np.maximum(least.max(0, initial=0.0) / DEFAULT_STEEPNESS, 1.0)))
        return np.asarray(np.minimum(DEFAULT_STEEPNESS * 2.0**doublings, STEEPEST))

    def near(self, patches: PatchPrototypes) -> Fence:
        """Return the fence of the rows that patches with these radii, or smaller ones, could break at once."""
        with np.errstate(over="ignore"):
            parts = np.exp(patches.log_weights_at(self.sq_dist) - self.largest_log_weights(patches.values))
        return self.take(parts.sum(1) > _MATTERS)


def error_slack(targets: NDArray[Any]) -> Floats:
    """Return by how much errors may grow (outputs,): 1 % of the targets' standard deviation; 0 of labels, (1,)."""
    if targets.ndim == 1:
        return np.zeros(1)
    spread = targets.std(0) if len(targets) else np.ones(targets.shape[1])
    return _TOLERANCE * np.where(spread > 0, spread, 1.0)


def largest_cap(inputs: NDArray[np.float32]) -> float:
    """Return the 95 % quantile of the distance of `inputs` (n, features) to their nearest different one, or ∞.

    It is estimated from 64 of them at equal steps, in float32.
    """
    if len(inputs) < 2:
        return np.inf
    sample = inputs[np.unique(np.linspace(0, len(inputs) - 1, _CAP_SAMPLE).astype(np.int64))]
    nearest = np.full(len(sample), np.inf)
    for _, sq_dist in SquaredDistances(sample).blocks(inputs):
        sq_dist[sq_dist <= HIT_SQ_DIST] = np.inf
        np.minimum(nearest, sq_dist.min(0), out=nearest)
    return float(np.quantile(np.sqrt(nearest), _CAP_QUANTILE)) if np.isfinite(nearest).all() else np.inf
