"""The radii of patches: the largest for which no right prediction changes.

A row with the sum S of weights and the outputs z gets (S z + Σ w v)/(S + Σ w) with patches of weights w and values v.
What it must keep are leads, which are linear in the outputs and may not become negative: in a classification those of
its label y over each other class, z_y − z_k; in a regression, where an error may grow by no more than 1 % of the
targets' standard deviation, what each output may still rise and fall. With the leads l of z and l' < 0 of v, a patch
alone does no harm up to the weight w* = S min l/(−l'), and patches together do none while Σ w/w* ≤ 1: w/w* is the pull
of a patch on a row. With w(d) = w₀/(1 + (d/r)^s) the radius is r ≤ d / (w₀/w* − 1)^(1/s).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.attention.scores import HIT_SQ_DIST
from idwbench.models.array_weights import ArrayNetwork, States
from idwbench.models.demands import STEEPEST
from idwbench.models.neighbours import SquaredDistances, squared_distances
from idwbench.models.patches import Floats, PatchPrototypes, log_expm1

__all__ = ["Fence", "Mask", "Rows", "errors"]

Mask = NDArray[np.bool_]

# The part of the targets' standard deviation by which an error may grow.
_TOLERANCE = 0.01
_CAP_QUANTILE, _CAP_SAMPLE = 0.95, 64
# A patch that has less than this pull at a broken row is none that breaks it.
_MATTERS = 1e-3
# No pull is as large as one, but for rounding.
_LARGEST_PULL = 1 - 1e-9


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

    @cached_property
    def slack(self) -> Floats:
        """By how much errors may grow (outputs,): 1 % of the targets' standard deviation; 0 of labels, (1,)."""
        if self.targets.ndim == 1:
            return np.zeros(1)
        spread = self.targets.std(0) if len(self.targets) else np.ones(self.targets.shape[1])
        return _TOLERANCE * np.where(spread > 0, spread, 1.0)

    @cached_property
    def cap(self) -> float:
        """The largest radius: the 95 % quantile of the distance of a row to its nearest different one, or ∞.

        It is estimated from 64 rows at equal steps, in float32.
        """
        if len(self.inputs) < 2:
            return np.inf
        sample = self.inputs[np.unique(np.linspace(0, len(self.inputs) - 1, _CAP_SAMPLE).astype(np.int64))]
        nearest = np.full(len(sample), np.inf)
        for _, sq_dist in SquaredDistances(sample).blocks(self.inputs):
            sq_dist[sq_dist <= HIT_SQ_DIST] = np.inf
            np.minimum(nearest, sq_dist.min(0), out=nearest)
        return float(np.quantile(np.sqrt(nearest), _CAP_QUANTILE)) if np.isfinite(nearest).all() else np.inf

    def sq_dist(self, keys: NDArray[np.float32]) -> Floats:
        """Return the squared distances (n, keys) from `keys` (keys, features), which are kept for the next call."""
        if keys.tobytes() not in self._sq_dist:
            self._sq_dist.clear()  # those for many patches take much memory
            self._sq_dist[keys.tobytes()] = squared_distances(self.inputs, keys.astype(np.float64))
        return self._sq_dist[keys.tobytes()]

    def fence(self, keys: NDArray[np.float32]) -> Fence:
        """Return the fence of these rows, but for those that are keys (patches, features) of patches."""
        sq_dist = self.sq_dist(keys)
        return Fence(sq_dist, self.states, self.targets, self.slack).take((sq_dist > HIT_SQ_DIST).all(1)).right


