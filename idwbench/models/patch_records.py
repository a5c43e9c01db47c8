"""What a model file records of its patches: a list of demands and the prototypes that meet them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from idwbench.errors import ModelFileError, PatchError
from idwbench.models.certificates import Box, certified_radius, reach
from idwbench.models.demands import Criterion, Demand, Kind
from idwbench.models.patch_solution import exact_shape, solve
from idwbench.models.patches import Base, Floats, PatchPrototypes
from idwbench.models.radii import Rows

__all__ = ["PatchRecord", "Repairs", "added_repairs", "earlier_repairs", "solved_repairs"]


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
        label_before: The model's answer without patches; None of a regression.
        log_peak: log w₀ of its prototype; None if it has none.
        radius: r of its prototype, in scaled units.
        certified_radius: The radius within which the label is certain, see `idwbench.models.certificates`.
        reach: The distance beyond which no logit changes by more than 0.01 for inputs in the data's range.
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
    label_before: int | None = None
    log_peak: float | None = None
    radius: Annotated[float, Field(gt=0)] | None = None
    certified_radius: float | None = None
    reach: float | None = None

    @property
    def has_prototype(self) -> bool:
        """Whether the demand has a prototype of its own."""
        return self.radius is not None and self.log_peak is not None

    @property
    def is_widest(self) -> bool:
        """Whether its radius is the largest that changes no right prediction, which needs the training data."""
        return self.kind == "local" and self.radius_given is None

    def demand(self, query: NDArray[np.float32], name: str) -> Demand:
        """Return the demand; raises `PatchError` if a part is out of range."""
        return Demand(
            query=query,
            label=self.label,
            target=None if self.target is None else np.array(self.target),
            kind=self.kind,
            criterion=Criterion(self.criterion, self.amount),  # type: ignore[arg-type]  # checked there
            radius=self.radius_given,
            steepness=self.steepness,
            name=name,
        )

    @classmethod
    def of(cls, demand: Demand, x: str | list[float], label_before: int | None, **solved: float | None) -> PatchRecord:
        """Return the record of a demand, with the log peak, radius, certified radius and reach of its patch, if any."""
        return cls(
            x=x,
            label=demand.label,
            target=None if demand.target is None else demand.target.tolist(),
            kind=demand.kind,
            criterion=demand.criterion.kind,
            amount=demand.criterion.amount,
            radius_given=demand.radius,
            label_before=label_before,
            **{"steepness": demand.steepness, **solved},  # type: ignore[arg-type]  # only the steepness is not None
        )


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
    def parse(cls, contents: Sequence[Mapping[str, Any]], inputs: NDArray[np.float32], values: Floats) -> Repairs:
        """Return the repairs in a model file.

        Raises:
            ModelFileError: a record is damaged, or they do not fit the arrays.
        """
        records = []
        for number, content in enumerate(contents, start=1):
            try:
                record = PatchRecord.model_validate(dict(content))
                record.demand(np.empty(0, np.float32), "")
            except ValidationError as error:
                first = error.errors()[0]
                raise ModelFileError(f"damaged record of patch {number}: {first['loc'][0]}: {first['msg']}") from None
            except PatchError as error:
                raise ModelFileError(f"damaged record of patch {number}: {error}") from None
            records.append(record)
        repairs = cls(tuple(records), inputs, values)
        n_prototypes = sum(record.has_prototype for record in records)
        if len(inputs) != len(records) or len(values) != n_prototypes:
            problem = f"{len(records)} patches with {n_prototypes} prototypes are recorded, "
            raise ModelFileError(f"{problem}but {len(inputs)} inputs and {len(values)} values found")
        for number, record in enumerate(records, start=1):
            if record.label is not None and values.ndim == 2 and len(values) and record.label >= values.shape[1]:
                raise ModelFileError(f"damaged record of patch {number}: label: there are {values.shape[1]} classes")
        return repairs

    def check_outputs(self, n_outputs: int, *, is_classification: bool) -> None:
        """Raise `ModelFileError` for a record that does not fit the outputs of its model."""
        for number, record in enumerate(self.records, start=1):
            labels = [one for one in (record.label, record.label_before) if one is not None]
            if is_classification:
                fits = (
                    record.label is not None and record.target is None and 0 <= min(labels) <= max(labels) < n_outputs
                )
            else:
                fits = not labels and record.target is not None and len(record.target) == n_outputs
            if not fits:
                raise ModelFileError(f"damaged record of patch {number}: it does not fit the outputs of the model")

    def reordered(self, order: NDArray[np.intp]) -> Repairs:
        """Return the repairs of a model whose classes are the former ones in another order, `order` (classes,)."""
        places = np.argsort(order).tolist()

        def renamed(record: PatchRecord) -> PatchRecord:
            labels = {"label": record.label, "label_before": record.label_before}
            return record.model_copy(update={name: n if n is None else places[n] for name, n in labels.items()})

        return Repairs(tuple(map(renamed, self.records)), self.inputs, self.values[:, order])

    def scaled(self, factor: Floats, shift: Floats) -> Repairs:
        """Return the repairs of a model whose outputs are multiplied by `factor` and moved by `shift`, (outputs,)."""

        def multiplied(record: PatchRecord) -> PatchRecord:
            target = None if record.target is None else (np.array(record.target) * factor + shift).tolist()
            return record.model_copy(update={"target": target})

        return Repairs(tuple(map(multiplied, self.records)), self.inputs, self.values * factor + shift)

    def content(self) -> dict[str, Any]:
        """Return the arguments of `parse` for these repairs, as plain values and arrays."""
        contents = [record.model_dump(exclude_none=True) for record in self.records]
        return {"contents": contents, "inputs": self.inputs, "values": self.values}

    def demands(self) -> list[Demand]:
        """Return the demands; messages call them ``patch 1`` and so on."""
        numbered = enumerate(zip(self.records, self.inputs, strict=True), start=1)
        return [record.demand(query, f"patch {number}") for number, (record, query) in numbered]

    def without(self, where: NDArray[np.bool_]) -> Repairs:
        """Return the repairs without some prototypes, `where` (prototypes,) is true; the demands stay."""
        removed = iter(where.tolist())
        unmet = {"log_peak": None, "radius": None}
        records = [
            record.model_copy(update=unmet) if record.has_prototype and next(removed) else record
            for record in self.records
        ]
        return Repairs(tuple(records), self.inputs, self.values[~where])

    def prototypes(self, n_features: int, n_outputs: int) -> PatchPrototypes:
        """Return the prototypes."""
        own = [place for place, record in enumerate(self.records) if record.has_prototype]
        parts = [(one.log_peak, one.radius, one.steepness) for one in (self.records[place] for place in own)]
        log_peaks, radii, steepness = np.array(parts, np.float64).reshape(-1, 3).T
        inputs = self.inputs[own] if own else np.empty((0, n_features), np.float32)
        values = self.values if own else np.empty((0, n_outputs))
        return PatchPrototypes(inputs, values, log_peaks, radii, steepness)


def solved_repairs(
    base: Base,
    demands: Sequence[tuple[Demand, str | list[float]]],
    rows: Rows | None = None,
    box: Box | None = None,
    *,
    merge: bool = False,
) -> Repairs:
    """Return the repairs that meet all demands, each with the input as the user gave it, and their certificates.

    Without a box there is no reach. Raises as `solve`.
    """
    if not demands:
        return Repairs()
    asked = [demand for demand, _ in demands]
    solution = solve(base, asked, rows, merge=merge)
    patches, inputs = solution.prototypes, np.stack([demand.query for demand in asked])
    answers = base.states(inputs).outputs.argmax(1).tolist()
    places = np.cumsum(solution.has_prototype) - 1
    records = []
    for row, (demand, x) in enumerate(demands):
        solved: dict[str, float | None] = {}
        place = int(places[row])
        if solution.has_prototype[row]:
            shape = {"log_peak": patches.log_peaks, "radius": patches.radii, "steepness": patches.steepness}
            solved = {name: float(part[place]) for name, part in shape.items()}
            solved["reach"] = None if box is None else reach(base, patches, place, box)
        if demand.label is not None:
            solved["certified_radius"] = certified_radius(base, patches, demand.query, demand.label)
        records.append(PatchRecord.of(demand, x, None if demand.label is None else answers[row], **solved))
    return Repairs(tuple(records), inputs, patches.values)


def added_repairs(base: Base, repairs: Repairs, demand: Demand, rows: Rows | None) -> Repairs | None:
    """Return repairs with one more demand, all solved as a whole; None if the network meets it and there are no others.

    Raises as `solve`.
    """
    if not len(repairs) and demand.is_met(base.states(demand.query[None]).outputs[0]):
        return None
    earlier = list(zip(repairs.demands(), [record.x for record in repairs.records], strict=True))
    box = None if rows is None else Box.of(rows.inputs)
    return solved_repairs(base, [*earlier, (demand, demand.query.astype(np.float64).tolist())], rows, box)


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
            | {"kind": "exact", "criterion": criteria[criterion], "amount": amount}
            | {"log_peak": log_peak, "radius": radius, "steepness": steepness}
        )
    return Repairs.parse(converted, keys.astype(np.float32), values)
