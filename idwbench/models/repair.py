"""Repairs: change the outputs of a model at inputs by patches, or undo one, and report what that does.

The report has the predictions for the model's own data, and for perturbed copies of the inputs: 100 with normal noise
of 5 % of the range of each feature, and of an image the four that are moved by one pixel.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.errors import IdwbenchError, PatchError
from idwbench.models.array_weights import calibration_error, softmax
from idwbench.models.demands import Demand, asked
from idwbench.models.inputs import PatchLine, find_input, find_label, find_target, own_data
from idwbench.models.patch_solution import solved_repairs
from idwbench.models.patches import Floats
from idwbench.models.radii import Rows, errors
from idwbench.models.saved_model import SavedModel
from idwbench.runs.metrics import METRICS

__all__ = ["Repair", "SplitEffect", "own_rows", "perturbed", "repair"]

# The standard deviation of the noise, as a part of the range of each feature.
_NOISE = 0.05
_COPIES = 100
_STEPS = ((0, 1), (0, -1), (1, 0), (-1, 0))
# More threads of BLAS wait longer for each other than they save.
_one_thread = partial(threadpool_limits, 1, user_api="blas")


@dataclass(frozen=True)
class SplitEffect:
    """The effect of patches on the predictions for a split.

    Attributes:
        n: Its inputs.
        patched: How many of them are inputs of patches; the others are counted below, but in `changed`.
        changed: Predictions that changed; of a regression by more than 1 % of the targets' standard deviation.
        better: Other predictions that became right; of a regression those of which an error shrinks by more than that.
        worse: Other predictions that became wrong; of a regression those of which an error grows by more than that.
        classes: For each class, by number, how many of its other inputs became right and wrong; if any did.
        before: ``accuracy`` and expected ``calibration`` error of all inputs before, or ``rmse``, the root mean squared
            error in the targets' own units.
        after: The same after.
    """

    n: int
    patched: int
    changed: int
    better: int
    worse: int
    classes: dict[int, tuple[int, int]]
    before: dict[str, float]
    after: dict[str, float]

    def facts(self) -> dict[str, Any]:
        """Return it as values for JSON."""
        facts = {name: value for name, value in vars(self).items() if name not in ("before", "after")}
        pairs = [(name, when) for name in self.before for when in ("before", "after")]
        return facts | {f"{name}_{when}": getattr(self, when)[name] for name, when in pairs}

    def __str__(self) -> str:
        text = f"of {self.n - self.patched} others {self.better} better, {self.worse} worse"
        if "rmse" in self.before:
            return f"{text}; rmse {self.before['rmse']:.4g} -> {self.after['rmse']:.4g}"
        accuracy = f"accuracy {100 * self.before['accuracy']:.2f} -> {100 * self.after['accuracy']:.2f} %"
        calibration = f"calibration error {self.before['calibration']:.3f} -> {self.after['calibration']:.3f}"
        return f"{text}; {accuracy}; {calibration}"


@dataclass(frozen=True)
class Repair:
    """A repaired model and what changed, which is measured when it is asked for.

    Attributes:
        before: The model before.
        solved: The model with other patches; the same object if nothing changed.
        demands: What was asked for, with the prototypes if the model changed.
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

    @cached_property
    def probabilities(self) -> list[float]:
        """Probability of each wanted label after the repair; empty of a regression."""
        if not self.demands or not self.before.class_names:
            return []
        shares = softmax(self.solved.outputs(np.stack([one.query for one in self.demands])))
        return [float(row[one.label]) for row, one in zip(shares, self.demands, strict=True)]

    @cached_property
    def effects(self) -> dict[str, SplitEffect]:
        """The effect by split of the model's own data; empty if nothing changed, or there is no data."""
        with _one_thread():
            return {name: self._effect(rows) for name, rows in self.splits.items() if self.is_changed}

    def _effect(self, rows: Rows) -> SplitEffect:
        """Return how the predictions for a split differ."""
        outputs, is_other = [], np.ones(len(rows.targets), np.bool_)
        for model in (self.solved, self.before):
            repairs, patches = model.repairs, model.patch_prototypes
            sq_dist = rows.sq_dist(repairs.inputs.reshape(-1, model.n_features))
            is_other &= (sq_dist > 0).all(1)
            own = [one.has_prototype for one in repairs.records]
            outputs.append(rows.states.patched(patches.log_weights_at(sq_dist[:, own]), patches.values))
        targets, slack = rows.targets, self.splits["train"].slack
        is_regression = targets.ndim == 2
        answers = outputs if is_regression else [one.argmax(1)[:, None] for one in outputs]
        growth = errors(outputs[0], targets) - errors(outputs[1], targets)
        better, worse = (np.flatnonzero(is_other & (change > slack).any(1)) for change in (-growth, growth))
        counts = [Counter([] if is_regression else targets[places].tolist()) for places in (better, worse)]
        after, before = (self._metrics(one, targets) for one in outputs)
        return SplitEffect(
            n=len(targets),
            patched=int((~is_other).sum()),
            changed=int((np.abs(answers[0] - answers[1]) > slack).any(1).sum()),
            better=len(better),
            worse=len(worse),
            classes={label: (counts[0][label], counts[1][label]) for label in sorted(counts[0] | counts[1])},
            before=before,
            after=after,
        )

    def _metrics(self, outputs: Floats, targets: NDArray[Any]) -> dict[str, float]:
        if targets.ndim == 2:
            return {"rmse": float(np.sqrt(np.mean(np.square((outputs - targets) * self.before.target_scaling.std))))}
        accuracy = float((outputs.argmax(1) == targets).mean())
        return {"accuracy": accuracy, "calibration": calibration_error(outputs, targets)}

    @cached_property
    def kept(self) -> dict[str, float]:
        """Share of the perturbed copies of the inputs that get their labels: ``noise``, and of images ``shifts``."""
        if not self.effects or not self.demands or not self.before.class_names:
            return {}
        queries, labels = np.stack([one.query for one in self.demands]), [[one.label] for one in self.demands]
        kept, spread = {}, np.ptp(self.splits["train"].box, axis=0)
        with _one_thread():
            for name, inputs in perturbed(queries, spread, _COPIES, self.before.image_shape).items():
                answers = self.solved.outputs(inputs.reshape(-1, len(spread))).argmax(1)
                kept[name] = float((answers.reshape(len(queries), -1) == labels).mean())
        return kept

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
            if self.is_changed:
                facts |= {name: getattr(one, name) for name in ("radius", "steepness", "certified_radius", "reach")}
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
        settings: How inputs are patched, see `idwbench.models.demands.asked`.

    Raises:
        PatchConflictError: the patches cannot hold together.
        PatchError: an invalid input, class, target or setting, no such patch, or a demand that this model cannot meet;
            the message about a line has its place.
        DatasetError: a data set in a line cannot be loaded.
    """
    load = cache(load_dataset)
    find = partial(find_input, config=model.config, data=model, data_dir=data_dir, load=load)
    is_classification = bool(model.class_names)
    template = asked(**settings, is_classification=is_classification)
    to_keep = asked(is_classification=is_classification).model_copy(update={"kind": "keep"})
    wanted = [_demand(model, line, find, template) for line in lines]
    kept = [_demand(model, line, find, to_keep) for line in keep]
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
        repairs = solved_repairs(model.base, [*earlier, *wanted, *kept], splits.get("train"), merge=merge)
    solved = replace(model, repairs=repairs, patched_metrics={}) if len(repairs) or len(model.repairs) else model
    records = repairs.records[len(earlier) :][: len(wanted)] or wanted
    return Repair(model, solved, records, splits, unmeasured)


def _demand(model: SavedModel, line: PatchLine, find: Callable[[str], NDArray[np.float32]], template: Demand) -> Demand:
    """Return the demand of a line with the settings of another; errors have its place."""
    name = line.name
    try:
        if isinstance(x := line.x, str):
            query = find(x)
        else:
            query, features = model.scale(x), x if model.columns is None else model.columns.row(x)
            x = np.asarray(features, np.float64).reshape(-1).tolist()
        if template.kind != "keep":
            wish: dict[str, Any] = _wish(model, line)
        else:
            outputs, name = model.base.states(query[None]).outputs[0], f"{name} of {line.file}"
            wish = {"label": int(outputs.argmax())} if model.class_names else {"target": outputs.tolist()}
    except IdwbenchError as error:
        raise line.located(error) from None
    return template.model_copy(update={"query": query, "x": x, "name": name, **wish})


def _wish(model: SavedModel, line: PatchLine) -> dict[str, Any]:
    """Return the number of the label that is wanted of a classifier, or the scaled target of a regression."""
    names, label, target = model.class_names, line.label, line.target
    wanted, other, of = (label, target, "label") if names else (target, label, "target")
    if wanted is None or other is not None:
        location = of if other is None else "target" if names else "label"
        raise PatchError(f"a {'classifier' if names else 'regression'} needs a {of}", location=(location,))
    if not names:
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
    rows = {}
    for name in ("train", "test"):
        targets = dataset.splits[name].targets
        if not model.class_names:
            targets = model.target_scaling.apply(dataset.target_scaling.invert(targets))
        rows[name] = Rows(model.base, dataset.splits[name].inputs, targets)
    return rows


def perturbed(
    queries: NDArray[np.float32], spread: Floats, n: int, image_shape: tuple[int, int] | None
) -> dict[str, NDArray[Any]]:
    """Return copies (queries, copies, features) of inputs: `n` with ``noise``, and of images four ``shifts``.

    Noise has a standard deviation of 5 % of the `spread` of each feature; images are moved by one pixel, with the
    pixels at the border repeated.
    """
    noise = np.random.default_rng(0).normal(0, _NOISE, (len(queries), n, len(spread)))
    copies: dict[str, NDArray[Any]] = {"noise": queries[:, None] + noise * spread}
    if image_shape is not None:
        rows, columns = image_shape
        images = np.pad(queries.reshape(len(queries), rows, columns), ((0, 0), (1, 1), (1, 1)), mode="edge")
        moved = [images[:, 1 + down : 1 + down + rows, 1 + right : 1 + right + columns] for down, right in _STEPS]
        copies["shifts"] = np.stack(moved, axis=1).reshape(len(queries), len(_STEPS), rows * columns)
    return copies
