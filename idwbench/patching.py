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

__all__ = ["Demand", "Patch", "SplitEffect", "apply_patch", "make_patch", "split_effect"]

# The smallest η written: below it, η could vanish in float32 where the old prototypes weigh nothing beside the new one.
SMALLEST_ETA = 1e-30


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
                raise PatchError(f"--confidence: must lie between 0 and 1, got {self.amount:g}")
        elif not (self.amount > 0 and math.isfinite(self.amount)):
            raise PatchError(f"--{self.kind.replace('_', '-')}: must be above 0, got {self.amount:g}")


@dataclass(frozen=True)
class Patch:
    """One prototype to add.

    Attributes:
        key: (features,), the query.
        label: The class it votes for.
        eta: The only number in its value, η.
        label_before: What the model answered.
        demand: What was asked, with the margin that float32 made necessary.
        confidence: P(label) at the query after the patch, in float64.
        logit_margin: z'_c − max_{k≠c} z'_k at the query after the patch, in float64.
    """

    key: NDArray[np.float32]
    label: int
    eta: float
    label_before: int
    demand: Demand
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
            or a demand that float32 cannot meet.
    """
    demand = demand or Demand()
    _check(network, query, label)
    ratio, logits = _at_query(network, query)
    answered = int(network.predict(query[None])[0])
    if answered == label and _margin_of(logits, label) >= _wanted_margin(logits, label, demand):
        return None
    attempt = demand
    while True:
        patch = _solve(query, label, ratio, logits, attempt, answered)
        if _answers(apply_patch(network, patch), query, label):
            return patch
        if demand.kind != "margin" or attempt.amount > 1e6:
            raise PatchError(f"label {label}: float32 cannot hold this patch; give a larger --logit-margin")
        attempt = replace(attempt, amount=attempt.amount * 10)


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
    query: NDArray[np.float32], label: int, ratio: float, logits: Tensor, demand: Demand, answered: int
) -> Patch:
    gap = -_margin_of(logits, label)
    others = torch.cat([logits[:label], logits[label + 1 :]])
    if demand.kind == "margin":
        scale = abs(gap) or float(logits.abs().max()) or 1.0
        eta = ratio * gap + demand.amount * ratio * scale
    elif demand.kind == "logit_margin":
        eta = ratio * gap + demand.amount * (1 + ratio)
    else:
        shrunk = others * (ratio / (1 + ratio))
        wanted = float(shrunk.logsumexp(0)) + math.log(demand.amount / (1 - demand.amount))
        eta = wanted * (1 + ratio) - ratio * float(logits[label])
    # The model is float32: what is told of the patch is what will be stored.
    eta = float(np.float32(max(eta, SMALLEST_ETA)))
    after = logits * (ratio / (1 + ratio))
    after[label] += eta / (1 + ratio)
    return Patch(
        key=query,
        label=label,
        eta=eta,
        label_before=answered,
        demand=demand,
        confidence=float(after.softmax(0)[label]),
        logit_margin=_margin_of(after, label),
    )


def _answers(network: PrototypeNetwork, query: NDArray[np.float32], label: int) -> bool:
    """Return whether the float32 model gives the label, for the query alone and in a batch."""
    return bool(
        (network.predict(query[None]) == label).all() and (network.predict(np.tile(query, (64, 1))) == label).all()
    )


def _margin_of(logits: Tensor, label: int) -> float:
    others = torch.cat([logits[:label], logits[label + 1 :]])
    return float(logits[label] - others.max())


def _wanted_margin(logits: Tensor, label: int, demand: Demand) -> float:
    """Return the logit margin that satisfies the demand without a patch."""
    if demand.kind == "margin":
        return -math.inf
    if demand.kind == "logit_margin":
        return demand.amount
    others = torch.cat([logits[:label], logits[label + 1 :]])
    return float(others.logsumexp(0) - others.max()) + math.log(demand.amount / (1 - demand.amount))
