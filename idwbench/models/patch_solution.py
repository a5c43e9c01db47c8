"""The patches that meet a list of demands, solved as a whole; the solution does not depend on their order.

A local patch keeps what the network says at its input q but for the label c: with the lead m of the criterion,
Δ = max_{k≠c} z_k − z_c and ρ = S(q)/w₀, its value is z(q) + η e_c with η = (1 + ρ)(Δ + m). Its radius is the largest
for which no right prediction of given rows changes, see `idwbench.models.radii`. The patch of the paper has the value
η e_c with η = ρΔ + (1 + ρ)m. If the patches of different inputs disturb each other, the η are the nearest to these with
which all demands hold, by linear programs with cutting planes (Kelley 1960): what a demand lacks is convex in the η,
and where one fails its tangent is added. In a regression the values are those with which each input gets its target, a
system of linear equations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from idwbench.errors import PatchConflictError, PatchError
from idwbench.models.array_weights import ArrayNetwork, States
from idwbench.models.demands import Demand
from idwbench.models.neighbours import squared_distances
from idwbench.models.patches import OTHER_PEAK, Floats, PatchPrototypes, exact_shape, log_peak
from idwbench.models.radii import Fence, Mask, Rows, error_slack, largest_cap

__all__ = ["Solution", "prototypes_alone", "solve"]

# No value may exceed this many times the largest of a patch alone: beyond it two patches only cancel each other.
_LARGEST_GROWTH, _LARGEST_VALUE = 1e3, 1e100
# A tangent asks for this part of the largest number more, and the radii of patches that do harm shrink by 2 %.
_BEYOND, _SHRINK = 1e-6, 0.98
# Linear programs of a list; some twenty are enough for sixty demands that hardly hold together.
_ROUNDS = 100


@dataclass(frozen=True)
class Solution:
    """The patches of some demands.

    Attributes:
        has_prototype: (demands,), whether each has a prototype: not if the network meets it, or another patch does.
        prototypes: Those of the demands that have one, in their order.
    """

    has_prototype: Mask
    prototypes: PatchPrototypes


def solve(base: ArrayNetwork, demands: Sequence[Demand], rows: Rows | None = None, *, merge: bool = False) -> Solution:
    """Return the patches that meet all demands.

    Args:
        base: The network.
        demands: What it must give, at least one.
        rows: Rows whose right predictions must stay; needed for radii that are not given.
        merge: Whether demands for one label share a prototype where all still hold.

    Raises:
        PatchConflictError: they cannot hold together.
        PatchError: a demand that this network cannot meet, or no rows for a radius.
    """
    first = {one.identity: place for place, one in reversed(list(enumerate(demands)))}  # equal ones are one
    order = np.array([first[identity] for identity in sorted(first)])
    ordered = [demands[place] for place in order]
    states = base.states(np.stack([demand.query for demand in ordered]))
    pairs = zip(ordered, states.outputs, strict=True)
    needs = np.array([demand.kind != "keep" and not demand.is_met(outputs) for demand, outputs in pairs])
    has_prototype = np.zeros(len(demands), np.bool_)
    if not needs.any():
        return Solution(has_prototype, PatchPrototypes.none(base.keys.shape[1], base.values.shape[1]))
    while True:
        problem = _Problem(base, ordered, states, needs, rows)
        own, patches = problem.solved(merge)
        if not (disturbed := problem.disturbed(patches, own)).any():
            break
        needs[~needs] = disturbed
    places = order[needs][own]
    has_prototype[places] = True
    return Solution(has_prototype, patches.take(np.argsort(places)))


class _Problem:
    """Those of different demands that need patches, with the states at their inputs; raises as `solve`."""

    def __init__(
        self, base: ArrayNetwork, demands: Sequence[Demand], states: States, needs: Mask, rows: Rows | None
    ) -> None:
        self._all, self.is_classification = demands, demands[0].label is not None
        self.demands = [one for one, need in zip(demands, needs, strict=True) if need]
        self.met = [one for one, need in zip(demands, needs, strict=True) if not need]
        self.states, self.labels = states.take(needs), np.array([one.label for one in self.demands])
        self.alone = prototypes_alone(base, self.demands, self.states)
        self.largest = _LARGEST_GROWTH * float(np.abs(self.alone.values).max() + np.abs(self.states.outputs).max())
        self.is_widest = np.isnan(self.alone.radii)
        if rows is None and self.is_widest.any():
            raise PatchError("the largest radius needs the training data", location=("radius",), hint="give a number")
        keys, targets = self.alone.keys, self.labels if self.is_classification else states.outputs
        slack = error_slack(targets[:0] if rows is None else rows.targets)
        sq_dist = squared_distances(np.stack([one.query for one in demands]), keys.astype(np.float64))
        self.sq_dist = sq_dist[needs]
        at_demands = self._at_demands(states, needs, sq_dist, slack)
        self.fences = [at_demands.take(~needs)]
        if rows is not None and self.is_widest.any():
            training, cap = Fence.of(base, rows, keys, slack).right(), largest_cap(rows.inputs)
            # The weights of `idw` are powers of the distance themselves.
            is_free = np.array([one.steepness_is_chosen and base.method.name != "idw" for one in self.demands])
            least = np.where(self.is_widest & is_free, training.least_steepness(self.alone, cap), 0.0)
            self.alone = replace(self.alone, steepness=np.maximum(self.alone.steepness, least))
            limits = np.concatenate([one.largest_radii(self.alone) for one in (training, at_demands)]).min(0)
            if (limits == 0)[self.is_widest].any():
                raise self._conflict()
            limits = np.minimum(limits, cap)
            if np.isinf(limits[self.is_widest]).any():
                problem = "the largest radius needs different rows of the training data"
                raise PatchError(problem, location=("radius",), hint="give a number")
            self.alone = replace(self.alone, radii=np.where(self.is_widest, limits, self.alone.radii))
            self.fences.append(training.near(self.alone))

    def _at_demands(self, states: States, needs: Mask, sq_dist: Floats, slack: Floats) -> Fence:
        """Return the fence of the inputs with their own patches, at a distance of ∞; they keep half of their leads."""
        states, sq_dist = States(states.log_sum.copy(), states.outputs.copy()), sq_dist.copy()
        states.log_sum[needs] = np.logaddexp(states.log_sum[needs], self.alone.log_peaks)
        shares = np.exp(self.alone.log_peaks - states.log_sum[needs])[:, None]
        states.outputs[needs] += shares * (self.alone.values - states.outputs[needs])
        sq_dist[np.flatnonzero(needs), np.arange(needs.sum())] = np.inf
        if not self.is_classification:
            return Fence(sq_dist, states, states.outputs, np.broadcast_to(slack, states.outputs.shape))
        fence = Fence(sq_dist, states, np.array([one.label for one in self._all]), np.zeros((len(needs), 1)))
        is_wanted = np.array([one.kind != "keep" for one in self._all])
        return replace(fence, slack=np.where(is_wanted, np.maximum(fence.leads(), 0.0) / 2, 0.0)[:, None])

    def solved(self, merge: bool) -> tuple[Mask, PatchPrototypes]:
        """Return which demands (n,) have prototypes, few if inputs of one label share them, and the patches."""
        own = self._shared() if merge else np.ones(len(self.demands), np.bool_)
        while True:
            try:
                return own, self._patches(own)
            except PatchConflictError:
                if own.all():
                    raise
                # Half of those that were merged get a prototype of their own again.
                missing = np.flatnonzero(~own)
                own[missing[: -(-len(missing) // 2)]] = True

    def _shared(self) -> Mask:
        """Return few demands (n,) whose patches alone have all inputs for their labels within their radii."""
        if not self.is_classification:
            raise PatchError("needs classes, not a regression", location=("merge",))
        serves = (np.sqrt(self.sq_dist) <= 0.9 * self.alone.radii[:, None]) & (self.labels[:, None] == self.labels)
        np.fill_diagonal(serves, True)
        own, left = np.zeros(len(serves), np.bool_), np.ones(len(serves), np.bool_)
        while left.any():
            best = int((serves & left).sum(1).argmax())
            own[best] = True
            left &= ~serves[best]
        return own

    def _patches(self, own: Mask) -> PatchPrototypes:
        """Return the patches of `own` (n,), with radii that harm no row, and values with which all demands hold."""
        patches, is_widest = self.alone.take(own), self.is_widest[own]
        fences = [fence.take(slice(None), own) for fence in self.fences]
        while True:
            patches = replace(patches, values=self._values(patches, own))
            harmful = is_widest & np.any([fence.harmful(patches) for fence in fences], axis=0)
            if not harmful.any():
                break
            patches = replace(patches, radii=np.where(harmful, _SHRINK * patches.radii, patches.radii))
        is_kept = np.array([demand.kind == "keep" for demand in self.met], np.bool_)
        if (fences[0].broken(fences[0].patched(patches)) & is_kept).any():
            raise self._conflict()
        return patches

    def disturbed(self, patches: PatchPrototypes, own: Mask) -> Mask:
        """Return which demands (n,) that the network alone meets need patches beside those of `own`."""
        pairs = zip(self.met, self.fences[0].take(slice(None), own).patched(patches), strict=True)
        return np.array([one.kind != "keep" and not one.is_met(outputs) for one, outputs in pairs], np.bool_)

    def _values(self, patches: PatchPrototypes, own: Mask) -> Floats:
        """Return the values (patches, outputs) with which all demands hold."""
        network, shares = self.states.shares(patches.log_weights_at(self.sq_dist[:, own]))
        rest = network[:, None] * self.states.outputs
        if self.is_classification:
            values = self._nearest(rest, shares, own)
        else:
            try:
                targets = np.array([demand.target for demand in self.demands])
                values = np.asarray(np.linalg.solve(shares, targets - rest), np.float64)
            except np.linalg.LinAlgError:
                raise self._conflict() from None
        if not np.abs(values).max() <= self.largest:
            raise self._conflict()
        return values

    def _nearest(self, rest: Floats, shares: Floats, own: Mask) -> Floats:
        """Return the values from what the network alone gives to the logits (n, classes) and the patches' shares."""
        labels = self.labels[own]
        one_hot = np.eye(rest.shape[1])[labels]
        is_local = np.array([demand.kind == "local" for demand in self.demands])
        fixed = self.states.outputs[own] * is_local[own, None]
        rest, alone = rest + shares @ fixed, ((self.alone.values[own] - fixed) * one_hot).sum(1)
        scale = float(max(np.abs(rest).max(), np.abs(alone).max()))
        # η falls to 0 at most, and that of a formula stays.
        is_free = np.array([demand.is_free for demand in self.demands])
        room = np.where(is_free[own], [self.largest - alone, alone], 0.0).clip(min=0.0).ravel()
        etas, cuts, limits = alone, np.empty((0, len(alone))), np.empty(0)
        for _ in range(_ROUNDS):
            logits = rest + (shares * etas) @ one_hot
            lacks, slopes = zip(*(one.lacks(row) for one, row in zip(self.demands, logits, strict=True)), strict=True)
            failing = np.flatnonzero(is_free & (np.array(lacks) >= 0))
            if not failing.size:
                return np.asarray(fixed + etas[:, None] * one_hot)
            tangents = shares[failing] * np.stack(slopes)[failing][:, labels]
            cuts = np.concatenate([cuts, tangents])
            limits = np.append(limits, tangents @ (etas - alone) - np.array(lacks)[failing] - _BEYOND * scale)
            etas = alone + self._least_change(cuts, limits / scale, room / scale) * scale
        raise self._conflict()

    def _least_change(self, cuts: Floats, limits: Floats, room: Floats) -> Floats:
        """Return the changes x (n,) of least Σ|x| with cuts·x ≤ limits, up and down by no more than `room` (2n,)."""
        from scipy.optimize import linprog  # its import takes some tenths of a second

        bounds = np.stack([np.zeros(len(room)), room], axis=1)
        result = linprog(np.ones(len(room)), np.hstack([cuts, -cuts]), limits, bounds=bounds)
        if result.x is None:
            raise self._conflict()
        rise, fall = result.x.reshape(2, -1)
        return np.asarray(rise - fall)

    def _conflict(self) -> PatchConflictError:
        """Return the error that names the pairs of demands for different outputs, nearest first."""
        wanted = [one.label if one.target is None else np.round(one.target, 6).tolist() for one in self._all]
        keys = np.stack([demand.query for demand in self._all])
        distances = np.sqrt(squared_distances(keys, keys.astype(np.float64)))
        pairs = [(one, other) for one, other in combinations(range(len(keys)), 2) if wanted[one] != wanted[other]]
        nearest = sorted(pairs, key=lambda pair: float(distances[pair]))[:10]
        # In the order of rows and numbers: "line 9" is before "line 10".
        names = [sorted((self._all[one].name for one in pair), key=lambda name: (len(name), name)) for pair in nearest]
        conflicts = [(one, other, float(distances[pair])) for pair, (one, other) in zip(nearest, names, strict=True)]
        return PatchConflictError(conflicts, wishes="labels" if self.is_classification else "targets")


