"""Demands on a network: what the output at an input must be, how far its patch may reach, and what came of it.

The demands of a model are one list, `Repairs`, which model files record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from idwbench.errors import ModelFileError, PatchError
from idwbench.models.array_weights import ArrayNetwork
from idwbench.models.patches import Floats, PatchPrototypes, exact_shape

__all__ = ["DEFAULT_STEEPNESS", "FORMULAS", "STEEPEST", "Demand", "Repairs", "demand_settings", "earlier_repairs"]

# Of weak models, whose logits differ little, the margin alone gives a probability below one half.
_DEFAULT_MARGIN, DEFAULT_STEEPNESS, _LEAST_PROBABILITY = 2.0, 32.0, 0.7
# The largest power of `idw`, too.
STEEPEST = 1e12
# The part of Δ by which the smallest winning value exceeds that of the tie, and the part of the largest logit by which
# other values exceed what is wanted, so that neither rounding nor a distant patch takes it away.
_WINNING, _AMPLE = 1e-3, 1e-8
# What an output may lack, as a part of what is wanted, and of the largest logit for its rounding.
_TOLERANCE, _ROUNDING = 1e-9, 1e-14

# Kinds whose η a formula gives; it is not solved for.
FORMULAS = ("printed", "authors")

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

    @property
    def has_prototype(self) -> bool:
        """Whether the demand has a prototype of its own."""
        return self.radius is not None and self.log_peak is not None

    def fits(self, n_outputs: int, is_classification: bool) -> bool:
        """Return whether it can be one of a model with so many outputs."""
        labels = [one for one in (self.label, self.label_before) if one is not None]
        if is_classification:
            return self.label is not None and self.target is None and 0 <= min(labels) <= max(labels) < n_outputs
        return not labels and self.target is not None and len(self.target) == n_outputs

    def lacks(self, logits: Floats) -> tuple[float, Floats]:
        """Return by how much the label's logit among `logits` (classes,) is too small, and the derivatives by these.

        It must exceed the largest of the others by a margin, and their log Σ exp by the log-odds of a probability.
        """
        assert self.label is not None
        own = np.eye(len(logits))[self.label]
        others = np.where(own == 1, -np.inf, logits)
        total = float(np.logaddexp.reduce(others))
        margin, probability = self.amount, _LEAST_PROBABILITY if self.criterion == "wins" and self.amount else 0.0
        if self.criterion == "confidence":
            margin, probability = -math.inf, self.amount
        by_margin = float(others.max()) + margin
        by_probability = total + (math.log(probability / (1 - probability)) if probability else -math.inf)
        if by_probability > by_margin:
            return by_probability - float(logits[self.label]), np.exp(others - total) - own
        return by_margin - float(logits[self.label]), np.eye(len(logits))[others.argmax()] - own

    def is_met(self, outputs: Floats) -> bool:
        """Return whether outputs (outputs,) meet the demand."""
        if not self.holds(outputs) or self.criterion == "wins" or self.label is None:
            return self.holds(outputs)
        return self.lacks(outputs)[0] <= _TOLERANCE * self.amount + _ROUNDING * float(np.abs(outputs).max())

    def holds(self, outputs: Floats) -> bool:
        """Return whether outputs (outputs,) have the label as their largest, or the target."""
        if self.label is not None:
            return int(outputs.argmax()) == self.label
        return bool(np.allclose(outputs, np.array(self.target), rtol=_TOLERANCE, atol=_TOLERANCE))

    def value_alone(self, outputs: Floats, log_sum: float, log_peak: float, steepness: float) -> Floats:
        """Return the value (outputs,) of its prototype if it were the only one.

        At q, where S and w₀ have the ratio ρ, the patch leaves κ z_k of the other logits, with κ = 1 of a local patch,
        which adds what it takes away, and κ = ρ/(1 + ρ) of an exact one; η/(1 + ρ) is what the label then lacks. Eq. 7
        as printed has ε + ε^p in place of ε.

        Args:
            outputs: z(q), (outputs,).
            log_sum: log S(q).
            log_peak: log w₀ of the prototype.
            steepness: s of the prototype.

        Raises:
            PatchError: the label would not win with the probability that is wanted.
        """
        ratio = float(np.exp(min(log_sum - log_peak, 700.0)))
        if self.label is None:
            target = np.array(self.target)
            return np.asarray(target + ratio * (target - outputs))
        kept = outputs * (1.0 if self.kind in ("local", "authors") else ratio / (1 + ratio))
        gap = float(np.delete(kept, self.label).max() - kept[self.label])
        lacks, size = self.lacks(kept)[0], float(np.abs(kept).max()) or 1.0
        if self.criterion == "confidence" and lacks <= gap:
            needed = 1 / (1 + math.exp(lacks - gap) * (1 - self.amount) / self.amount)
            problem = f"the label would not win with probability {self.amount:g}, it needs above {needed:.6g}"
            raise PatchError(problem, location=("confidence",))
        if self.kind not in FORMULAS:
            lacks = max(lacks + (_AMPLE * size if self.amount else _WINNING * (abs(gap) or size)), 0.0)
        elif self.kind == "printed":
            lacks *= 1 + math.exp(-log_peak * (steepness - 1))
        value = np.asarray((1 + ratio) * lacks * np.eye(len(outputs))[self.label])
        return np.asarray(value + outputs) if self.kind == "local" else value


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
    settings: dict[str, Any] = {"kind": kind, "steepness_is_chosen": steepness is None}
    settings |= {} if kind == "local" else {"amount": 0.0}
    for name, value in given.items():
        if value is None:
            continue
        try:
            number = float(value)
        except (TypeError, ValueError):
            expected = "a number or auto" if name == "radius" else "a number"
            raise PatchError(f"expected {expected}, got {value!r}", location=(name,)) from None
        if kind != "local" and name in ("radius", "steepness"):
            raise PatchError("an exact patch has its own", location=(name,))
        if kind in FORMULAS:
            raise PatchError(f"the formula '{kind}' has none", location=(name,))
        if "criterion" in settings:
            raise PatchError("cannot be combined with margin", location=("confidence",))
        field = {"radius": "radius_given", "steepness": "steepness"}.get(name)
        settings |= {field: number} if field else {"criterion": name, "amount": number}
    Demand(query=np.empty(0, np.float32), **settings)  # checks the ranges
    return settings


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
                record = Demand(**{"x": None, **content, "query": row})
                if not record.fits(values.shape[1], is_classification):
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
        return np.stack([record.query for record in self.records]) if self.records else np.empty((0, 0), np.float32)

    @property
    def values(self) -> Floats:
        """The values (prototypes, outputs) of the demands that have a prototype."""
        values = [record.value for record in self.records if record.value is not None]
        return np.stack(values) if values else np.empty((0, 0))

    def changed(self, change: Callable[[Floats], Floats], labels: Sequence[int] = ()) -> Repairs:
        """Return the repairs of a model whose outputs are others.

        Args:
            change: Returns the new outputs (outputs,) for the former ones.
            labels: The new number of each class.
        """
        records = []
        for one in self.records:
            pairs = (("label", one.label), ("label_before", one.label_before))
            fields: dict[str, Any] = {name: labels[label] for name, label in pairs if label is not None}
            if one.target is not None:
                fields["target"] = change(np.array(one.target)).tolist()
            fields["value"] = None if one.value is None else change(one.value)
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
        solved = ("label_before", "log_peak", "radius", "value", "certified_radius", "reach")
        demands = []
        for number, one in enumerate(self.records, start=1):
            asked = {**dict.fromkeys(solved), "name": f"patch {number}"}
            asked |= {"steepness": DEFAULT_STEEPNESS} if one.steepness_is_chosen else {}
            demands.append(one.model_copy(update=asked))
        return demands

    def numbers(self, n_learned: int) -> NDArray[np.int64]:
        """Return for each prototype (learned + patches,) the number of its patch, from 1; 0 for a learned one."""
        own = [number for number, record in enumerate(self.records, start=1) if record.has_prototype]
        return np.array([0] * n_learned + own, np.int64)

    def prototypes(self, n_features: int, n_outputs: int) -> PatchPrototypes:
        """Return the prototypes."""
        own = [one for one in self.records if one.has_prototype]
        parts = [(one.query, one.value, one.log_peak, one.radius, one.steepness) for one in own]
        return PatchPrototypes.of(parts, n_features, n_outputs)


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
        amount = content.get("amount_requested", content.get("amount_asked"))
        if criterion not in criteria or "x" not in content or "label" not in content:
            raise ModelFileError(f"damaged record of patch {number}")
        wanted = {"criterion": criteria[criterion], "amount": 0.0 if criterion == "margin" else amount}
        given = {name: content.get(name) for name in ("x", "label", "label_before")}
        converted.append(given | {"kind": "exact"} | wanted | shape)
    return Repairs.parse(converted, keys.astype(np.float32), values)
