"""Repairs: change the outputs of a model at inputs by patches, or undo one, and report what that does."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, TypedDict, get_args

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset, Split
from idwbench.data.loading import load_dataset
from idwbench.errors import DatasetError, IdwbenchError, PatchError
from idwbench.models.certificates import Box
from idwbench.models.demands import DEFAULT_STEEPNESS, Criterion, Demand, Kind
from idwbench.models.effects import SplitEffect, kept_under_noise, kept_under_shifts, split_effect
from idwbench.models.inputs import LoadDataset, find_input, find_label
from idwbench.models.model_file import save_model
from idwbench.models.patch_files import read_patch_file
from idwbench.models.patch_records import PatchRecord, solved_repairs
from idwbench.models.patches import States
from idwbench.models.radii import Rows
from idwbench.models.saved_model import SavedModel

__all__ = [
    "PatchOptions",
    "Repair",
    "Wanted",
    "changed_model",
    "data_difference",
    "own_data",
    "repair",
    "repair_file",
    "undo",
    "wanted",
]

X = str | list[float]


@dataclass(frozen=True)
class PatchOptions:
    """How inputs are patched, see `Demand`.

    Attributes:
        kind: ``local``, ``exact``, ``printed`` or ``authors``.
        radius: In scaled units; None for the largest that changes no right prediction of the training data.
        steepness: Of a local patch.
        criterion: The condition on the label.
        merge: Whether demands for one label share a prototype where all still hold.
    """

    kind: Kind = "local"
    radius: float | None = None
    steepness: float = DEFAULT_STEEPNESS
    criterion: Criterion = field(default_factory=Criterion)
    merge: bool = False

    @classmethod
    def of(
        cls,
        kind: str,
        radius: str,
        steepness: float,
        margin: float | None,
        confidence: float | None,
        *,
        merge: bool = False,
    ) -> PatchOptions:
        """Return the options given as text and numbers; a radius of ``auto`` is the largest.

        Raises:
            PatchError: one is out of range.
        """
        if kind not in get_args(Kind) or kind == "keep":
            raise PatchError(f"expected exact, printed or authors, got '{kind}'", location=("eta",))
        if kind != "local" and (radius != "auto" or steepness != DEFAULT_STEEPNESS):
            name = "radius" if radius != "auto" else "steepness"
            raise PatchError("an exact patch has its own", location=(name,))
        if kind in ("printed", "authors") and (margin is not None or confidence is not None):
            name = "margin" if margin is not None else "confidence"
            raise PatchError(f"the formula '{kind}' has none", location=(name,))
        try:
            number = None if radius == "auto" else float(radius)
        except ValueError:
            raise PatchError(f"expected a number or auto, got '{radius}'", location=("radius",)) from None
        known: Kind = kind  # type: ignore[assignment]  # checked
        return cls(known, number, steepness, Criterion.of(known, margin=margin, confidence=confidence), merge)


@dataclass(frozen=True)
class Wanted:
    """An input as the user gave it and scaled (features,), its label or scaled target, and its name in messages."""

    x: X
    query: NDArray[np.float32]
    label: int | None = None
    target: tuple[float, ...] | None = None
    name: str = "this input"

    def demand(self, options: PatchOptions) -> Demand:
        """Return the demand."""
        target = None if self.target is None else np.array(self.target)
        shape = options.radius, options.steepness
        return Demand(self.query, self.label, target, options.kind, options.criterion, *shape, self.name)


@dataclass(frozen=True)
class Repair:
    """A repaired model and what changed.

    Attributes:
        before: The model before.
        after: The model after; the same object if nothing changed.
        wanted: The inputs to patch.
        effects: The effect by split of the model's own data.
        kept: Share of the perturbed copies of the wanted inputs that get their labels: ``noise``, and ``shifts``.
        warnings: One line for each.
    """

    before: SavedModel
    after: SavedModel
    wanted: tuple[Wanted, ...] = ()
    effects: Mapping[str, SplitEffect] = field(default_factory=dict)
    kept: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def is_changed(self) -> bool:
        """Whether the repaired model differs from the original."""
        return self.after is not self.before

    @property
    def records(self) -> tuple[PatchRecord, ...]:
        """The records of the wanted inputs, if the model changed."""
        return self.after.repairs.records[len(self.before.repairs) :] if self.wanted and self.is_changed else ()

    @property
    def probabilities(self) -> tuple[float, ...]:
        """Probability of each wanted label after the repair; empty of a regression."""
        if not self.wanted or not self.before.class_names:
            return ()
        logits = self.after.outputs(np.stack([one.query for one in self.wanted]))
        shares = np.exp(logits - np.logaddexp.reduce(logits, axis=1)[:, None])
        return tuple(float(row[one.label]) for row, one in zip(shares, self.wanted, strict=True))

    def facts(self) -> dict[str, Any]:
        """Return the repair as values for JSON."""
        names = self.before.class_names
        answers = self.before.outputs(np.stack([one.query for one in self.wanted])) if self.wanted else np.empty((0, 1))
        patches, probabilities = [], self.probabilities
        for place, (one, outputs) in enumerate(zip(self.wanted, answers, strict=True)):
            facts: dict[str, Any] = {"x": one.x, "label": one.label}
            if one.label is not None:
                before = int(outputs.argmax())
                facts |= {"class": names[one.label], "label_before": before, "probability": probabilities[place]}
            else:
                facts |= {"target": list(one.target or ()), "outputs_before": outputs.tolist()}
            record = self.records[place] if self.records else None
            solved = ("radius", "steepness", "certified_radius", "reach")
            patches.append(facts | ({} if record is None else {name: getattr(record, name) for name in solved}))
        effects = {name: effect.facts() for name, effect in self.effects.items()}
        return {"changed": self.is_changed, "patches": patches, "kept": dict(self.kept), "effects": effects}

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write the repaired model, if it is changed; raises like `save_model`."""
        if self.is_changed:
            save_model(self.after, path, overwrite=overwrite)


