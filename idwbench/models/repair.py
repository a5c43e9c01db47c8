"""`repair`: patch a model for one input, and measure the effect on its own data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from idwbench.data.loading import load_dataset
from idwbench.errors import DatasetError
from idwbench.models.checkpoints import save_model
from idwbench.models.inputs import find_input, find_label
from idwbench.models.patching import Criterion, Patch, SplitEffect, check_patch, make_patch, split_effect
from idwbench.models.saved import SavedModel

__all__ = ["Repair", "repair"]


@dataclass(frozen=True)
class Repair:
    """A repaired model.

    Attributes:
        before: The original model.
        after: The patched model; the same object as `before` if no patch was needed.
        label: The label requested.
        patch: The patch, or None.
        effects: The effect of the patch by split of the model's own data.
        warnings: One line for each.
    """

    before: SavedModel
    after: SavedModel
    label: int
    patch: Patch | None
    effects: dict[str, SplitEffect]
    warnings: tuple[str, ...]

    def facts(self) -> dict[str, Any]:
        """Return the repair as values for JSON."""
        if self.patch is None:
            return {"changed": False, "label": self.label, "class": self.before.class_names[self.label]}
        return {
            "changed": True,
            "label_before": self.patch.label_before,
            "label": self.label,
            "eta": self.patch.eta,
            "criterion": asdict(self.patch.criterion),
            "criterion_used": asdict(self.patch.criterion_used),
            "confidence": self.patch.confidence,
            "logit_margin": self.patch.logit_margin,
            "effects": {name: asdict(effect) for name, effect in self.effects.items()},
        }

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write the repaired model, if there is a patch; raises like `save_model`.

        Raises:
            PatchError: the model as read back does not meet the criterion.
        """
        patch = self.patch
        if patch is not None:
            save_model(self.after, path, overwrite=overwrite, check=lambda again: check_patch(again.network, patch))


def repair(
    model: SavedModel, x: str, label: str, criterion: Criterion | None = None, *, data_dir: Path | None = None
) -> Repair:
    """Return an `idw` classifier with the smallest patch after which it predicts `label` for the input `x`.

    Args:
        model: The classifier.
        x: The input, see `idwbench.models.inputs.find_input`.
        label: The name or number of the target class.
        criterion: The condition on the target class.
        data_dir: Folder of the image archives.

    Raises:
        PatchError: invalid input or class, or float32 cannot represent the patch.
        DatasetError: the data set in `x` cannot be loaded.
    """
    target = find_label(label, model.class_names)
    made = make_patch(model.network, find_input(x, model, data_dir), target, criterion)
    if made is None:
        return Repair(model, model, target, None, {}, ())
    after = model.with_patch(made, x)
    effects, warning = _effects(model, after, data_dir)
    raised = ""
    if made.criterion_used != made.criterion:
        amounts = f"from {made.criterion.amount:g} to {made.criterion_used.amount:g}"
        raised = f"margin raised {amounts}: float32 cannot hold less"
    return Repair(model, after, target, made, effects, tuple(text for text in (raised, warning) if text))


def _effects(before: SavedModel, after: SavedModel, data_dir: Path | None) -> tuple[dict[str, SplitEffect], str]:
    """Return the effect on train and test data of the model, and a warning if it cannot be measured."""
    unmeasured = "the effect on other inputs is not measured"
    try:
        dataset = load_dataset(before.config.dataset, data_dir)
    except DatasetError as error:
        return {}, f"{unmeasured}: {error}"
    if (dataset.n_features, dataset.n_outputs) != (before.n_features, before.n_outputs):
        return {}, f"{unmeasured}: the data does not fit the model"
    splits = {name: dataset.splits[name] for name in ("train", "test")}
    return {name: split_effect(before.network, after.network, split) for name, split in splits.items()}, ""
