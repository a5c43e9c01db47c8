"""Repairs: change the outputs of a model at inputs by patches, or undo one, and report what that does."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.errors import DatasetError, IdwbenchError, PatchError
from idwbench.models.demands import Demand, demand_settings
from idwbench.models.effects import SplitEffect, kept_shares, split_effect
from idwbench.models.inputs import LoadDataset, find_input, find_label
from idwbench.models.patch_files import PatchLine, read_patch_file
from idwbench.models.patch_records import PatchRecord, solved_repairs
from idwbench.models.radii import Rows
from idwbench.models.saved_model import SavedModel

__all__ = ["Repair", "data_difference", "own_data", "repair", "repaired_model", "training_rows", "wanted"]


@dataclass(frozen=True)
class Repair:
    """A repaired model and what changed.

    Attributes:
        before: The model before.
        after: The model after; the same object if nothing changed.
        demands: What was asked for.
        effects: The effect by split of the model's own data.
        kept: Share of the perturbed copies of the inputs that get their labels: ``noise``, and ``shifts``.
        warnings: One line for each.
    """

    before: SavedModel
    after: SavedModel
    demands: Sequence[Demand] = ()
    effects: Mapping[str, SplitEffect] = field(default_factory=dict)
    kept: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def is_changed(self) -> bool:
        """Whether the repaired model differs from the original."""
        return self.after is not self.before

    @property
    def records(self) -> tuple[PatchRecord, ...]:
        """The records of the demands, if the model changed."""
        first = len(self.before.repairs)
        return self.after.repairs.records[first : first + len(self.demands)] if self.is_changed else ()

    @cached_property
    def probabilities(self) -> list[float]:
        """Probability of each wanted label after the repair; empty of a regression."""
        if not self.demands or not self.before.class_names:
            return []
        logits = self.after.outputs(np.stack([one.query for one in self.demands])).astype(np.float64)
        shares = np.exp(logits - np.logaddexp.reduce(logits, axis=1)[:, None])
        return [float(row[one.label]) for row, one in zip(shares, self.demands, strict=True)]

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
                facts |= {"target": one.target.tolist(), "outputs_before": outputs.tolist()}
            if self.records:
                solved = ("radius", "steepness", "certified_radius", "reach")
                facts |= {name: getattr(self.records[place], name) for name in solved}
            patches.append(facts)
        effects = {name: effect.facts() for name, effect in self.effects.items()}
        return {"changed": self.is_changed, "patches": patches, "kept": dict(self.kept), "effects": effects}


# More threads of BLAS wait longer for each other than they save.
@threadpool_limits.wrap(limits=1, user_api="blas")  # type: ignore[untyped-decorator]
def repair(
    model: SavedModel,
    x: str | None = None,
    label: str | None = None,
    *,
    target: str | None = None,
    file: Path | None = None,
    keep: Path | None = None,
    undo: int | None = None,
    merge: bool = False,
    data_dir: Path | None = None,
    **settings: Any,
) -> Repair:
    """Return a model with more patches, or without one, all of them solved again as a whole.

    Args:
        model: The model.
        x: An input to patch, see `idwbench.models.inputs.find_input`.
        label: The name or number of its wanted class.
        target: Its wanted outputs in a regression, separated by commas, in the targets' own units.
        file: CSV file of inputs with labels or targets, see `read_patch_file`.
        keep: CSV file with a column x, of inputs whose answers without patches must stay.
        undo: The number of a patch to remove, from 1 and oldest first.
        merge: Whether inputs of one label share a patch where all still hold.
        data_dir: Folder of the image archives.
        settings: How inputs are patched, see `demand_settings`.

    Raises:
        PatchConflictError: the patches cannot hold together.
        PatchError: an invalid input, class, target or setting, no such patch, or a demand that this model cannot meet;
            the message about a row of a file has its line.
        DatasetError: a data set in `x` cannot be loaded.
    """
    load = cache(load_dataset)
    column = "label" if model.class_names else "target"
    lines = [] if file is None else read_patch_file(file, ("x", column))
    if x is not None:
        given = {"label": label, "target": target}
        lines = [PatchLine({"x": x} | {name: cell for name, cell in given.items() if cell is not None})]
    chosen = demand_settings(**settings)
    demands = [_demand(model, line, data_dir, load, chosen) for line in lines]
    kept = [] if keep is None else [_demand(model, line, data_dir, load) for line in read_patch_file(keep, ("x",))]
    dataset, unmeasured = own_data(model, data_dir, load)
    rows = training_rows(model, dataset)
    after = repaired_model(model, [*demands, *kept], undo=undo, merge=merge, rows=rows)
    return _measured(Repair(model, after, demands), dataset, rows, unmeasured)


def repaired_model(
    model: SavedModel,
    demands: Sequence[Demand],
    *,
    undo: int | None = None,
    merge: bool = False,
    rows: Rows | None = None,
) -> SavedModel:
    """Return a model with more demands, or without one, all of them solved again as a whole.

    Args:
        model: The model; itself is returned if it needs no patch, and has none.
        demands: New demands.
        undo: The number of a patch, from 1, to leave out.
        merge: Whether demands for one label share a prototype where all still hold.
        rows: The training data; without it every radius must be given, and there is no reach.

    Raises:
        PatchConflictError: the patches cannot hold together.
        PatchError: a demand that this model cannot meet, no such patch, or no data for a radius.
    """
    earlier = model.repairs.demands()
    if undo is not None:
        if not 1 <= undo <= len(earlier):
            expected = f"expected 1 to {len(earlier)}" if earlier else "the model has no patches"
            raise PatchError(f"no patch has the number {undo}", location=("undo",), hint=expected)
        del earlier[undo - 1]
    repairs = solved_repairs(model.base, [*earlier, *demands], rows, merge=merge)
    if not len(repairs) and not len(model.repairs):
        return model
    return replace(model, repairs=repairs, patched_metrics={})


def wanted(
    model: SavedModel, query: NDArray[np.float32], label: int | str | None, target: ArrayLike | None, **settings: Any
) -> Demand:
    """Return the demand for a label of a classifier, or a target of a regression in its own units.

    Args:
        model: The model.
        query: The scaled input (features,).
        label: The name or number of a class.
        target: The outputs (outputs,), or their text with commas.
        settings: Other arguments of `Demand`.

    Raises:
        PatchError: the other of them, an unknown label, or a target of another size.
    """
    names = model.class_names
    if names and (label is None or target is not None):
        raise PatchError("a classifier needs a label", location=("label" if target is None else "target",))
    if not names and (target is None or label is not None):
        raise PatchError("a regression needs a target", location=("target" if label is None else "label",))
    if not names:
        return Demand(query, target=_scaled_target(model, target), **settings)
    try:
        number = find_label(label, names) if isinstance(label, str) else operator.index(label)  # type: ignore[arg-type]
    except TypeError:
        raise PatchError(f"expected the name or number of a class, got {label!r}", location=("label",)) from None
    if not 0 <= number < len(names):
        raise PatchError(f"expected 0 to {len(names) - 1}, got {number}", location=("label",))
    if len(names) == 1:
        raise PatchError("this model has one class only: there is nothing to patch")
    return Demand(query, number, **settings)


def _scaled_target(model: SavedModel, target: Any) -> NDArray[np.float64]:
    try:
        numbers = np.array(target.split(",") if isinstance(target, str) else target, np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise PatchError(f"expected numbers, got {target!r}", location=("target",)) from None
    if len(numbers) != model.n_outputs or not np.isfinite(numbers).all():
        raise PatchError(f"expected {model.n_outputs} finite numbers, got {len(numbers)}", location=("target",))
    return np.asarray((numbers - model.target_scaling.mean) / model.target_scaling.std, np.float64)


def _demand(
    model: SavedModel,
    row: PatchLine,
    data_dir: Path | None,
    load: LoadDataset,
    settings: Mapping[str, Any] | None = None,
) -> Demand:
    """Return the demand of a row, or without settings that the network's own answer stays; errors have its line."""
    cells = row.cells
    try:
        query = find_input(cells["x"], model.config, model, data_dir, load)
        if settings is not None:
            named = {"x": cells["x"], "name": row.name}
            return wanted(model, query, cells.get("label"), cells.get("target"), **named, **settings)
    except IdwbenchError as error:
        raise error if row.file is None else type(error)(str(error), file=row.file, position=(row.line,)) from None
    outputs = model.base.states(query[None]).outputs[0]
    answer = {"label": int(outputs.argmax())} if model.class_names else {"target": outputs}
    return Demand(query, kind="keep", name=f"{row.name} of {row.file}", x=cells["x"], **answer)


