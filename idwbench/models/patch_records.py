"""The patches that a model file records, and whether they hold.

The prototypes of patches are the last rows of keys and values, oldest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from idwbench.errors import ModelFileError, PatchError
from idwbench.models.criteria import Criterion
from idwbench.models.demands import Demand, later_requirement
from idwbench.models.model_card import PatchRecord, parse_patch
from idwbench.models.patch_checks import missing_leads

if TYPE_CHECKING:
    from idwbench.models.saved_model import SavedModel

__all__ = ["RecordedPatch", "recorded_patches"]


@dataclass(frozen=True)
class RecordedPatch:
    """A patch of a model.

    Attributes:
        number: Its number, from 1, oldest first.
        record: What the model file records of it.
        key: (features,), scaled.
        criterion: The criterion requested.
        holds: Whether the model still meets it, alone and in a batch; of a relative margin, whether the label wins.
    """

    number: int
    record: PatchRecord
    key: NDArray[np.float32]
    criterion: Criterion
    holds: bool

    def demand(self) -> Demand:
        """Return what the patch demands of a network."""
        record = self.record
        return Demand(self.key, record.label, self.criterion, record.keep_logits, f"patch {self.number}", patched=True)

    def facts(self, class_names: Sequence[str]) -> dict[str, Any]:
        """Return the patch as values for JSON, with the name of its class."""
        record = self.record
        return {
            "number": self.number,
            "x": record.x,
            "label": record.label,
            "class": class_names[record.label],
            "label_before": record.label_before,
            "criterion": {"kind": record.criterion, "amount": record.amount_requested},
            "criterion_used": {"kind": record.criterion, "amount": record.amount},
            "eta": record.eta,
            "keep_logits": record.keep_logits,
            "holds": self.holds,
        }


def recorded_patches(model: SavedModel) -> tuple[RecordedPatch, ...]:
    """Return the patches of a model, oldest first, each checked.

    Raises:
        ModelFileError: the records do not fit the prototypes.
    """
    records = [parse_patch(number, dict(content)) for number, content in enumerate(model.patches, start=1)]
    _check_records(model, records)
    if not records:
        return ()
    keys = model.network.keys.detach().cpu().numpy()[-len(records) :]
    criteria = [_criterion(number, record) for number, record in enumerate(records, start=1)]
    required = [
        later_requirement(key, record.label, criterion)
        for key, record, criterion in zip(keys, records, criteria, strict=True)
    ]
    holds = missing_leads(model.network, required) == 0
    return tuple(
        RecordedPatch(number, *parts)
        for number, parts in enumerate(zip(records, keys, criteria, holds.tolist(), strict=True), start=1)
    )


def _check_records(model: SavedModel, records: Sequence[PatchRecord]) -> None:
    learned, found = model.config.model.prototypes, len(model.network.keys)
    if records and found != learned + len(records):
        problem = f"{learned} learned prototypes and {len(records)} patches are recorded, but {found} prototypes found"
        raise ModelFileError(problem)
    values = model.network.values.detach().cpu().numpy()[len(model.network.values) - len(records) :]
    for number, (record, value) in enumerate(zip(records, values, strict=True), start=1):
        expected = np.zeros_like(value)
        fits = record.label < len(value) and 0 <= record.label_before < len(value)
        if fits:
            expected[record.label] = record.eta
        if not fits or (not record.keep_logits and (value != expected).any()):
            raise ModelFileError(f"the prototype of patch {number} does not fit its record")


def _criterion(number: int, record: PatchRecord) -> Criterion:
    try:
        return Criterion(record.criterion, record.amount_requested)
    except PatchError as error:
        raise ModelFileError(f"damaged record of patch {number}: {error}") from None
