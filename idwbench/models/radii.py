"""The radii of patches: the largest for which no right prediction changes.

A row with the sum S of weights and the outputs z, of which a patch of weight w and value v has the share λ = w/(S + w),
gets (1 − λ) z + λ v. With the label y it keeps its prediction while for each other class k the lead z_y − z_k, which
falls by λ((z_y − z_k) − (v_y − v_k)), is not used up. In a regression a prediction may not get worse: its error in each
output may not grow by more than 1 % of the targets' standard deviation. Either gives the largest share λ* of a patch
for each row, so the largest weight w* = S λ*/(1 − λ*), and with w(d) = w₀/(1 + (d/r)^s) the radius
r ≤ d / (w₀/w* − 1)^(1/s).
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
    """Inputs (n, features), scaled, and their labels (n,), or scaled targets (n, outputs) of a regression."""

    inputs: NDArray[np.float32]
    targets: NDArray[Any]
    # The last network and keys, with what is known of the rows and these.
    _states: list[tuple[ArrayNetwork, States]] = field(default_factory=list, repr=False, compare=False)
    _sq_dist: list[tuple[bytes, Floats]] = field(default_factory=list, repr=False, compare=False)

    @cached_property
    def box(self) -> tuple[Floats, Floats]:
        """The least and the largest value of each feature, (features,)."""
        return self.inputs.min(0).astype(np.float64), self.inputs.max(0).astype(np.float64)

    def states(self, base: ArrayNetwork) -> States:
        """Return the states of a network, which are kept for the next call."""
        if not self._states or self._states[0][0] is not base:
            self._states[:] = [(base, base.states(self.inputs))]
        return self._states[0][1]

    def sq_dist(self, keys: NDArray[np.float32]) -> Floats:
        """Return the squared distances (n, keys) from `keys` (keys, features), which are kept for the next call."""
        if not self._sq_dist or self._sq_dist[0][0] != keys.tobytes():
            self._sq_dist.clear()  # those for many patches take much memory
            self._sq_dist.append((keys.tobytes(), squared_distances(self.inputs, keys.astype(np.float64))))
        return self._sq_dist[0][1]


@dataclass(frozen=True)
class Fence:
    """Inputs at which no patch may do harm, and the network there without patches.

    Attributes:
        sq_dist: Squared distances (n, patches) from the keys of the patches.
        states: The network at the inputs.
        targets: The labels (n,) or targets (n, outputs) that they must keep.
        slack: Of a classification, by how much the label must lead (n, 1); of a regression, by how much the error of
            each output may grow (n, outputs).
    """

    sq_dist: Floats
    states: States
    targets: NDArray[Any]
    slack: Floats

    @classmethod
    def of(cls, base: ArrayNetwork, rows: Rows, keys: NDArray[np.float32], slack: Floats) -> Fence:
        """Return the fence of `rows` for patches at `keys` (patches, features), with a slack (1,) or (outputs,)."""
        sq_dist = rows.sq_dist(keys)
        return cls(sq_dist, rows.states(base), rows.targets, np.broadcast_to(slack, (len(sq_dist), slack.size)))

    def right(self) -> Fence:
        """Return the fence of the rows that can stay as they are.

        They are those with the right label, unless it is no larger than another, which any patch changes, and no patch
        is at them.
        """
        stays = (self.sq_dist > HIT_SQ_DIST).all(1)
        return self.take(stays & (self.leads() > 0) if self.targets.ndim == 1 else stays)

    def take(self, rows: Any, patches: Any = slice(None)) -> Fence:
        """Return the fence of some rows and some patches."""
        return Fence(self.sq_dist[rows][:, patches], self.states.take(rows), self.targets[rows], self.slack[rows])

    def leads(self) -> Floats:
        """Return by how much the label leads each row (n,) of a classification; 1 where there is no other class."""
        logits, rows = self.states.outputs.copy(), np.arange(len(self.targets))
        own = logits[rows, self.targets]
        logits[rows, self.targets] = -np.inf
        return np.asarray(own - logits.max(1)) if logits.shape[1] > 1 else np.ones(len(rows))

    def patched(self, patches: PatchPrototypes) -> Floats:
        """Return the outputs (n, outputs) with patches."""
        return self.states.patched(patches.log_weights_at(self.sq_dist), patches.values)

    def broken(self, outputs: Floats) -> Mask:
        """Return which rows (n,) are harmed if the network gives these outputs (n, outputs)."""
        if self.targets.ndim == 1:
            return np.asarray(outputs.argmax(1) != self.targets)
        before, after = (np.abs(one - self.targets) for one in (self.states.outputs, outputs))
        return np.asarray((after > before + self.slack).any(1))

    def harmful(self, patches: PatchPrototypes) -> Mask:
        """Return which patches (patches,) pull most at a row that all of them at once break."""
        log_weights = patches.log_weights_at(self.sq_dist)
        outputs = self.states.patched(log_weights, patches.values)
        broken = self.broken(outputs)
        pulls = self.states.take(broken).shares(log_weights[broken])[1]
        if self.targets.ndim == 1:
            wrong, right = outputs[broken].argmax(1), self.targets[broken]
            pulls = pulls * (patches.values[:, wrong] - patches.values[:, right]).T
        return np.asarray((pulls > _MOST * pulls.max(1, keepdims=True, initial=0.0)).any(0))

    def largest_log_weights(self, values: Floats) -> Floats:
        """Return log w* (n, patches), the largest weights of patches of `values` (patches, outputs) that do no harm."""
        outputs, own = self.states.outputs, np.arange(len(self.targets))
        if is_regression := self.targets.ndim == 2:
            errors = self.targets - outputs
        else:
            gaps = outputs[own, self.targets][:, None] - outputs
            allowed = np.maximum(gaps - self.slack, 0.0)
        limits = np.empty(self.sq_dist.shape)
        for place, value in enumerate(values):
            if is_regression:
                # Towards the target and beyond it until the error is as large on the other side.
                changes = value - outputs
                allowed = np.where(errors * changes > 0, 2 * np.abs(errors), 0.0) + self.slack
                changes = np.abs(changes)
            else:
                changes = gaps + value - value[self.targets][:, None]
            with np.errstate(divide="ignore", invalid="ignore"):
                shares = np.where(changes > 0, allowed / changes, np.inf).min(1)
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
        """Return the largest radii (n, patches) with which each patch alone does no harm; 0 for a row at its key."""
        log_ratio, log_distances = self._log_ratios(patches)
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(log_distances - log_ratio / patches.steepness))

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
