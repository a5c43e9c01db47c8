"""The patches that meet a list of demands, solved as a whole; the solution does not depend on their order.

A local patch keeps what the network says at its input q but for the label c: with the lead m of the criterion,
Δ = max_{k≠c} z_k − z_c and ρ = S(q)/w₀, its value is z(q) + η e_c with η = (1 + ρ)(Δ + m). Its radius is the largest
for which no right prediction of given rows changes, see `idwbench.models.radii`. The patch of the paper has the value
η e_c with η = ρΔ + (1 + ρ)m. If the patches of different inputs disturb each other, the η with the smallest sum for
which all leads hold are a linear programme, solved by HiGHS (`scipy.optimize.linprog`). In a regression the values are
those with which each input gets its target, a system of linear equations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from idwbench.errors import PatchConflictError, PatchError
from idwbench.models.demands import Demand
from idwbench.models.neighbours import squared_distances
from idwbench.models.patches import OTHER_PEAK, Base, Floats, PatchPrototypes, States
from idwbench.models.radii import Fence, Rows, error_slack, radius_limits, shrunk_radii

__all__ = ["Solution", "exact_shape", "solve"]

Mask = NDArray[np.bool_]

# No η may exceed this many times the largest of a patch alone: beyond it two patches only cancel each other.
_LARGEST_ETA = 1e3
# Leads of the linear programme are larger by more than its tolerance.
_LP_LEAD = 1 + 1e-6
_ATTEMPTS, _ROUNDS = 20, 100
_LARGEST_VALUE = 1e100
# log ε of an exact patch where the network has ε = 0.
_LOG_SMALLEST = -460.0


@dataclass(frozen=True)
class Solution:
    """The patches of some demands.

    Attributes:
        has_prototype: (demands,), whether each has a prototype: not if the network meets it, or another patch does.
        prototypes: Those of the demands that have one, in their order.
    """

    has_prototype: Mask
    prototypes: PatchPrototypes


def solve(base: Base, demands: Sequence[Demand], rows: Rows | None = None, *, merge: bool = False) -> Solution:
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
    order = np.array(sorted(range(len(demands)), key=lambda place: demands[place].identity))
    problem = _Problem.of(base, [demands[place] for place in order], rows)
    own, patches = problem.merged() if merge else (problem.needs, problem.solved(problem.needs))
    has_prototype = np.zeros(len(demands), np.bool_)
    has_prototype[order[own]] = True
    return Solution(has_prototype, patches.take(np.argsort(order[own], kind="stable")))


@dataclass(frozen=True)
class _Problem:
    """Demands in a fixed order on one network.

    Attributes:
        demands: The demands (n,).
        states: The network at their inputs.
        labels: (n,), −1 of a regression.
        alone: A prototype for each demand, with its value if it were the only patch; r is NaN where it is to be found.
        values: (n, outputs), without η.
        leads: (n,), what each requires.
        needs: (n,), which of them the network does not meet; of equal demands the first.
        fence: What no patch may harm.
        kept: (n,), the demands that the network meets, which must stay so.
        kept_fence: The inputs of these.
        slack: Of a regression, by how much errors may grow.
    """

    demands: list[Demand]
    states: States
    labels: NDArray[np.int64]
    alone: PatchPrototypes
    values: Floats
    leads: Floats
    needs: Mask
    fence: Fence
    kept: Mask
    kept_fence: Fence
    slack: float

    @classmethod
    def of(cls, base: Base, demands: list[Demand], rows: Rows | None) -> _Problem:
        """Return the problem; raises `PatchError` if a demand cannot be met."""
        queries = np.stack([demand.query for demand in demands])
        states = base.states(queries)
        labels = np.array([-1 if demand.label is None else demand.label for demand in demands])
        shapes = [_shape(base, *pair) for pair in zip(demands, states.log_sum.tolist(), strict=True)]
        log_peaks, radii, steepness = np.array(shapes).T
        ratios = np.exp(np.minimum(states.log_sum - log_peaks, 700.0))
        with np.errstate(over="ignore", invalid="ignore"):
            required, values, etas = _values(base, demands, states.outputs, ratios)
        alone = PatchPrototypes(queries, values + etas, log_peaks, radii, steepness)
        if not np.abs(alone.values).max() < _LARGEST_VALUE:
            raise PatchError("what is wanted needs a value that is too large", hint="ask for less")
        needs = _needs(demands, states.outputs)
        if rows is None and np.isnan(radii[needs]).any():
            raise PatchError("the largest radius needs the training data", location=("radius",), hint="give a number")
        kept = ~needs & np.array(
            [demand.kind == "keep" or demand.is_met(row) for demand, row in zip(demands, states.outputs, strict=True)]
        )
        answers = Rows(queries[kept], states.outputs[kept] if labels.min() < 0 else labels[kept])
        # A row that is itself to be patched is not kept.
        slack = error_slack(rows)
        fences = Fence.of(base, rows).outside(queries[needs]), Fence.of(base, answers, slack, ties=True)
        return cls(demands, states, labels, alone, values, required, needs, fences[0], kept, fences[1], slack)

    def solved(self, own: Mask) -> PatchPrototypes:
        """Return the patches of `own`, with radii that harm no row of the fence, and values with which all hold."""
        alone = self.alone.take(own)
        if not own.any():
            return alone
        is_widest = np.isnan(alone.radii)
        patches = replace(alone, radii=self._widest(own) if is_widest.any() else alone.radii)
        for _ in range(_ROUNDS):
            patches = replace(patches, values=self._joint_values(own, patches))
            radii = shrunk_radii(patches, is_widest, self.kept_fence)
            radii = shrunk_radii(replace(patches, radii=radii), is_widest, self.fence)
            if np.array_equal(radii, patches.radii):
                break
            patches = replace(patches, radii=radii)
        else:  # the values are those of larger radii
            raise PatchConflictError(self._conflicts())
        if self.kept_fence.broken(self.kept_fence.patched(patches)).any():
            raise PatchConflictError(self._conflicts())
        return patches

    def _widest(self, own: Mask) -> Floats:
        """Return for each patch the radius with which it alone harms no row, and no input of another demand."""
        alone = self.alone.take(own)
        at_rows, at_kept, at_others = (
            radius_limits(alone, fence) for fence in (self.fence, self.kept_fence, self._others(own))
        )
        np.fill_diagonal(at_others, np.inf)
        limits = np.concatenate([at_rows, at_kept, at_others], axis=1).min(1)
        if (limits == 0).any():
            raise PatchConflictError(self._conflicts())
        widest = np.minimum(self.fence.cap(), limits)
        if np.isinf(widest[np.isnan(alone.radii)]).any():
            problem = "the largest radius needs right predictions of different rows of the training data"
            raise PatchError(problem, location=("radius",), hint="give a number")
        return np.where(np.isnan(alone.radii), widest, alone.radii)

    def _others(self, own: Mask) -> Fence:
        """Return the inputs of the patches, each with its own patch, that must keep half of their leads."""
        alone = self.alone.take(own)
        states = self.states.take(own)
        log_sums = np.logaddexp(states.log_sum, alone.log_peaks)
        shares = np.exp(alone.log_peaks - log_sums)[:, None]
        outputs = (1 - shares) * states.outputs + shares * alone.values
        targets = self.labels[own]
        if self.labels.min() < 0:
            return Fence(Rows(alone.keys, outputs), States(log_sums, outputs), np.full(len(targets), self.slack))
        return Fence(Rows(alone.keys, targets), States(log_sums, outputs), self.leads[own] / 2)

    def _joint_values(self, own: Mask, patches: PatchPrototypes) -> Floats:
        """Return the values (patches, outputs) with which all demands hold that need a patch."""
        states = self.states.take(self.needs)
        shares = states.shares(patches.log_weights(self.alone.keys[self.needs]))
        if self.labels.min() < 0:
            return self._exact_values(own, states, shares)
        values, labels = self.values[own], self.labels[own]
        etas = (self.alone.values - self.values)[own].sum(1)
        is_free = np.array([demand.is_free for demand in self.demands])
        etas_fixed = np.where(is_free[own], 0.0, etas)
        fixed = values + etas_fixed[:, None] * np.eye(values.shape[1])[labels]
        rest = shares[0][:, None] * states.outputs + shares[1] @ fixed
        constrained = is_free[self.needs]
        free = is_free[own]
        solution = _smallest_etas(
            shares[1][np.ix_(constrained, free)],
            rest[constrained],
            (self.labels[self.needs][constrained], labels[free]),
            [demand for demand, needs in zip(self.demands, self.needs, strict=True) if needs and demand.is_free],
            self.leads[self.needs][constrained],
            etas[free],
        )
        if solution is None:
            raise PatchConflictError(self._conflicts())
        etas_fixed[free] = solution
        return values + etas_fixed[:, None] * np.eye(values.shape[1])[labels]

    def _exact_values(self, own: Mask, states: States, shares: tuple[Floats, Floats]) -> Floats:
        pairs = zip(self.demands, own, strict=True)
        targets = np.stack([one.target for one, is_own in pairs if is_own and one.target is not None])
        try:
            values = np.linalg.solve(shares[1], targets - shares[0][:, None] * states.outputs)
        except np.linalg.LinAlgError:
            raise PatchConflictError(self._conflicts()) from None
        largest = np.abs(self.alone.values[own]).max() + np.abs(states.outputs).max()
        if not np.abs(values).max() <= _LARGEST_ETA * largest:
            raise PatchConflictError(self._conflicts())
        return np.asarray(values)

    def merged(self) -> tuple[Mask, PatchPrototypes]:
        """Return few demands whose prototypes serve all, and their patches.

        Of the patches alone, the one within whose radius lie the inputs of most others for its label serves them, and
        so on; demands that do not hold then get their own again.
        """
        patches = self.solved(self.needs)
        if self.labels.min() < 0:
            raise PatchError("needs classes, not a regression", location=("merge",))
        places = np.flatnonzero(self.needs)
        distances = np.sqrt(squared_distances(patches.keys, patches.keys).astype(np.float64))
        serves = (distances <= 0.9 * patches.radii[:, None]) & (self.labels[places][:, None] == self.labels[places])
        np.fill_diagonal(serves, True)
        own, left = np.zeros(len(self.needs), np.bool_), np.ones(len(places), np.bool_)
        while left.any():
            best = int((serves & left).sum(1).argmax())
            own[places[best]] = True
            left &= ~serves[best]
        while True:
            try:
                return own, self.solved(own)
            except PatchConflictError:
                # Half of those that were merged get a prototype of their own again.
                missing = np.flatnonzero(self.needs & ~own)
                own[missing[: -(-len(missing) // 2)]] = True

    def _conflicts(self) -> list[tuple[str, str, float]]:
        """Return the pairs of demands with different labels, nearest first."""
        own = self.needs | self.kept
        places = np.flatnonzero(own)
        keys, labels = self.alone.keys[own], self.labels[own]
        wanted = self.alone.values[own].round(6) if self.labels.min() < 0 else labels[:, None]
        differ = (wanted[:, None] != wanted[None]).any(-1)
        distances = np.sqrt(squared_distances(keys, keys).astype(np.float64))
        pairs = sorted(zip(*np.nonzero(np.triu(differ)), strict=True), key=lambda pair: float(distances[pair]))
        names = [self.demands[place].name for place in places]
        return [(names[one], names[other], float(distances[one, other])) for one, other in pairs[:10]]


def _needs(demands: Sequence[Demand], outputs: Floats) -> Mask:
    seen: set[tuple[object, ...]] = set()
    needs = []
    for demand, logits in zip(demands, outputs, strict=True):
        needs.append(demand.kind != "keep" and demand.identity not in seen and not demand.is_met(logits))
        seen.add(demand.identity)
    return np.array(needs)


def exact_shape(base: Base) -> tuple[float, float, float]:
    """Return log w₀, r and s of a prototype with the weight of the network's own.

    Raises:
        PatchError: the network's method is not `idw`.
    """
    if base.method.name != "idw":
        raise PatchError(f"only 'idw' models have an exact patch, this one is '{base.method.name}'")
    log_epsilon = _LOG_SMALLEST if base.log_peak is None else -base.log_peak
    power = float(base.parameters["power"])
    return -log_epsilon, float(np.exp(log_epsilon / power)), power


def _shape(base: Base, demand: Demand, log_sum: float) -> tuple[float, float, float]:
    """Return log w₀, r and s of the prototype of a demand; r is NaN where it is to be found."""
    if demand.kind == "keep":
        return 0.0, 1.0, 1.0
    if np.isposinf(log_sum):
        raise PatchError(f"{demand.name} is a key, which outweighs every patch with ε = 0", hint="train with ε > 0")
    if demand.kind != "local":
        return exact_shape(base)
    log_peak = log_sum + np.log(OTHER_PEAK) if base.log_peak is None else base.log_peak
    return log_peak, np.nan if demand.radius is None else demand.radius, demand.steepness


def _values(base: Base, demands: Sequence[Demand], outputs: Floats, ratios: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the leads (n,), and the values (n, outputs) without η, and η e_c of each patch alone."""
    printed = (
        1.0 if base.log_peak is None else 1 + float(np.exp(-base.log_peak * (float(base.parameters["power"]) - 1)))
    )
    required, values, etas = np.zeros(len(demands)), np.zeros_like(outputs), np.zeros_like(outputs)
    for place, (demand, logits, ratio) in enumerate(zip(demands, outputs, ratios.tolist(), strict=True)):
        if demand.kind == "keep":
            continue
        if demand.label is None:
            assert demand.target is not None
            values[place] = demand.target + ratio * (demand.target - logits)
            continue
        required[place] = demand.lead(logits, ratio) if demand.is_free else 0.0
        etas[place, demand.label] = demand.eta(logits, ratio, printed)
        values[place] = logits if demand.kind == "local" else 0.0
    return required, values, etas


