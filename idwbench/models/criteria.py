"""What a patch must achieve: criteria, and checks of the float32 model against them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from idwbench.errors import PatchError
from idwbench.models.prototypes import PrototypeNetwork

__all__ = [
    "CRITERION_TOLERANCE",
    "SMALLEST_ETA",
    "Criterion",
    "Requirement",
    "lead_of",
    "missing_leads",
    "other_logits",
    "relative_unit",
    "required_lead",
]

# Smaller values of η could vanish in float32.
SMALLEST_ETA = 1e-30
# Tolerances of the float32 model, relative to the criterion and to the largest logit.
CRITERION_TOLERANCE = 1e-4
LOGIT_TOLERANCE = 1e-5
# Rows of the batch in which a query must hold too.
SMALLEST_BATCH = 64


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
class Requirement:
    """A label that a model must give to an input.

    Attributes:
        key: (features,), the query.
        label: The target class c.
        criterion: The criterion requested.
        lead: The required z'_c − max_{k≠c} z'_k; for a confidence the required log-odds of c.
    """

    key: NDArray[np.float32]
    label: int
    criterion: Criterion
    lead: float


@torch.no_grad()
def missing_leads(network: PrototypeNetwork, required: Sequence[Requirement]) -> NDArray[np.float64]:
    """Return how much each requirement lacks of its lead, (n,), positive where the float32 model does not meet it.

    Each query is evaluated alone and in a batch with the others; tolerance as in `check_patch`.
    """
    if not required:
        return np.zeros(0)
    queries = np.stack([one.key for one in required])
    copies = -(-SMALLEST_BATCH // len(queries))
    batches = [batch.view(copies, len(queries), -1) for batch in _evaluations(network, np.tile(queries, (copies, 1)))]
    missing = np.zeros(len(queries))
    for place, one in enumerate(required):
        evaluations = [*_evaluations(network, one.key[None]), *(batch[:, place] for batch in batches)]
        missing[place] = _missing_lead(torch.cat(evaluations), one)
    return missing


def _evaluations(network: PrototypeNetwork, queries: NDArray[np.float32]) -> list[Tensor]:
    """Return the outputs of predictions and those of the forward pass, which round differently."""
    return [torch.from_numpy(network.outputs(queries)), network(torch.from_numpy(queries))]


def _missing_lead(logits: Tensor, required: Requirement) -> float:
    """Return what the worst of some evaluations (n, classes) of one query lacks of the lead; 0 if nothing."""
    label, exact = required.label, logits.double()
    lead = float(lead_of(exact, label, required.criterion).min())
    tolerance = CRITERION_TOLERANCE * abs(required.lead) + LOGIT_TOLERANCE * float(exact.abs().max())
    if bool((logits.argmax(-1) == label).all()) and lead >= required.lead - tolerance:
        return 0.0
    return max(required.lead - lead, 0.0) + tolerance + SMALLEST_ETA


def relative_unit(label: int, logits: Tensor) -> float:
    """Return the unit of a relative margin: Δ, or max |z| if Δ = 0."""
    return abs(float(other_logits(logits, label).max() - logits[label])) or float(logits.abs().max()) or 1.0


def other_logits(logits: Tensor, label: int) -> Tensor:
    """Return the logits of all classes but `label`, (…, classes − 1)."""
    return torch.cat([logits[..., :label], logits[..., label + 1 :]], -1)


def lead_of(logits: Tensor, label: int, criterion: Criterion) -> Tensor:
    """Return the difference of the label's logit to the next, or for a confidence its log-odds."""
    others = other_logits(logits, label)
    return logits[..., label] - (others.logsumexp(-1) if criterion.kind == "confidence" else others.amax(-1))


def required_lead(criterion: Criterion) -> float:
    """Return the lead that meets the criterion; −∞ for a relative margin."""
    if criterion.kind == "margin":
        return -math.inf
    if criterion.kind == "logit_margin":
        return criterion.amount
    return math.log(criterion.amount / (1 - criterion.amount))
