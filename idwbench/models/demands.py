"""Demands on a network: what the output at an input must be, how far its patch may reach, and what came of it.

The demands of a model are one list, `Repairs`, which model files record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo, model_validator

from idwbench.errors import ModelFileError, PatchError
from idwbench.models.array_weights import ArrayNetwork
from idwbench.models.patches import Floats, PatchPrototypes, exact_shape

__all__ = ["FORMULAS", "STEEPEST", "STEEPNESS", "Demand", "Repairs", "asked", "earlier_repairs"]

# Of a local patch. Of weak models, whose logits differ little, the margin alone gives a probability below one half.
_MARGIN, _PROBABILITY, STEEPNESS = 2.0, 0.7, 32.0
# The largest power of `idw`, too.
STEEPEST = 1e12
# What a user may ask for lies between 0 and these, and what is expected.
_LIMITS = {
    **dict.fromkeys(("radius", "margin"), (math.inf, "a finite number above 0")),
    "steepness": (math.nextafter(STEEPEST, math.inf), f"a number above 0 and at most {STEEPEST:g}"),
    "confidence": (1.0, "a number above 0 and below 1"),
}
# The part of Δ by which the smallest winning value exceeds that of the tie, and the part of the largest logit by which
# other values exceed what is wanted, so that neither rounding nor a distant patch takes it away.
_WINNING, _AMPLE = 1e-3, 1e-8
# What an output may lack, as a part of what is wanted, and of the largest logit for its rounding.
_TOLERANCE, _ROUNDING = 1e-9, 1e-14

# Kinds whose η a formula gives; it is not solved for.
FORMULAS = ("printed", "authors")
# What the solution gives a demand; nothing of it was asked.
_SOLVED = ("label_before", "log_peak", "radius", "steepness", "value", "certified_radius", "reach")


def _number(value: Any, info: ValidationInfo) -> float | None:
    """Return a number that a user gives; None for nothing, and for the radius ``auto``."""
    try:
        return None if value in (None, "auto") else float(value)
    except (TypeError, ValueError):
        name = str(info.field_name).removesuffix("_given")
        raise PatchError(f"expected a number, got {value!r}", location=(name,)) from None


_Kind = Literal["local", "exact", "printed", "authors", "keep"]
_Finite = Annotated[float, Field(allow_inf_nan=False)]
_Label = Annotated[int, Field(ge=0)]
_Given = Annotated[float | None, BeforeValidator(_number)]


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
        margin: By how much the label's logit must exceed the next, if that was requested.
        confidence: Its probability, if that was requested in place of a margin. Without either the label must have the
            largest logit; where that needs a local patch, by 2 and with a probability of 0.7 or more.
        radius_given: The radius requested; None for the largest that changes no right prediction.
        steepness_given: The steepness requested; None for 32, or more where the radius would be next to nothing.
        label_before: The model's answer without patches; None of a regression.
        log_peak: log w₀ of its prototype; None if it has none.
        radius: r of its prototype, in scaled units.
        steepness: s of its prototype.
        value: (outputs,) of its prototype.
        certified_radius: See `idwbench.models.certificates.certified_radius`.
        reach: See `idwbench.models.certificates.reach`.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", arbitrary_types_allowed=True)

    query: NDArray[np.float32] = Field(exclude=True, repr=False)
    name: str = Field(default="this input", exclude=True)
    x: str | list[_Finite] | None = None
    label: _Label | None = None
    target: list[_Finite] | None = None
    kind: _Kind = "local"
    margin: _Given = None
    confidence: _Given = None
    radius_given: _Given = None
    steepness_given: _Given = None
    label_before: _Label | None = None
    log_peak: _Finite | None = None
    radius: Annotated[_Finite, Field(gt=0)] | None = None
    steepness: Annotated[_Finite, Field(gt=0)] | None = None
    value: Floats | None = Field(default=None, exclude=True, repr=False)
    certified_radius: _Finite | None = None
    reach: _Finite | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Raise `PatchError` for a setting that is out of range, or would be ignored."""
        given = {"radius": self.radius_given, "steepness": self.steepness_given}
        for name, number in (given | {"margin": self.margin, "confidence": self.confidence}).items():
            if number is None:
                continue
            limit, expected = _LIMITS[name]
            problems = {
                f"expected {expected}, got {number:g}": not 0 < number < limit,
                "an exact patch has its own": name in given and self.kind != "local",
                f"the formula '{self.kind}' has none": self.kind in FORMULAS,
                "needs classes, not a regression": name not in given and self.label is None,
                "cannot be combined with margin": name == "confidence" and self.margin is not None,
            }
            for problem, is_found in problems.items():
                if is_found:
                    raise PatchError(problem, location=(name,))
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Demand) and (self.identity, self.model_dump()) == (other.identity, other.model_dump())

    @property
    def identity(self) -> tuple[bytes, str]:
        """What makes two demands the same; orders them, so that their solution does not depend on their order."""
        return self.query.tobytes(), self.model_dump_json(exclude={"x", *_SOLVED})

    @property
    def has_prototype(self) -> bool:
        """Whether the demand has a prototype of its own."""
        return self.radius is not None

    @property
    def is_widest(self) -> bool:
        """Whether its prototype has the largest radius that does no harm."""
        return self.kind == "local" and self.radius_given is None

    def with_prototype(self, value: Floats, log_peak: float, radius: float, steepness: float) -> Demand:
        """Return the demand with a prototype."""
        shape = {"log_peak": log_peak, "radius": radius, "steepness": steepness}
        return self.model_copy(update={**shape, "value": value})

    def lacks(self, logits: Floats) -> float:
        """Return by how much the label's logit among `logits` (classes,) is too small.

        It must exceed the largest of the others by a margin, or log Σ exp of these by the log-odds of a probability, or
        both.
        """
        assert self.label is not None
        others, margin, probability = np.delete(logits, self.label), self.margin, self.confidence
        if margin is None and probability is None:
            margin, probability = (_MARGIN, _PROBABILITY) if self.kind == "local" else (0.0, None)
        needed = -math.inf if margin is None else float(others.max()) + margin
        if probability is not None:
            needed = max(needed, float(np.logaddexp.reduce(others)) + math.log(probability / (1 - probability)))
        return needed - float(logits[self.label])

    def is_met(self, outputs: Floats) -> bool:
        """Return whether outputs (outputs,) meet the demand."""
        amount = self.margin or self.confidence
        rounding = _ROUNDING * float(np.abs(outputs).max())
        return self.holds(outputs) and (amount is None or self.lacks(outputs) <= _TOLERANCE * amount + rounding)

    def holds(self, outputs: Floats) -> bool:
        """Return whether outputs (outputs,) have the label as their largest, or the target."""
        if self.label is not None:
            return int(outputs.argmax()) == self.label
        return bool(np.allclose(outputs, np.array(self.target), rtol=_TOLERANCE, atol=_TOLERANCE))

    def value_alone(self, outputs: Floats, log_sum: float, log_peak: float, steepness: float) -> Floats:
        """Return the value (outputs,) of its prototype, with log w₀ and s, if it were the only one.

        At q, where S and w₀ have the ratio ρ, the patch leaves κ z_k of the other logits, with κ = 1 of a local patch,
        which adds what it takes away, and κ = ρ/(1 + ρ) of an exact one; η/(1 + ρ) is what the label then lacks. Eq. 7
        as printed has ε + ε^p in place of ε.

        Raises:
            PatchError: the label would not win with the probability that is wanted.
        """
        ratio = float(np.exp(min(log_sum - log_peak, 700.0)))
        if self.label is None:
            target = np.array(self.target)
            return np.asarray(target + ratio * (target - outputs))
        kept = outputs * (1.0 if self.kind in ("local", "authors") else ratio / (1 + ratio))
        missing, gap = self.lacks(kept), float(np.delete(kept, self.label).max() - kept[self.label])
        if self.confidence is not None and missing <= gap:
            needed = 1 / (1 + math.exp(missing - gap) * (1 - self.confidence) / self.confidence)
            problem = f"the label would not win with probability {self.confidence:g}, it needs above {needed:.6g}"
            raise PatchError(problem, location=("confidence",))
        size = float(np.abs(kept).max()) or 1.0
        if self.kind == "printed":
            missing *= 1 + math.exp(-log_peak * (steepness - 1))
        elif self.kind != "authors":
            is_least = self.kind == "exact" and self.margin is None and self.confidence is None
            missing = max(missing + (_WINNING * (abs(gap) or size) if is_least else _AMPLE * size), 0.0)
        value = (1 + ratio) * missing * np.eye(len(outputs))[self.label]
        return np.asarray(value + outputs) if self.kind == "local" else value


