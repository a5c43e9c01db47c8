"""The paper's Figures 3 and 6: predictions after one patch, with accuracies before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from idwbench.errors import ConfigError
from idwbench.figures.panel_grid import PanelGrid
from idwbench.figures.plane import (
    Extent,
    Points,
    draw_boundary,
    draw_empty,
    draw_frame,
    draw_keys_in_plane,
    draw_note,
    draw_points,
    draw_regions,
    legend_handles,
    legend_mark,
)
from idwbench.figures.style import INK, PAPER, QUIET, class_colour, percent_label, seeds_label
from idwbench.report.labels import count_label
from idwbench.report.statistics import Statistic

__all__ = ["PatchPanel", "PatchPicture", "draw_patches"]


@dataclass(frozen=True)
class PatchPicture:
    """One model before and after a patch.

    Attributes:
        keys: (prototypes, 2), in the data's own units, before the patch.
        values: (prototypes, 2).
        before: P(class 1) on a regular grid over the extent, first row lowest.
        after: The same after the patch; None if no patch was needed.
    """

    seed: int
    keys: NDArray[np.floating]
    values: NDArray[np.floating]
    before: NDArray[np.floating]
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


def draw_patches(
    panels: Sequence[PatchPanel],
    train: Points,
    test: Points,
    extent: Extent,
    class_names: Sequence[str] = ("0", "1"),
    *,
    source: str = "",
) -> Figure:
    """Return the grid of panels: a row for each point and label, a column for each number of prototypes.

    Raises:
        ConfigError: no panels, or two for one place.
    """
    places = {((*panel.point, panel.label), panel.prototypes): panel for panel in panels}
    if not panels:
        raise ConfigError("the figure of patches needs at least one case")
    if len(places) < len(panels):
        raise ConfigError("a point and label are given twice for one number of prototypes")
    cases = list(dict.fromkeys(case for case, _ in places))
    counts = sorted({count for _, count in places})
    caption = [_caption(panels), source]
    grid = PanelGrid(len(cases), len(counts), extent, caption, margin=1.25, widest=3.6, title=0.44, legend=(0.42, 1.02))
    for row, case in enumerate(cases):
        for column, count in enumerate(counts):
            axes = grid.add_axes(row, column)
            panel = places.get((case, count))
            if panel is None:
                draw_empty(axes)
            else:
                _draw_panel(axes, panel, train, test, extent)
            if row == 0:
                grid.label_column(column, count_label(count, "prototype"))
        _draw_case(grid.figure, case, class_names, grid.row_middle(row))
    grid.draw_legend(_legend_handles(class_names), 2, above=0.1, spacing=1.4)
    return grid.figure


def _draw_panel(axes: Axes, panel: PatchPanel, train: Points, test: Points, extent: Extent) -> None:
    picture, patched = panel.picture, panel.n_patched
    if picture is None:
        draw_empty(axes, "the trained model is not stored")
    else:
        after = picture.before if picture.after is None else picture.after
        draw_regions(axes, after, extent)
        if picture.after is not None:
            draw_boundary(axes, picture.before, extent, "dashed")
        draw_points(axes, train, test, size=5)
        draw_keys_in_plane(axes, picture.keys, picture.values, extent, largest=45)
        colour = class_colour(panel.label)
        axes.scatter(
            *panel.point, s=190, marker="*", color=colour, edgecolors=INK, linewidths=1.1, zorder=7, clip_on=False
        )
        draw_frame(axes)
    for line, (name, pair) in enumerate((("test", panel.test), ("train", panel.train))):
        before, after_text = (percent_label(value.mean, value.std) for value in pair)
        text = f"{name} {before} → {after_text}" if patched else f"{name} {before}"
        axes.annotate(
            text,
            (0, 1),
            (0, 3 + 11 * line),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=8.5,
            color=INK if name == "test" else QUIET,
        )
    note = "no patch needed" if not patched else f"patched in {patched} of {panel.n}" if patched < panel.n else ""
    if note:
        draw_note(axes, note)


def _draw_case(figure: Figure, case: tuple[float, float, int], class_names: Sequence[str], y: float) -> None:
    first, second, label = case
    point = f"({first:g}, {second:g})".replace("-", "−")
    x = 0.1 / figure.get_figwidth()
    figure.text(x, y, point, fontsize=11.5, weight="bold", color=INK, va="bottom")
    name = class_names[label]
    words = f"→ class {name}" if len(name) < 7 else f"→ class\n{name}"
    figure.text(x, y - 0.04 / figure.get_figheight(), words, fontsize=9.5, color=class_colour(label), va="top")


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