class _Data(TypedDict, total=False):
    rows: Rows
    box: Box


def changed_model(
    model: SavedModel,
    wanted: Sequence[Wanted],
    options: PatchOptions | None = None,
    *,
    kept: Sequence[Wanted] = (),
    removed: int | None = None,
    dataset: Dataset | None = None,
    states: States | None = None,
) -> SavedModel:
    """Return a model with more demands, or without one, all of them solved again as a whole.

    Args:
        model: The model; itself is returned if it meets all that is wanted without patches.
        wanted: Inputs with labels or targets.
        options: How they are patched.
        kept: Inputs whose answers, as the network gives them without patches, must stay.
        removed: The number of a patch, from 1, to leave out.
        dataset: Its training data; without it every radius must be given.
        states: The network without patches at the training inputs, if they are known.

    Raises:
        PatchConflictError: the patches cannot hold together.
        PatchError: a demand that this model cannot meet, no such patch, or no data for a radius.
    """
    options = options or PatchOptions()
    base = model.base
    demands = [
        (demand, record.x) for demand, record in zip(model.repairs.demands(), model.repairs.records, strict=True)
    ]
    if removed is not None:
        if not 1 <= removed <= len(demands):
            expected = f"expected 1 to {len(demands)}" if demands else "the model has no patches"
            raise PatchError(f"no patch has the number {removed}", location=("undo",), hint=expected)
        del demands[removed - 1]
    new = [(one.demand(options), one.x) for one in wanted]
    answers = base.states(np.stack([demand.query for demand, _ in new])).outputs if new else np.empty((0, 1))
    if new and not demands and all(demand.is_met(row) for (demand, _), row in zip(new, answers, strict=True)):
        return model
    demands += new
    for one in kept:
        demands.append((_kept_demand(base.states(one.query[None]).outputs[0], one, bool(model.class_names)), one.x))
    if all(demand.kind == "keep" for demand, _ in demands):
        demands = []
    train = None if dataset is None else dataset.train
    data: _Data = {}
    if train is not None:
        data["rows"] = Rows(train.inputs, train.labels if model.class_names else train.targets, states)
        data["box"] = Box.of(train.inputs)
    repairs = solved_repairs(base, demands, merge=options.merge, **data)
    return replace(model, repairs=repairs, patched_metrics={})


