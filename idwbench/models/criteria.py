"""What a patch must achieve, without torch; the checks of a model against it are in `patch_checks`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from idwbench.errors import PatchError

__all__ = [
    "CRITERION_TOLERANCE",
    "SMALLEST_ETA",
    "Criterion",
    "Requirement",
    "lead_of",
    "log_sum_exp",
    "missing_lead",
    "other_logits",
    "relative_unit",
    "required_lead",
]

Logits = NDArray[np.float64]

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


def relative_unit(label: int, logits: Logits) -> float:
    """Return the unit of a relative margin: Δ, or max |z| if Δ = 0."""
    return abs(float(other_logits(logits, label).max() - logits[label])) or float(np.abs(logits).max()) or 1.0


def other_logits(logits: Logits, label: int) -> Logits:
    """Return the logits of all classes but `label`, (…, classes − 1)."""
    return np.delete(logits, label, axis=-1)


def lead_of(logits: Logits, label: int, criterion: Criterion) -> Logits:
    """Return the difference (…) of the label's logit to the next, or for a confidence its log-odds."""
    others = other_logits(logits, label)
    next_logit = np.logaddexp.reduce(others, axis=-1) if criterion.kind == "confidence" else others.max(-1)
    return np.asarray(logits[..., label] - next_logit)


def log_sum_exp(logits: Logits) -> float:
    """Return log Σ exp(z) of logits (classes,)."""
    return float(np.logaddexp.reduce(logits))


def required_lead(criterion: Criterion) -> float:
    """Return the lead that meets the criterion; −∞ for a relative margin."""
    if criterion.kind == "margin":
        return -math.inf
    if criterion.kind == "logit_margin":
        return criterion.amount
    return math.log(criterion.amount / (1 - criterion.amount))


def missing_lead(logits: NDArray[np.float64], required: Requirement) -> float:
    """Return what the worst of some evaluations (n, classes) of one query lacks of the lead; 0 if nothing."""
    label = required.label
    lead = float(lead_of(logits, label, required.criterion).min())
    tolerance = CRITERION_TOLERANCE * abs(required.lead) + LOGIT_TOLERANCE * float(np.abs(logits).max())
    if (logits.argmax(-1) == label).all() and lead >= required.lead - tolerance:
        return 0.0
    return max(required.lead - lead, 0.0) + tolerance + SMALLEST_ETA
