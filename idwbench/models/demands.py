"""Demands on a network: what the output at an input must be, how far its patch may reach, and what came of it.

Model files record them, see `idwbench.models.patch_records`.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from idwbench.errors import PatchError
from idwbench.models.patches import Floats

__all__ = ["DEFAULT_STEEPNESS", "STEEPEST", "Demand", "demand_settings"]

_DEFAULT_MARGIN, DEFAULT_STEEPNESS = 2.0, 32.0
# Of weak models, whose logits differ little, a margin of 2 alone gives a probability below one half.
_LEAST_PROBABILITY = 0.7
# The largest power of `idw`, too.
STEEPEST = 1e12
# The part of Δ by which the smallest winning value exceeds that of the tie, and the part of the largest logit by which
# other values exceed what is wanted, so that neither rounding nor a distant patch takes it away.
_WINNING, _AMPLE = 1e-3, 1e-8
# What an output may lack, as a part of what is wanted, and of the largest logit for its rounding.
_TOLERANCE, _ROUNDING = 1e-9, 1e-14

_Kind = Literal["local", "exact", "printed", "authors", "keep"]
_Finite = Annotated[float, Field(allow_inf_nan=False)]


class Demand(BaseModel):
    """An input that must get an output, and its prototype once it is solved.

    Attributes:
        query: (features,), float32, scaled.
        name: What messages call it.
        x: The input as the user gave it.
        label: The wanted class; None of a regression.
        target: The wanted outputs of a regression, scaled.
        kind: ``local``: the value z(q) + η e_c, within a radius. ``exact``: the smallest η e_c with the weight of the
            network's own prototypes (arXiv 2310.18805, section 5). ``printed`` and ``authors``: η by Eq. 7 as printed,
            and by the authors' code. ``keep``: the network's own answer must stay, without a prototype.
        criterion: The condition on the logits. ``wins``: the label has the largest; where that needs a patch, it
            exceeds the next by the amount, and unless the amount is 0, its probability is 0.7 or more. ``margin``: it
            exceeds the next by the amount. ``confidence``: its probability is the amount.
        amount: See there.
        radius_given: The radius requested; None for the largest that changes no right prediction.
        steepness: s of its prototype, or of the one requested.
        steepness_is_chosen: Whether the user gave none: then it is 32, or more where the radius would be next to
            nothing.
        label_before: The model's answer without patches; None of a regression.
        log_peak: log w₀ of its prototype; None if it has none.
        radius: r of its prototype, in scaled units.
        value: (outputs,) of its prototype.
        certified_radius: The radius within which the label is certain, see `idwbench.models.certificates`.
        reach: The distance beyond which no logit changes by more than 0.01 for inputs in the data's range; None if it
            is not known.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", arbitrary_types_allowed=True)

    query: NDArray[np.float32] = Field(exclude=True, repr=False)
    name: str = Field(default="this input", exclude=True)
    x: str | list[_Finite] | None = None
    label: Annotated[int, Field(ge=0)] | None = None
    target: list[_Finite] | None = None
    kind: _Kind = "local"
    criterion: Literal["wins", "margin", "confidence"] = "wins"
    amount: float = _DEFAULT_MARGIN
    radius_given: float | None = None
    steepness: float = DEFAULT_STEEPNESS
    steepness_is_chosen: bool = False
    label_before: int | None = None
    log_peak: _Finite | None = None
    radius: Annotated[_Finite, Field(gt=0)] | None = None
    value: Floats | None = Field(default=None, exclude=True, repr=False)
    certified_radius: _Finite | None = None
    reach: _Finite | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Raise `PatchError` for a radius, a steepness or an amount that is out of range."""
        for name, value in (("radius", self.radius_given), ("steepness", self.steepness)):
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise PatchError(f"expected a finite number above 0, got {value:g}", location=(name,))
        if self.steepness > STEEPEST:
            raise PatchError(f"expected at most {STEEPEST:g}, got {self.steepness:g}", location=("steepness",))
        if self.criterion == "confidence" and not 0 < self.amount < 1:
            raise PatchError(f"must lie between 0 and 1, got {self.amount:g}", location=(self.criterion,))
        if not (0 <= self.amount < math.inf) or (self.criterion == "margin" and not self.amount):
            raise PatchError(f"must be above 0 and finite, got {self.amount:g}", location=(self.criterion,))
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Demand) and (self.identity, self.model_dump()) == (other.identity, other.model_dump())

    @property
    def identity(self) -> tuple[bytes, str]:
        """What makes two demands the same; orders them, so that their solution does not depend on their order."""
        # An exact patch has a shape of its own, which files record.
        shape = {"radius_given", "steepness"} if self.kind == "local" else set[str]()
        return self.query.tobytes(), self.model_dump_json(
            include={"label", "target", "kind", "criterion", "amount"} | shape
        )

    def unsolved(self, name: str) -> Demand:
        """Return the demand as it was before it was solved; messages call it by the name."""
        solved = dict.fromkeys(("label_before", "log_peak", "radius", "value", "certified_radius", "reach"))
        steepness = DEFAULT_STEEPNESS if self.steepness_is_chosen else self.steepness
        return self.model_copy(update={**solved, "name": name, "steepness": steepness})

    @property
    def has_prototype(self) -> bool:
        """Whether the demand has a prototype of its own."""
        return self.radius is not None and self.log_peak is not None

    @property
    def is_free(self) -> bool:
        """Whether η is solved for; otherwise a formula gives it."""
        return self.kind in ("local", "exact")

    def lacks(self, logits: Floats) -> tuple[float, Floats]:
        """Return by how much the label's logit among `logits` (classes,) is too small, and the derivatives by these."""
        assert self.label is not None
        own = np.eye(len(logits))[self.label]
        others = np.where(own == 1, -np.inf, logits)
        total, largest = float(np.logaddexp.reduce(others)), float(others.max())
        probability = self.amount if self.criterion == "confidence" else _LEAST_PROBABILITY
        by_probability, by_margin = total + math.log(probability / (1 - probability)), largest + self.amount
        is_stricter = self.criterion == "wins" and self.amount > 0 and by_probability > by_margin
        if self.criterion == "confidence" or is_stricter:
            return by_probability - float(logits[self.label]), np.exp(others - total) - own
        return by_margin - float(logits[self.label]), np.eye(len(logits))[others.argmax()] - own

    def holds(self, outputs: Floats) -> bool:
        """Return whether outputs (outputs,) have the label as their largest, or the target."""
        if self.label is not None:
            return int(outputs.argmax()) == self.label
        return bool(np.allclose(outputs, np.array(self.target), rtol=_TOLERANCE, atol=_TOLERANCE))

    def is_met(self, outputs: Floats) -> bool:
        """Return whether outputs (outputs,) meet the demand."""
        if not self.holds(outputs) or self.criterion == "wins" or self.label is None:
            return self.holds(outputs)
        return self.lacks(outputs)[0] <= _TOLERANCE * self.amount + _ROUNDING * float(np.abs(outputs).max())

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
        lacks, size = self.lacks(kept)[0], float(np.abs(kept).max()) or 1.0
        if self.amount and lacks <= gap:
            needed = 1 / (1 + math.exp(lacks - gap) * (1 - self.amount) / self.amount)
            problem = f"the label would not win with probability {self.amount:g}, it needs above {needed:.6g}"
            raise PatchError(problem, location=("confidence",))
        return (1 + ratio) * max(lacks + (_AMPLE * size if self.amount else _WINNING * (abs(gap) or size)), 0.0)


