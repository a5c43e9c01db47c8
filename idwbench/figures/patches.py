"""The paper's Figures 3 and 6: predictions after one patch, with accuracies before and after."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError, ResultsError
from idwbench.figures.plane import (
    PlaneData,
    PlanePicture,
    draw_boundary,
    draw_empty,
    draw_note,
    draw_plane,
    label_column,
    label_row,
    legend_handles,
    legend_mark,
    plane_data,
    plane_page,
    plane_picture,
)
from idwbench.figures.registry import figure_of_runs
from idwbench.figures.style import INK, PAPER, QUIET, Drawing, class_colour, percent_label, seeds_label
from idwbench.report.labels import count_label
from idwbench.report.statistics import Statistic, statistic
from idwbench.report.summaries import summarise
from idwbench.results.records import StoredRun
from idwbench.runs.datasets import dataset_identity

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = [
    "KIND",
    "PatchPanel",
    "PatchPicture",
    "collect_patches",
    "draw_patch",
    "draw_patches",
    "patches_figure",
    "trained_network",
]

KIND = "patch_study"
_EXACT = 0  # the place of the exact η among the criteria of a study

Arrays = Mapping[str, NDArray[np.generic]]
Study = tuple[StoredRun, Arrays]


@dataclass(frozen=True)
class PatchPicture:
    """One model before and after a patch.

    Attributes:
        after: P(class 1) after the patch, on the grid of `before`; None if no patch was needed.
    """

    seed: int
    before: PlanePicture
    after: NDArray[np.floating] | None


@dataclass(frozen=True)
class PatchPanel:
    """One point and label, for one number of prototypes.

    Attributes:
        point: In the data's own units.
        n: Number of seeds.
        n_patched: Number of seeds in which the model had another answer, so that it was patched.
        train: Accuracies before and after, over the patched seeds, or over all seeds if there are none.
        test: The same.
        picture: That of one seed; None if its model is not stored.
    """

    point: tuple[float, float]
    label: int
    prototypes: int
    n: int
    n_patched: int
    train: tuple[Statistic, Statistic]
    test: tuple[Statistic, Statistic]
    picture: PatchPicture | None


@figure_of_runs("patches")
def patches_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """The special cases before and after their patch, with train and test accuracy (the paper's Figures 3 and 6).

    Raises:
        ConfigError: no complete patch study, or its data does not have two classes in two dimensions.
    """
    panels, data, source, left_out = collect_patches(store, runs, data_dir)
    return Drawing(draw_patches(panels, data, source), left_out)


def collect_patches(
    store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None
) -> tuple[list[PatchPanel], PlaneData, str, tuple[str, ...]]:
    """Return the panels of the figure, their data, the model with data set and protocol, and what is left out.

    Raises:
        ConfigError: no complete patch study, or its data does not have two classes in two dimensions.
    """
    studies, source, left_out = _first_setting(runs)
    data = plane_data(load_dataset(studies[0].config.dataset, data_dir))
    by_prototypes: dict[int, list[Study]] = defaultdict(list)
    for run in studies:
        by_prototypes[run.config.model.prototypes].append((run, store.load_arrays(run.run_key)))
    panels = [
        _panel(store, by_prototypes[prototypes], case, data)
        for case in range(len(next(iter(by_prototypes.values()))[0][1]["labels"]))
        for prototypes in sorted(by_prototypes)
    ]
    return panels, data, source, left_out


def trained_network(study: StoredRun) -> str:
    """Return the run key of the network that a study patches: the same data, protocol, seed and network settings."""
    required = study.config.required
    return "" if required is None else required.run_key


def _first_setting(runs: Sequence[StoredRun]) -> tuple[list[StoredRun], str, tuple[str, ...]]:
    """Return the complete studies of the first data set, protocol and parameters, by seed, and what is left out."""
    complete = [run for run in runs if run.config.model.kind == KIND and run.state == "complete"]
    groups: dict[tuple[str, str, str], list[StoredRun]] = defaultdict(list)
    for run in complete:
        config, model = run.config, run.config.model
        if getattr(model, "cases", "") == "special":
            data = f"{dataset_identity(config.dataset)}{config.protocol.model_dump_json()}"
            groups[data, model.method, model.parameters_label].append(run)
    if not groups:
        problem = f"no complete run of kind '{KIND}' with cases 'special'"
        raise ConfigError(problem, location=("figure",), hint="run the sweep paper_patches_two_moons")
    (_, method, setting), chosen = next(iter(groups.items()))
    chosen.sort(key=lambda run: run.config.seed)
    source = " · ".join(filter(None, (method, setting, summarise(chosen[:1])[0].title)))
    left_out = len(complete) - len(chosen)
    return chosen, source, (f"not drawn: {left_out} other patch studies (drawn: {source})",) if left_out else ()


def _panel(store: Results, studies: Sequence[Study], case: int, data: PlaneData) -> PatchPanel:
    first = studies[0][1]
    patched = [(run, arrays) for run, arrays in studies if np.isfinite(_floats(arrays, "eta")[_EXACT, case])]
    chosen = patched or studies
    point = data.dataset.scaling.invert(_floats(first, "inputs")[case])
    return PatchPanel(
        point=(round(float(point[0]), 6), round(float(point[1]), 6)),
        label=int(np.asarray(first["labels"], np.int64)[case]),
        prototypes=chosen[0][0].config.model.prototypes,
        n=len(studies),
        n_patched=len(patched),
        train=_accuracies(chosen, "train", case),
        test=_accuracies(chosen, "test", case),
        picture=_picture(store, chosen[0], case, data),
    )


def _accuracies(studies: Sequence[Study], split: str, case: int) -> tuple[Statistic, Statistic]:
    """Return the accuracy before and after over the seeds of `studies`."""
    after = statistic({run.config.seed: float(_floats(a, f"accuracy_{split}")[_EXACT, case]) for run, a in studies})
    before = statistic({run.config.seed: run.metric("accuracy_before", split) for run, _ in studies})
    return before or Statistic(np.nan, None, {}), after or Statistic(np.nan, None, {})


def _picture(store: Results, study: Study, case: int, data: PlaneData) -> PatchPicture | None:
    run, arrays = study
    try:
        trained = store.load_arrays(trained_network(run))
        keys, values = _floats(trained, "keys"), _floats(trained, "values")
    except (ResultsError, KeyError):
        return None
    before = plane_picture(run.config.model, keys, values, data)
    eta = float(_floats(arrays, "eta")[_EXACT, case])
    if not np.isfinite(eta):
        return PatchPicture(run.config.seed, before, None)
    value = np.zeros((1, values.shape[1]), np.float32)
    value[0, int(np.asarray(arrays["labels"], np.int64)[case])] = eta
    keys = np.concatenate([keys, _floats(arrays, "inputs")[case : case + 1]])
    after = plane_picture(run.config.model, keys, np.concatenate([values, value]), data)
    return PatchPicture(run.config.seed, before, after.probability)


def _floats(arrays: Arrays, name: str) -> NDArray[np.float32]:
    return np.asarray(arrays[name], np.float32)


def draw_patches(panels: Sequence[PatchPanel], data: PlaneData, source: str = "") -> Figure:
    """Return the grid of panels: a row for each point and label, a column for each number of prototypes."""
    places = {((*panel.point, panel.label), panel.prototypes): panel for panel in panels}
    cases = list(dict.fromkeys(case for case, _ in places))
    counts = sorted({count for _, count in places})
    names = data.dataset.class_names
    figure, grid = plane_page(
        (len(cases), len(counts)),
        data.extent,
        [_caption(panels), source],
        _legend_handles(names),
        margin=1.25,
        widest=3.6,
        title=0.44,
    )
    for case, row in zip(cases, grid, strict=True):
        for count, axes in zip(counts, row, strict=True):
            panel = places.get((case, count))
            if panel is None:
                draw_empty(axes)
            else:
                _draw_panel(axes, panel, data)
        first, second, label = case
        words = f"→ class {names[label]}" if len(names[label]) < 7 else f"→ class\n{names[label]}"
        label_row(row[0], f"({first:g}, {second:g})".replace("-", "−"), words, colour=class_colour(label))
    for count, axes in zip(counts, grid[0], strict=True):
        label_column(axes, count_label(count, "prototype"), above=30)
    return figure


def _draw_panel(axes: Axes, panel: PatchPanel, data: PlaneData) -> None:
    if panel.picture is None:
        draw_empty(axes, "the trained model is not stored")
    else:
        before, after = panel.picture.before, panel.picture.after
        shown = before if after is None else PlanePicture(before.keys, before.values, after)
        draw_plane(axes, shown, data, size=5, largest=45)
        if after is not None:
            draw_boundary(axes, before.probability, data.extent, "dashed")
        draw_patch(axes, panel)
    for line, (name, pair, colour) in enumerate((("test", panel.test, INK), ("train", panel.train, QUIET))):
        before_text, after_text = (percent_label(value.mean, value.std) for value in pair)
        text = f"{name} {before_text} → {after_text}" if panel.n_patched else f"{name} {before_text}"
        place: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
        axes.annotate(text, (0, 1), (0, 3 + 11 * line), fontsize=8.5, color=colour, **place)
    is_partial = panel.n_patched < panel.n
    draw_note(axes, ("no patch needed", f"patched in {panel.n_patched} of {panel.n}" * is_partial)[panel.n_patched > 0])


def draw_patch(axes: Axes, panel: PatchPanel) -> None:
    """Draw a star at the point in the colour of its label."""
    star: dict[str, Any] = {"marker": "*", "edgecolors": INK, "linewidths": 1.1, "zorder": 7, "clip_on": False}
    axes.scatter(*panel.point, s=190, color=class_colour(panel.label), **star)


def _legend_handles(class_names: Sequence[str]) -> list[Line2D]:
    handles = legend_handles(class_names)
    star = legend_mark("*", 11, "patch", color=PAPER, markeredgecolor=INK, markeredgewidth=1.0)
    handles[-1].set_label("P(class) = ½ after")
    before = Line2D([], [], color=QUIET, linewidth=0.9, linestyle="dashed", label="before")
    handles[4].set_label("key")
    return [*handles[:5], star, handles[5], before]


def _caption(panels: Sequence[PatchPanel]) -> str:
    seeds = {panel.n for panel in panels}
    if seeds == {1}:
        return "accuracies in % before → after the patch"
    return (
        f"accuracies in % before → after the patch, mean ± std over the seeds that needed it, of {seeds_label(seeds)}; "
        "the pictures show the lowest of these seeds"
    )
