"""Patches of `idw` models that are solved together, so that all hold at once.

With prototypes for the queries q_m, values z(q_m) [keep logits] + η_m e_{c_m} and normalised weights a, the logits at
q_i are linear in the η:

    z'_k(q_i) = Σ_j a_ij v_jk + Σ_m a_im (z_k(q_m) [keep logits] + η_m [k = c_m]).

So the smallest Σ η with z'_{c_i}(q_i) − z'_k(q_i) ≥ lead_i for all i and k ≠ c_i is a linear programme, solved by HiGHS
(`scipy.optimize.linprog`). Inputs that get their label already are constraints without a prototype, unless the others
break them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from idwbench.attention.distances import squared_distances
from idwbench.attention.forward import attention_weights
from idwbench.attention.scores import HIT_SQ_DIST, idw
from idwbench.errors import PatchConflictError
from idwbench.models.criteria import Criterion, Requirement, log_sum_exp, other_logits, required_lead
from idwbench.models.demands import Demand, Start, later_requirement, start_of
from idwbench.models.linear_programme import smallest_etas, unmet_rows
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.patch_checks import missing_leads
from idwbench.models.patching import Patch, apply_patches, check_query, rounded_eta

__all__ = ["CONFLICT_DISTANCE", "make_patches", "solve_together"]

# Pairs with different labels conflict if they are nearer than this many ε^(1/p).
CONFLICT_DISTANCE = 3.0
ATTEMPTS = 10


_Mask = NDArray[np.bool_]
# Weights of the new prototypes (n, own), and logits with η = 0 (n, classes).
_LinearLogits = tuple[NDArray[np.float64], NDArray[np.float64]]
_Programme = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


def make_patches(
    network: PrototypeNetwork,
    queries: NDArray[np.float32],
    labels: NDArray[np.int64],
    criterion: Criterion | None = None,
    *,
    keep_logits: bool = False,
) -> list[Patch]:
    """Return the patches with the smallest Σ η after which all `queries` (n, features) get their `labels` (n,).

    They hold together: apply all of them. An input that meets the criterion already gets no patch unless the other
    patches break it; repeated inputs with the same label count once. The leads are those of `make_patch`. For a
    confidence P(c) ≥ P the linear condition is z_c − z_k ≥ log(P / (1 − P)) + s for all k ≠ c, with s the difference of
    logsumexp and maximum of the other logits before the patches; it is raised if that is too little, and with
    s = log(classes − 1) it is sufficient for any logits.

    Raises:
        PatchConflictError: no η make all hold; it names pairs with different labels nearer than 3 ε^(1/p).
        PatchError: not an `idw` model, an invalid query or label, or a criterion that float32 cannot meet.
    """
    criterion = criterion or Criterion()
    demands = [
        Demand(query, int(label), criterion, keep_logits, f"input {row}")
        for row, (query, label) in enumerate(zip(queries, labels, strict=True))
    ]
    return [patch for patch in solve_together(network, demands) if patch is not None]


def solve_together(network: PrototypeNetwork, demands: Sequence[Demand]) -> list[Patch | None]:
    """Return a patch for each demand, or None where no prototype is needed; see `make_patches`.

    Of equal demands (same query, label and criterion) that are not patched in any case the first has the patch.
    """
    for demand in demands:
        check_query(network, demand.query, demand.label)
    places = _without_repetitions(demands)
    unique = [demands[place] for place in places]
    patches: list[Patch | None] = [None] * len(demands)
    for place, patch in zip(places, _Solver(network, unique).solve(), strict=True):
        patches[place] = patch
    return patches


def _without_repetitions(demands: Sequence[Demand]) -> list[int]:
    seen: set[tuple[object, ...]] = set()
    places = []
    for place, demand in enumerate(demands):
        identity = (demand.query.tobytes(), demand.label, demand.criterion, demand.keep_logits)
        if demand.patched or identity not in seen:
            places.append(place)
            seen.add(identity)
    return places


class _Solver:
    """The demands on one network, with leads that are raised until float32 meets the criteria."""

    def __init__(self, network: PrototypeNetwork, demands: Sequence[Demand]) -> None:
        self.network, self.demands = network, list(demands)
        self.queries = np.stack([demand.query for demand in demands])
        self.labels = np.array([demand.label for demand in demands])
        answered = network.predict(self.queries)
        self.starts = [start_of(network, demand, int(label)) for demand, label in zip(demands, answered, strict=True)]
        # The values of new prototypes without η.
        self.kept = np.stack([start.logits * demand.keep_logits for start, demand in self._pairs()])
        self.factors = np.ones(len(demands))  # of relative margins
        self.additions = np.zeros(len(demands))  # to other leads

    def solve(self) -> list[Patch | None]:
        """Return the patches; the prototypes are first those that are needed, then also those of broken inputs."""
        own = np.array([demand.patched or not start.is_met for start, demand in self._pairs()])
        while own.any():
            patches = self._solve_with(own)
            if patches is not None:
                return patches
            broken = self._broken(own)
            if not broken.any():
                raise PatchConflictError(self._conflicts(own))
            own |= broken
        return [None] * len(own)

    def _pairs(self) -> list[tuple[Start, Demand]]:
        return list(zip(self.starts, self.demands, strict=True))

    def _solve_with(self, own: _Mask) -> list[Patch | None] | None:
        """Return patches with prototypes for `own` after which all demands are met in float32, or None."""
        self.factors[:], self.additions[:] = 1, 0
        for _ in range(ATTEMPTS):
            logits = self._linear_logits(own)
            etas = self._etas(logits, own, np.ones_like(own))
            if etas is None:
                return None
            patches = self._patches(own, etas, logits)
            made = [patch for patch in patches if patch is not None]
            missing = missing_leads(apply_patches(self.network, made), self._required(patches))
            if not missing.any():
                return patches
            self._raise_leads(missing)
        return None

    def _broken(self, own: _Mask) -> _Mask:
        """Return the demands without a prototype that the patches of `own` break."""
        logits = self._linear_logits(own)
        etas = self._etas(logits, own, own)
        if etas is None:
            return ~own
        leads = _leads(self._with_etas(logits, own, etas), self.labels)
        required = np.array([start.lead for start in self.starts])
        return np.asarray(~own & (leads.min(axis=1) < required))

    @torch.no_grad()
    def _linear_logits(self, own: _Mask) -> _LinearLogits:
        """Return the weights of the new prototypes (n, own) and the logits with η = 0 (n, classes), in float64."""
        keys, values = (tensor.detach().cpu().double() for tensor in (self.network.keys, self.network.values))
        queries = torch.from_numpy(self.queries).double()
        parameters = {name: float(self.network.parameters_of_method[name]) for name in ("power", "epsilon")}
        scores = idw(queries, torch.cat([keys, queries[torch.from_numpy(own)]]), **parameters)
        weights = attention_weights(self.network.method, scores).numpy()
        old, new = weights[:, : len(keys)], weights[:, len(keys) :]
        return new, old @ values.numpy() + new @ self.kept[own]

    def _etas(self, logits: _LinearLogits, own: _Mask, constrained: _Mask) -> NDArray[np.float64] | None:
        """Return the smallest η (own,) that meet the constrained demands, or None."""
        return smallest_etas(*self._programme(logits, own, constrained))

    def _programme(self, logits: _LinearLogits, own: _Mask, constrained: _Mask) -> _Programme:
        """Return coefficients and bounds of the constraints, classes − 1 for each demand, and the units of η."""
        weights, rest = logits
        targets = np.eye(rest.shape[1])[self.labels[own]]
        # (n, classes, own): the weight counts for the label, and against every other class that is its target.
        signs = targets.T[self.labels][:, None, :] - targets.T[None]
        rows = (np.arange(rest.shape[1]) != self.labels[:, None]) & constrained[:, None]
        leads = np.array([start.lead for start in self.starts]) * self.factors + self.additions
        required = leads[:, None] - _leads(rest, self.labels, fill=0.0)
        units = np.array([start.eta for start in self.starts])[own]
        return (weights[:, None, :] * signs)[rows], required[rows], units

    def _with_etas(self, logits: _LinearLogits, own: _Mask, etas: NDArray[np.float64]) -> NDArray[np.float64]:
        weights, rest = logits
        return np.asarray(rest + weights @ (np.eye(rest.shape[1])[self.labels[own]] * etas[:, None]))

    def _patches(self, own: _Mask, etas: NDArray[np.float64], logits: _LinearLogits) -> list[Patch | None]:
        places = np.flatnonzero(own)
        rounded = [rounded_eta(eta, self.demands[place].criterion) for place, eta in zip(places, etas, strict=True)]
        after = self._with_etas(logits, own, np.array(rounded))
        patches: list[Patch | None] = [None] * len(own)
        for place, eta in zip(places, rounded, strict=True):
            patches[place] = self._patch(int(place), eta, after[place])
        return patches

    def _patch(self, place: int, eta: float, logits: NDArray[np.float64]) -> Patch:
        start, demand = self.starts[place], self.demands[place]
        criterion = demand.criterion
        is_relative = criterion.kind == "margin"
        return Patch(
            key=demand.query,
            label=demand.label,
            criterion=criterion,
            lead=start.lead if is_relative else required_lead(criterion),
            eta=eta,
            label_before=start.answered,
            criterion_used=replace(criterion, amount=criterion.amount * float(self.factors[place]))
            if is_relative
            else criterion,
            confidence=math.exp(float(logits[demand.label]) - log_sum_exp(logits)),
            logit_margin=float(logits[demand.label] - other_logits(logits, demand.label).max()),
            logits=start.logits.astype(np.float32) if demand.keep_logits else None,
        )

    def _required(self, patches: Sequence[Patch | None]) -> list[Requirement]:
        pairs = zip(patches, self.demands, strict=True)
        return [patch or later_requirement(one.query, one.label, one.criterion) for patch, one in pairs]

    def _raise_leads(self, missing: NDArray[np.float64]) -> None:
        relative = np.array([demand.criterion.kind == "margin" for demand in self.demands])
        self.factors[(missing > 0) & relative] *= 10
        self.additions[~relative] = 2 * self.additions[~relative] + 2 * missing[~relative]

    def _conflicts(self, own: _Mask) -> list[tuple[str, str, float]]:
        """Return the pairs with different labels that are near each other and of which one fails, nearest first."""
        unmet = unmet_rows(*self._programme(self._linear_logits(own), own, np.ones_like(own)))
        fails: _Mask = np.asarray(unmet.reshape(len(own), -1).any(axis=1))
        power, epsilon = (float(self.network.parameters_of_method[name]) for name in ("power", "epsilon"))
        limit = max(CONFLICT_DISTANCE * epsilon ** (1 / power), math.sqrt(HIT_SQ_DIST))
        queries = torch.from_numpy(self.queries).double()
        distances = squared_distances(queries, queries).sqrt().numpy()
        near = (distances < limit) & (self.labels[:, None] != self.labels) & (fails[:, None] | fails)
        pairs = sorted(zip(*np.nonzero(np.triu(near)), strict=True), key=lambda pair: float(distances[pair]))
        names = [demand.name for demand in self.demands]
        return [(names[one], names[other], float(distances[one, other])) for one, other in pairs]


def _leads(logits: NDArray[np.float64], labels: NDArray[np.int64], fill: float = math.inf) -> NDArray[np.float64]:
    """Return z_c − z_k (n, classes) for the labels c, and `fill` for k = c."""
    rows = np.arange(len(labels))
    leads = logits[rows, labels][:, None] - logits
    leads[rows, labels] = fill
    return leads