def prototypes_alone(base: ArrayNetwork, demands: Sequence[Demand], states: States) -> PatchPrototypes:
    """Return a prototype for each demand as if it were the only one, with r = NaN where it is to be found.

    Raises:
        PatchError: an exact hit of a key, or a value that is too large.
    """
    if not demands:
        return PatchPrototypes.none(base.keys.shape[1], base.values.shape[1])
    own_peak = log_peak(base)
    shapes, values = [], []
    for demand, log_sum, outputs in zip(demands, states.log_sum.tolist(), states.outputs, strict=True):
        if np.isposinf(log_sum):
            raise PatchError(f"{demand.name} is a key, which outweighs every patch with ε = 0", hint="train with ε > 0")
        peak = log_sum + np.log(OTHER_PEAK) if own_peak is None else own_peak
        radius = np.nan if demand.radius_given is None else demand.radius_given
        shape = (peak, radius, demand.steepness) if demand.kind == "local" else exact_shape(base)
        ratio = float(np.exp(min(log_sum - shape[0], 700.0)))
        value = outputs.copy() if demand.kind == "local" else np.zeros_like(outputs)
        with np.errstate(over="ignore", invalid="ignore"):
            if demand.label is None:
                target = np.array(demand.target)
                value = target + ratio * (target - outputs)
            else:
                printed = 1 + np.exp(-shape[0] * (shape[2] - 1))
                value[demand.label] += demand.eta(outputs, ratio, float(printed))
        shapes.append(shape)
        values.append(value)
    if not np.abs(values).max() < _LARGEST_VALUE:
        raise PatchError("what is wanted needs a value that is too large", hint="ask for less")
    queries = np.stack([demand.query for demand in demands])
    return PatchPrototypes(queries, np.array(values), *np.array(shapes, np.float64).T)
