"""Demands on a patched network: what the output at an input must be, and how far its patch may reach."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from idwbench.errors import PatchError
from idwbench.models.patches import Floats

__all__ = ["DEFAULT_MARGIN", "DEFAULT_STEEPNESS", "Criterion", "Demand", "Kind", "leads", "other_logits"]

DEFAULT_MARGIN, DEFAULT_STEEPNESS = 2.0, 32.0
# The largest power of `idw`, too.
_STEEPEST = 1e12
# The part of Δ by which the smallest winning value exceeds that of the tie.
_WINNING = 1e-3
# What a lead may lack, and by how much an output may miss its target.
_TOLERANCE = 1e-9

Kind = Literal["local", "exact", "printed", "authors", "keep"]


@dataclass(frozen=True)
class Criterion:
    """The condition on the logits at an input.

    ``wins``: the label has the largest logit. ``margin``: its logit exceeds the next by the amount. ``confidence``: its
    probability is the amount.
    """

    kind: Literal["wins", "margin", "confidence"] = "margin"
    amount: float = DEFAULT_MARGIN

    def __post_init__(self) -> None:
        """Raise `PatchError` for an unknown kind or an amount that is out of range."""
        if self.kind not in ("wins", "margin", "confidence"):
            raise PatchError(f"expected wins, margin or confidence, got '{self.kind}'", location=("criterion",))
        if self.kind == "confidence" and not 0 < self.amount < 1:
            raise PatchError(f"must lie between 0 and 1, got {self.amount:g}", location=(self.kind,))
        if self.kind == "margin" and not (self.amount > 0 and math.isfinite(self.amount)):
            raise PatchError(f"must be above 0 and finite, got {self.amount:g}", location=(self.kind,))

    @classmethod
    def of(cls, kind: Kind, *, margin: float | None = None, confidence: float | None = None) -> Criterion:
        """Return the given criterion, or the default of a kind of demand: a margin of 2 for local patches.

        Raises:
            PatchError: no kind of patch, both are given, or an amount is out of range.
        """
        if kind not in get_args(Kind) or kind == "keep":
            raise PatchError(f"expected local, exact, printed or authors, got '{kind}'", location=("kind",))
        if margin is not None and confidence is not None:
            raise PatchError("cannot be combined with margin", location=("confidence",))
        if confidence is not None:
            return cls("confidence", confidence)
        if margin is not None:
            return cls("margin", margin)
        return cls() if kind == "local" else cls("wins", 0.0)


@dataclass(frozen=True)
class Demand:
    """An input that must get an output.

    Attributes:
        query: (features,), float32, scaled.
        label: The wanted class, or None of a regression.
        target: The wanted outputs (outputs,), scaled, of a regression.
        kind: ``local``: the value z(q) + η e_c, within a radius. ``exact``: the smallest η e_c with the weight of the
            network's own prototypes (arXiv 2310.18805, section 5). ``printed`` and ``authors``: η by Eq. 7 as printed,
            and by the authors' code. ``keep``: the network's own answer must stay, without a prototype.
        criterion: The condition on the logits.
        radius: r of a local patch; None for the largest that changes no correct prediction.
        steepness: s of a local patch.
        name: What messages call it.
    """

    query: NDArray[np.float32]
    label: int | None = None
    target: Floats | None = None
    kind: Kind = "local"
    criterion: Criterion = field(default_factory=Criterion)
    radius: float | None = None
    steepness: float = DEFAULT_STEEPNESS
    name: str = "this input"

    def __post_init__(self) -> None:
        """Raise `PatchError` for a radius or a steepness that is out of range."""
        if self.kind not in get_args(Kind):
            raise PatchError(f"expected {', '.join(get_args(Kind))}, got '{self.kind}'", location=("kind",))
        for name, value in (("radius", self.radius), ("steepness", self.steepness)):
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise PatchError(f"expected a finite number above 0, got {value:g}", location=(name,))
        if self.steepness > _STEEPEST:
            raise PatchError(f"expected at most {_STEEPEST:g}, got {self.steepness:g}", location=("steepness",))

    @property
    def identity(self) -> tuple[object, ...]:
        """What makes two demands the same; orders them, so that their solution does not depend on their order."""
        target = b"" if self.target is None else self.target.tobytes()
        radius = -1.0 if self.radius is None else self.radius
        label = -1 if self.label is None else self.label
        criterion = (self.criterion.kind, self.criterion.amount)
        return self.query.tobytes(), label, target, self.kind, *criterion, radius, self.steepness

    def lead(self, logits: Floats, ratio: float) -> float:
        """Return the lead of the label's logit over the next that the criterion requires of this network.

        Args:
            logits: z(q), (classes,).
            ratio: S(q) / w₀.
        """
        assert self.label is not None
        others = other_logits(logits, self.label)
        kept = 1.0 if self.kind in ("local", "keep") else ratio / (1 + ratio)
        if self.criterion.kind == "margin":
            return self.criterion.amount
        if self.criterion.kind == "wins":
            gap = abs(float(others.max() - logits[self.label]))
            return _WINNING * kept * (gap or float(np.abs(logits).max()) or 1.0)
        shrunk = others * kept
        spread = float(np.logaddexp.reduce(shrunk) - shrunk.max())
        amount = self.criterion.amount
        lead = math.log(amount / (1 - amount)) + spread
        if lead <= 0:
            problem = (
                f"the label would not win with probability {amount:g}, it needs above {1 / (1 + math.exp(spread)):.6g}"
            )
            raise PatchError(problem, location=("confidence",))
        return lead

    def eta(self, logits: Floats, ratio: float, printed: float = 1.0) -> float:
        """Return η of the patch if it were the only one.

        Args:
            logits: z(q), (classes,).
            ratio: S(q) / w₀.
            printed: What Eq. 7 as printed has for ε, ε + ε^p, in units of ε.
        """
        assert self.label is not None
        gap = float(other_logits(logits, self.label).max() - logits[self.label])
        if self.kind == "authors":
            return (1 + ratio) * gap
        if self.kind == "printed":
            return printed * ratio * gap
        kept = 1 + ratio if self.kind == "local" else ratio
        return kept * gap + (1 + ratio) * self.lead(logits, ratio)

    @property
    def is_free(self) -> bool:
        """Whether η is solved for; otherwise a formula gives it."""
        return self.kind in ("local", "exact")

    def missing(self, outputs: Floats) -> float:
        """Return what outputs (outputs,) lack of the lead, or differ from the target; 0 or less if they meet it."""
        if self.label is None:
            assert self.target is not None
            return float(np.abs(outputs - self.target).max()) - _TOLERANCE
        others = other_logits(outputs, self.label)
        if self.criterion.kind == "confidence":
            wanted = math.log(self.criterion.amount / (1 - self.criterion.amount))
            return wanted - float(outputs[self.label] - np.logaddexp.reduce(others)) - _TOLERANCE
        lead = float(outputs[self.label] - others.max())
        if self.criterion.kind == "margin":
            return self.criterion.amount - lead - _TOLERANCE
        # Of equal logits the first wins.
        return 0.0 if int(outputs.argmax()) == self.label else max(-lead, _TOLERANCE)

    def holds(self, outputs: Floats) -> bool:
        """Return whether outputs (outputs,) have the label as their largest, or the target."""
        return self.is_met(outputs) if self.label is None else int(outputs.argmax()) == self.label

    def is_met(self, outputs: Floats) -> bool:
        """Return whether outputs (outputs,) meet the demand."""
        return self.missing(outputs) <= 0


def other_logits(logits: Floats, label: int) -> Floats:
    """Return the logits of all classes but `label`, (…, classes − 1)."""
    return np.delete(logits, label, axis=-1)


def leads(logits: Floats, labels: NDArray[np.int64]) -> Floats:
    """Return z_c − max_{k≠c} z_k (n,) of logits (n, classes) for labels c (n,)."""
    others = logits.copy()
    rows = np.arange(len(labels))
    others[rows, labels] = -np.inf
    return np.asarray(logits[rows, labels] - others.max(1))
