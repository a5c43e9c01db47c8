"""The radii of patches: the largest for which no right prediction changes.

A row at distance d from a patch, with the sum S of weights, the logits z and the label y, keeps its label while the
weight of the patch is at most w* = S·min_k (z_y − z_k)/(v_k − v_y) over the classes k with v_k > v_y, since the patched
logits are (S z + w v)/(S + w). With w(d) = w₀/(1 + (d/r)^s) this is r ≤ d / (w₀/w* − 1)^(1/s).
In a regression a prediction may not get worse: its error may not grow by more than 1 % of the targets' spread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.attention.scores import HIT_SQ_DIST
from idwbench.models.demands import leads
from idwbench.models.neighbours import squared_distances
from idwbench.models.patches import Base, Floats, PatchPrototypes, States

__all__ = ["Fence", "Rows", "error_slack", "radius_limits", "shrunk_radii"]

# The part of the targets' standard deviation by which an error may grow.
_TOLERANCE = 0.01
_CAP_QUANTILE, _CAP_SAMPLE = 0.95, 128
_SHRINK = 0.98
# A patch pulls most at a row if it pulls with this part of the largest pull.
_MOST = 0.5
# The part of the weight of a row below which a patch does not matter to it.
_MATTERS = 1e-9
_ROWS_AT_ONCE = 8192
_STRICT = 1 - 1e-9


@dataclass(frozen=True)
class Rows:
    """Inputs (n, features), scaled, and their labels (n,), or scaled targets (n, outputs) of a regression.

    The network's `states` there are computed if they are not given.
    """

    inputs: NDArray[np.float32]
    targets: NDArray[Any]
    states: States | None = None


@dataclass(frozen=True)
class Fence:
    """Inputs at which no patch may do harm, and the network there without patches.

    Attributes:
        rows: The inputs with the label or target that each must keep.
        states: The network at the inputs.
        slack: Of a classification, by how much the label must lead (n,); of a regression, by how much the error may
            grow.
    """

    rows: Rows
    states: States
    slack: Floats
    _distances: dict[bytes, Floats] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, base: Base, rows: Rows | None, slack: float | None = None, *, ties: bool = False) -> Fence:
        """Return the fence of the right predictions among `rows`; an empty one without rows.

        Args:
            base: The network.
            rows: The rows.
            slack: Of a regression, by how much an error may grow; None for 1 % of the targets' spread.
            ties: Whether rows belong to it whose label is right but no larger than another: any patch changes them.
        """
        if rows is None:
            rows = Rows(base.keys[:0], np.empty(0, np.int64))
        states = base.states(rows.inputs) if rows.states is None else rows.states
        if rows.targets.ndim == 2:
            return cls(rows, states, np.full(len(rows.inputs), error_slack(rows) if slack is None else slack))
        is_right = states.outputs.argmax(1) == rows.targets
        if not ties and states.outputs.shape[1] > 1:
            is_right &= leads(states.outputs, rows.targets) > 0
        right = np.flatnonzero(is_right)
        fenced = Rows(rows.inputs[right], rows.targets[right])
        return cls(fenced, states.take(right), np.zeros(len(right)))

    def patched(self, patches: PatchPrototypes) -> Floats:
        """Return the outputs (n, outputs) with patches."""
        return self.states.patched(patches.log_weights(self.rows.inputs), patches.values)

    def sq_distances(self, keys: NDArray[np.float32]) -> Floats:
        """Return the squared distances (n, keys) from keys (keys, features), computed once for each array of keys."""
        name = keys.tobytes()
        if name not in self._distances:
            inputs = self.rows.inputs
            parts = [inputs[at : at + _ROWS_AT_ONCE].astype(np.float64) for at in range(0, len(inputs), _ROWS_AT_ONCE)]
            exact = [squared_distances(part, keys.astype(np.float64)) for part in parts]
            self._distances[name] = np.concatenate([np.empty((0, len(keys))), *exact])
        return self._distances[name]

    def outside(self, inputs: NDArray[np.float32]) -> Fence:
        """Return the fence without the rows that equal one of `inputs` (n, features)."""
        return self.take((self.sq_distances(inputs) > 0).all(1))

    def take(self, where: Any) -> Fence:
        """Return the fence of some rows."""
        rows = Rows(self.rows.inputs[where], self.rows.targets[where])
        distances = {name: known[where] for name, known in self._distances.items()}
        return Fence(rows, self.states.take(where), self.slack[where], distances)

    def broken(self, outputs: Floats) -> NDArray[np.bool_]:
        """Return which rows (n,) are harmed if the network gives these outputs (n, outputs)."""
        targets = self.rows.targets
        if targets.ndim == 1:
            return np.asarray(outputs.argmax(1) != targets)
        before, after = (np.abs(one - targets) for one in (self.states.outputs, outputs))
        return np.asarray((after > before + self.slack[:, None]).any(1))

    def largest_log_weights(self, value: Floats) -> Floats:
        """Return log w* (n,), the largest weight of a patch of that value (outputs,) that harms no row."""
        targets, outputs = self.rows.targets, self.states.outputs
        with np.errstate(divide="ignore", invalid="ignore"):
            if targets.ndim == 1:
                rows = np.arange(len(targets))
                gaps = np.maximum(outputs[rows, targets][:, None] - outputs - self.slack[:, None], 0.0)
                pulls = value - value[targets][:, None]
                ratios = np.where(pulls > 0, gaps / pulls, np.inf).min(1)
            else:
                errors, changes = targets - outputs, value - outputs
                # Towards the target and beyond it until the error is as large on the other side.
                allowed = np.where(errors * changes > 0, 2 * np.abs(errors), 0.0) + self.slack[:, None]
                shares = np.where(changes != 0, allowed / np.abs(changes), np.inf).min(1)
                ratios = np.where(shares < 1, shares / (1 - shares), np.inf)
            return np.asarray(self.states.log_sum + np.log(ratios * _STRICT))

    def cap(self) -> float:
        """Return the 95 % quantile of the distance of a row to its nearest different one, or ∞ if all are equal."""
        inputs = self.rows.inputs
        if len(inputs) < 2:
            return np.inf
        sample = np.unique(np.linspace(0, len(inputs) - 1, _CAP_SAMPLE).astype(np.int64))
        distances = squared_distances(inputs, inputs[sample])
        distances[distances <= HIT_SQ_DIST] = np.inf
        nearest = distances.min(0)
        return float(np.quantile(np.sqrt(nearest), _CAP_QUANTILE)) if np.isfinite(nearest).all() else np.inf


def error_slack(rows: Rows | None) -> float:
    """Return by how much errors may grow: 1 % of the targets' standard deviation, or of 1 if they have none."""
    spread = 0.0 if rows is None or not len(rows.targets) else float(rows.targets.std())
    return _TOLERANCE * (spread or 1.0)


