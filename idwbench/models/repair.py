"""Repairs: change the outputs of a model at inputs by patches, or undo one, and report what that does."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.errors import IdwbenchError, PatchError
from idwbench.models.array_weights import softmax
from idwbench.models.demands import Demand, demand_settings
from idwbench.models.effects import SplitEffect, kept_shares, split_effect
from idwbench.models.inputs import LoadDataset, PatchLine, find_input, find_label, find_target, own_data
from idwbench.models.patch_records import solved_repairs
from idwbench.models.radii import Rows, error_slack
from idwbench.models.saved_model import SavedModel
from idwbench.runs.metrics import METRICS

__all__ = ["Repair", "own_rows", "repair"]


# More threads of BLAS wait longer for each other than they save.
_one_thread = partial(threadpool_limits, 1, user_api="blas")


@dataclass(frozen=True)
class Repair:
    """A repaired model and what changed, which is measured when it is asked for.

    Attributes:
        before: The model before.
        solved: The model with other patches; the same object if nothing changed.
        demands: What was asked for.
        splits: The training and test data of the model; empty if there is none.
        unmeasured: Why there is no data.
    """

    before: SavedModel
    solved: SavedModel
    demands: Sequence[Demand] = ()
    splits: Mapping[str, Rows] = field(default_factory=dict)
    unmeasured: str = ""

    @property
    def is_changed(self) -> bool:
        """Whether the repaired model differs from the original."""
        return self.solved is not self.before

    @property
    def warnings(self) -> tuple[str, ...]:
        """One line for each."""
        problem = f"the effect on other inputs and the reach of patches are not known: {self.unmeasured}"
        return (problem,) if self.is_changed and not self.splits else ()

    @property
    def records(self) -> tuple[Demand, ...]:
        """The demands with their prototypes, if the model changed."""
        first = len(self.before.repairs)
        return self.solved.repairs.records[first : first + len(self.demands)] if self.is_changed else ()

    @cached_property
    def probabilities(self) -> list[float]:
        """Probability of each wanted label after the repair; empty of a regression."""
        if not self.demands or not self.before.class_names:
            return []
        shares = softmax(self.solved.outputs(np.stack([one.query for one in self.demands])).astype(np.float64))
        return [float(row[one.label]) for row, one in zip(shares, self.demands, strict=True)]

    @cached_property
    def effects(self) -> dict[str, SplitEffect]:
        """The effect by split of the model's own data; empty if nothing changed, or there is no data."""
        if not self.is_changed or not self.splits:
            return {}
        inputs = np.concatenate([one.repairs.inputs for one in (self.before, self.solved) if len(one.repairs)])
        patches = self.before.patch_prototypes, self.solved.patch_prototypes
        given = (*patches, inputs, error_slack(self.splits["train"].targets), self.before.target_scaling.std)
        with _one_thread():
            return {name: split_effect(self.before.base, rows, *given) for name, rows in self.splits.items()}

    @cached_property
    def kept(self) -> dict[str, float]:
        """Share of the perturbed copies of the inputs that get their labels: ``noise``, and of images ``shifts``."""
        if not self.effects or not self.demands or not self.before.class_names:
            return {}
        low, high = self.splits["train"].box
        patches, image_shape = self.solved.patch_prototypes, self.before.image_shape
        with _one_thread():
            return kept_shares(self.before.base, patches, self.demands, high - low, image_shape)

    @cached_property
    def after(self) -> SavedModel:
        """The repaired model with the metrics that its patches change; the original if nothing changed."""
        effects = self.effects if len(self.solved.patch_prototypes) else {}
        metrics = {
            split: {name: number for name, number in effect.after.items() if name in METRICS}
            for split, effect in effects.items()
        }
        return replace(self.solved, patched_metrics=metrics) if self.is_changed else self.before

    def facts(self) -> dict[str, Any]:
        """Return the repair as values for JSON."""
        names, patches = self.before.class_names, []
        for place, one in enumerate(self.demands):
            outputs = self.before.outputs(one.query[None])[0]
            facts: dict[str, Any] = {"x": one.x, "label": one.label}
            if one.label is not None:
                answer = {"label_before": int(outputs.argmax()), "probability": self.probabilities[place]}
                facts |= {"class": names[one.label], **answer}
            elif one.target is not None:
                facts |= {"target": one.target, "outputs_before": outputs.tolist()}
            if self.records:
                solved = ("radius", "steepness", "certified_radius", "reach")
                facts |= {name: getattr(self.records[place], name) for name in solved}
            patches.append(facts)
        effects = {name: effect.facts() for name, effect in self.effects.items()}
        return {"changed": self.is_changed, "patches": patches, "kept": self.kept, "effects": effects}