def asked(
    kind: Literal["local", "exact", "printed", "authors"] = "local",
    radius: float | str | None = None,
    steepness: float | None = None,
    margin: float | None = None,
    confidence: float | None = None,
    *,
    is_classification: bool = True,
) -> Demand:
    """Return a demand with the settings that a user gives, whose input and label or target are still to be set.

    Args:
        kind: ``local``, ``exact``, ``printed`` or ``authors``.
        radius: In scaled units; None or ``auto`` for the largest that changes no right prediction.
        steepness: Of a local patch; by default 32, or more where the radius would be next to nothing.
        margin: Lead of the label's logit over the next. By default of local patches 2, and more until the probability
            is 0.7; otherwise the smallest that wins.
        confidence: Probability of the label, in place of a margin.
        is_classification: Whether there are labels.

    Raises:
        PatchError: one is out of range, or would be ignored.
    """
    if kind not in ("local", "exact", *FORMULAS):
        raise PatchError(f"expected local, exact, printed or authors, got '{kind}'", location=("kind",))
    if kind in FORMULAS and not is_classification:
        raise PatchError(f"the formula '{kind}' needs classes, not a regression")
    given: dict[str, Any] = {"kind": kind, "label": 0 if is_classification else None}
    given |= {"margin": margin, "confidence": confidence, "radius_given": radius, "steepness_given": steepness}
    return Demand(query=np.empty(0, np.float32), **given)


