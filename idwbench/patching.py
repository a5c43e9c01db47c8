"""Repair one answer of an `idw` model by adding one prototype, and say what else that changes.

At a query q, prototype j weighs w_j = 1/(ε + d_j^p). With S = Σ w_j, logits z, the wanted class c and
Δ = max_{k≠c} z_k − z_c, a new key k' = q weighs w' = 1/ε there. With r = S/w' = ε·S and the new value η e_c,

    z'_k = (r z_k + η [k = c]) / (1 + r),

so η = rΔ ties, η = rΔ + m(1 + r) wins by a logit margin m, and any confidence has an η in closed form. With ε = 0 and
h keys that equal q already, the weights there are equal: r = h.

The paper's Eq. 7 (arXiv 2310.18805) equals this; the authors' code normalises over the old keys alone and
overshoots by a factor of 1 + 1/(εS).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from idwbench.data.dataset import Split
from idwbench.errors import PatchError
from idwbench.model import PrototypeNetwork
from idwbench.scores import idw

__all__ = ["Demand", "Patch", "SplitEffect", "apply_patch", "check_patch", "make_patch", "split_effect"]

# The smallest η written: below it, η could vanish in float32 where the old prototypes weigh nothing beside the new one.
SMALLEST_ETA = 1e-30
# By how much the float32 model may fall short of a demand: of the demand itself, and of the largest logit.
DEMAND_TOLERANCE = 1e-4
LOGIT_TOLERANCE = 1e-5


@dataclass(frozen=True)
class Demand:
    """How clearly the wanted class must win.

    ``margin``: by that fraction of Δ more than the tie (of max |z| where Δ = 0). ``logit_margin``: by that much.
    ``confidence``: with that probability.
    """

    kind: Literal["margin", "logit_margin", "confidence"] = "margin"
    amount: float = 1e-3

    def __post_init__(self) -> None:
        """Raise `PatchError` for an amount that no patch can reach."""
        if self.kind == "confidence":
            if not 0 < self.amount < 1:
                raise PatchError(f"{self.option}: must lie between 0 and 1, got {self.amount:g}")
        elif not (self.amount > 0 and math.isfinite(self.amount)):
            raise PatchError(f"{self.option}: must be above 0 and finite, got {self.amount:g}")

    @property
    def option(self) -> str:
        """How the command line says it."""
        return f"--{self.kind.replace('_', '-')}"


@dataclass(frozen=True)
class Patch:
    """One prototype to add.

    Attributes:
        key: (features,), the query.
        label: The class it votes for.
        eta: The only number in its value, η.
        label_before: What the model answered.
        asked: What was asked.
        demand: What η was computed for: the same, or the larger margin that float32 made necessary.
        lead: What `asked` comes to after the patch: the least z'_c − max_{k≠c} z'_k, or for a confidence the least
            log-odds of c.
        confidence: P(label) at the query after the patch, in float64.
        logit_margin: z'_c − max_{k≠c} z'_k at the query after the patch, in float64.
    """

    key: NDArray[np.float32]
    label: int
    eta: float
    label_before: int
    asked: Demand
    demand: Demand
    lead: float
    confidence: float
    logit_margin: float


@dataclass(frozen=True)
class SplitEffect:
    """What a patch does to a split: predictions that changed, and accuracy before and after."""

    n: int
    changed: int
    accuracy_before: float
    accuracy_after: float


def make_patch(
    network: PrototypeNetwork, query: NDArray[np.float32], label: int, demand: Demand | None = None
) -> Patch | None:
    """Return the smallest patch after which the float32 model answers `query` (features,) as demanded.

    η is computed in float64. If rounding to float32 swallows a relative margin, the margin is raised tenfold until the
    model answers as asked. Returns None if the model already does.

    Raises:
        PatchError: not an `idw` model, wrong number of features, a label out of range, a query that is not finite,
            a confidence with which the label would not win, or a demand that float32 cannot meet.
    """
    asked = demand or Demand()
    _check(network, query, label)
    ratio, logits = _at_query(network, query)
    answered = int(network.predict(query[None])[0])
    if answered == label and _lead(logits, label, asked) >= _wanted_lead(asked):
        return None
    attempt = asked
    while True:
        patch = _solve(query, label, ratio, logits, asked, attempt, answered)
        try:
            check_patch(apply_patch(network, patch), patch)
        except PatchError:
            if asked.kind != "margin" or attempt.amount > 1e6:
                raise
            attempt = replace(attempt, amount=attempt.amount * 10)
        else:
            return patch


def check_patch(network: PrototypeNetwork, patch: Patch) -> None:
    """Check that a patched float32 model, as made or as read from a file, answers as asked: alone and in a batch.

    The label must win, and lead by what was asked less 1e-4 of it and 1e-5 of the largest logit.

    Raises:
        PatchError: it does not.
    """
    for batch in (patch.key[None], np.tile(patch.key, (64, 1))):
        if not ((network.predict(batch) == patch.label).all() and _leads(network, batch, patch)):
            raise PatchError(
                f"{patch.asked.option} {patch.asked.amount:g}: float32 cannot hold a patch that answers so; "
                "try a larger amount"
            )


def apply_patch(network: PrototypeNetwork, patch: Patch) -> PrototypeNetwork:
    """Return a network with the prototype of `patch` added as its last."""
    value = torch.zeros(1, network.values.shape[1])
    value[0, patch.label] = patch.eta
    keys = torch.cat([network.keys.detach().cpu(), torch.from_numpy(patch.key)[None]])
    values = torch.cat([network.values.detach().cpu(), value])
    return PrototypeNetwork(network.method, network.parameters_of_method, keys, values)


def split_effect(before: PrototypeNetwork, after: PrototypeNetwork, split: Split) -> SplitEffect:
    """Return how the predictions on `split` differ between two networks."""
    old, new = before.predict(split.inputs), after.predict(split.inputs)
    return SplitEffect(
        n=len(split),
        changed=int((old != new).sum()),
        accuracy_before=float((old == split.labels).mean()),
        accuracy_after=float((new == split.labels).mean()),
    )


def _check(network: PrototypeNetwork, query: NDArray[np.float32], label: int) -> None:
    if network.method.name != "idw":
        raise PatchError(f"only 'idw' models can be patched, this one is '{network.method.name}'")
    n_features, n_classes = network.keys.shape[1], network.values.shape[1]
    if query.shape != (n_features,):
        raise PatchError(f"--x: expected {n_features} numbers, got {query.size}")
    if not np.isfinite(query).all():
        raise PatchError("--x: expected finite numbers")
    if not 0 <= label < n_classes:
        raise PatchError(f"--label: expected 0 to {n_classes - 1}, got {label}")
    if n_classes == 1:
        raise PatchError("this model knows one class only: there is nothing to patch")


@torch.no_grad()
def _at_query(network: PrototypeNetwork, query: NDArray[np.float32]) -> tuple[float, Float[Tensor, " classes"]]:
    """Return r = S/w' and the logits at the query, in float64."""
    power, epsilon = (float(network.parameters_of_method[name]) for name in ("power", "epsilon"))
    inputs = torch.from_numpy(query).double()[None]
    scores = idw(inputs, network.keys.detach().cpu().double(), power=power, epsilon=epsilon)[0]
    hits = torch.isposinf(scores)
    if hits.any():
        weights = hits.double() / hits.sum()
        ratio = float(hits.sum())
    else:
        weights = scores.softmax(0)
        ratio = math.exp(math.log(epsilon) + float(scores.logsumexp(0))) if epsilon > 0 else 0.0
    return ratio, weights @ network.values.detach().cpu().double()


