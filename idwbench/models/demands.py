"""Demands on a patched network: what the output at an input must be, and how far its patch may reach."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from idwbench.errors import PatchError
from idwbench.models.patches import Floats

__all__ = ["DEFAULT_MARGIN", "DEFAULT_STEEPNESS", "STEEPEST", "Criterion", "Demand", "Kind", "demand_settings"]

DEFAULT_MARGIN, DEFAULT_STEEPNESS = 2.0, 32.0
# Of weak models, whose logits differ little, a margin of 2 alone gives a probability below one half.
_LEAST_PROBABILITY = 0.7
# The largest power of `idw`, too.
STEEPEST = 1e12
# The part of Δ by which the smallest winning value exceeds that of the tie.
_WINNING = 1e-3
# What an output may lack, as a part of what is wanted, and of the largest logit for its rounding.
_TOLERANCE, _ROUNDING = 1e-9, 1e-14

Kind = Literal["local", "exact", "printed", "authors", "keep"]


@dataclass(frozen=True)
class Criterion:
    """The condition on the logits at an input.

    ``wins``: the label has the largest logit; where that needs a patch, it exceeds the next by the amount, and unless
    the amount is 0, its probability is 0.7 or more. ``margin``: its logit exceeds the next by the amount.
    ``confidence``: its probability is the amount.
    """

    kind: Literal["wins", "margin", "confidence"] = "wins"
    amount: float = DEFAULT_MARGIN

    def __post_init__(self) -> None:
        """Raise `PatchError` for an unknown kind or an amount that is out of range."""
        if self.kind not in ("wins", "margin", "confidence"):
            raise PatchError(f"expected wins, margin or confidence, got '{self.kind}'", location=("criterion",))
        if self.kind == "confidence" and not 0 < self.amount < 1:
            raise PatchError(f"must lie between 0 and 1, got {self.amount:g}", location=(self.kind,))
        if self.kind == "margin" and not (self.amount > 0 and math.isfinite(self.amount)):
            raise PatchError(f"must be above 0 and finite, got {self.amount:g}", location=(self.kind,))

    def missing(self, logits: Floats, label: int) -> float:
        """Return by how much the logit of the label is too small, with the other logits (classes,) as they are."""
        others = np.delete(logits, label)
        probability = self.amount if self.kind == "confidence" else _LEAST_PROBABILITY
        needed = float(np.logaddexp.reduce(others)) + math.log(probability / (1 - probability))
        if self.kind != "confidence":
            by_margin = float(others.max()) + self.amount
            needed = max(needed, by_margin) if self.kind == "wins" and self.amount else by_margin
        return needed - float(logits[label])


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
        steepness: s of a local patch; None for 32, or more where the radius would be next to nothing.
        name: What messages call it.
        x: The input as the user gave it; None for the numbers of the query.
    """

    query: NDArray[np.float32]
    label: int | None = None
    target: Floats | None = None
    kind: Kind = "local"
    criterion: Criterion = field(default_factory=Criterion)
    radius: float | None = None
    steepness: float | None = None
    name: str = "this input"
    x: str | list[float] | None = None

    def __post_init__(self) -> None:
        """Raise `PatchError` for a kind, a radius or a steepness that is out of range."""
        if self.kind not in get_args(Kind):
            raise PatchError(f"expected {', '.join(get_args(Kind))}, got '{self.kind}'", location=("kind",))
        for name, value in (("radius", self.radius), ("steepness", self.steepness)):
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise PatchError(f"expected a finite number above 0, got {value:g}", location=(name,))
        if self.steepness is not None and self.steepness > STEEPEST:
            raise PatchError(f"expected at most {STEEPEST:g}, got {self.steepness:g}", location=("steepness",))

    @property
    def identity(self) -> tuple[object, ...]:
        """What makes two demands the same; orders them, so that their solution does not depend on their order."""
        target = b"" if self.target is None else self.target.tobytes()
        numbers = self.radius, self.steepness, self.label
        radius, steepness, label = (-1.0 if one is None else float(one) for one in numbers)
        # An exact patch has a shape of its own, which files record.
        shape = (radius, steepness) if self.kind == "local" else (0.0, 0.0)
        return self.query.tobytes(), label, target, self.kind, self.criterion.kind, self.criterion.amount, *shape

    @property
    def is_free(self) -> bool:
        """Whether η is solved for; otherwise a formula gives it."""
        return self.kind in ("local", "exact")

    def eta(self, logits: Floats, ratio: float, printed: float) -> float:
        """Return η of the patch if it were the only one.

        At q the patch leaves κ z_k of the other logits, with κ = 1 of a local patch, which adds what it takes away, and
        κ = ρ/(1 + ρ) of an exact one; η/(1 + ρ) is what the label then lacks.

        Args:
            logits: z(q), (classes,).
            ratio: ρ = S(q)/w₀.
            printed: What Eq. 7 as printed has for ε, ε + ε^p, in units of ε.

        Raises:
            PatchError: the label would not win with the probability that is wanted.
        """
        assert self.label is not None
        kept = logits * (1.0 if self.kind in ("local", "authors") else ratio / (1 + ratio))
        gap = float(np.delete(kept, self.label).max() - kept[self.label])
        if not self.is_free:
            return (1 + ratio) * gap * (printed if self.kind == "printed" else 1.0)
        lacks = self.criterion.missing(kept, self.label)
        if not self.criterion.amount:
            lacks += _WINNING * (abs(gap) or float(np.abs(kept).max()) or 1.0)
        if lacks <= gap:
            amount = self.criterion.amount
            needed = 1 / (1 + math.exp(lacks - gap) * (1 - amount) / amount)
            problem = f"the label would not win with probability {amount:g}, it needs above {needed:.6g}"
            raise PatchError(problem, location=("confidence",))
        return (1 + ratio) * max(lacks, 0.0)

    def missing(self, outputs: Floats) -> float:
        """Return what the label's logit among outputs (classes,) lacks; 0 if it lacks no more than its rounding."""
        assert self.label is not None
        missing = self.criterion.missing(outputs, self.label)
        tolerance = _TOLERANCE * self.criterion.amount + _ROUNDING * float(np.abs(outputs).max())
        return missing if missing > tolerance else 0.0

    def holds(self, outputs: Floats) -> bool:
        """Return whether outputs (outputs,) have the label as their largest, or the target."""
        if self.label is not None:
            return int(outputs.argmax()) == self.label
        assert self.target is not None
        return bool(np.allclose(outputs, self.target, rtol=_TOLERANCE, atol=_TOLERANCE))

    def is_met(self, outputs: Floats) -> bool:
        """Return whether outputs (outputs,) meet the demand."""
        return self.holds(outputs) and (
            self.criterion.kind == "wins" or self.label is None or not self.missing(outputs)
        )


