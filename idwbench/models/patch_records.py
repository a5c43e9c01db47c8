"""What a model file records of its patches: a list of demands and the prototypes that meet them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from idwbench.errors import ModelFileError, PatchError
from idwbench.models.certificates import certified_radius, reach
from idwbench.models.demands import DEFAULT_STEEPNESS, Criterion, Demand, Kind
from idwbench.models.patch_solution import exact_shape, solve
from idwbench.models.patches import Base, Floats, PatchPrototypes
from idwbench.models.radii import Rows

__all__ = ["PatchRecord", "Repairs", "earlier_repairs", "solved_repairs"]


class PatchRecord(BaseModel):
    """A demand on a model and what came of it.

    Attributes:
        x: The input as the user gave it.
        label: The wanted class; None of a regression.
        target: The wanted outputs of a regression, scaled.
        kind: See `Demand`.
        criterion: Kind of the criterion.
        amount: Its amount.
        radius_given: The radius requested; None for the largest that changes no right prediction.
        steepness: s of its prototype, or of the one requested.
        steepness_is_chosen: Whether the user gave none.
        label_before: The model's answer without patches; None of a regression.
        log_peak: log w₀ of its prototype; None if it has none.
        radius: r of its prototype, in scaled units.
        certified_radius: The radius within which the label is certain, see `idwbench.models.certificates`.
        reach: The distance beyond which no logit changes by more than 0.01 for inputs in the data's range; None if it
            is not known.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)

    x: str | list[float]
    label: Annotated[int, Field(ge=0)] | None = None
    target: list[float] | None = None
    kind: Kind
    criterion: str
    amount: float
    radius_given: float | None = None
    steepness: Annotated[float, Field(gt=0)]
    steepness_is_chosen: bool = False
    label_before: int | None = None
    log_peak: float | None = None
    radius: Annotated[float, Field(gt=0)] | None = None
    certified_radius: float | None = None
    reach: float | None = None

    @property
    def has_prototype(self) -> bool:
        """Whether the demand has a prototype of its own."""
        return self.radius is not None and self.log_peak is not None

    def demand(self, query: NDArray[np.float32], name: str) -> Demand:
        """Return the demand; raises `PatchError` if a part is out of range."""
        criterion = Criterion(self.criterion, self.amount)  # type: ignore[arg-type]  # checked there
        target = None if self.target is None else np.array(self.target)
        shape = self.radius_given, None if self.steepness_is_chosen else self.steepness
        return Demand(query, self.label, target, self.kind, criterion, *shape, name, self.x)

    def fits(self, n_outputs: int, *, is_classification: bool) -> bool:
        """Return whether the record can be one of a model with so many outputs."""
        labels = [one for one in (self.label, self.label_before) if one is not None]
        if is_classification:
            return self.label is not None and self.target is None and 0 <= min(labels) <= max(labels) < n_outputs
        return not labels and self.target is not None and len(self.target) == n_outputs


@dataclass(frozen=True)
class Repairs:
    """The patches of a model, in the order in which they were asked for.

    Attributes:
        records: One for each demand.
        inputs: (demands, features), scaled.
        values: (prototypes, outputs), of the demands that have a prototype.
    """

    records: tuple[PatchRecord, ...] = ()
    inputs: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 0), np.float32))
    values: Floats = field(default_factory=lambda: np.empty((0, 0)))

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
        """Return the repairs in a model file; raises `ModelFileError` for a record that is damaged or does not fit."""
        records = []
        for number, content in enumerate(contents, start=1):
            try:
                record = PatchRecord.model_validate(dict(content))
                record.demand(np.empty(0, np.float32), "")
            except (ValidationError, PatchError) as error:
                problem = str(error)
                if isinstance(error, ValidationError):
                    problem = f"{error.errors()[0]['loc'][0]}: {error.errors()[0]['msg']}"
                raise ModelFileError(f"damaged record of patch {number}: {problem}") from None
            if not record.fits(values.shape[1], is_classification=is_classification):
                raise ModelFileError(f"damaged record of patch {number}: it does not fit the outputs of the model")
            records.append(record)
        n_prototypes = sum(record.has_prototype for record in records)
        if len(inputs) != len(records) or len(values) != n_prototypes:
            problem = f"{len(records)} patches with {n_prototypes} prototypes are recorded, "
            raise ModelFileError(f"{problem}but {len(inputs)} inputs and {len(values)} values found")
        return cls(tuple(records), inputs, values)

    def content(self) -> dict[str, Any]:
        """Return the arguments of `parse` for these repairs, as plain values and arrays."""
        contents = [record.model_dump(exclude_none=True) for record in self.records]
        return {"contents": contents, "inputs": self.inputs, "values": self.values}

    def reordered(self, order: NDArray[np.intp]) -> Repairs:
        """Return the repairs of a model whose classes are the former ones in another order, `order` (classes,)."""
        places = np.argsort(order).tolist()
        names = ("label", "label_before")
        return self._changed(
            lambda record: {name: places[n] for name in names if (n := getattr(record, name)) is not None},
            self.values[:, order],
        )

    def scaled(self, factor: Floats, shift: Floats) -> Repairs:
        """Return the repairs of a regression whose outputs are multiplied by a factor and then moved, (outputs,)."""
        return self._changed(
            lambda record: {"target": (np.array(record.target) * factor + shift).tolist()},
            self.values * factor + shift,
        )

    def without(self, where: NDArray[np.bool_]) -> Repairs:
        """Return the repairs without some prototypes, `where` (prototypes,) is true; the demands stay."""
        removed = iter(where.tolist())
        return self._changed(
            lambda record: {"log_peak": None, "radius": None} if record.has_prototype and next(removed) else {},
            self.values[~where],
        )

    def _changed(self, change: Callable[[PatchRecord], dict[str, Any]], values: Floats) -> Repairs:
        records = tuple(record.model_copy(update=change(record)) for record in self.records)
        return Repairs(records, self.inputs, values)

    def demands(self) -> list[Demand]:
        """Return the demands; messages call them ``patch 1`` and so on."""
        numbered = enumerate(zip(self.records, self.inputs, strict=True), start=1)
        return [record.demand(query, f"patch {number}") for number, (record, query) in numbered]

    def numbers(self, n_learned: int) -> NDArray[np.int64]:
        """Return for each prototype (learned + patches,) the number of its patch, from 1; 0 for a learned one."""
        own = [number for number, record in enumerate(self.records, start=1) if record.has_prototype]
        return np.array([0] * n_learned + own, np.int64)

    def prototypes(self, n_features: int, n_outputs: int) -> PatchPrototypes:
        """Return the prototypes."""
        own = [place for place, record in enumerate(self.records) if record.has_prototype]
        if not own:
            return PatchPrototypes.none(n_features, n_outputs)
        parts = [(one.log_peak, one.radius, one.steepness) for one in (self.records[place] for place in own)]
        return PatchPrototypes(self.inputs[own], self.values, *np.array(parts, np.float64).T)


