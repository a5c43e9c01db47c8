"""The sections of cases: patched inputs before and after, and what the layers of a perceptron attend to.

The first are from studies of patches, the second from the dual form of gradient descent.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from idwbench.errors import IdwbenchError
from idwbench.figures.style import percent_label
from idwbench.page.charts import bar_chart
from idwbench.page.parts import Case, Chart, Panels, Part, Picture, image_picture, sentences, svg_picture
from idwbench.report.labels import count_label
from idwbench.results.records import StoredRun
from idwbench.runs.kinds.patch_study import PatchStudyConfig

if TYPE_CHECKING:
    from idwbench.data.dataset import Dataset
    from idwbench.explanations.explanation import Explanation
    from idwbench.figures.patches import PatchPanel
    from idwbench.figures.plane import PlanePicture
    from idwbench.results.store import Results

__all__ = ["attention_part", "patches_part"]

_MOST = 12
_WIDTH = 3.75  # inches of a picture of the plane
_EXACT = 0  # the place of the exact η among the criteria of a study
_LARGEST = 6  # training images with the largest attention


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
            return Part("patches", form, sentences(notes), cases=tuple(cases[:_MOST]))
    return None


def _in_plane(
    results: Results, studies: Sequence[StoredRun], data_dir: Path | None
) -> tuple[list[Case], Sequence[str]]:
    from idwbench.figures.patches import collect_patches
    from idwbench.figures.runs import Selection

    selection = Selection(results, studies, data_dir)
    panels, dataset, source = collect_patches(selection)
    shown = [panel for panel in panels if panel.n_patched and panel.before is not None]
    shown.sort(key=lambda panel: panel.prototypes)
    others = len(panels) - len(shown[:_MOST])
    notes = [
        f"shown: {source}",
        *selection.left_out,
        f"not drawn: {count_label(others, 'case')}, most of which need no patch" if others else "",
    ]
    return [_plane_case(panel, dataset) for panel in shown[:_MOST]], notes


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
    from idwbench.figures.patches import draw_patch
    from idwbench.figures.plane import draw_plane, plane_extent

    left, right, bottom, top = plane_extent(shown.dataset)
    figure = Figure(figsize=(_WIDTH, _WIDTH * (top - bottom) / (right - left)), layout="constrained")
    axes = figure.subplots()
    draw_plane(axes, shown, test=False, scale=0.7)
    draw_patch(axes, panel)
    return svg_picture(figure)


def _of_images(
    results: Results, studies: Sequence[StoredRun], data_dir: Path | None
) -> tuple[list[Case], Sequence[str]]:
    from idwbench.data.loading import load_dataset

    study = min(studies, key=lambda run: run.config.seed)
    dataset = load_dataset(study.config.dataset, data_dir)
    if dataset.image_shape is None:
        return [], ()
    arrays = results.load_arrays(study.run_key)
    inputs = dataset.scaling.invert(np.asarray(arrays["inputs"], np.float32))
    labels, before = (np.asarray(arrays[name], np.int64) for name in ("labels", "labels_before"))
    eta, changed = np.asarray(arrays["eta"])[_EXACT], np.asarray(arrays["changed_test"])[_EXACT]
    cases = []
    for case in range(min(_MOST, len(labels))):
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
    from idwbench.figures.attention import collect_attention
    from idwbench.figures.runs import Selection
    from idwbench.report.studies import dual_form

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
