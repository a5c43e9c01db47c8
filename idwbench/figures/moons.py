"""The paper's Figure 2: two-dimensional data, predictions and keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.errors import ConfigError
from idwbench.figures.panel_grid import PanelGrid
from idwbench.figures.plane import (
    Extent,
    Points,
    draw_empty,
    draw_frame,
    draw_keys_in_plane,
    draw_note,
    draw_points,
    draw_regions,
    legend_handles,
)
from idwbench.figures.style import INK, QUIET, percent_label, seeds_label
from idwbench.report.labels import count_label

__all__ = ["MoonsPanel", "draw_moons", "draw_moons_panel"]


@dataclass(frozen=True)
class MoonsPanel:
    """One model.

    Attributes:
        setting: Label of the parameters: ``p=2, ε=0.001``.
        train_accuracy: Mean over `n` seeds, as a fraction.
        test_accuracy: Mean over `n` seeds, as a fraction.
        keys: (prototypes, 2), in the data's own units, for one seed.
        values: (prototypes, 2).
        grid_probability: P(class 1) on a regular grid over `extent`; the first row is the lowest y.
        extent: (x minimum, x maximum, y minimum, y maximum).
        train_std: Sample standard deviation over the seeds, or None.
        test_std: The same of the test accuracy.
        best: Whether the test accuracy is marked as best, see `idwbench.report.comparisons`.
    """

    method: str
    setting: str
    prototypes: int
    train_accuracy: float
    test_accuracy: float
    n: int
    keys: NDArray[np.floating]
    values: NDArray[np.floating]
    grid_probability: NDArray[np.floating]
    extent: Extent
    train_std: float | None = None
    test_std: float | None = None
    best: bool = False


_Setting = tuple[str, str]


def draw_moons(
    panels: Sequence[MoonsPanel],
    train: Points,
    test: Points,
    class_names: Sequence[str] = ("0", "1"),
    *,
    is_tested: bool = False,
    source: str = "",
) -> Figure:
    """Return the grid of panels: a row for each method (in the order given), a column for each number of prototypes.

    Args:
        panels: One for each place of the grid; places without one stay empty.
        train: Training points.
        test: Test points.
        class_names: Those of the labels 0 and 1.
        is_tested: Whether `MoonsPanel.best` comes from a paired test over seeds, and not from means alone.
        source: A last line of the caption: data set and protocol.

    Raises:
        ConfigError: no panels, two for one place, or arrays of another shape than stated.
    """
    places = _placed(panels)
    settings = list(dict.fromkeys(setting for setting, _ in places))
    counts = sorted({prototypes for _, prototypes in places})
    caption = ["; ".join(_caption(panels, is_tested)), source]
    # Room for the longest name, in bold, and for the longest parameter.
    words = [0.1 * len(method) for method, _ in settings]
    words += [0.072 * len(line) for _, setting in settings for line in setting.split(", ")]
    margin = 0.3 + max(words)
    grid = PanelGrid(
        len(settings), len(counts), panels[0].extent, caption, margin=margin, widest=4.2, title=0.3, legend=(0.45, 0.66)
    )
    for row, setting in enumerate(settings):
        for column, count in enumerate(counts):
            axes = grid.add_axes(row, column)
            panel = places.get((setting, count))
            if panel is None:
                draw_empty(axes)
            else:
                draw_moons_panel(axes, panel, train, test, bold=panel.best and len(settings) > 1)
        _row_label(grid.figure, setting, grid.row_middle(row))
    for column, count in enumerate(counts):
        grid.label_column(column, count_label(count, "prototype"), below=0.2)
    grid.draw_legend(legend_handles(class_names), 3, spacing=1.6)
    return grid.figure


def draw_moons_panel(axes: Axes, panel: MoonsPanel, train: Points, test: Points, *, bold: bool = False) -> None:
    """Draw one panel: P(class) as background, the decision boundary, the points, and the keys."""
    draw_regions(axes, panel.grid_probability, panel.extent)
    draw_points(axes, train, test)
    outside = draw_keys_in_plane(axes, panel.keys, panel.values, panel.extent)
    draw_frame(axes)
    train_text = percent_label(panel.train_accuracy, panel.train_std)
    test_text = percent_label(panel.test_accuracy, panel.test_std)
    axes.set_title(f"train {train_text}", loc="left", fontsize=8.5, color=QUIET, pad=3.5)
    weight = "bold" if bold else "normal"
    axes.set_title(f"test {test_text}", loc="right", fontsize=9.5, color=INK, weight=weight, pad=3.5)
    if outside:
        draw_note(axes, f"{count_label(outside, 'key')} outside")


def _placed(panels: Sequence[MoonsPanel]) -> dict[tuple[_Setting, int], MoonsPanel]:
    if not panels:
        raise ConfigError("the figure of moons needs at least one model")
    places: dict[tuple[_Setting, int], MoonsPanel] = {}
    for panel in panels:
        for name in ("keys", "values"):
            shape = getattr(panel, name).shape
            if shape != (panel.prototypes, 2):
                expected = (panel.prototypes, 2)
                raise ConfigError(f"{name} of '{panel.method}': expected shape {expected}, got {shape}")
        place = ((panel.method, panel.setting), panel.prototypes)
        if place in places:
            raise ConfigError(f"'{panel.method}' with {panel.prototypes} prototypes is given twice")
        places[place] = panel
    return places


def _row_label(figure: Figure, setting: _Setting, y: float) -> None:
    method, parameters = setting
    x = 0.12 / figure.get_figwidth()
    figure.text(x, y, method, fontsize=11.5, weight="bold", color=INK, va="bottom")
    figure.text(x, y, parameters.replace(", ", "\n"), fontsize=8.5, color=QUIET, va="top", linespacing=1.35)


def _caption(panels: Sequence[MoonsPanel], is_tested: bool) -> list[str]:
    seeds = sorted({panel.n for panel in panels})
    words = ["accuracies in %"]
    if seeds != [1]:
        words = [f"accuracies in %, mean ± std over {seeds_label(seeds)}", "the pictures show the lowest seed"]
    if len({(panel.method, panel.setting) for panel in panels}) > 1:
        tested = ", or not distinguishable from it (Wilcoxon test)" if is_tested else ""
        words.append(f"bold: best test accuracy of a column{tested}")
    return words