def radius_limits(patches: PatchPrototypes, fence: Fence) -> Floats:
    """Return the largest radius of each patch alone for each row of the fence (patches, n); 0 for a row at its key."""
    distances = np.sqrt(fence.sq_distances(patches.keys)).T
    limits = np.empty(distances.shape)
    for place in range(len(patches)):
        excess = patches.log_peaks[place] - fence.largest_log_weights(patches.values[place])
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # log(exp(excess) − 1), of weights that are above the largest.
            log_ratio = np.where(excess > 0, excess + np.log(-np.expm1(-np.maximum(excess, 1e-300))), -np.inf)
            limit = np.exp(np.log(distances[place]) - log_ratio / patches.steepness[place])
        limits[place] = np.where(excess > 0, limit, np.inf)
    return limits


def shrunk_radii(patches: PatchPrototypes, may_shrink: NDArray[np.bool_], fence: Fence) -> Floats:
    """Return radii (patches,) with which the patches at once harm no row, or only rows out of reach of all that shrink.

    The radii of the patches that pull most at a harmed row shrink by 2 %, again and again.
    """
    near = np.concatenate([*_near_rows(patches, fence), np.empty(0, np.int64)]).astype(np.int64)
    fence = fence.take(near)
    radii = patches.radii.copy()
    while True:
        current = replace(patches, radii=radii)
        log_weights = current.log_weights_at(fence.sq_distances(patches.keys))
        outputs = fence.states.patched(log_weights, current.values)
        harmed = fence.broken(outputs)
        pulls = fence.states.take(harmed).shares(log_weights[harmed])[1]
        if fence.rows.targets.ndim == 1:
            targets = fence.rows.targets[harmed]
            pulls = pulls * (current.values[:, outputs[harmed].argmax(1)] - current.values[:, targets]).T
        shrinks = (pulls > _MOST * pulls.max(1, keepdims=True, initial=0.0)).any(0) & may_shrink
        if not shrinks.any():
            return radii
        radii = np.where(shrinks, _SHRINK * radii, radii)


def _near_rows(patches: PatchPrototypes, fence: Fence) -> Iterator[NDArray[np.int64]]:
    for start in range(0, len(fence.rows.inputs), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        own, _ = fence.states.take(part).shares(patches.log_weights_at(fence.sq_distances(patches.keys)[part]))
        yield start + np.flatnonzero(own < 1 - _MATTERS)