@dataclass(frozen=True)
class Repairs:
    """The patches of a model: its demands, in the order in which they were asked for."""

    records: tuple[Demand, ...] = ()

    def __len__(self) -> int:
        return len(self.records)

    @classmethod
    def parse(
        cls,
        contents: Sequence[Mapping[str, Any]],
        inputs: NDArray[np.float32],
        values: Floats,
        *,
        is_classification: bool = True,
    ) -> Repairs:
        """Return the repairs in a model file, see `content`.

        Raises:
            ModelFileError: a record is damaged or does not fit.
        """
        records, own = [], iter(values)
        for number, (content, row) in enumerate(zip(contents, inputs, strict=False), start=1):
            try:
                record = Demand(**_renamed(content), query=row)
                is_wrong = is_classification == (record.label is None) or is_classification != (record.target is None)
                if is_wrong or max(record.label or 0, record.label_before or 0) >= values.shape[1]:
                    raise PatchError("it does not fit the outputs of the model")
            except (ValidationError, PatchError) as error:
                first = error.errors()[0] if isinstance(error, ValidationError) else None
                problem = f"{first['loc'][0]}: {first['msg']}" if first else error
                raise ModelFileError(f"damaged record of patch {number}: {problem}") from None
            records.append(record.model_copy(update={"value": next(own, None)} if record.has_prototype else {}))
        n_prototypes = sum(record.has_prototype for record in records)
        if len(inputs) != len(contents) or len(values) != n_prototypes:
            problem = f"{len(contents)} patches with {n_prototypes} prototypes are recorded, "
            raise ModelFileError(f"{problem}but {len(inputs)} inputs and {len(values)} values found")
        return cls(tuple(records))

    def content(self) -> dict[str, Any]:
        """Return the arguments of `parse` for these repairs, as plain values and arrays."""
        contents = [record.model_dump(exclude_none=True) for record in self.records]
        return {"contents": contents, "inputs": self.inputs, "values": self.values}

    @property
    def inputs(self) -> NDArray[np.float32]:
        """The inputs (demands, features), scaled."""
        return np.array([record.query for record in self.records], np.float32)

    @property
    def values(self) -> Floats:
        """The values (prototypes, outputs) of the demands that have a prototype."""
        return np.array([record.value for record in self.records if record.value is not None], np.float64)

    def changed(self, change: Callable[[Floats], Floats], labels: Sequence[int] = ()) -> Repairs:
        """Return the repairs of a model whose outputs are others.

        Args:
            change: Returns the new outputs (outputs,) for the former ones.
            labels: The new number of each class.
        """
        records = []
        for one in self.records:
            fields: dict[str, Any] = {"value": None if one.value is None else change(one.value)}
            if one.target is not None:
                fields["target"] = change(np.array(one.target)).tolist()
            for name in ("label", "label_before"):
                fields |= {} if (label := getattr(one, name)) is None else {name: labels[label]}
            records.append(one.model_copy(update=fields))
        return Repairs(tuple(records))

    def without(self, where: NDArray[np.bool_]) -> Repairs:
        """Return the repairs without some prototypes, `where` (prototypes,) is true; the demands stay."""
        nothing, removed = dict.fromkeys(("log_peak", "radius", "value")), iter(where.tolist())
        is_removed = [one.has_prototype and next(removed) for one in self.records]
        pairs = zip(self.records, is_removed, strict=True)
        return Repairs(tuple(one.model_copy(update=nothing if gone else {}) for one, gone in pairs))

    def demands(self) -> list[Demand]:
        """Return the demands as they were before they were solved; messages call them ``patch 1`` and so on."""
        nothing, numbered = dict.fromkeys(_SOLVED), enumerate(self.records, start=1)
        return [one.model_copy(update={**nothing, "name": f"patch {number}"}) for number, one in numbered]

    def numbers(self, n_learned: int) -> NDArray[np.int64]:
        """Return for each prototype (learned + patches,) the number of its patch, from 1; 0 for a learned one."""
        own = [number for number, record in enumerate(self.records, start=1) if record.has_prototype]
        return np.array([0] * n_learned + own, np.int64)

    def prototypes(self, base: ArrayNetwork) -> PatchPrototypes:
        """Return the prototypes of the patches of a network."""
        own = [one for one in self.records if one.has_prototype]
        shapes = np.array([(one.log_peak, one.radius, one.steepness) for one in own], np.float64).reshape(-1, 3)
        keys = np.array([one.query for one in own], np.float32).reshape(-1, base.keys.shape[1])
        values = np.array([one.value for one in own], np.float64).reshape(-1, base.values.shape[1])
        return PatchPrototypes(keys, values, *shapes.T)


