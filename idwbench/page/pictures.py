"""The sections with pictures: prototypes, patched inputs before and after, and what perceptrons attend to.

Prototypes are images, points in the plane or rows of a table, beside their nearest training rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.data.columns import Columns
from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.errors import IdwbenchError
from idwbench.figures.patches import PatchPanel, collect_patches, draw_patch
from idwbench.figures.plane import PlanePicture, draw_plane, plane_extent
from idwbench.figures.runs import Keys, Model, Selection, key_order
from idwbench.figures.style import percent_label
from idwbench.models.neighbours import several_nearest
from idwbench.page.charts import bar_chart, plane_chart, round_number
from idwbench.page.groups import best_run
from idwbench.page.parts import (
    Case,
    Chart,
    Panels,
    Part,
    Picture,
    PrototypeGrid,
    image_picture,
    key_picture,
    sentences,
    svg_picture,
)
from idwbench.report.frame import Row
from idwbench.report.labels import count_label
from idwbench.report.studies import dual_form
from idwbench.report.tables import Column, Table
from idwbench.results.records import StoredRun
from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import dataset_label
from idwbench.runs.kinds.models import MODELS
from idwbench.runs.kinds.patch_study import PatchStudyConfig
from idwbench.runs.metrics import HEADLINES

if TYPE_CHECKING:
    from idwbench.explanations.explanation import Explanation
    from idwbench.results.store import Results

__all__ = ["attention_part", "patches_part", "prototypes_part"]

_NETWORKS, _KEYS, _NEAREST = 8, 64, 5
_PLANE_POINTS = 300
_SMALLEST_SIDE = 4  # of an image, where the data set is missing
_MOST_COLUMNS = 30
_METRIC = HEADLINES["classification"].name
_CASES = 12
_PLANE_WIDTH = 3.75  # inches of a picture of the plane
_EXACT = 0  # the place of the exact η among the criteria of a study
_LARGEST = 6  # training images with the largest attention


def prototypes_part(results: Results, ranked: Sequence[Row], data_dir: Path | None) -> Part | None:
    """Return the section of keys: the best setting of each method; None if no run has keys that can be drawn."""
    candidates = [setting for setting in ranked if _has_keys(setting.config)]
    best: dict[str, Row] = {}
    for setting in candidates:
        best.setdefault(setting.config.model.method, setting)
    models, grids, notes, problems, read = [], [], [], [], cache(load_dataset)
    for setting in [*best.values()][:_NETWORKS]:
        run = best_run(setting)
        try:
            arrays = {name: np.asarray(array, np.float32) for name, array in results.load_arrays(run.run_key).items()}
        except IdwbenchError as error:
            notes.append(f"{run.config.model.method}: {error.problem}")
        else:
            models.append(Model(setting, run, arrays))
    # Those with nearest training images first.
    for model in sorted(models, key=lambda model: not model.has_points):
        config, dataset = model.run.config.dataset, None
        try:
            dataset = read(config, data_dir)
        except IdwbenchError as error:
            name = dataset_label(config)
            problems.append(f"without training images, since {name} is not available: {error.problem}")
        if (grid := _grid(model, dataset)) is not None:
            grids.append(grid)
    if not grids:
        return None
    if left := len(candidates) - len(grids):
        notes.append(f"the best setting of each method is shown; not shown: {left:,} other settings")
    form = "plane" if grids[0].chart is not None else "images" if grids[0].data is not None else "rows"
    return Part("prototypes", form, sentences([*notes, *problems]), grids=tuple(grids))


def _has_keys(config: RunConfig) -> bool:
    kind = MODELS.get(config.model.kind)
    return kind is not None and kind.array_names == ("keys", "values") and config.dataset.task == "classification"


def _grid(model: Model, dataset: Dataset | None) -> PrototypeGrid | None:
    shape = _image_shape(model.keys, dataset)
    if shape is not None:
        return _image_grid(model, shape, dataset)
    if dataset is None or not dataset.class_names:
        return None
    if dataset.columns is not None and dataset.n_features != 2:
        return _table_grid(model, dataset, dataset.columns)
    if dataset.n_features != 2:
        return None
    chosen, title, names = _in_view(model, dataset), model.title(_METRIC), dataset.class_names
    note = f"{len(chosen):,} of {len(model.keys):,} keys, those near the data." if len(chosen) < len(model.keys) else ""
    own, values = dataset.scaling.invert(model.keys[chosen]), model.values[chosen]
    points = dataset.scaling.invert(dataset.train.inputs[:_PLANE_POINTS])
    spec = plane_chart(points, dataset.train.labels[:_PLANE_POINTS], own, values, chosen, names)
    columns = {"key": [*map(str, chosen)], "x": _texts(own[:, 0]), "y": _texts(own[:, 1])}
    columns["class"] = [names[label] for label in values.argmax(axis=1)]
    columns |= {f"value of {name}": _texts(column) for name, column in zip(names, values.T, strict=True)}
    table = _table(columns, {"class"})
    return PrototypeGrid(title, note, chart=Chart("", f"Keys among the training points: {title}", spec), table=table)


def _table_grid(model: Model, dataset: Dataset, columns: Columns) -> PrototypeGrid | None:
    """Return the prototypes as rows of a table; None if its keys are directions, which have no units."""
    if not model.has_points:
        return None
    order, names = key_order(model.values)[:_KEYS], dataset.class_names
    keys, classes = model.keys[order], model.values[order].argmax(1)
    rows, distances = several_nearest(keys, dataset.train.inputs, 1)
    texts = [columns.texts(key) for key in dataset.scaling.invert(keys)]
    shown = {"prototype": [*map(str, order)], "class": [names[label] for label in classes]}
    own = zip(columns.names[:_MOST_COLUMNS], zip(*texts, strict=True), strict=False)
    shown |= {f"column {name}" if name in shown else name: [*column] for name, column in own}
    shown |= {"nearest row": [f"{row} ({names[dataset.train.labels[row]]})" for row in rows[:, 0].tolist()]}
    shown |= {"distance": _texts(distances[:, 0])}
    words = {"class", "nearest row", *(column.name for column in columns.columns if column.categories)}
    notes = [f"The first {len(order)} of {len(model.keys):,} keys."] if len(order) < len(model.keys) else []
    notes += [f"The first {_MOST_COLUMNS} of {len(columns)} columns."] if len(columns) > _MOST_COLUMNS else []
    return PrototypeGrid(model.title(_METRIC), " ".join(notes), table=_table(shown, words))


def _table(columns: Mapping[str, Sequence[str]], words: Collection[str]) -> Table:
    """Return a table of columns by name, of which all but those of words have numbers."""
    shown = (Column(name, name, [*column], numeric=name not in words) for name, column in columns.items())
    return Table("", tuple(shown), (None,) * len(next(iter(columns.values()))))


def _texts(numbers: NDArray[np.floating]) -> list[str]:
    return [f"{number:.3f}".replace("-", "−") for number in numbers]


def _image_shape(keys: Keys, dataset: Dataset | None) -> tuple[int, int] | None:
    """Return height and width of the images; without the data set, those of a square."""
    if dataset is not None:
        return dataset.image_shape if dataset.class_names else None
    side = round(float(np.sqrt(keys.shape[1])))
    return (side, side) if side >= _SMALLEST_SIDE and side * side == keys.shape[1] else None


def _image_grid(model: Model, shape: tuple[int, int], dataset: Dataset | None) -> PrototypeGrid:
    keys, values = model.keys, model.values
    order = key_order(values)[:_KEYS]
    classes = dataset.class_names if dataset is not None else tuple(map(str, range(values.shape[1])))
    shown = dataset.scaling.invert(keys) if model.has_points and dataset is not None else keys.astype(np.float64)
    tiles: list[dict[str, Any]] = [
        {
            "number": int(key),
            "label": int(values[key].argmax()),
            "picture": key_picture(shown[key].reshape(shape)),
            "values": [round_number(float(value), 3) or 0.0 for value in values[key]],
        }
        for key in order
    ]
    images = _add_nearest(tiles, keys[order], shape, dataset) if model.has_points and dataset is not None else {}
    notes = [f"The first {len(order)} of {len(keys):,} keys."] if len(order) < len(keys) else []
    notes += [] if model.has_points else ["Its keys are directions, not points: no training image is nearest."]
    data = {"classes": list(classes), "keys": tiles, "images": images}
    return PrototypeGrid(model.title(_METRIC), " ".join(notes), data)


def _add_nearest(
    tiles: list[dict[str, Any]], keys: Keys, shape: tuple[int, int], dataset: Dataset
) -> dict[int, dict[str, Any]]:
    """Add the nearest training images to each tile, and return these images by row of the training data."""
    train = dataset.train
    rows, distances = several_nearest(keys, train.inputs, _NEAREST)
    for tile, found, away in zip(tiles, rows.tolist(), distances.tolist(), strict=True):
        pairs = zip(found, away, strict=True)
        tile["nearest"] = [{"row": row, "distance": round_number(distance, 3)} for row, distance in pairs]
    pictures = {int(row): dataset.scaling.invert(train.inputs[row]).reshape(shape) for row in np.unique(rows)}
    return {row: {"picture": image_picture(one), "label": int(train.labels[row])} for row, one in pictures.items()}


def _in_view(model: Model, dataset: Dataset) -> NDArray[np.intp]:
    """Return the first keys that are at most twice as far from 0 as the data; points count wherever they are."""
    is_near = np.abs(model.keys).max(axis=1) <= 2 * np.abs(dataset.train.inputs).max()
    return np.flatnonzero(is_near | model.has_points)[:_KEYS]


def patches_part(results: Results, runs: Sequence[StoredRun], data_dir: Path | None) -> Part | None:
    """Return the section of patches; None without complete studies of patches, or without their data."""
    complete = (run for run in runs if run.state == "complete")
    models = ((run, run.config.model) for run in complete)
    studies = [run for run, model in models if isinstance(model, PatchStudyConfig) and not model.compare]
    if not studies:
        return None
    for form, find in (("plane", _in_plane), ("images", _of_images)):
        try:
            cases, notes = find(results, studies, data_dir)
        except IdwbenchError:
            continue
        if cases:
            return Part("patches", form, sentences(notes), cases=tuple(cases[:_CASES]))
    return None


def _in_plane(
    results: Results, studies: Sequence[StoredRun], data_dir: Path | None
) -> tuple[list[Case], Sequence[str]]:
    selection = Selection(results, studies, data_dir)
    panels, dataset, source = collect_patches(selection)
    shown = [panel for panel in panels if panel.n_patched and panel.before is not None]
    shown.sort(key=lambda panel: panel.prototypes)
    others = len(panels) - len(shown[:_CASES])
    notes = [
        f"shown: {source}",
        *selection.left_out,
        f"not drawn: {count_label(others, 'case')}, most of which need no patch" if others else "",
    ]
    return [_plane_case(panel, dataset) for panel in shown[:_CASES]], notes


def _plane_case(panel: PatchPanel, dataset: Dataset) -> Case:
    states = [
        Picture(_plane_svg(panel, shown), label, f"test accuracy {percent_label(accuracy)} %")
        for label, shown, accuracy in zip(("before", "after"), (panel.before, panel.after), panel.test, strict=True)
        if shown is not None
    ]
    name = dataset.class_names[panel.label]
    point = f"({panel.point[0]:g}, {panel.point[1]:g})".replace("-", "−")
    title = f"{count_label(panel.prototypes, 'prototype')}: {point} → class {name}"
    if panel.n_patched < panel.n:
        title += f", needed in {panel.n_patched} of {panel.n} seeds"
    return Case(title, tuple(states))


def _plane_svg(panel: PatchPanel, shown: PlanePicture) -> str:
    """Return what the figure of patches draws of a state: regions, training points, keys and the patched point."""
    left, right, bottom, top = plane_extent(shown.dataset)
    figure = Figure(figsize=(_PLANE_WIDTH, _PLANE_WIDTH * (top - bottom) / (right - left)), layout="constrained")
    axes = figure.subplots()
    draw_plane(axes, shown, test=False, scale=0.7)
    draw_patch(axes, panel)
    return svg_picture(figure)


def _of_images(
    results: Results, studies: Sequence[StoredRun], data_dir: Path | None
) -> tuple[list[Case], Sequence[str]]:
    study = min(studies, key=lambda run: run.config.seed)
    dataset = load_dataset(study.config.dataset, data_dir)
    if dataset.image_shape is None:
        return [], ()
    arrays = results.load_arrays(study.run_key)
    inputs = dataset.scaling.invert(np.asarray(arrays["inputs"], np.float32))
    labels, before = (np.asarray(arrays[name], np.int64) for name in ("labels", "labels_before"))
    eta, changed = np.asarray(arrays["eta"])[_EXACT], np.asarray(arrays["changed_test"])[_EXACT]
    cases = []
    for case in range(min(_CASES, len(labels))):
        picture = image_picture(inputs[case].reshape(dataset.image_shape))
        wrong, right = (dataset.class_names[int(label[case])] for label in (before, labels))
        others = count_label(int(changed[case]), "other test answer")
        text = f"before, {right} after; η = {float(eta[case]):.3g}; {others} changed"
        cases.append(Case(f"Label {right}", (Picture(picture, wrong, text),), small=True))
    label = f"{study.config.model.label} · seed {study.config.seed}"
    left = len(labels) - len(cases)
    return cases, [f"shown: {label}", f"not drawn: {count_label(left, 'other case')}" if left else ""]


def attention_part(results: Results, runs: Sequence[StoredRun], data_dir: Path | None) -> Part | None:
    """Return the section of the dual form; None without complete runs of kind ``mlp``."""
    from idwbench.figures.attention import collect_attention  # loads torch

    perceptrons = [run for run in runs if run.config.model.kind == "mlp" and run.state == "complete"]
    if not perceptrons:
        return None
    selection = Selection(results, perceptrons, data_dir)
    try:
        found, _ = collect_attention(selection, _LARGEST)
        left_out = selection.left_out
    except IdwbenchError as error:
        found, left_out = [], [f"no recorded training is drawn: {error.problem}"]
    panels, cases = tuple(map(_attention_panels, found)), tuple(map(_attended_images, found))
    tables = dual_form(perceptrons)
    return Part("attention", "", sentences(left_out), tables, panels, cases=cases)


def _attention_panels(explained: Explanation) -> Panels:
    target, answer = (explained.class_name(one.label) for one in (explained.query, explained.answer))
    charts = []
    for layer in explained.layers:
        totals = dict(zip(explained.class_names, map(float, layer.totals), strict=True))
        spec = bar_chart(totals, answer, "total attention")
        charts.append(Chart(layer.name, f"Total attention of {layer.name} to each class", spec))
    return Panels(f"{explained.model} · {explained.query.text}: target {target}, answer {answer}", tuple(charts))


def _attended_images(explained: Explanation) -> Case:
    """Return the test image, and the training images that the last layer attends to most."""
    shape = explained.image_shape
    assert shape is not None  # checked when it was collected
    shown = [Picture(image_picture(explained.query.picture.reshape(shape)), "test image", explained.query.text)]
    layer = explained.layers[-1]
    for item in layer.items[:_LARGEST]:
        text = f"attention {item.weight:.3g}, class {explained.class_name(item.label)}"
        shown.append(Picture(image_picture(item.picture.reshape(shape)), item.source, text))
    return Case(f"What {layer.name} attends to most", tuple(shown), small=True)
