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

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from idwbench.errors import PatchConflictError, PatchError
from idwbench.models.array_weights import ArrayNetwork, States
from idwbench.models.certificates import certified_radius, reach
from idwbench.models.demands import FORMULAS, Demand, Repairs
from idwbench.models.neighbours import squared_distances
from idwbench.models.patches import OTHER_PEAK, Floats, PatchPrototypes, exact_shape, log_peak
from idwbench.models.radii import Fence, Mask, Rows, error_slack, largest_cap

__all__ = ["prototypes_alone", "solve", "solved_repairs"]

# No value may exceed this many times the largest of a patch alone: beyond it two patches only cancel each other.
_LARGEST_GROWTH, _LARGEST_VALUE = 1e3, 1e100
# A tangent asks for this part of the largest number more, and the radii of patches that do harm shrink by 2 %.
_BEYOND, _SHRINK = 1e-6, 0.98
# Linear programs of a list; some twenty are enough for sixty demands that hardly hold together.
_ROUNDS = 100


def solved_repairs(
    base: ArrayNetwork, demands: Sequence[Demand], rows: Rows | None = None, *, merge: bool = False
) -> Repairs:
    """Return the repairs that meet all demands, with their certificates; none if the network meets them all.

    Without rows, whose range is that of the data, there is no reach. Raises as `solve`.
    """
    repairs = solve(base, demands, rows, merge=merge)
    patches = repairs.prototypes(base.keys.shape[1], base.values.shape[1])
    if not len(patches):
        return Repairs()
    places, records = iter(range(len(patches))), []
    for record, outputs in zip(repairs.records, base.states(repairs.inputs).outputs, strict=True):
        certain: dict[str, float | None] = {}
        if record.has_prototype and rows is not None:
            farthest = float(np.linalg.norm(np.abs(record.query - rows.box).max(0)))
            certain["reach"] = reach(base, patches, next(places), farthest)
        if record.label is not None:
            certain["label_before"] = int(outputs.argmax())
            certain["certified_radius"] = certified_radius(base, patches, record.query, record.label)
        records.append(record.model_copy(update=certain))
    return Repairs(tuple(records))


def solve(base: ArrayNetwork, demands: Sequence[Demand], rows: Rows | None = None, *, merge: bool = False) -> Repairs:
    """Return the demands with the patches that meet them all; none for one that the network or another patch meets.

    Args:
        base: The network.
        demands: What it must give.
        rows: Rows whose right predictions must stay; needed for radii that are not given.
        merge: Whether demands for one label share a prototype where all still hold.

    Raises:
        PatchConflictError: they cannot hold together.
        PatchError: a demand that this network cannot meet, or no rows for a radius.
    """
    first = {one.identity: place for place, one in reversed(list(enumerate(demands)))}  # equal ones are one
    order = np.array([first[identity] for identity in sorted(first)], np.int64)
    ordered, solved = [demands[place] for place in order], list(demands)
    states = base.states(np.array([one.query for one in ordered]).reshape(-1, base.keys.shape[1]))
    needs = _unmet(ordered, states.outputs)
    while needs.any():
        problem = _Problem(base, ordered, states, needs, rows)
        own, patches = problem.solved(merge)
        at_met = problem.fences[0].take(slice(None), own)
        if (disturbed := _unmet(problem.met, at_met.patched(patches))).any():
            needs[~needs] = disturbed
            continue
        shapes = np.stack([patches.log_peaks, patches.radii, patches.steepness], axis=1).tolist()
        for place, value, shape in zip(order[needs][own], patches.values, shapes, strict=True):
            found = dict(zip(("log_peak", "radius", "steepness"), shape, strict=True))
            solved[place] = solved[place].model_copy(update={**found, "value": value})
        break
    return Repairs(tuple(solved))