def _renamed(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with the names of today; the first ones of version 4 had a criterion and an amount."""
    if (criterion := content.get("criterion")) is None:
        return dict(content)
    # Of regressions it had no meaning.
    renamed = {criterion: content.get("amount")} if criterion != "wins" and content.get("label") is not None else {}
    is_given = content.get("kind", "local") == "local" and not content.get("steepness_is_chosen")
    return {**content, **renamed, "steepness_given": content.get("steepness") if is_given else None}


def earlier_repairs(base: ArrayNetwork, contents: Sequence[Mapping[str, Any]], keys: Floats, values: Floats) -> Repairs:
    """Return the repairs in a model file of versions 1 to 3, where patches were the last keys and values.

    Their prototypes have the weight of the network's own; demands for the logits to be kept become exact patches when
    they are solved again.

    Raises:
        ModelFileError: a record is damaged.
    """
    criteria = {"margin": "wins", "logit_margin": "margin", "confidence": "confidence"}
    shape = dict(zip(("log_peak", "radius", "steepness"), exact_shape(base), strict=True))
    converted = []
    for number, content in enumerate(contents, start=1):
        # Version 0.1.0 had other names for the criterion and the amount requested.
        criterion = content.get("criterion", content.get("demand"))
        if criterion not in criteria or "x" not in content or "label" not in content:
            raise ModelFileError(f"damaged record of patch {number}")
        given = {name: content.get(name) for name in ("x", "label", "label_before")} | shape
        amount = content.get("amount_requested", content.get("amount_asked"))
        converted.append(given | {"kind": "exact", "criterion": criteria[criterion], "amount": amount})
    return Repairs.parse(converted, keys.astype(np.float32), values)
