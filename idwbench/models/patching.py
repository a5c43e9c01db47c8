"""Patches of `idw` models: one added prototype that changes the answer to one input.

At a query q, prototype j weighs w_j = 1/(ε + d_j^p). With S = Σ w_j, logits z, the target class c and
Δ = max_{k≠c} z_k − z_c, a new key k' = q weighs w' = 1/ε there. With r = S/w' = ε·S and the new value η e_c,

    z'_k = (r z_k + η [k = c]) / (1 + r),

so η = rΔ ties, η = rΔ + m(1 + r) wins by a logit margin m, and any confidence has an η in closed form. With ε = 0 and
h keys that equal q already, the weights there are equal: r = h.

The value z(q) + η e_c keeps the logits at q and adds to one of them:

    z'_k = (r z_k + z_k + η [k = c]) / (1 + r) = z_k + η [k = c] / (1 + r),

so η = (1 + r)Δ ties and η = (1 + r)(Δ + m) wins by m. The probabilities at q hardly change then, but the larger value
changes more predictions of other inputs if there are more than two classes.

The paper's Eq. 7 (arXiv 2310.18805) equals this; the authors' code normalises over the old keys alone and
overshoots by a factor of 1 + 1/(εS).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from idwbench.attention.scores import idw
from idwbench.errors import PatchError
from idwbench.models.criteria import (
    SMALLEST_ETA,
    Criterion,
    Requirement,
    lead_of,
    missing_leads,
    other_logits,
    relative_unit,
    required_lead,
)
from idwbench.models.prototypes import PrototypeNetwork

__all__ = [
    "Criterion",
    "Patch",
    "apply_patch",
    "apply_patches",
    "check_patch",
    "check_query",
    "logits_at",
    "make_patch",
    "rounded_eta",
]


@dataclass(frozen=True)
class Patch(Requirement):
    """One prototype to add, and what it must achieve.

    Attributes:
        eta: The value is η e_c, or with `logits` z(q) + η e_c.
        label_before: The model's answer before the patch.
        criterion_used: The criterion that η was computed for; a larger margin if float32 requires it.
        confidence: P(c) at the query after the patch, in float64.
        logit_margin: z'_c − max_{k≠c} z'_k at the query after the patch, in float64.
        logits: z(q), (classes,), if the value keeps the logits; else None.
    """

    eta: float
    label_before: int
    criterion_used: Criterion
    confidence: float
    logit_margin: float
    logits: NDArray[np.float32] | None = None


def make_patch(
    network: PrototypeNetwork,
    query: NDArray[np.float32],
    label: int,
    criterion: Criterion | None = None,
    *,
    keep_logits: bool = False,
) -> Patch | None:
    """Return the smallest patch after which the float32 model meets the criterion at `query` (features,), or None.

    None means that the model already meets the criterion. η is computed in float64; if a relative margin is lost in
    rounding to float32, it is multiplied by ten until the model meets it. With `keep_logits` the new value is
    z(q) + η e_c instead of η e_c.

    Raises:
        PatchError: not an `idw` model, an invalid query or label, a confidence too low for the label to win, or a
            criterion that float32 cannot meet.
    """
    criterion = criterion or Criterion()
    check_query(network, query, label)
    ratio, logits = logits_at(network, query)
    answered = int(network.predict(query[None])[0])
    if answered == label and lead_of(logits, label, criterion) >= required_lead(criterion):
        return None
    attempt = criterion
    while True:
        patch = _solve(query, label, ratio, logits, criterion, attempt, answered, keep_logits)
        try:
            check_patch(apply_patch(network, patch), patch)
        except PatchError:
            if criterion.kind != "margin" or attempt.amount > 1e6:
                raise
            attempt = replace(attempt, amount=attempt.amount * 10)
        else:
            return patch


def check_patch(network: PrototypeNetwork, patch: Requirement) -> None:
    """Check that a patched float32 model meets the criterion, for the query alone and in a batch.

    The tolerance is 1e-4 of the required lead plus 1e-5 of the largest logit.

    Raises:
        PatchError: it does not.
    """
    if missing_leads(network, [patch])[0] > 0:
        raise PatchError(
            f"float32 cannot hold a patch that meets {patch.criterion.amount:g}",
            location=(patch.criterion.kind,),
            hint="try a larger amount",
        )


def apply_patch(network: PrototypeNetwork, patch: Patch) -> PrototypeNetwork:
    """Return a network with the prototype of `patch` appended."""
    return apply_patches(network, [patch])


def apply_patches(network: PrototypeNetwork, patches: Sequence[Patch]) -> PrototypeNetwork:
    """Return a network with the prototypes of `patches` appended in order."""
    added = torch.zeros(len(patches), network.values.shape[1])
    for value, patch in zip(added, patches, strict=True):
        if patch.logits is not None:
            value += torch.from_numpy(patch.logits)
        value[patch.label] += patch.eta
    keys = torch.cat([network.keys.detach().cpu(), *(torch.from_numpy(patch.key)[None] for patch in patches)])
    values = torch.cat([network.values.detach().cpu(), added])
    return PrototypeNetwork(network.method, network.parameters_of_method, keys, values)


def check_query(network: PrototypeNetwork, query: NDArray[np.float32], label: int) -> None:
    """Check that the answer of a network to a query can be patched.

    Raises:
        PatchError: not an `idw` model, or an invalid query or label.
    """
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
def logits_at(network: PrototypeNetwork, query: NDArray[np.float32]) -> tuple[float, Float[Tensor, " classes"]]:
    """Return r = S/w' and the logits of an `idw` network at the query (features,), in float64."""
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
    keep_logits: bool,
) -> Patch:
    # The logits z after the patch are factor · z / (1 + r), and η / (1 + r) more for the label.
    factor = 1 + ratio if keep_logits else ratio
    eta = _eta(label, ratio, factor, logits, attempt)
    after = logits * (factor / (1 + ratio))
    after[label] += eta / (1 + ratio)
    return Patch(
        key=query,
        label=label,
        eta=eta,
        label_before=answered,
        criterion=criterion,
        criterion_used=attempt,
        lead=relative_unit(label, logits) * criterion.amount * factor / (1 + ratio)
        if criterion.kind == "margin"
        else required_lead(criterion),
        confidence=float(after.softmax(0)[label]),
        logit_margin=float(after[label] - other_logits(after, label).max()),
        logits=logits.float().numpy() if keep_logits else None,
    )