def _unmet(demands: Iterable[Demand], outputs: Floats) -> Mask:
    """Return which demands (n,) outputs (n, outputs) do not meet; what must only stay is none of them."""
    pairs = zip(demands, outputs, strict=True)
    return np.array([one.kind != "keep" and not one.is_met(row) for one, row in pairs], np.bool_)


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
        queries = np.stack([one.query for one in demands])
        sq_dist = squared_distances(queries, self.alone.keys.astype(np.float64))
        self.sq_dist = sq_dist[needs]
        at_demands = self._at_demands(states, needs, sq_dist, rows)
        self.fences = [at_demands.take(~needs)]  # first of the demands that are met, then of the training
        if not self.is_widest.any():
            return
        if rows is None:
            raise PatchError("the largest radius needs the training data", location=("radius",), hint="give a number")
        training, cap = Fence.right(rows, self.alone.keys), largest_cap(rows.inputs)
        # The weights of `idw` are powers of the distance themselves.
        is_free = np.array([one.steepness_is_chosen and base.method.name != "idw" for one in self.demands])
        least = np.where(self.is_widest & is_free, training.least_steepness(self.alone, cap), 0.0)
        self.alone = replace(self.alone, steepness=np.maximum(self.alone.steepness, least))
        limits = np.minimum(training.largest_radii(self.alone), at_demands.largest_radii(self.alone))
        limits = np.where(self.is_widest, np.minimum(limits, cap), self.alone.radii)
        if not limits.all():
            raise self._conflict()
        if np.isinf(limits).any():
            problem = "the largest radius needs different rows of the training data"
            raise PatchError(problem, location=("radius",), hint="give a number")
        self.alone = replace(self.alone, radii=limits)
        self.fences.append(training.near(self.alone))

    def _at_demands(self, states: States, needs: Mask, sq_dist: Floats, rows: Rows | None) -> Fence:
        """Return the fence of the inputs with their own patches, at a distance of ∞; they keep half of their leads."""
        log_sum, outputs, sq_dist = states.log_sum.copy(), states.outputs.copy(), sq_dist.copy()
        log_sum[needs] = np.logaddexp(log_sum[needs], self.alone.log_peaks)
        shares = np.exp(self.alone.log_peaks - log_sum[needs])[:, None]
        outputs[needs] += shares * (self.alone.values - outputs[needs])
        sq_dist[np.flatnonzero(needs), np.arange(needs.sum())] = np.inf
        if not self.is_classification:
            slack = error_slack(outputs[:0] if rows is None else rows.targets)
            return Fence(sq_dist, States(log_sum, outputs), outputs, np.broadcast_to(slack, outputs.shape))
        labels, is_wanted = np.array([(one.label, one.kind != "keep") for one in self._all]).T
        fence = Fence(sq_dist, States(log_sum, outputs), labels, np.zeros((len(needs), 1)))
        leads = np.maximum(fence.leads(outputs).min(1), 0.0)
        return replace(fence, slack=np.where(is_wanted, leads / 2, 0.0)[:, None])

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
        patches, fences = self.alone.take(own), [fence.take(slice(None), own) for fence in self.fences]
        while True:
            patches = replace(patches, values=self._values(patches, own))
            harmful = self.is_widest[own] & np.any([fence.harmful(patches) for fence in fences], axis=0)
            if not harmful.any():
                break
            patches = replace(patches, radii=np.where(harmful, _SHRINK * patches.radii, patches.radii))
        is_kept = np.array([demand.kind == "keep" for demand in self.met], np.bool_)
        kept = fences[0].take(is_kept)
        if (kept.leads(kept.patched(patches)) <= 0).any():
            raise self._conflict()
        return patches

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
        labels, values = self.labels[own], self.alone.values[own]
        one_hot = np.eye(rest.shape[1])[labels]
        is_local, is_free = np.array([(one.kind == "local", one.kind not in FORMULAS) for one in self.demands]).T
        etas = ((values - is_local[own, None] * self.states.outputs[own]) * one_hot).sum(1)
        logits = rest + shares @ values
        scale = float(max(np.abs(logits - (shares * etas) @ one_hot).max(), np.abs(etas).max()))
        # η falls to 0 at most, and that of a formula stays.
        room = np.where(is_free[own], [self.largest - etas, etas], 0.0).clip(min=0.0).reshape(-1, 1) / scale
        changes, cuts, limits = np.zeros(len(etas)), np.empty((0, len(etas))), np.empty(0)
        for _ in range(_ROUNDS):
            after = logits + (shares * changes) @ one_hot
            pairs = (one.lacks(row) for one, row in zip(self.demands, after, strict=True))
            lacks, slopes = (np.array(part) for part in zip(*pairs, strict=True))
            failing = np.flatnonzero(is_free & (lacks >= 0))
            if not failing.size:
                return np.asarray(values + changes[:, None] * one_hot)
            tangents = shares[failing] * slopes[failing][:, labels]
            cuts = np.concatenate([cuts, tangents])
            limits = np.append(limits, tangents @ changes - lacks[failing] - _BEYOND * scale)
            from scipy.optimize import linprog  # its import takes some tenths of a second

            # The changes up and down, of the least sum.
            bounds = np.hstack([np.zeros_like(room), room])
            result = linprog(np.ones(len(room)), np.hstack([cuts, -cuts]), limits / scale, bounds=bounds)
            if result.x is None:
                break
            changes = scale * (result.x[: len(etas)] - result.x[len(etas) :])
        raise self._conflict()

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
    own_peak, parts = log_peak(base), []
    for demand, log_sum, outputs in zip(demands, states.log_sum.tolist(), states.outputs, strict=True):
        if np.isposinf(log_sum):
            raise PatchError(f"{demand.name} is a key, which outweighs every patch with ε = 0", hint="train with ε > 0")
        if demand.kind == "local":
            peak = log_sum + np.log(OTHER_PEAK) if own_peak is None else own_peak
            shape = (peak, np.nan if demand.radius_given is None else demand.radius_given, demand.steepness)
        else:
            shape = exact_shape(base)
        with np.errstate(over="ignore", invalid="ignore"):
            value = demand.value_alone(outputs, log_sum, shape[0], shape[2])
        if not np.abs(value).max() < _LARGEST_VALUE:
            raise PatchError("what is wanted needs a value that is too large", hint="ask for less")
        parts.append((demand.query, value, *shape))
    return PatchPrototypes.of(parts, base.keys.shape[1], base.values.shape[1])
