"""Repairs: patch a model for one or many inputs given as text, or undo a patch, and measure the effect on its data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

from idwbench.data.loading import load_dataset
from idwbench.errors import IdwbenchError, PatchError
from idwbench.models.criteria import Criterion
from idwbench.models.effects import SplitEffect, large_effect, measured_effects
from idwbench.models.inputs import LoadDataset, find_input, find_label
from idwbench.models.model_file import save_model
from idwbench.models.patch_changes import PatchInput, add_patches, without_patch
from idwbench.models.patch_files import read_patch_file
from idwbench.models.patching import Patch, check_patch
from idwbench.models.saved_model import SavedModel

__all__ = ["Repair", "repair", "repair_file", "undo"]


@dataclass(frozen=True)
class Repair:
    """A repaired model.

    Attributes:
        before: The original model.
        after: The repaired model; the same object as `before` if no patch was needed.
        inputs: The inputs to patch.
        patches: One for each input, or None where none was needed.
        effects: The effect of the repair by split of the model's own data.
        warnings: One line for each.
        solved_again: Numbers of the earlier patches whose η changed.
        broken: Numbers, in `after`, of the patches that do not hold there.
    """

    before: SavedModel
    after: SavedModel
    inputs: tuple[PatchInput, ...] = ()
    patches: tuple[Patch | None, ...] = ()
    effects: dict[str, SplitEffect] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    solved_again: tuple[int, ...] = ()
    broken: tuple[int, ...] = ()

    @property
    def is_changed(self) -> bool:
        """Whether the repaired model differs from the original."""
        return self.after is not self.before

    def facts(self) -> dict[str, Any]:
        """Return the repair as values for JSON: for one input its own, for others a list."""
        effects = {name: asdict(effect) for name, effect in self.effects.items()}
        rest = {"solved_again": list(self.solved_again), "broken": list(self.broken)}
        listed = [self._facts_of(*pair) for pair in zip(self.inputs, self.patches, strict=True)]
        if len(listed) != 1:
            return {"changed": self.is_changed, "patches": listed, "effects": effects, **rest}
        return {**listed[0], "effects": effects, **rest} if self.is_changed else listed[0]

    def _facts_of(self, given: PatchInput, patch: Patch | None) -> dict[str, Any]:
        facts = {"label": given.label, "class": self.before.class_names[given.label], "x": given.x}
        if patch is None:
            return {"changed": False, **facts}
        return {
            "changed": True,
            **facts,
            "label_before": patch.label_before,
            "eta": patch.eta,
            "criterion": asdict(patch.criterion),
            "criterion_used": asdict(patch.criterion_used),
            "keep_logits": patch.logits is not None,
            "confidence": patch.confidence,
            "logit_margin": patch.logit_margin,
        }

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write the repaired model, if it is changed; raises like `save_model`.

        Raises:
            PatchError: the model as read back does not meet a criterion.
        """
        if self.is_changed:
            save_model(self.after, path, overwrite=overwrite, check=self._check)

    def _check(self, again: SavedModel) -> None:
        for patch in self.patches:
            if patch is not None:
                check_patch(again.network, patch)
        if _broken(again) != self.broken:
            raise PatchError("the patches of the model do not hold when it is read back")


def repair(
    model: SavedModel,
    x: str,
    label: str,
    criterion: Criterion | None = None,
    *,
    keep_logits: bool = False,
    data_dir: Path | None = None,
) -> Repair:
    """Return an `idw` classifier with the smallest patch after which it predicts `label` for the input `x`.

    Args:
        model: The classifier.
        x: The input, see `idwbench.models.inputs.find_input`.
        label: The name or number of the target class.
        criterion: The condition on the target class.
        keep_logits: Whether the new value is z(q) + η e_c instead of η e_c.
        data_dir: Folder of the image archives.

    Raises:
        PatchConflictError: the patch and earlier ones cannot hold together.
        PatchError: invalid input or class, or float32 cannot represent the patch.
        DatasetError: the data set in `x` cannot be loaded.
        ModelFileError: the recorded patches do not fit the prototypes.
    """
    load = cache(load_dataset)
    target = find_label(label, model.class_names)
    given = PatchInput(x, find_input(x, model.config, model, data_dir, load), target)
    return _repaired(model, [given], criterion, keep_logits, data_dir, load)


