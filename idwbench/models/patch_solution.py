"""The patches that meet a list of demands, solved as a whole; the solution does not depend on their order.

Each demand is met by outputs at its input q (`Demand.value_alone`): in a regression its target, in a classification
outputs in which the label c leads. With z(q), the sum S(q) of weights and ρ = S(q)/w₀, a local patch keeps what the
network says at q but for c: its value is z(q) + η e_c with η = (1 + ρ)(Δ + m), Δ = max_{k≠c} z_k − z_c and the lead m.
Its radius is the largest for which no right prediction of given rows changes, and for which it takes no more than half
of what other demands have, see `idwbench.models.radii`; radii shrink while patches at once pull too much. The patch of
the paper has the value η e_c with η = ρΔ + (1 + ρ)m. If patches disturb each other, the η grow, by
the least sum with which all demands hold (a linear program); in a regression the values solve a linear system.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from idwbench.errors import PatchConflictError, PatchError
from idwbench.models.array_weights import ArrayNetwork, States
from idwbench.models.certificates import certified_radius, reach
from idwbench.models.demands import FORMULAS, STEEPNESS, Demand, Repairs
from idwbench.models.neighbours import squared_distances
from idwbench.models.patches import OTHER_PEAK, Floats, PatchPrototypes, exact_shape, log_peak
from idwbench.models.radii import Fence, Mask, Rows, errors

__all__ = ["prototypes_alone", "solve", "solved_repairs"]

# No value may exceed this many times the largest of a patch alone: beyond it two patches only cancel each other.
_LARGEST_GROWTH, _LARGEST_VALUE = 1e3, 1e100
# Leads of a linear program are larger by this part of the largest output, which its rounding takes away.
_BEYOND = 1e-6
# The radius of a patch that does harm shrinks by 2 %.
_SHRINK = 0.98
# Inputs of one label share a patch if they lie within this part of its radius.
_WITHIN = 0.9


def solved_repairs(
    base: ArrayNetwork, demands: Sequence[Demand], rows: Rows | None = None, *, merge: bool = False
) -> Repairs:
    """Return the repairs that meet all demands, with their certificates; none if the network meets them all.

    Without rows, whose range is that of the data, there is no reach. Raises as `solve`.
    """
    repairs = solve(base, demands, rows, merge=merge)
    patches = repairs.prototypes(base)
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
    problem = _Problem(base, [demands[place] for place in order], rows)
    own, solved = problem.unmet(problem.states.outputs), list(demands)
    if not own.any():
        return Repairs(tuple(demands))
    if merge:
        own[own] = problem.covering(own)
    while True:
        patches = problem.patches(own)
        after = problem.states.patched(patches.log_weights(problem.queries), patches.values)
        disturbed = problem.unmet(after) & ~own
        if not disturbed.any():
            break
        own |= disturbed
    shapes = np.stack([patches.log_peaks, patches.radii, patches.steepness], axis=1).tolist()
    for place, value, shape in zip(order[own], patches.values, shapes, strict=True):
        solved[place] = solved[place].with_prototype(value, *shape)
    return Repairs(tuple(solved))


class _Problem:
    """Different demands, with the network at their inputs; `own` (demands,) have a patch. Raises as `solve`."""

    def __init__(self, base: ArrayNetwork, demands: Sequence[Demand], rows: Rows | None) -> None:
        self._base, self._demands = base, demands
        self.queries = np.array([one.query for one in demands], np.float32).reshape(-1, base.keys.shape[1])
        self.states = base.states(self.queries)
        self._targets = np.array([one.target if one.label is None else one.label for one in demands])
        self._rows = Rows(base, self.queries[:0], self._targets[:0]) if rows is None else rows

    def _of(self, own: Mask) -> list[Demand]:
        return [one for one, is_own in zip(self._demands, own, strict=True) if is_own]

    def unmet(self, outputs: Floats) -> Mask:
        """Return which demands (n,) outputs (n, outputs) do not meet; one that must only stay is a conflict then."""
        grown = errors(outputs, self._targets) - errors(self.states.outputs, self._targets)
        is_kept = np.array([one.kind == "keep" for one in self._demands], np.bool_)
        if (grown[is_kept] > self._rows.slack).any():
            raise self._conflict()
        is_met = [one.is_met(row) for one, row in zip(self._demands, outputs, strict=True)]
        return ~(is_kept | np.array(is_met, np.bool_))

    def covering(self, own: Mask) -> Mask:
        """Return few of `own`, whose patches alone have all inputs for their labels within their radii."""
        if self._targets.ndim == 2:
            raise PatchError("needs classes, not a regression", location=("merge",))
        patches, labels = self._alone(own)[0], self._targets[own]
        distances = np.sqrt(squared_distances(patches.keys, patches.keys.astype(np.float64)))
        serves = (distances <= _WITHIN * patches.radii) & (labels[:, None] == labels)
        chosen = np.zeros(len(labels), np.bool_)
        for place in np.argsort(-serves.sum(0), kind="stable"):
            chosen[place] = not serves[place, chosen].any()
        return chosen

    def patches(self, own: Mask) -> PatchPrototypes:
        """Return the patches, with radii that harm no row, and values with which their demands hold."""
        alone, fences = self._alone(own)
        patches, is_widest = alone, np.array([one.is_widest for one in self._of(own)])
        while True:
            patches = replace(patches, values=self._values(alone, patches, own))
            is_harmful = np.any([fence.harmful(patches, is_widest) for fence in fences], axis=0)
            if not is_harmful.any():
                return patches
            patches = replace(patches, radii=np.where(is_harmful, _SHRINK * patches.radii, patches.radii))

    def _alone(self, own: Mask) -> tuple[PatchPrototypes, list[Fence]]:
        """Return the patches as if each were the only one, and what those whose radius is sought must not harm."""
        demands = self._of(own)
        alone = prototypes_alone(self._base, demands, self.states.take(own))
        is_widest = np.array([one.is_widest for one in demands])
        if not is_widest.any():
            return alone, []
        if np.isinf(self._rows.cap):
            raise PatchError("the largest radius needs the training data", location=("radius",), hint="give a number")
        # Of what a demand has with its own patch alone, the others may take the half.
        answers, sq_dist = self._answers(alone, own), squared_distances(self.queries, alone.keys.astype(np.float64))
        sq_dist[np.flatnonzero(own), np.arange(len(alone))] = np.inf
        halved = States(answers.log_sum - np.log(2), answers.outputs)
        fences = [self._rows.fence(alone.keys), Fence(sq_dist, halved, self._targets, self._rows.slack).right]
        # The weights of `idw` are powers of the distance themselves.
        is_free = np.array([one.steepness_given is None and self._base.method.name != "idw" for one in demands])
        widest = fences[0].widest(alone, self._rows.cap, is_widest & is_free)
        radii = np.minimum(widest.radii, fences[1].widest(widest, self._rows.cap).radii)
        radii = np.where(is_widest, radii, alone.radii)
        if not radii.all():
            raise self._conflict()
        return replace(widest, radii=radii), fences

    def _values(self, alone: PatchPrototypes, patches: PatchPrototypes, own: Mask) -> Floats:
        """Return the values (patches, outputs) with which all demands hold: those alone, if need be with larger η."""
        states, targets = self.states.take(own), self._targets[own]
        network, shares = states.shares(patches.log_weights(patches.keys))
        rest, limit = network[:, None] * states.outputs, np.abs(alone.values).max() + np.abs(states.outputs).max()
        try:
            if targets.ndim == 1:
                values = self._raised(alone, own, shares, rest + shares @ alone.values, _LARGEST_GROWTH * limit)
            else:
                values = np.asarray(np.linalg.solve(shares, targets - rest), np.float64)
        except np.linalg.LinAlgError:
            raise self._conflict() from None
        if not np.abs(values).max() <= _LARGEST_GROWTH * limit:
            raise self._conflict()
        return values

    def _raised(self, alone: PatchPrototypes, own: Mask, shares: Floats, outputs: Floats, largest: float) -> Floats:
        """Return the values alone, which give `outputs` (n, outputs), with the η raised least so that all demands hold.

        Where one fails, its leads become those with its own patch alone; the others keep theirs, or these.
        """
        demands, one_hot = self._of(own), np.eye(outputs.shape[1])[self._targets[own]]
        is_free = np.array([one.kind not in FORMULAS for one in demands])
        fails = is_free & [one.lacks(row) > 0 for one, row in zip(demands, outputs, strict=True)]
        if not fails.any():
            return alone.values
        both = outputs, self._answers(alone, own).outputs[own]
        leads, wanted = ((one * one_hot).sum(1, keepdims=True) - one for one in both)
        # A margin is all that its demand asks for.
        margins = np.array([[one.margin or np.inf] for one in demands])
        wanted, scale = np.minimum(wanted, margins), np.abs(outputs).max()
        spare = leads - np.where(fails[:, None], wanted + _BEYOND * scale, np.minimum(leads, wanted))
        # What each η gives to the lead of each label over each other class.
        gains = shares[:, None] * ((one_hot @ one_hot.T)[:, None] - one_hot.T)
        asked, most = is_free[:, None] & (one_hot == 0), np.where(is_free, largest, 0.0) / scale
        from scipy.optimize import linprog  # its import takes some tenths of a second

        bounds = np.stack([np.zeros(len(most)), most], axis=1)
        result = linprog(np.ones(len(most)), -gains[asked], spare[asked] / scale, bounds=bounds)
        if result.x is None:
            raise self._conflict()
        return np.asarray(alone.values + scale * result.x[:, None] * one_hot)

    def _answers(self, alone: PatchPrototypes, own: Mask) -> States:
        """Return the network at the inputs, each with its own patch alone."""
        log_sum, outputs = self.states.log_sum.copy(), self.states.outputs.copy()
        log_sum[own] = np.logaddexp(log_sum[own], alone.log_peaks)
        outputs[own] += np.exp(alone.log_peaks - log_sum[own])[:, None] * (alone.values - outputs[own])
        return States(log_sum, outputs)

    def _conflict(self) -> PatchConflictError:
        """Return the error that names the pairs of demands for different outputs, nearest first."""
        wanted, names = np.round(self._targets, 6).tolist(), [one.name for one in self._demands]
        distances = np.sqrt(squared_distances(self.queries, self.queries.astype(np.float64)))
        pairs = [(one, other) for one, other in combinations(range(len(wanted)), 2) if wanted[one] != wanted[other]]
        conflicts = []
        for pair in sorted(pairs, key=lambda pair: float(distances[pair]))[:10]:
            # In the order of rows and numbers: "line 9" is before "line 10".
            one, other = sorted((names[place] for place in pair), key=lambda name: (len(name), name))
            conflicts.append((one, other, float(distances[pair])))
        return PatchConflictError(conflicts, wishes="labels" if self._targets.ndim == 1 else "targets")


def prototypes_alone(base: ArrayNetwork, demands: Sequence[Demand], states: States) -> PatchPrototypes:
    """Return a prototype for each demand as if it were the only one, with r = NaN where it is to be found.

    Raises:
        PatchError: an exact hit of a key, or a value that is too large.
    """
    alone = []
    for demand, log_sum, outputs in zip(demands, states.log_sum.tolist(), states.outputs, strict=True):
        if np.isposinf(log_sum):
            raise PatchError(f"{demand.name} is a key, which outweighs every patch with ε = 0", hint="train with ε > 0")
        if demand.kind == "local":
            peak = log_peak(base, log_sum + np.log(OTHER_PEAK))
            shape = (peak, demand.radius_given or np.nan, demand.steepness_given or STEEPNESS)
        else:
            shape = exact_shape(base)
        with np.errstate(over="ignore", invalid="ignore"):
            value = demand.value_alone(outputs, log_sum, shape[0], shape[2])
        if not np.abs(value).max() < _LARGEST_VALUE:
            raise PatchError("what is wanted needs a value that is too large", hint="ask for less")
        alone.append(demand.with_prototype(value, *shape))
    return Repairs(tuple(alone)).prototypes(base)
