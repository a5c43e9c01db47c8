"""Patches of `idw` models: one added prototype that changes the answer to one input.

At a query q, prototype j weighs w_j = 1/(ε + d_j^p). With S = Σ w_j, logits z, the target class c and
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

from idwbench.attention.scores import idw
from idwbench.data.dataset import Split
from idwbench.errors import PatchError
from idwbench.models.prototypes import PrototypeNetwork

__all__ = ["Criterion", "Patch", "SplitEffect", "apply_patch", "check_patch", "make_patch", "split_effect"]

# Smaller values of η could vanish in float32.
SMALLEST_ETA = 1e-30
# Tolerances of the float32 model, relative to the criterion and to the largest logit.
CRITERION_TOLERANCE = 1e-4
LOGIT_TOLERANCE = 1e-5


@dataclass(frozen=True)
class Criterion:
    """The condition on the target class after the patch.

    ``margin``: η exceeds that of the tie by this fraction of Δ (of max |z| if Δ = 0). ``logit_margin``: the difference
    to the next logit. ``confidence``: the probability.
    """

    kind: Literal["margin", "logit_margin", "confidence"] = "margin"
    amount: float = 1e-3

    def __post_init__(self) -> None:
        """Raise `PatchError` for an amount that is out of range."""
        if self.kind == "confidence":
            if not 0 < self.amount < 1:
                raise PatchError(f"must lie between 0 and 1, got {self.amount:g}", location=(self.kind,))
        elif not (self.amount > 0 and math.isfinite(self.amount)):
            raise PatchError(f"must be above 0 and finite, got {self.amount:g}", location=(self.kind,))

    @classmethod
    def of(
        cls, *, margin: float | None = None, logit_margin: float | None = None, confidence: float | None = None
    ) -> Criterion:
        """Return the given criterion, or the default margin.

        Raises:
            PatchError: more than one is given, or an amount is out of range.
        """
        amounts = {"margin": margin, "logit_margin": logit_margin, "confidence": confidence}
        given = [(kind, amount) for kind, amount in amounts.items() if amount is not None]
        if len(given) > 1:
            raise PatchError(f"cannot be combined with {given[0][0]}", location=(given[1][0],))
        return cls(*given[0]) if given else cls()  # type: ignore[arg-type]  # the keys of `amounts` are its kinds


@dataclass(frozen=True)
class Patch:
    """One prototype to add.

    Attributes:
        key: (features,), the query.
        label: The target class c.
        eta: The value is η e_c.
        label_before: The model's answer before the patch.
        criterion: The criterion requested.
        criterion_used: The criterion that η was computed for; a larger margin if float32 requires it.
        lead: The required z'_c − max_{k≠c} z'_k after the patch; for a confidence the required log-odds of c.
        confidence: P(c) at the query after the patch, in float64.
        logit_margin: z'_c − max_{k≠c} z'_k at the query after the patch, in float64.
    """

    key: NDArray[np.float32]
    label: int
    eta: float
    label_before: int
    criterion: Criterion
    criterion_used: Criterion
    lead: float
    confidence: float
    logit_margin: float


@dataclass(frozen=True)
class SplitEffect:
    """The effect of a patch on a split: number of changed predictions, and accuracy before and after."""

    n: int
    changed: int
    accuracy_before: float
    accuracy_after: float


def make_patch(
    network: PrototypeNetwork, query: NDArray[np.float32], label: int, criterion: Criterion | None = None
) -> Patch | None:
    """Return the smallest patch after which the float32 model meets the criterion at `query` (features,), or None.

    None means that the model already meets the criterion. η is computed in float64; if a relative margin is lost in
    rounding to float32, it is multiplied by ten until the model meets it.

    Raises:
        PatchError: not an `idw` model, an invalid query or label, a confidence too low for the label to win, or a
            criterion that float32 cannot meet.
    """
    criterion = criterion or Criterion()
    _check(network, query, label)
    ratio, logits = _at_query(network, query)
    answered = int(network.predict(query[None])[0])
    if answered == label and _lead(logits, label, criterion) >= _required_lead(criterion):
        return None
    attempt = criterion
    while True:
        patch = _solve(query, label, ratio, logits, criterion, attempt, answered)
        try:
            check_patch(apply_patch(network, patch), patch)
        except PatchError:
            if criterion.kind != "margin" or attempt.amount > 1e6:
                raise
            attempt = replace(attempt, amount=attempt.amount * 10)
        else:
            return patch


def check_patch(network: PrototypeNetwork, patch: Patch) -> None:
    """Check that a patched float32 model meets the criterion, for the query alone and in a batch.

    The tolerance is 1e-4 of the required lead plus 1e-5 of the largest logit.

    Raises:
        PatchError: it does not.
    """
    for batch in (patch.key[None], np.tile(patch.key, (64, 1))):
        if not ((network.predict(batch) == patch.label).all() and _leads(network, batch, patch)):
            raise PatchError(
                f"float32 cannot hold a patch that meets {patch.criterion.amount:g}",
                location=(patch.criterion.kind,),
                hint="try a larger amount",
            )


def apply_patch(network: PrototypeNetwork, patch: Patch) -> PrototypeNetwork:
    """Return a network with the prototype of `patch` appended."""
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
        raise PatchError(f"expected {n_features} numbers, got {query.size}", location=("x",))
    if not np.isfinite(query).all():
        raise PatchError("expected finite numbers", location=("x",))
    if not 0 <= label < n_classes:
        raise PatchError(f"expected 0 to {n_classes - 1}, got {label}", location=("label",))
    if n_classes == 1:
        raise PatchError("this model has one class only: there is nothing to patch")


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
    query: NDArray[np.float32],
    label: int,
    ratio: float,
    logits: Tensor,
    criterion: Criterion,
    attempt: Criterion,
    answered: int,
) -> Patch:
    eta = _eta(label, ratio, logits, attempt)
    after = logits * (ratio / (1 + ratio))
    after[label] += eta / (1 + ratio)
    return Patch(
        key=query,
        label=label,
        eta=eta,
        label_before=answered,
        criterion=criterion,
        criterion_used=attempt,
        lead=_scale(label, logits) * criterion.amount * ratio / (1 + ratio)
        if criterion.kind == "margin"
        else _required_lead(criterion),
        confidence=float(after.softmax(0)[label]),
        logit_margin=float(after[label] - _others(after, label).max()),
    )


def _eta(label: int, ratio: float, logits: Tensor, criterion: Criterion) -> float:
    """Return η rounded to float32."""
    others = _others(logits, label)
    gap = float(others.max() - logits[label])
    if criterion.kind == "margin":
        eta = ratio * gap + criterion.amount * ratio * _scale(label, logits)
    elif criterion.kind == "logit_margin":
        eta = ratio * gap + criterion.amount * (1 + ratio)
    else:
        shrunk = others * (ratio / (1 + ratio))
        tie = 1 / (1 + math.exp(float(shrunk.logsumexp(0) - shrunk.max())))
        if criterion.amount <= tie:
            raise PatchError(
                f"the label would not win with probability {criterion.amount:g}, it needs above {tie:.6g}",
                location=("confidence",),
            )
        eta = (float(shrunk.logsumexp(0)) + _required_lead(criterion)) * (1 + ratio) - ratio * float(logits[label])
    with np.errstate(over="ignore"):
        rounded = float(np.float32(max(eta, SMALLEST_ETA)))
    if not math.isfinite(rounded):
        raise PatchError(
            f"float32 cannot hold the value for {criterion.amount:g}", location=(criterion.kind,), hint="try less"
        )
    return rounded


def _scale(label: int, logits: Tensor) -> float:
    """Return the unit of a relative margin: Δ, or max |z| if Δ = 0."""
    return abs(float(_others(logits, label).max() - logits[label])) or float(logits.abs().max()) or 1.0


def _others(logits: Tensor, label: int) -> Tensor:
    return torch.cat([logits[..., :label], logits[..., label + 1 :]], -1)


def _lead(logits: Tensor, label: int, criterion: Criterion) -> Tensor:
    """Return the difference of the label's logit to the next, or for a confidence its log-odds."""
    others = _others(logits, label)
    return logits[..., label] - (others.logsumexp(-1) if criterion.kind == "confidence" else others.amax(-1))


def _required_lead(criterion: Criterion) -> float:
    """Return the lead that meets the criterion; −∞ for a relative margin."""
    if criterion.kind == "margin":
        return -math.inf
    if criterion.kind == "logit_margin":
        return criterion.amount
    return math.log(criterion.amount / (1 - criterion.amount))


@torch.no_grad()
def _leads(network: PrototypeNetwork, batch: NDArray[np.float32], patch: Patch) -> bool:
    logits = network(torch.from_numpy(batch)).double()
    allowed = CRITERION_TOLERANCE * abs(patch.lead) + LOGIT_TOLERANCE * float(logits.abs().max())
    return bool((_lead(logits, patch.label, patch.criterion) >= patch.lead - allowed).all())