def _solve(
    query: NDArray[np.float32], label: int, ratio: float, logits: Tensor, asked: Demand, attempt: Demand, answered: int
) -> Patch:
    eta = _eta(label, ratio, logits, attempt)
    after = logits * (ratio / (1 + ratio))
    after[label] += eta / (1 + ratio)
    return Patch(
        key=query,
        label=label,
        eta=eta,
        label_before=answered,
        asked=asked,
        demand=attempt,
        lead=_scale(label, logits) * asked.amount * ratio / (1 + ratio)
        if asked.kind == "margin"
        else _wanted_lead(asked),
        confidence=float(after.softmax(0)[label]),
        logit_margin=float(after[label] - _others(after, label).max()),
    )


def _eta(label: int, ratio: float, logits: Tensor, demand: Demand) -> float:
    """Return η as float32 holds it: what is told of the patch is what will be stored."""
    others = _others(logits, label)
    gap = float(others.max() - logits[label])
    if demand.kind == "margin":
        eta = ratio * gap + demand.amount * ratio * _scale(label, logits)
    elif demand.kind == "logit_margin":
        eta = ratio * gap + demand.amount * (1 + ratio)
    else:
        shrunk = others * (ratio / (1 + ratio))
        tie = 1 / (1 + math.exp(float(shrunk.logsumexp(0) - shrunk.max())))
        if demand.amount <= tie:
            raise PatchError(
                f"--confidence: the label would not win with probability {demand.amount:g}, it needs above {tie:.6g}"
            )
        eta = (float(shrunk.logsumexp(0)) + _wanted_lead(demand)) * (1 + ratio) - ratio * float(logits[label])
    with np.errstate(over="ignore"):
        rounded = float(np.float32(max(eta, SMALLEST_ETA)))
    if not math.isfinite(rounded):
        raise PatchError(f"{demand.option} {demand.amount:g}: float32 cannot hold so large a value; ask for less")
    return rounded


def _scale(label: int, logits: Tensor) -> float:
    """Return what a relative margin is relative to: Δ, or max |z| where Δ = 0."""
    return abs(float(_others(logits, label).max() - logits[label])) or float(logits.abs().max()) or 1.0


def _others(logits: Tensor, label: int) -> Tensor:
    return torch.cat([logits[..., :label], logits[..., label + 1 :]], -1)


def _lead(logits: Tensor, label: int, demand: Demand) -> Tensor:
    """Return by how much the label's logit exceeds the next, or for a confidence its log-odds."""
    others = _others(logits, label)
    return logits[..., label] - (others.logsumexp(-1) if demand.kind == "confidence" else others.amax(-1))


def _wanted_lead(demand: Demand) -> float:
    """Return the lead that meets the demand; a relative margin asks nothing of a model that answers right."""
    if demand.kind == "margin":
        return -math.inf
    if demand.kind == "logit_margin":
        return demand.amount
    return math.log(demand.amount / (1 - demand.amount))


@torch.no_grad()
def _leads(network: PrototypeNetwork, batch: NDArray[np.float32], patch: Patch) -> bool:
    logits = network(torch.from_numpy(batch)).double()
    allowed = DEMAND_TOLERANCE * abs(patch.lead) + LOGIT_TOLERANCE * float(logits.abs().max())
    return bool((_lead(logits, patch.label, patch.asked) >= patch.lead - allowed).all())