def solved_repairs(base: Base, demands: Sequence[Demand], rows: Rows | None = None, *, merge: bool = False) -> Repairs:
    """Return the repairs that meet all demands, with their certificates; none if the network meets them all.

    Without rows, whose range is that of the data, there is no reach. Raises as `solve`.
    """
    if not demands or not (solution := solve(base, demands, rows, merge=merge)).has_prototype.any():
        return Repairs()
    patches = solution.prototypes
    inputs = np.stack([demand.query for demand in demands])
    answers = base.states(inputs).outputs.argmax(1).tolist()
    low, high = (inputs, inputs) if rows is None else rows.box
    farthest = np.linalg.norm(np.maximum(np.abs(inputs - low), np.abs(inputs - high)), axis=1)
    records, place = [], 0
    for row, demand in enumerate(demands):
        solved: dict[str, Any] = {"steepness": demand.steepness or DEFAULT_STEEPNESS}
        if solution.has_prototype[row]:
            parts = {"log_peak": patches.log_peaks, "radius": patches.radii, "steepness": patches.steepness}
            solved |= {name: float(part[place]) for name, part in parts.items()}
            solved["reach"] = None if rows is None else reach(base, patches, place, float(farthest[row]))
            place += 1
        if demand.label is not None:
            solved["label_before"] = answers[row]
            solved["certified_radius"] = certified_radius(base, patches, demand.query, demand.label)
        records.append(
            PatchRecord(
                x=demand.query.astype(np.float64).tolist() if demand.x is None else demand.x,
                label=demand.label,
                target=None if demand.target is None else demand.target.tolist(),
                kind=demand.kind,
                criterion=demand.criterion.kind,
                amount=demand.criterion.amount,
                radius_given=demand.radius,
                steepness_is_chosen=demand.steepness is None,
                **solved,
            )
        )
    return Repairs(tuple(records), inputs, patches.values)


def earlier_repairs(base: Base, contents: Sequence[Mapping[str, Any]], keys: Floats, values: Floats) -> Repairs:
    """Return the repairs in a model file of versions 1 to 3, where patches were the last keys and values.

    Their prototypes have the weight of the network's own; demands for the logits to be kept become exact patches when
    they are solved again.

    Raises:
        ModelFileError: a record is damaged.
    """
    criteria = {"margin": "wins", "logit_margin": "margin", "confidence": "confidence"}
    converted = []
    for number, content in enumerate(contents, start=1):
        # Version 0.1.0 had other names for the criterion and the amount requested.
        criterion = content.get("criterion", content.get("demand"))
        amount = content.get("amount_requested", content.get("amount_asked"))
        if criterion not in criteria or "x" not in content or "label" not in content:
            raise ModelFileError(f"damaged record of patch {number}")
        log_peak, radius, steepness = exact_shape(base)
        converted.append(
            {name: content.get(name) for name in ("x", "label", "label_before")}
            | {"kind": "exact", "criterion": criteria[criterion]}
            | {"amount": 0.0 if criterion == "margin" else amount}
            | {"log_peak": log_peak, "radius": radius, "steepness": steepness}
        )
    return Repairs.parse(converted, keys.astype(np.float32), values)