def _smallest_etas(
    shares: Floats,
    rest: Floats,
    labels: tuple[NDArray[np.int64], NDArray[np.int64]],
    demands: Sequence[Demand],
    required: Floats,
    alone: Floats,
) -> Floats | None:
    """Return the η (patches,) with the smallest sum that meet the demands, those of the patches alone if these do.

    Args:
        shares: (demands, patches), the share of each patch in the weight at each input.
        rest: (demands, classes), the logits with η = 0.
        labels: Those of the demands, and those of the patches.
        demands: What each requires.
        required: (demands,), the leads.
        alone: (patches,), η of each patch if it were the only one.
    """
    classes = np.eye(rest.shape[1])
    targets = classes[labels[1]]
    etas, raised = alone, np.zeros(len(required))
    for attempt in range(_ATTEMPTS):
        logits = rest + shares @ (etas[:, None] * targets)
        missing = np.array([demand.missing(one) for demand, one in zip(demands, logits, strict=True)])
        if (missing <= 0).all():
            return etas
        if attempt:  # a confidence is not linear: its lead is raised by what it lacks
            raised = np.where(missing > 0, 2 * (raised + missing), raised)
        if not etas.size:
            return None
        solution = _linear_programme(shares, rest, labels, required * _LP_LEAD + raised, alone)
        if solution is None:
            return None
        etas = solution
    return None


