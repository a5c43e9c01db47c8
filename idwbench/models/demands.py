"""Demands on a model: inputs that must get a label, and how far the model is from meeting each."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from idwbench.errors import PatchError
from idwbench.models.criteria import (
    Criterion,
    Requirement,
    lead_of,
    log_sum_exp,
    other_logits,
    relative_unit,
    required_lead,
)
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.patching import logits_at, rounded_eta

__all__ = ["Demand", "Start", "later_requirement", "start_of"]


@dataclass(frozen=True)
class Demand:
    """An input that must get a label.

    Attributes:
        query: (features,), scaled.
        label: The target class.
        criterion: The condition on the target class.
        keep_logits: Whether the value keeps the logits at the query.
        name: What messages call it.
        patched: Whether it has a prototype in any case; otherwise only if it needs one.
    """

    query: NDArray[np.float32]
    label: int
    criterion: Criterion
    keep_logits: bool = False
    name: str = "input"
    patched: bool = False


@dataclass(frozen=True)
class Start:
    """A demand at the network without the patches, in float64.

    `lead` is what the linear constraints require of logits, `eta` the value if this were the only patch.
    """

    logits: NDArray[np.float64]
    answered: int
    is_met: bool
    lead: float
    eta: float


def start_of(network: PrototypeNetwork, demand: Demand, answered: int) -> Start:
    """Return the start of a demand to which the network answers `answered`.

    Raises:
        PatchError: a confidence with which the label would not win, or a value beyond float32.
    """
    label, criterion = demand.label, demand.criterion
    ratio, exact = logits_at(network, demand.query)
    logits = exact.numpy()
    kept = 1.0 if demand.keep_logits else ratio / (1 + ratio)
    remaining = logits * kept  # after a patch with η = 0
    others = other_logits(remaining, label)
    if criterion.kind == "margin":
        lead = criterion.amount * relative_unit(label, logits) * kept
    elif criterion.kind == "logit_margin":
        lead = criterion.amount
    else:
        spread = log_sum_exp(others) - float(others.max())
        lead = required_lead(criterion) + spread
        if lead <= 0:
            least = 1 / (1 + math.exp(spread))
            problem = f"the label would not win with probability {criterion.amount:g}, it needs above {least:.6g}"
            raise PatchError(problem, location=("confidence",))
    gap = float(others.max() - remaining[label])
    is_met = answered == label and bool(lead_of(logits, label, criterion) >= required_lead(criterion))
    eta = rounded_eta((1 + ratio) * (max(gap, 0.0) + lead), criterion)
    return Start(logits, answered, is_met, lead, eta)


def later_requirement(key: NDArray[np.float32], label: int, criterion: Criterion) -> Requirement:
    """Return what an input must meet that is not being patched itself; of a relative margin, that its label wins."""
    return Requirement(key, label, criterion, 0.0 if criterion.kind == "margin" else required_lead(criterion))
