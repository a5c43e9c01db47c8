"""Changes of a model's patches: adding some so that the earlier ones still hold, and removing one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from idwbench.errors import PatchConflictError, PatchError
from idwbench.models.criteria import Criterion
from idwbench.models.demands import Demand, later_requirement
from idwbench.models.joint_patches import solve_together
from idwbench.models.model_card import PatchRecord
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.patch_checks import missing_leads
from idwbench.models.patch_records import RecordedPatch, recorded_patches
from idwbench.models.patching import Patch, apply_patches, make_patch

if TYPE_CHECKING:
    from idwbench.models.saved_model import SavedModel

__all__ = ["Addition", "PatchInput", "add_patches", "without_patch"]


@dataclass(frozen=True)
class PatchInput:
    """An input to patch: as the user gave it, scaled (features,), its label, and what messages call it."""

    x: str | list[float]
    query: NDArray[np.float32]
    label: int
    name: str = "this input"


@dataclass(frozen=True)
class Addition:
    """A model with new patches.

    Attributes:
        model: The patched model, or the same model if no patch was needed.
        patches: One for each input, or None where none was needed.
        solved_again: Numbers of the earlier patches whose η changed.
    """

    model: SavedModel
    patches: tuple[Patch | None, ...]
    solved_again: tuple[int, ...] = ()


def add_patches(
    model: SavedModel, inputs: Sequence[PatchInput], criterion: Criterion, *, keep_logits: bool = False
) -> Addition:
    """Return the model with a patch for each input that needs one; all hold together.

    Earlier patches that hold in `model` hold in the result too: if the new ones would break them, the η of all are
    solved again together.

    Raises:
        PatchConflictError: the patches cannot hold together.
        PatchError: not an `idw` model, an invalid input or label, or a criterion that float32 cannot meet.
        ModelFileError: the records do not fit the prototypes.
    """
    earlier = [patch for patch in recorded_patches(model) if patch.holds]
    demands = [Demand(one.query, one.label, criterion, keep_logits, one.name) for one in inputs]
    try:
        if len(demands) == 1:
            patches = [make_patch(model.network, *_question(demands[0]), keep_logits=keep_logits)]
        else:
            patches = solve_together(model.network, demands)
        network = apply_patches(model.network, [patch for patch in patches if patch is not None])
        required = [later_requirement(patch.key, patch.record.label, patch.criterion) for patch in earlier]
        if not missing_leads(network, required).any():
            return _added(model, network.values.detach(), inputs, patches, {})
    except PatchConflictError:
        if not earlier:
            raise
    return _solved_again(model, earlier, inputs, demands)


def without_patch(model: SavedModel, number: int) -> Addition:
    """Return the model without the patch `number`, from 1.

    Earlier patches that were solved again for it get their former η back. If patches that hold would not hold without
    it, or if it was itself solved again together with others, these are solved again without it. If all that is
    impossible, the others are left as they are.

    Raises:
        PatchError: there is no such patch.
        ModelFileError: the records do not fit the prototypes.
    """
    patches = recorded_patches(model)
    if not 1 <= number <= len(patches):
        expected = f"expected 1 to {len(patches)}" if patches else "the model has no patches"
        raise PatchError(f"no patch has the number {number}", location=("undo",), hint=expected)
    network, removed = model.network, patches[number - 1].record
    keep = torch.arange(len(network.keys)) != _rows(model, [number])[0]
    records = [dict(record) for record in model.patches]
    was_solved_again = any(one["number"] == number for record in records for one in record.get("replaced", []))
    del records[number - 1]
    for record in records:
        if "replaced" in record:
            record["replaced"] = _renumbered(record["replaced"], number)
    rest = _network(network, network.keys.detach()[keep], network.values.detach()[keep])
    left = Addition(replace(model, network=rest, patches=tuple(records), patched_metrics={}), ())
    held = {patch.number - (patch.number > number) for patch in patches if patch.holds and patch.number != number}
    if removed.replaced:
        former = _with_former_etas(left.model, removed)
        if _all_hold(former.model, held):
            return former
    if not was_solved_again and _all_hold(left.model, held):
        return left
    try:
        return _solved_again(left.model, [one for one in recorded_patches(left.model) if one.number in held], [], [])
    except PatchError:
        return left


def _all_hold(model: SavedModel, numbers: set[int]) -> bool:
    return all(patch.holds for patch in recorded_patches(model) if patch.number in numbers)


def _renumbered(replaced: list[dict[str, Any]], removed: int) -> list[dict[str, Any]]:
    return [
        {**one, "number": one["number"] - (one["number"] > removed)} for one in replaced if one["number"] != removed
    ]


def _with_former_etas(model: SavedModel, removed: PatchRecord) -> Addition:
    """Return the model with the η that were replaced when a patch was added."""
    records = [dict(record) for record in model.patches]
    values = model.network.values.detach().clone()
    rows = _rows(model, [former.number for former in removed.replaced])
    for row, former in zip(rows, removed.replaced, strict=True):
        records[former.number - 1] |= {"eta": former.eta, "amount": former.amount}
        values[row] = torch.tensor(former.value)
    network = _network(model.network, model.network.keys.detach(), values)
    numbers = tuple(former.number for former in removed.replaced)
    return Addition(replace(model, network=network, patches=tuple(records), patched_metrics={}), (), numbers)


def _solved_again(
    model: SavedModel, earlier: Sequence[RecordedPatch], inputs: Sequence[PatchInput], demands: Sequence[Demand]
) -> Addition:
    """Return the model with the η of earlier and new patches solved together."""
    old_values = model.network.values.detach()
    rows = _rows(model, [patch.number for patch in earlier])
    others = torch.ones(len(old_values), dtype=torch.bool)
    others[rows] = False
    start = _network(model.network, model.network.keys.detach()[others], old_values[others])
    solved = solve_together(start, [*(patch.demand() for patch in earlier), *demands])
    renewed = {patch.number: made for patch, made in zip(earlier, solved, strict=False) if made is not None}
    new = solved[len(earlier) :]
    made = apply_patches(start, [patch for patch in solved if patch is not None]).values.detach()[len(start.values) :]
    values = old_values.clone()
    values[rows] = made[: len(rows)]
    return _added(model, torch.cat([values, made[len(rows) :]]), inputs, new, renewed)


def _added(
    model: SavedModel,
    values: torch.Tensor,
    inputs: Sequence[PatchInput],
    patches: Sequence[Patch | None],
    renewed: dict[int, Patch],
) -> Addition:
    """Return the model with `values` for all prototypes, and the records of renewed and new patches."""
    made = [(one.x, patch) for one, patch in zip(inputs, patches, strict=True) if patch is not None]
    changed = {number: patch for number, patch in renewed.items() if patch.eta != model.patches[number - 1]["eta"]}
    if not made and not changed:
        return Addition(model, tuple(patches))
    records = [dict(record) for record in model.patches]
    replaced = []
    for row, (number, patch) in zip(_rows(model, list(changed)), changed.items(), strict=True):
        record, value = records[number - 1], model.network.values.detach()[row].tolist()
        replaced.append({"number": number, "eta": record["eta"], "amount": record["amount"], "value": value})
        record |= {"eta": patch.eta, "amount": patch.criterion_used.amount}
    keys = torch.cat([model.network.keys.detach(), *(torch.from_numpy(patch.key)[None] for _, patch in made)])
    network = _network(model.network, keys, values)
    records += [_record(x, patch) | ({"replaced": replaced} if replaced else {}) for x, patch in made]
    patched = replace(model, network=network, patches=tuple(records), patched_metrics={})
    return Addition(patched, tuple(patches), tuple(changed))


def _rows(model: SavedModel, numbers: Sequence[int]) -> list[int]:
    """Return the positions of the prototypes of patches."""
    first = len(model.network.keys) - len(model.patches)
    return [first + number - 1 for number in numbers]


def _record(x: str | list[float], patch: Patch) -> dict[str, Any]:
    record = {
        "x": x,
        "label": patch.label,
        "eta": patch.eta,
        "criterion": patch.criterion_used.kind,
        "amount_requested": patch.criterion.amount,
        "amount": patch.criterion_used.amount,
        "label_before": patch.label_before,
    }
    return record if patch.logits is None else record | {"keep_logits": True}


def _question(demand: Demand) -> tuple[NDArray[np.float32], int, Criterion]:
    return demand.query, demand.label, demand.criterion


def _network(network: PrototypeNetwork, keys: torch.Tensor, values: torch.Tensor) -> PrototypeNetwork:
    return PrototypeNetwork(network.method, network.parameters_of_method, keys, values)