def _eta(label: int, ratio: float, factor: float, logits: Tensor, criterion: Criterion) -> float:
    """Return η rounded to float32."""
    others = other_logits(logits, label)
    gap = float(others.max() - logits[label])
    if criterion.kind == "margin":
        eta = factor * gap + criterion.amount * factor * relative_unit(label, logits)
    elif criterion.kind == "logit_margin":
        eta = factor * gap + criterion.amount * (1 + ratio)
    else:
        shrunk = others * (factor / (1 + ratio))
        tie = 1 / (1 + math.exp(float(shrunk.logsumexp(0) - shrunk.max())))
        if criterion.amount <= tie:
            raise PatchError(
                f"the label would not win with probability {criterion.amount:g}, it needs above {tie:.6g}",
                location=("confidence",),
            )
        eta = (float(shrunk.logsumexp(0)) + required_lead(criterion)) * (1 + ratio) - factor * float(logits[label])
    return rounded_eta(eta, criterion)


def rounded_eta(eta: float, criterion: Criterion) -> float:
    """Return η rounded to float32, and not below 1e-30.

    Raises:
        PatchError: float32 cannot represent it.
    """
    with np.errstate(over="ignore"):
        rounded = float(np.float32(max(eta, SMALLEST_ETA)))
    if not math.isfinite(rounded):
        raise PatchError(
            f"float32 cannot hold the value for {criterion.amount:g}", location=(criterion.kind,), hint="try less"
        )
    return rounded
