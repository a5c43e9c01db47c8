"""The paper's Figures 3 and 6: predictions after one patch, with accuracies before and after."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from idwbench.errors import ConfigError, ResultsError
from idwbench.figures import plane
from idwbench.figures.runs import Selection
from idwbench.figures.style import INK, PAPER, QUIET, class_colour, percent_label, seeds_label
from idwbench.report.labels import count_label
from idwbench.report.statistics import Statistic, statistic
from idwbench.report.summaries import summarise
from idwbench.results.records import StoredRun

__all__ = ["KIND", "PatchPanel", "collect_patches", "draw_patch", "draw_patches", "patches_figure"]

KIND = "patch_study"
_EXACT = 0  # the place of the exact η among the criteria of a study

Arrays = Mapping[str, NDArray[Any]]
Study = tuple[StoredRun, Arrays]


@dataclass(frozen=True)
class PatchPanel:
    """One point and label, for one number of prototypes.

    Attributes:
        point: In the data's own units.
        n: Number of seeds.
        n_patched: Number of seeds in which the model had another answer, so that it was patched.
        train: Accuracies before and after, over the patched seeds, or over all seeds if there are none.
        test: The same.
        before: The model of one seed; None if it is not stored.
        after: The model after the patch, without the new key; None if no patch was needed.
    """

    point: tuple[float, float]
    label: int
    prototypes: int
    n: int
    n_patched: int
    train: tuple[Statistic, Statistic]
    test: tuple[Statistic, Statistic]
    before: plane.PlanePicture | None
    after: plane.PlanePicture | None


def patches_figure(selection: Selection) -> Figure:
    """The special cases before and after their patch, with train and test accuracy (the paper's Figures 3 and 6).

    Raises:
        ConfigError: no complete patch study, or its data does not have two classes in two dimensions.
    """
    return draw_patches(*collect_patches(selection))


def collect_patches(selection: Selection) -> tuple[list[PatchPanel], plane.PlaneData, str]:
    """Return the panels of the figure, their data, and the model with data set and protocol.

    Raises:
        ConfigError: no complete patch study, or its data does not have two classes in two dimensions.
    """
    studies, source = _first_setting(selection)
    data = plane.plane_data(selection.dataset(studies[0].config.dataset))
    by_prototypes: dict[int, list[Study]] = defaultdict(list)
    for run in studies:
        by_prototypes[run.config.model.prototypes].append((run, selection.store.load_arrays(run.run_key)))
    n_cases = len(next(iter(by_prototypes.values()))[0][1]["labels"])
    counts = sorted(by_prototypes)
    panels = [_panel(selection, by_prototypes[n], case, data) for case in range(n_cases) for n in counts]
    return panels, data, source


def _first_setting(selection: Selection) -> tuple[list[StoredRun], str]:
    """Return the complete studies of the first data set, protocol and parameters, by seed."""
    complete = [run for run in selection.runs if run.config.model.kind == KIND and run.state == "complete"]
    groups: dict[tuple[str, ...], list[StoredRun]] = defaultdict(list)
    for run in complete:
        config, model = run.config, run.config.model
        if getattr(model, "cases", "") == "special":
            data = (config.dataset.identity("path"), config.protocol.identity())
            groups[model.method, model.parameters_label, *data].append(run)
    if not groups:
        problem = f"no complete run of kind '{KIND}' with cases 'special'"
        raise ConfigError(problem, hint="run the sweep paper_patches_two_moons")
    (method, setting, *_), chosen = next(iter(groups.items()))
    chosen.sort(key=lambda run: run.config.seed)
    source = " · ".join(filter(None, (method, setting, summarise(chosen[:1])[0].title)))
    if others := len(complete) - len(chosen):
        selection.leave_out(f"{others} other patch studies (drawn: {source})")
    return chosen, source


def _panel(selection: Selection, studies: Sequence[Study], case: int, data: plane.PlaneData) -> PatchPanel:
    patched = [(run, arrays) for run, arrays in studies if np.isfinite(arrays["eta"][_EXACT, case])]
    chosen = patched or studies
    run, arrays = chosen[0]
    x, y = data.dataset.scaling.invert(np.asarray(arrays["inputs"][case], np.float32))
    before, after = _pictures(selection, run, arrays, case, data)
    return PatchPanel(
        point=(round(float(x), 6), round(float(y), 6)),
        label=int(arrays["labels"][case]),
        prototypes=run.config.model.prototypes,
        n=len(studies),
        n_patched=len(patched),
        train=_accuracies(chosen, "train", case),
        test=_accuracies(chosen, "test", case),
        before=before,
        after=after,
    )


def _accuracies(studies: Sequence[Study], split: str, case: int) -> tuple[Statistic, Statistic]:
    """Return the accuracy before and after over the seeds of `studies`."""
    before = statistic({run.config.seed: run.metric("accuracy_before", split) for run, _ in studies})
    after = statistic({run.config.seed: float(a[f"accuracy_{split}"][_EXACT, case]) for run, a in studies})
    return before or Statistic(np.nan, None, {}), after or Statistic(np.nan, None, {})


def _pictures(
    selection: Selection, run: StoredRun, study: Arrays, case: int, data: plane.PlaneData
) -> tuple[plane.PlanePicture | None, plane.PlanePicture | None]:
    assert run.config.required is not None
    try:
        keys, values = selection.arrays(run.config.required.run_key)
    except ResultsError:
        return None, None
    before = plane.plane_picture(run.config.model, keys, values, data)
    if not np.isfinite(eta := study["eta"][_EXACT, case]):
        return before, None
    keys = np.concatenate([keys, np.asarray(study["inputs"][case : case + 1], np.float32)])
    value = np.float32(eta) * np.eye(values.shape[1], dtype=np.float32)[[int(study["labels"][case])]]
    after = plane.plane_picture(run.config.model, keys, np.concatenate([values, value]), data)
    return before, replace(before, probability=after.probability)


def draw_patches(panels: Sequence[PatchPanel], data: plane.PlaneData, source: str = "") -> Figure:
    """Return the grid of panels: a row for each point and label, a column for each number of prototypes."""
    places = {((*panel.point, panel.label), panel.prototypes): panel for panel in panels}
    names, rows = data.dataset.class_names, {}
    for x, y, label in dict.fromkeys(case for case, _ in places):
        words = f"→ class{' ' if len(names[label]) < 7 else chr(10)}{names[label]}"
        rows[x, y, label] = plane.RowLabel(f"({x:g}, {y:g})".replace("-", "−"), words, class_colour(label))
    columns = {count: count_label(count, "prototype") for count in sorted({count for _, count in places})}
    captions, legend = [_caption({panel.n for panel in panels}), source], _legend_handles(names)
    draw = partial(_draw_panel, data)
    return plane.draw_plane_grid(places, rows, columns, draw, data.extent, captions, legend, widest=3.6, title=0.44)


def _draw_panel(data: plane.PlaneData, axes: Axes, panel: PatchPanel) -> None:
    if panel.before is None:
        plane.draw_empty(axes, "the trained model is not stored")
    else:
        plane.draw_plane(axes, panel.after or panel.before, data, scale=0.7)
        if panel.after is not None:
            plane.draw_boundary(axes, panel.before.probability, data.extent, "dashed")
        draw_patch(axes, panel)
    for line, (name, pair, colour) in enumerate((("test", panel.test, INK), ("train", panel.train, QUIET))):
        text = f"{name} {' → '.join(map(percent_label, pair if panel.n_patched else pair[:1]))}"
        place: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
        axes.annotate(text, (0, 1), (0, 3 + 11 * line), fontsize=8.5, color=colour, **place)
    if panel.n_patched < panel.n:
        plane.draw_note(axes, f"patched in {panel.n_patched} of {panel.n}" if panel.n_patched else "no patch needed")


def draw_patch(axes: Axes, panel: PatchPanel) -> None:
    """Draw a star at the point in the colour of its label."""
    star: dict[str, Any] = {"marker": "*", "edgecolors": INK, "linewidths": 1.1, "zorder": 7, "clip_on": False}
    axes.scatter(*panel.point, s=190, color=class_colour(panel.label), **star)


def _legend_handles(class_names: Sequence[str]) -> list[Line2D]:
    *points, key, boundary = plane.legend_handles(class_names)
    key.set_label("key")
    boundary.set_label("P(class) = ½ after")
    star = plane.legend_mark("*", 11, "patch", color=PAPER, markeredgecolor=INK, markeredgewidth=1.0)
    before = Line2D([], [], color=QUIET, linewidth=0.9, linestyle="dashed", label="before")
    return [*points, key, star, boundary, before]


def _caption(seeds: set[int]) -> str:
    words = "accuracies in % before → after the patch"
    if seeds != {1}:
        words += f", mean ± std over the seeds that needed it, of {seeds_label(seeds)}; "
        words += "the pictures show the lowest of these seeds"
    return words
