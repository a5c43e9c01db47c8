"""The sections with pictures: prototypes, patched inputs before and after, and what perceptrons attend to.

Prototypes are images, points in the plane or rows of a table, beside their nearest training rows.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset
from idwbench.errors import ConfigError, IdwbenchError
from idwbench.figures.patches import PatchPanel, collect_patches, draw_patch
from idwbench.figures.plane import PlanePicture, draw_plane, plane_extent
from idwbench.figures.runs import Keys, Model, Selection, key_order
from idwbench.figures.style import percent_label, render_figure
from idwbench.models.neighbours import several_nearest
from idwbench.page.charts import bar_chart, plane_chart, round_number
from idwbench.page.groups import best_run
from idwbench.page.parts import Block, Chart, Part, Picture, image_picture, key_picture, sentences
from idwbench.report.frame import Row
from idwbench.report.labels import count_label
from idwbench.report.studies import dual_form
from idwbench.report.tables import Column, Table
from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import dataset_label
from idwbench.runs.kinds.models import MODELS
from idwbench.runs.kinds.patch_study import PatchStudyConfig
from idwbench.runs.metrics import HEADLINES

if TYPE_CHECKING:
    from idwbench.explanations.explanation import Explanation

__all__ = ["attention_part", "patches_part", "prototypes_part"]

_NETWORKS, _KEYS, _NEAREST = 8, 64, 5
_PLANE_POINTS = 300
_SMALLEST_SIDE = 4  # of an image, where the data set is missing
_MOST_COLUMNS = 30
_METRIC = HEADLINES["classification"].name
_CASES = 12
_PLANE_WIDTH, _DPI = 3.75, 72  # inches of a picture of the plane, and its dots per inch
_EXACT = 0  # the place of the exact η among the criteria of a study
_LARGEST = 6  # training images with the largest attention


def prototypes_part(selection: Selection, ranked: Sequence[Row]) -> Part:
    """Return the section of keys: the best setting of each method; raises `ConfigError` if none can be drawn."""
    candidates = [setting for setting in ranked if _has_keys(setting.config)]
    best: dict[str, Row] = {}
    for setting in candidates:
        best.setdefault(setting.config.model.method, setting)
    models, blocks, notes, problems, read = [], [], [], [], cache(selection.dataset)
    for setting in [*best.values()][:_NETWORKS]:
        run = best_run(setting)
        try:
            models.append(Model(setting, run, selection.arrays(run.run_key)))
        except IdwbenchError as error:
            notes.append(f"{run.config.model.method}: {error.problem}")
    # Those with nearest training images first.
    for model in sorted(models, key=lambda model: not model.has_points):
        config, dataset = model.run.config.dataset, None
        try:
            dataset = read(config)
        except IdwbenchError as error:
            name = dataset_label(config)
            problems.append(f"without training images, since {name} is not available: {error.problem}")
        shape = _image_shape(model.keys, dataset)
        if shape is not None:
            blocks.append(_images_block(model, shape, dataset))
        elif dataset is not None and dataset.class_names and (block := _table_block(model, dataset)) is not None:
            blocks.append(block)
    if not blocks:
        raise ConfigError("no run has keys that can be drawn")
    if left := len(candidates) - len(blocks):
        notes.append(f"the best setting of each method is shown; not shown: {left:,} other settings")
    form = "plane" if blocks[0].charts else "images" if blocks[0].keys is not None else "rows"
    return Part("prototypes", form, sentences([*notes, *problems]), blocks=tuple(blocks))


def _has_keys(config: RunConfig) -> bool:
    kind = MODELS.get(config.model.kind)
    return kind is not None and kind.array_names == ("keys", "values") and config.dataset.task == "classification"


def _table_block(model: Model, dataset: Dataset) -> Block | None:
    """Return the keys as rows of a table, and in the plane if the data has two features.

    It is None for more features without names, and if the keys are directions, which have no units.
    """
    columns, is_plane, names = dataset.columns, dataset.n_features == 2, dataset.class_names
    if not is_plane and (columns is None or not model.has_points):
        return None
    order = key_order(model.values)
    order = order[_is_near(model, dataset)[order]][:_KEYS] if is_plane else order[:_KEYS]
    values, own = model.values[order], dataset.scaling.invert(model.keys[order])
    features = ("x", "y") if columns is None else columns.names[:_MOST_COLUMNS]
    texts = zip(*map(_texts if columns is None else columns.texts, own), strict=True)
    shown: dict[str, Sequence[str]] = {"prototype": [*map(str, order)]}
    shown["class"] = [names[label] for label in values.argmax(1)]
    shown |= {
        f"column {name}" if name in shown else name: column for name, column in zip(features, texts, strict=False)
    }
    if is_plane:
        shown |= {f"value of {name}": _texts(column) for name, column in zip(names, values.T, strict=True)}
    if model.has_points:
        rows, distances = several_nearest(model.keys[order], dataset.train.inputs, 1)
        shown["nearest row"] = [f"{row} ({names[dataset.train.labels[row]]})" for row in rows[:, 0].tolist()]
        shown["distance"] = _texts(distances[:, 0])
    words = {"class", "nearest row", *(one.name for one in (columns.columns if columns else ()) if one.categories)}
    own_columns = tuple(Column(name, name, [*column], name not in words) for name, column in shown.items())
    which = "Those near the data: " if is_plane else "The first "
    notes = [f"{which}{len(order):,} of {len(model.keys):,} keys."] if len(order) < len(model.keys) else []
    notes += (
        [f"The first {_MOST_COLUMNS} of {len(columns)} columns."] if columns and len(columns) > _MOST_COLUMNS else []
    )
    title, charts = model.title(_METRIC), []
    if is_plane:
        points, labels = dataset.scaling.invert(dataset.train.inputs[:_PLANE_POINTS]), dataset.train.labels
        spec = plane_chart(points, labels[:_PLANE_POINTS], own, values, order, names)
        charts.append(Chart("", f"Keys among the training points: {title}", spec))
    return Block(title, " ".join(notes), tuple(charts), table=Table("", own_columns, (None,) * len(order)))


def _texts(numbers: NDArray[np.floating]) -> list[str]:
    return [f"{number:.3f}".replace("-", "−") for number in numbers]


def _image_shape(keys: Keys, dataset: Dataset | None) -> tuple[int, int] | None:
    """Return height and width of the images; without the data set, those of a square."""
    if dataset is not None:
        return dataset.image_shape if dataset.class_names else None
    side = round(float(np.sqrt(keys.shape[1])))
    return (side, side) if side >= _SMALLEST_SIDE and side * side == keys.shape[1] else None


def _images_block(model: Model, shape: tuple[int, int], dataset: Dataset | None) -> Block:
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
    return Block(model.title(_METRIC), " ".join(notes), keys=data)


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


def _is_near(model: Model, dataset: Dataset) -> NDArray[np.bool_]:
    """Return which keys are at most twice as far from 0 as the data; points count wherever they are."""
    return np.asarray(model.has_points | (np.abs(model.keys).max(axis=1) <= 2 * np.abs(dataset.train.inputs).max()))


def patches_part(selection: Selection) -> Part:
    """Return the section of patches; raises `ConfigError` without complete studies of patches, or their data."""
    models = ((run, run.config.model) for run in selection.runs if run.state == "complete")
    studies = [run for run, model in models if isinstance(model, PatchStudyConfig) and not model.compare]
    for form, find in (("plane", _in_plane), ("images", _of_images)) if studies else ():
        try:
            blocks, notes = find(replace(selection, runs=studies))
        except IdwbenchError:
            continue
        if blocks:
            return Part("patches", form, sentences(notes), blocks=tuple(blocks[:_CASES]))
    raise ConfigError("no study of patches can be drawn")


def _in_plane(selection: Selection) -> tuple[list[Block], Sequence[str]]:
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


def _plane_case(panel: PatchPanel, dataset: Dataset) -> Block:
    states = tuple(
        Picture(_plane_svg(panel, shown), label, f"test accuracy {percent_label(accuracy)} %")
        for label, shown, accuracy in zip(("before", "after"), (panel.before, panel.after), panel.test, strict=True)
        if shown is not None
    )
    name = dataset.class_names[panel.label]
    point = f"({panel.point[0]:g}, {panel.point[1]:g})".replace("-", "−")
    title = f"{count_label(panel.prototypes, 'prototype')}: {point} → class {name}"
    if panel.n_patched < panel.n:
        title += f", needed in {panel.n_patched} of {panel.n} seeds"
    return Block(title, pictures=states)


def _plane_svg(panel: PatchPanel, shown: PlanePicture) -> str:
    """Return what the figure of patches draws of a state: regions, training points, keys and the patched point."""
    left, right, bottom, top = plane_extent(shown.dataset)
    figure = Figure(figsize=(_PLANE_WIDTH, _PLANE_WIDTH * (top - bottom) / (right - left)), layout="constrained")
    axes = figure.subplots()
    draw_plane(axes, shown, test=False, scale=0.7)
    draw_patch(axes, panel)
    return "data:image/svg+xml;base64," + base64.b64encode(render_figure(figure, ".svg", _DPI)).decode()


def _of_images(selection: Selection) -> tuple[list[Block], Sequence[str]]:
    study = min(selection.runs, key=lambda run: run.config.seed)
    dataset = selection.dataset(study.config.dataset)
    if dataset.image_shape is None:
        return [], ()
    arrays = selection.store.load_arrays(study.run_key)
    inputs = dataset.scaling.invert(np.asarray(arrays["inputs"], np.float32))
    labels, before = (np.asarray(arrays[name], np.int64) for name in ("labels", "labels_before"))
    eta, changed = np.asarray(arrays["eta"])[_EXACT], np.asarray(arrays["changed_test"])[_EXACT]
    cases = []
    for case in range(min(_CASES, len(labels))):
        picture = image_picture(inputs[case].reshape(dataset.image_shape))
        wrong, right = (dataset.class_names[int(label[case])] for label in (before, labels))
        others = count_label(int(changed[case]), "other test answer")
        text = f"before, {right} after; η = {float(eta[case]):.3g}; {others} changed"
        pictures = (Picture(picture, wrong, text),)
        cases.append(Block(f"Label {right}", pictures=pictures, is_small=True))
    label = f"{study.config.model.label} · seed {study.config.seed}"
    left = len(labels) - len(cases)
    return cases, [f"shown: {label}", f"not drawn: {count_label(left, 'other case')}" if left else ""]


def attention_part(selection: Selection) -> Part:
    """Return the section of the dual form; raises `ConfigError` without complete runs of kind ``mlp``."""
    from idwbench.figures.attention import collect_attention  # loads torch

    perceptrons = [run for run in selection.of_kind("mlp") if run.state == "complete"]
    chosen = replace(selection, runs=perceptrons)
    try:
        found, _ = collect_attention(chosen, _LARGEST)
        left_out = chosen.left_out
    except IdwbenchError as error:
        found, left_out = [], [f"no recorded training is drawn: {error.problem}"]
    blocks = [block for explained in found for block in (_attention_charts(explained), _attended_images(explained))]
    return Part("attention", notes=sentences(left_out), tables=dual_form(perceptrons), blocks=tuple(blocks))


def _attention_charts(explained: Explanation) -> Block:
    target, answer = (explained.class_name(one.label) for one in (explained.query, explained.answer))
    charts = []
    for layer in explained.layers:
        totals = {name: [float(total)] for name, total in zip(explained.class_names, layer.totals, strict=True)}
        spec = bar_chart(totals, answer, "total attention", "class")
        charts.append(Chart(layer.name, f"Total attention of {layer.name} to each class", spec))
    title = f"{explained.model} · {explained.query.text}: target {target}, answer {answer}"
    return Block(title, charts=tuple(charts))


def _attended_images(explained: Explanation) -> Block:
    """Return the test image, and the training images that the last layer attends to most."""
    shape = explained.image_shape
    assert shape is not None  # checked when it was collected
    shown = [Picture(image_picture(explained.query.picture.reshape(shape)), "test image", explained.query.text)]
    layer = explained.layers[-1]
    for item in layer.items[:_LARGEST]:
        text = f"attention {item.weight:.3g}, class {explained.class_name(item.label)}"
        shown.append(Picture(image_picture(item.picture.reshape(shape)), item.source, text))
    return Block(f"What {layer.name} attends to most", pictures=tuple(shown), is_small=True)