def repair(
    model: SavedModel,
    lines: Sequence[PatchLine] = (),
    *,
    keep: Sequence[PatchLine] = (),
    undo: int | None = None,
    merge: bool = False,
    dataset: Dataset | None = None,
    data_dir: Path | None = None,
    **settings: Any,
) -> Repair:
    """Return a model with more patches, or without one, all of them solved again as a whole.

    Args:
        model: The model.
        lines: Inputs to patch, with labels or targets.
        keep: Inputs whose answers without patches must stay.
        undo: The number of a patch to remove, from 1 and oldest first.
        merge: Whether inputs of one label share a patch where all still hold.
        dataset: The data that the model was trained on; loaded if it is left out. Without it every radius must be
            given, and the reach of the patches is not known.
        data_dir: Folder of the image archives.
        settings: How inputs are patched, see `demand_settings`.

    Raises:
        PatchConflictError: the patches cannot hold together.
        PatchError: an invalid input, class, target or setting, no such patch, or a demand that this model cannot meet;
            the message about a line has its place.
        DatasetError: a data set in a line cannot be loaded.
    """
    load = cache(load_dataset)
    chosen = demand_settings(**settings)
    demands = [_demand(model, line, data_dir, load, chosen) for line in lines]
    kept = [_demand(model, line, data_dir, load) for line in keep]
    earlier, unmeasured = model.repairs.demands(), ""
    if undo is not None:
        if not 1 <= undo <= len(earlier):
            expected = f"expected 1 to {len(earlier)}" if earlier else "the model has no patches"
            raise PatchError(f"no patch has the number {undo}", location=("undo",), hint=expected)
        del earlier[undo - 1]
    if dataset is None:
        dataset, unmeasured = own_data(model, data_dir, load)
    with _one_thread():
        splits = {} if dataset is None else own_rows(model, dataset)
        repairs = solved_repairs(model.base, [*earlier, *demands, *kept], splits.get("train"), merge=merge)
    solved = replace(model, repairs=repairs, patched_metrics={}) if len(repairs) or len(model.repairs) else model
    return Repair(model, solved, demands, splits, unmeasured)


def _demand(
    model: SavedModel,
    line: PatchLine,
    data_dir: Path | None,
    load: LoadDataset,
    settings: Mapping[str, Any] | None = None,
) -> Demand:
    """Return the demand of a line, or without settings that the network's own answer stays; errors have its place."""
    try:
        if isinstance(x := line.x, str):
            query = find_input(x, model.config, model, data_dir, load)
        else:
            query, features = model.scale(x), x if model.columns is None else model.columns.row(x)
            x = np.asarray(features, np.float64).reshape(-1).tolist()
        if settings is not None:
            return Demand(query=query, **_wish(model, line, settings), name=line.name, x=x, **settings)
    except IdwbenchError as error:
        raise line.located(error) from None
    outputs = model.base.states(query[None]).outputs[0]
    answer: dict[str, Any] = {"label": int(outputs.argmax())} if model.class_names else {"target": outputs.tolist()}
    return Demand(query=query, kind="keep", steepness_is_chosen=True, name=f"{line.name} of {line.file}", x=x, **answer)


def _wish(model: SavedModel, line: PatchLine, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the number of the label that is wanted of a classifier, or the scaled target of a regression."""
    names, label, target = model.class_names, line.label, line.target
    if names and (label is None or target is not None):
        raise PatchError("a classifier needs a label", location=("label" if target is None else "target",))
    if not names and (target is None or label is not None):
        raise PatchError("a regression needs a target", location=("target" if label is None else "label",))
    if not names:
        # Files of regressions may have such demands, without a meaning.
        if "criterion" in settings:
            raise PatchError("needs classes, not a regression", location=(settings["criterion"],))
        if settings["kind"] in ("printed", "authors"):
            raise PatchError(f"the formula '{settings['kind']}' needs classes, not a regression")
        return {"target": find_target(target, model)}
    try:
        number = find_label(label, names) if isinstance(label, str) else operator.index(label)  # type: ignore[arg-type]
    except TypeError:
        raise PatchError(f"expected the name or number of a class, got {label!r}", location=("label",)) from None
    if not 0 <= number < len(names):
        raise PatchError(f"expected 0 to {len(names) - 1}, got {number}", location=("label",))
    if len(names) == 1:
        raise PatchError("this model has one class only: there is nothing to patch")
    return {"label": number}


def own_rows(model: SavedModel, dataset: Dataset) -> dict[str, Rows]:
    """Return train and test with targets in the units of the model, which an imported one does not share with these."""
    splits = {name: dataset.splits[name] for name in ("train", "test")}
    if model.class_names:
        return {name: Rows(split.inputs, split.labels) for name, split in splits.items()}
    apply, invert = model.target_scaling.apply, dataset.target_scaling.invert
    return {name: Rows(split.inputs, apply(invert(split.targets))) for name, split in splits.items()}