def demand_settings(
    kind: str = "local",
    radius: float | str | None = None,
    steepness: float | None = None,
    margin: float | None = None,
    confidence: float | None = None,
) -> dict[str, Any]:
    """Return the arguments of `Demand` for what a user gives.

    Args:
        kind: ``local``, ``exact``, ``printed`` or ``authors``.
        radius: In scaled units; None or ``auto`` for the largest that changes no right prediction.
        steepness: Of a local patch; by default 32, or more where the radius would be next to nothing.
        margin: Lead of the label's logit over the next. By default of local patches 2, and more until the probability
            is 0.7; otherwise the smallest that wins.
        confidence: Probability of the label, in place of a margin.

    Raises:
        PatchError: one is out of range, or would be ignored.
    """
    if kind not in get_args(Kind) or kind == "keep":
        raise PatchError(f"expected local, exact, printed or authors, got '{kind}'", location=("kind",))
    given = {"radius": None if radius == "auto" else radius, "steepness": steepness}
    given |= {"margin": margin, "confidence": confidence}
    numbers = {name: _number(name, value) for name, value in given.items() if value is not None}
    for name in ("radius", "steepness"):
        if kind != "local" and name in numbers:
            raise PatchError("an exact patch has its own", location=(name,))
    shape = {name: numbers.pop(name, None) for name in ("radius", "steepness")}
    if kind in ("printed", "authors") and numbers:
        raise PatchError(f"the formula '{kind}' has none", location=(next(iter(numbers)),))
    if len(numbers) > 1:
        raise PatchError("cannot be combined with margin", location=("confidence",))
    criterion = Criterion() if kind == "local" else Criterion("wins", 0.0)
    for name, amount in numbers.items():
        criterion = Criterion(name, amount)  # type: ignore[arg-type]  # a margin or a confidence
    return {"kind": kind, "criterion": criterion, **shape}


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        expected = "a number or auto" if name == "radius" else "a number"
        raise PatchError(f"expected {expected}, got {value!r}", location=(name,)) from None