def _kept_demand(outputs: NDArray[np.float64], one: Wanted, is_classification: bool) -> Demand:
    if is_classification:
        return Demand(one.query, int(outputs.argmax()), kind="keep", name=one.name)
    return Demand(one.query, target=outputs, kind="keep", name=one.name)


def repair(
    model: SavedModel,
    x: str,
    label: str | None = None,
    options: PatchOptions | None = None,
    *,
    target: Sequence[float] | str | None = None,
    keep: Path | None = None,
    data_dir: Path | None = None,
) -> Repair:
    """Return a model with a patch after which it gives `label`, or the `target`, for the input `x`.

    Args:
        model: The model.
        x: The input, see `idwbench.models.inputs.find_input`.
        label: The name or number of the wanted class.
        options: How the input is patched.
        target: The wanted outputs of a regression, in the targets' own units; as text separated by commas.
        keep: CSV file with a column x, of inputs whose answers must stay.
        data_dir: Folder of the image archives.

    Raises:
        PatchConflictError: the patch and earlier ones cannot hold together.
        PatchError: invalid input, class or target, or a demand that this model cannot meet.
        DatasetError: the data set in `x` cannot be loaded.
    """
    load = cache(load_dataset)
    inputs = [_wanted(model, x, label, target, "this input", data_dir, load)]
    return _repaired(model, inputs, options, keep, data_dir, load)


def repair_file(
    model: SavedModel,
    path: Path,
    options: PatchOptions | None = None,
    *,
    keep: Path | None = None,
    data_dir: Path | None = None,
) -> Repair:
    """Return a model with patches for all rows of a CSV file, see `read_patch_file`; all hold together.

    Arguments as for `repair`, which raises the same; the message about a row has its line.
    """
    load = cache(load_dataset)
    column = "label" if model.class_names else "target"
    inputs = []
    for row in read_patch_file(path, ("x", column)):
        with _located(path, row.line):
            label, target = (row[column], None) if column == "label" else (None, row[column])
            inputs.append(_wanted(model, row["x"], label, target, f"line {row.line}", data_dir, load))
    return _repaired(model, inputs, options, keep, data_dir, load)


@contextmanager
def _located(path: Path, line: int) -> Iterator[None]:
    """Add the file and the line of a row to its errors."""
    try:
        yield
    except IdwbenchError as error:
        raise type(error)(str(error), file=path, position=(line,)) from None


def undo(model: SavedModel, number: int, *, data_dir: Path | None = None) -> Repair:
    """Return the model without the patch `number`, from 1 and oldest first; the others are solved again.

    Raises:
        PatchError: there is no such patch, or the others cannot be solved again without the training data.
    """
    dataset, unmeasured = own_data(model, data_dir)
    after = changed_model(model, (), removed=number, dataset=dataset)
    return _measured(Repair(model, after), dataset, unmeasured)


def _wanted(
    model: SavedModel,
    x: str,
    label: str | None,
    target: Sequence[float] | str | None,
    name: str,
    data_dir: Path | None,
    load: LoadDataset,
) -> Wanted:
    query = find_input(x, model.config, model, data_dir, load)
    return wanted(model, x, query, label, _numbers(target) if isinstance(target, str) else target, name)


