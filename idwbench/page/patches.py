"""Patched inputs before and after, from studies of patches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from idwbench.errors import IdwbenchError
from idwbench.figures.style import percent_label
from idwbench.page.parts import Case, Part, Picture, sentences
from idwbench.page.pictures import image_picture, svg_picture
from idwbench.report.labels import count_label
from idwbench.results.records import StoredRun
from idwbench.runs.kinds.patch_study import PatchStudyConfig

if TYPE_CHECKING:
    from idwbench.figures.patches import PatchPanel
    from idwbench.figures.plane import PlaneData, PlanePicture
    from idwbench.results.store import Results

__all__ = ["patches_part"]

_MOST = 12
_WIDTH = 3.75  # inches of a picture of the plane
_EXACT = 0  # the place of the exact η among the criteria of a study
_PLANE = (
    "Regions of the two classes before and after one added prototype (star), with training points and keys (diamonds). "
    "Accuracies are means ± sample standard deviation over the seeds that needed the patch; the pictures show the "
    "lowest of these seeds."
)
_IMAGES = "The first test images that were answered wrongly: the answer before and after one added prototype."


def patches_part(results: Results, runs: Sequence[StoredRun], data_dir: Path | None) -> Part | None:
    """Return the section of patches; None without complete studies of patches, or without their data."""
    studies = [run for run in runs if isinstance(run.config.model, PatchStudyConfig) and run.state == "complete"]
    if not studies:
        return None
    for text, find in ((_PLANE, _in_plane), (_IMAGES, _of_images)):
        try:
            cases, notes = find(results, studies, data_dir)
        except IdwbenchError:
            continue
        if cases:
            return Part("patches", "Patches", text, sentences(notes), cases=tuple(cases[:_MOST]))
    return None


def _in_plane(
    results: Results, studies: Sequence[StoredRun], data_dir: Path | None
) -> tuple[list[Case], Sequence[str]]:
    from idwbench.figures.patches import collect_patches
    from idwbench.figures.runs import Selection

    selection = Selection(results, studies, data_dir)
    panels, data, source = collect_patches(selection)
    shown = [panel for panel in panels if panel.n_patched and panel.before is not None]
    shown.sort(key=lambda panel: panel.prototypes)
    others = len(panels) - len(shown[:_MOST])
    notes = [
        f"shown: {source}",
        *selection.left_out,
        f"not drawn: {count_label(others, 'case')}, most of which need no patch" if others else "",
    ]
    return [_plane_case(panel, data) for panel in shown[:_MOST]], notes


def _plane_case(panel: PatchPanel, data: PlaneData) -> Case:
    states = [
        Picture(_plane_svg(panel, shown, data), label, f"test accuracy {percent_label(accuracy)} %")
        for label, shown, accuracy in zip(("before", "after"), (panel.before, panel.after), panel.test, strict=True)
        if shown is not None
    ]
    name = data.dataset.class_names[panel.label]
    point = f"({panel.point[0]:g}, {panel.point[1]:g})".replace("-", "−")
    title = f"{count_label(panel.prototypes, 'prototype')}: {point} → class {name}"
    if panel.n_patched < panel.n:
        title += f", needed in {panel.n_patched} of {panel.n} seeds"
    return Case(title, tuple(states))


def _plane_svg(panel: PatchPanel, shown: PlanePicture, data: PlaneData) -> str:
    """Return what the figure of patches draws of a state: regions, training points, keys and the patched point."""
    from matplotlib.figure import Figure

    from idwbench.figures.patches import draw_patch
    from idwbench.figures.plane import draw_plane

    left, right, bottom, top = data.extent
    figure = Figure(figsize=(_WIDTH, _WIDTH * (top - bottom) / (right - left)), layout="constrained")
    axes = figure.subplots()
    draw_plane(axes, shown, data, test=False, scale=0.7)
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