def repair_file(
    model: SavedModel,
    path: Path,
    criterion: Criterion | None = None,
    *,
    keep_logits: bool = False,
    data_dir: Path | None = None,
) -> Repair:
    """Return an `idw` classifier with patches for all rows of a CSV file, see `read_patch_file`; all hold together.

    Arguments as for `repair`, which raises the same; the message about a row has its line.
    """
    load = cache(load_dataset)
    given = []
    for row in read_patch_file(path):
        try:
            label = find_label(row.label, model.class_names)
            given.append(
                PatchInput(row.x, find_input(row.x, model.config, model, data_dir, load), label, f"line {row.line}")
            )
        except IdwbenchError as error:
            raise type(error)(str(error), file=path, position=(row.line,)) from None
    return _repaired(model, given, criterion, keep_logits, data_dir, load)


def undo(model: SavedModel, number: int, *, data_dir: Path | None = None) -> Repair:
    """Return the model without the patch `number`, from 1 and oldest first.

    Raises:
        PatchError: there is no such patch.
        ModelFileError: the recorded patches do not fit the prototypes.
    """
    undone = without_patch(model, number)
    after = undone.model
    effects, unmeasured = measured_effects(model, after, data_dir)
    broken = _broken(after)
    return Repair(
        before=model,
        after=_with_metrics(after, effects),
        effects=effects,
        warnings=_warnings(unmeasured, _broken_warning(broken)),
        solved_again=undone.solved_again,
        broken=broken,
    )


def _repaired(
    model: SavedModel,
    given: Sequence[PatchInput],
    criterion: Criterion | None,
    keep_logits: bool,
    data_dir: Path | None,
    load: LoadDataset,
) -> Repair:
    added = add_patches(model, given, criterion or Criterion(), keep_logits=keep_logits)
    after = added.model
    if after is model:
        return Repair(model, model, tuple(given), added.patches)
    effects, unmeasured = measured_effects(model, after, data_dir, load)
    broken = _broken(after)
    return Repair(
        before=model,
        after=_with_metrics(after, effects),
        inputs=tuple(given),
        patches=added.patches,
        effects=effects,
        warnings=_warnings(
            _raised(added.patches), unmeasured, large_effect(model, after, effects), _broken_warning(broken)
        ),
        solved_again=added.solved_again,
        broken=broken,
    )


def _with_metrics(model: SavedModel, effects: dict[str, SplitEffect]) -> SavedModel:
    """Return a model with the accuracies that were measured with its patches."""
    measured = {name: {"accuracy": effect.accuracy_after} for name, effect in effects.items()} if model.patches else {}
    return replace(model, patched_metrics=measured)


def _warnings(*texts: str) -> tuple[str, ...]:
    return tuple(text for text in texts if text)


def _broken(model: SavedModel) -> tuple[int, ...]:
    return tuple(patch.number for patch in model.recorded_patches() if not patch.holds)


def _broken_warning(broken: Sequence[int]) -> str:
    if not broken:
        return ""
    numbers = ", ".join(map(str, broken))
    return f"patch {numbers} does not hold" if len(broken) == 1 else f"patches {numbers} do not hold"


def _raised(patches: Sequence[Patch | None]) -> str:
    raised = [patch for patch in patches if patch is not None and patch.criterion_used != patch.criterion]
    if not raised:
        return ""
    largest = max(raised, key=lambda patch: patch.criterion_used.amount)
    amounts = f"from {largest.criterion.amount:g} to {largest.criterion_used.amount:g}"
    several = f" for {len(raised)} patches, at most" if len(patches) > 1 else ""
    return f"margin raised{several} {amounts}: float32 cannot hold less"