@dataclass(frozen=True)
class Fence:
    """Inputs at which no patch may do harm, and the network there without patches.

    Attributes:
        sq_dist: Squared distances (n, patches) from the keys of the patches.
        states: The network at the inputs.
        targets: The labels (n,) or targets (n, outputs) that they must keep.
        slack: By how much the error of each output may grow, see `Rows.slack`.
    """

    sq_dist: Floats
    states: States
    targets: NDArray[Any]
    slack: Floats

    def take(self, rows: Any) -> Fence:
        """Return the fence of some rows."""
        return Fence(self.sq_dist[rows], self.states.take(rows), self.targets[rows], self.slack)

    @property
    def right(self) -> Fence:
        """The rows with the right label, unless it is no larger than another, which any patch changes."""
        return self.take((self._leads(self.states.outputs) > 0).all(1))

    def _leads(self, outputs: Floats) -> Floats:
        """Return the leads (n, leads) of outputs (n, outputs), or of one value (outputs,); ∞ of a label over itself."""
        if self.targets.ndim == 2:
            room, rise = np.abs(self.states.outputs - self.targets) + self.slack, outputs - self.targets
            return np.hstack([room - rise, room + rise])
        places = np.arange(len(self.targets)), self.targets
        outputs = np.broadcast_to(outputs, self.states.outputs.shape)
        leads = np.asarray(outputs[places][:, None] - outputs)
        leads[places] = np.inf
        return leads

    def _largest_log_weights(self, values: Floats) -> Floats:
        """Return log w* (n, patches) of patches of `values` (patches, outputs); ∞ at rows that no patch can change."""
        leads, limits = self._leads(self.states.outputs), np.empty(self.sq_dist.shape)
        for place, value in enumerate(values):
            own, least = self._leads(value), np.full_like(leads, np.inf)
            np.divide(leads, -own, out=least, where=own < 0)
            with np.errstate(divide="ignore"):
                limits[:, place] = np.log(_LARGEST_PULL * least.min(1))
        return limits + self.states.log_sum[:, None]

    def pulls(self, patches: PatchPrototypes) -> Floats:
        """Return the pulls w/w* (n, patches)."""
        with np.errstate(over="ignore"):
            return np.exp(patches.log_weights_at(self.sq_dist) - self._largest_log_weights(patches.values))

    def harmful(self, patches: PatchPrototypes, is_widest: Mask) -> Mask:
        """Return which patches (patches,) of those that may shrink pull most at a row that all at once break."""
        outputs = self.states.patched(patches.log_weights_at(self.sq_dist), patches.values)
        pulls = np.where(is_widest, self.take((self._leads(outputs) <= 0).any(1)).pulls(patches), 0.0)
        return np.bincount(pulls[pulls.max(1) > _MATTERS].argmax(1), minlength=len(patches)) > 0

    def widest(self, patches: PatchPrototypes, cap: float, is_free: Any = False) -> PatchPrototypes:
        """Return the patches with the largest radii with which each alone does no harm; 0 for a row at its key.

        The steepness of those that are free (patches,) is doubled until the radius is at least half of what any
        steepness would give: the distance of the nearest row that can be harmed, or the cap.
        """
        excess, steepness = patches.log_peaks - self._largest_log_weights(patches.values), patches.steepness
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            # log(w₀/w* − 1) and log d, −∞ and ∞ where a patch cannot do harm.
            log_ratio = log_expm1(excess)
            log_distances = np.log(np.where(self.sq_dist > HIT_SQ_DIST, self.sq_dist, 0.0)) / 2
            log_distances[excess <= 0] = np.inf
            most = np.minimum(np.exp(log_distances.min(0, initial=np.inf)), cap)
            while True:
                radii = np.minimum(np.exp((log_distances - log_ratio / steepness).min(0, initial=np.inf)), cap)
                is_small = is_free & (radii < most / 2) & (steepness < STEEPEST)
                if not is_small.any():
                    return replace(patches, radii=radii, steepness=steepness)
                steepness = np.where(is_small, np.minimum(2 * steepness, STEEPEST), steepness)


def errors(outputs: Floats, targets: NDArray[Any]) -> Floats:
    """Return the errors (n, outputs) of outputs for targets; of labels 0 or 1, (n, 1)."""
    if targets.ndim == 2:
        return np.asarray(np.abs(outputs - targets))
    return np.asarray((outputs.argmax(1) != targets)[:, None] * 1.0)
