"""The closed form of one patch, from the logits at its query; see `idwbench.models.patching`. Torch is not needed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from idwbench.errors import PatchError
from idwbench.models.criteria import (
    SMALLEST_ETA,
    Criterion,
    Requirement,
    lead_of,
    log_sum_exp,
    other_logits,
    relative_unit,
    required_lead,
)

__all__ = ["Answer", "Patch", "rounded_eta", "smallest_patch", "weight_ratio"]


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


def weight_ratio(n_hits: int, log_sum: float, epsilon: float) -> float:
    """Return r = S/w' at a query: the number of keys that it hits, or ε·S from log S, and 0 with ε = 0."""
    if n_hits:
        return float(n_hits)
    return math.exp(math.log(epsilon) + log_sum) if epsilon > 0 else 0.0


@dataclass(frozen=True)
class Answer:
    """The answer of an `idw` model to a query.

    Attributes:
        query: (features,), float32.
        ratio: r = S/w', the total weight of the prototypes over that of a new key at the query.
        logits: (classes,), in float64.
        label: The class that the model answers.
    """

    query: NDArray[np.float32]
    ratio: float
    logits: NDArray[np.float64]
    label: int


def smallest_patch(
    answer: Answer, label: int, criterion: Criterion, check: Callable[[Patch], None], *, keep_logits: bool = False
) -> Patch | None:
    """Return the smallest patch that meets the criterion and passes `check`, or None if it is met without.

    A relative margin that `check` refuses, since it is lost in rounding, is multiplied by ten and tried again.

    Raises:
        PatchError: a confidence too low for the label to win, or `check` refuses every patch.
    """
    if answer.label == label and lead_of(answer.logits, label, criterion) >= required_lead(criterion):
        return None
    attempt = criterion
    while True:
        patch = _solve(answer, label, criterion, attempt, keep_logits)
        try:
            check(patch)
        except PatchError:
            if criterion.kind != "margin" or attempt.amount > 1e6:
                raise
            attempt = replace(attempt, amount=attempt.amount * 10)
        else:
            return patch


def _solve(answer: Answer, label: int, criterion: Criterion, attempt: Criterion, keep_logits: bool) -> Patch:
    # The logits z after the patch are factor · z / (1 + r), and η / (1 + r) more for the label.
    ratio, logits = answer.ratio, answer.logits
    factor = 1 + ratio if keep_logits else ratio
    eta = _eta(label, ratio, factor, logits, attempt)
    after = logits * (factor / (1 + ratio))
    after[label] += eta / (1 + ratio)
    return Patch(
        key=answer.query,
        label=label,
        eta=eta,
        label_before=answer.label,
        criterion=criterion,
        criterion_used=attempt,
        lead=relative_unit(label, logits) * criterion.amount * factor / (1 + ratio)
        if criterion.kind == "margin"
        else required_lead(criterion),
        confidence=math.exp(float(after[label]) - log_sum_exp(after)),
        logit_margin=float(after[label] - other_logits(after, label).max()),
        logits=logits.astype(np.float32) if keep_logits else None,
    )


def _eta(label: int, ratio: float, factor: float, logits: NDArray[np.float64], criterion: Criterion) -> float:
    """Return η rounded to float32."""
    others = other_logits(logits, label)
    gap = float(others.max() - logits[label])
    if criterion.kind == "margin":
        eta = factor * gap + criterion.amount * factor * relative_unit(label, logits)
    elif criterion.kind == "logit_margin":
        eta = factor * gap + criterion.amount * (1 + ratio)
    else:
        shrunk = others * (factor / (1 + ratio))
        spread = log_sum_exp(shrunk)
        tie = 1 / (1 + math.exp(spread - float(shrunk.max())))
        if criterion.amount <= tie:
            raise PatchError(
                f"the label would not win with probability {criterion.amount:g}, it needs above {tie:.6g}",
                location=("confidence",),
            )
        eta = (spread + required_lead(criterion)) * (1 + ratio) - factor * float(logits[label])
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