def own_data(
    model: SavedModel, data_dir: Path | None = None, load: LoadDataset = load_dataset
) -> tuple[Dataset | None, str]:
    """Return the data that the model was trained on, by the SHA-256 in its provenance, or why there is none."""
    try:
        dataset = load(model.config.dataset, data_dir)
    except DatasetError as error:
        return None, str(error)
    problem = data_difference(model, dataset)
    return (None, problem) if problem else (dataset, "")


def training_rows(model: SavedModel, dataset: Dataset | None) -> Rows | None:
    """Return the training data of a model with the outputs of its network, if there is a data set."""
    if dataset is None:
        return None
    train = dataset.train
    return Rows(train.inputs, train.labels if model.class_names else train.targets, model.base.states(train.inputs))


def data_difference(model: SavedModel, dataset: Dataset) -> str:
    """Return how the data differs from what the model was trained on, or an empty text."""
    name = model.config.dataset_label
    expected, found = model.provenance.get("data_sha256"), dataset.sha256
    if not isinstance(expected, str):
        return f"the model file has no checksum of its data, {name}"
    if expected != found:
        return (
            f"the data {name} is not what the model was trained on "
            f"(its SHA-256 starts with {found[:12]}, that of the training data with {expected[:12]})"
        )
    if (dataset.n_features, dataset.n_outputs) != (model.n_features, model.n_outputs):
        return f"the data {name} does not fit the model"
    return ""


def _measured(made: Repair, dataset: Dataset | None, rows: Rows | None, unmeasured: str) -> Repair:
    """Return the repair with its effects, and the model with the metrics measured.

    Args:
        made: The repair.
        dataset: The model's data.
        rows: Its training data.
        unmeasured: Why there is no data.
    """
    if not made.is_changed:
        return made
    if dataset is None or rows is None:
        problem = f"the effect on other inputs and the reach of patches are not known: {unmeasured}"
        return replace(made, warnings=(problem,))
    if not made.before.class_names:
        return made
    base, patches = made.after.base, [model.patch_prototypes for model in (made.before, made.after)]
    inputs = np.concatenate([*(one.repairs.inputs for one in (made.before, made.after) if len(one.repairs))])
    splits = {"train": rows, "test": Rows(dataset.test.inputs, dataset.test.labels)}
    effects = {name: split_effect(base, split, patches[0], patches[1], inputs) for name, split in splits.items()}
    kept = {}
    if made.demands:
        low, high = rows.box
        kept = kept_shares(base, patches[1], made.demands, high - low, made.after.image_shape)
    metrics = {name: {"accuracy": effect.accuracy_after} for name, effect in effects.items()}
    after = replace(made.after, patched_metrics=metrics if len(patches[1]) else {})
    return replace(made, effects=effects, kept=kept, after=after)