def demand_settings(
    kind: str = "local",
    radius: float | str | None = None,
    steepness: float | None = None,
    margin: float | None = None,
    confidence: float | None = None,
) -> dict[str, Any]:
    """Return the fields of `Demand` for what a user gives.

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
    if kind not in get_args(_Kind) or kind == "keep":
        raise PatchError(f"expected local, exact, printed or authors, got '{kind}'", location=("kind",))
    given = {"radius": None if radius == "auto" else radius, "steepness": steepness}
    given |= {"margin": margin, "confidence": confidence}
    numbers = {name: _number(name, value) for name, value in given.items() if value is not None}
    settings: dict[str, Any] = {"kind": kind, "steepness_is_chosen": "steepness" not in numbers}
    settings |= {} if kind == "local" else {"amount": 0.0}
    for name, number in numbers.items():
        if kind != "local" and name in ("radius", "steepness"):
            raise PatchError("an exact patch has its own", location=(name,))
        if kind in ("printed", "authors"):
            raise PatchError(f"the formula '{kind}' has none", location=(name,))
        if "criterion" in settings:
            raise PatchError("cannot be combined with margin", location=("confidence",))
        field = {"radius": "radius_given", "steepness": "steepness"}.get(name)
        settings |= {field: number} if field else {"criterion": name, "amount": number}
    Demand(query=np.empty(0, np.float32), **settings)  # checks the ranges
    return settings


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        expected = "a number or auto" if name == "radius" else "a number"
        raise PatchError(f"expected {expected}, got {value!r}", location=(name,)) from None