def _linear_programme(
    shares: Floats,
    rest: Floats,
    labels: tuple[NDArray[np.int64], NDArray[np.int64]],
    required: Floats,
    units: Floats,
) -> Floats | None:
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    n_classes = rest.shape[1]
    signs = np.eye(n_classes)[labels[1]].T  # (classes, patches)
    differences = signs[labels[0]][:, None, :] - signs[None]
    others = np.arange(n_classes) != labels[0][:, None]
    matrix = (shares[:, None, :] * differences)[others] * units
    lacking = (required[:, None] - (rest[np.arange(len(rest)), labels[0]][:, None] - rest))[others]
    # The tolerances of the solver are absolute, and the terms of different rows differ by any factor.
    largest = np.maximum(np.abs(matrix).max(1, initial=0.0), np.abs(lacking))
    largest[largest == 0] = 1.0
    bounds = np.stack([np.zeros(len(units)), _LARGEST_ETA * units.max() / units], axis=1)
    for tolerance in (1e-10, 1e-7):
        options = {"primal_feasibility_tolerance": tolerance, "dual_feasibility_tolerance": tolerance}
        solution = linprog(
            units / units.max(),
            A_ub=csr_array(-matrix / largest[:, None]),
            b_ub=-lacking / largest,
            bounds=bounds,
            method="highs",
            options=options,
        )
        if solution.status in (0, 2):  # optimal or infeasible
            break
    return np.asarray(solution.x * units, np.float64) if solution.status == 0 else None