def wanted(
    model: SavedModel,
    x: X,
    query: NDArray[np.float32],
    label: int | str | None = None,
    target: Any = None,
    name: str = "this input",
) -> Wanted:
    """Return what is wanted of a scaled input (features,): a label of a classifier, a target of a regression.

    Raises:
        PatchError: the other of them, an unknown label, or a target of another size.
    """
    if model.class_names:
        if target is not None or label is None:
            raise PatchError("a classifier needs a label", location=("target" if target is not None else "label",))
        try:
            number = find_label(label, model.class_names) if isinstance(label, str) else operator.index(label)
        except TypeError:
            raise PatchError(f"expected the name or number of a class, got {label!r}", location=("label",)) from None
        if not 0 <= number < len(model.class_names):
            raise PatchError(f"expected 0 to {len(model.class_names) - 1}, got {number}", location=("label",))
        if len(model.class_names) == 1:
            raise PatchError("this model has one class only: there is nothing to patch")
        return Wanted(x, query, number, None, name)
    if label is not None or target is None:
        raise PatchError("a regression needs a target", location=("label" if label is not None else "target",))
    try:
        numbers = np.asarray(target, np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise PatchError(f"expected numbers, got {target!r}", location=("target",)) from None
    if len(numbers) != model.n_outputs or not np.isfinite(numbers).all():
        raise PatchError(f"expected {model.n_outputs} finite numbers, got {len(numbers)}", location=("target",))
    scaled = (numbers - model.target_scaling.mean) / model.target_scaling.std
    return Wanted(x, query, None, tuple(scaled.tolist()), name)


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise PatchError(f"expected numbers, got '{text}'", location=("target",)) from None


def own_data(model: SavedModel, data_dir: Path | None, load: LoadDataset = load_dataset) -> tuple[Dataset | None, str]:
    """Return the data that the model was trained on, by the SHA-256 in its provenance, or why there is none."""
    try:
        dataset = load(model.config.dataset, data_dir)
    except DatasetError as error:
        return None, str(error)
    problem = data_difference(model, dataset)
    return (None, problem) if problem else (dataset, "")


def _repaired(
    model: SavedModel,
    inputs: Sequence[Wanted],
    options: PatchOptions | None,
    keep: Path | None,
    data_dir: Path | None,
    load: LoadDataset,
) -> Repair:
    kept = []
    if keep is not None:
        for row in read_patch_file(keep, ("x",)):
            with _located(keep, row.line):
                query = find_input(row["x"], model.config, model, data_dir, load)
            kept.append(Wanted(row["x"], query, name=f"line {row.line} of {keep}"))
    dataset, unmeasured = own_data(model, data_dir, load)
    states = None if dataset is None else model.base.states(dataset.train.inputs)
    after = changed_model(model, inputs, options, kept=kept, dataset=dataset, states=states)
    return _measured(Repair(model, after, tuple(inputs)), dataset, unmeasured, states)


def _measured(made: Repair, dataset: Dataset | None, unmeasured: str, states: States | None = None) -> Repair:
    """Return the repair with its effects, and the model with the metrics measured.

    `states` are those of the network without patches at the training inputs, if they are known.
    """
    if not made.is_changed:
        return made
    made = replace(made, kept=_kept_shares(made, dataset))
    if dataset is None:
        return replace(made, warnings=(f"the effect on other inputs is not measured: {unmeasured}",))
    if not made.before.class_names:
        return made
    base, patches = made.before.base, [model.patch_prototypes for model in (made.before, made.after)]
    inputs = np.concatenate(
        [one.repairs.inputs.reshape(-1, made.before.n_features) for one in (made.before, made.after)]
    )
    effects = {}
    for name in ("train", "test"):
        split: Split = dataset.splits[name]
        known = states if states is not None and name == "train" else base.states(split.inputs)
        effects[name] = split_effect(known, split, patches[0], patches[1], inputs)
    metrics = {name: {"accuracy": effect.accuracy_after} for name, effect in effects.items()}
    return replace(made, effects=effects, after=replace(made.after, patched_metrics=metrics if len(patches[1]) else {}))


def _kept_shares(made: Repair, dataset: Dataset | None) -> dict[str, float]:
    if dataset is None or not made.wanted or not made.before.class_names:
        return {}
    base, patches = made.after.base, made.after.patch_prototypes
    spread = np.ptp(dataset.train.inputs, axis=0)
    pairs = [(one.query, one.label) for one in made.wanted if one.label is not None]
    noise = [kept_under_noise(base, patches, *pair, spread, seed) for seed, pair in enumerate(pairs)]
    shares = {"noise": float(np.mean(noise))}
    if made.before.image_shape is not None:
        shape = made.before.image_shape
        shares["shifts"] = float(np.mean([kept_under_shifts(base, patches, *pair, shape) for pair in pairs]))
    return shares


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
