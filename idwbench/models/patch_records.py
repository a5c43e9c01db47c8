"""The patches of a model as its file records them: a list of demands with the prototypes that meet them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from idwbench.errors import ModelFileError, PatchError
from idwbench.models.array_weights import ArrayNetwork
from idwbench.models.certificates import certified_radius, reach
from idwbench.models.demands import Demand
from idwbench.models.patch_solution import solve
from idwbench.models.patches import Floats, PatchPrototypes, exact_shape
from idwbench.models.radii import Rows

__all__ = ["Repairs", "earlier_repairs", "solved_repairs"]


@dataclass(frozen=True)
class Repairs:
    """The patches of a model, in the order in which they were asked for."""

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
        records: list[Demand] = []
        own = iter(values)
        for number, (content, row) in enumerate(zip(contents, inputs, strict=False), start=1):
            damaged = f"damaged record of patch {number}"
            try:
                record = Demand(**{"x": None, **content, "query": row})
            except ValidationError as error:
                raise ModelFileError(f"{damaged}: {error.errors()[0]['loc'][0]}: {error.errors()[0]['msg']}") from None
            except PatchError as error:
                raise ModelFileError(f"{damaged}: {error}") from None
            if not _fits(record, values.shape[1], is_classification):
                raise ModelFileError(f"{damaged}: it does not fit the outputs of the model")
            value = {"value": next(own, None)} if record.has_prototype else {}
            records.append(record.model_copy(update=value))
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

    def reordered(self, order: NDArray[np.intp]) -> Repairs:
        """Return the repairs of a model whose classes are the former ones in another order, `order` (classes,)."""
        places = {None: None, **{old: new for new, old in enumerate(order.tolist())}}
        return self._changed(
            lambda one: {name: places[getattr(one, name)] for name in ("label", "label_before")},
            lambda value: value[order],
        )

    def scaled(self, factor: Floats, shift: Floats) -> Repairs:
        """Return the repairs of a regression whose outputs are multiplied by a factor and then moved, (outputs,)."""
        return self._changed(
            lambda one: {"target": (np.array(one.target) * factor + shift).tolist()},
            lambda value: value * factor + shift,
        )

    def _changed(self, change: Callable[[Demand], dict[str, Any]], moved: Callable[[Floats], Floats]) -> Repairs:
        """Return the repairs with some fields of each demand and the values of their prototypes changed."""
        values = (None if one.value is None else moved(one.value) for one in self.records)
        pairs = zip(self.records, values, strict=True)
        return Repairs(tuple(one.model_copy(update={**change(one), "value": value}) for one, value in pairs))

    def without(self, where: NDArray[np.bool_]) -> Repairs:
        """Return the repairs without some prototypes, `where` (prototypes,) is true; the demands stay."""
        nothing, removed = {"log_peak": None, "radius": None, "value": None}, iter(where.tolist())
        is_removed = [one.has_prototype and next(removed) for one in self.records]
        pairs = zip(self.records, is_removed, strict=True)
        return Repairs(tuple(one.model_copy(update=nothing if gone else {}) for one, gone in pairs))

    def demands(self) -> list[Demand]:
        """Return the demands as they were before they were solved; messages call them ``patch 1`` and so on."""
        return [one.unsolved(f"patch {number}") for number, one in enumerate(self.records, start=1)]

    def numbers(self, n_learned: int) -> NDArray[np.int64]:
        """Return for each prototype (learned + patches,) the number of its patch, from 1; 0 for a learned one."""
        own = [number for number, record in enumerate(self.records, start=1) if record.has_prototype]
        return np.array([0] * n_learned + own, np.int64)

    def prototypes(self, n_features: int, n_outputs: int) -> PatchPrototypes:
        """Return the prototypes."""
        own = [one for one in self.records if one.has_prototype]
        if not own:
            return PatchPrototypes.none(n_features, n_outputs)
        shapes = np.array([(one.log_peak, one.radius, one.steepness) for one in own], np.float64)
        return PatchPrototypes(np.stack([one.query for one in own]), self.values, *shapes.T)


def _fits(record: Demand, n_outputs: int, is_classification: bool) -> bool:
    """Return whether a record can be one of a model with so many outputs."""
    labels = [one for one in (record.label, record.label_before) if one is not None]
    if is_classification:
        return record.label is not None and record.target is None and 0 <= min(labels) <= max(labels) < n_outputs
    return not labels and record.target is not None and len(record.target) == n_outputs


def solved_repairs(
    base: ArrayNetwork, demands: Sequence[Demand], rows: Rows | None = None, *, merge: bool = False
) -> Repairs:
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
    places = iter(range(len(patches)))
    records = []
    for row, demand in enumerate(demands):
        solved: dict[str, Any] = {"x": demand.query.astype(np.float64).tolist()} if demand.x is None else {}
        if solution.has_prototype[row]:
            place = next(places)
            parts = {"log_peak": patches.log_peaks, "radius": patches.radii, "steepness": patches.steepness}
            solved |= {name: float(part[place]) for name, part in parts.items()} | {"value": patches.values[place]}
            solved["reach"] = None if rows is None else reach(base, patches, place, float(farthest[row]))
        if demand.label is not None:
            solved["label_before"] = answers[row]
            solved["certified_radius"] = certified_radius(base, patches, demand.query, demand.label)
        records.append(demand.model_copy(update=solved))
    return Repairs(tuple(records))


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
