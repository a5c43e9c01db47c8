"""The paper's Figure 2: two-dimensional data, predictions and keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.errors import ConfigError
from idwbench.figures.drawing import INK, PAPER, QUIET, draw_caption, percent_label, seeds_label, wrapped_lines
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
from idwbench.report.labels import count_label

__all__ = ["MoonsPanel", "draw_moons", "draw_moons_panel"]

_WIDTH = 10.0  # inches
_RIGHT, _TOP = 0.10, 0.36  # margins, in inches
_GAP, _TITLE = 0.12, 0.30  # between columns; above each panel


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


@dataclass(frozen=True)
class _Layout:
    """Positions of the panels, in inches; a narrow figure has its legend in two lines."""

    margin: float
    width: float
    height: float
    total_width: float
    total_height: float
    wide: bool
    caption: list[str]

    @classmethod
    def fit(cls, settings: Sequence[_Setting], n_columns: int, extent: Extent, caption: Sequence[str]) -> _Layout:
        left, right, bottom, top = extent
        # Room for the longest name, in bold, and for the longest parameter.
        words = [0.1 * len(method) for method, _ in settings]
        words += [0.072 * len(line) for _, setting in settings for line in setting.split(", ")]
        margin = 0.3 + max(words)
        gaps = _GAP * (n_columns - 1)
        width = min((_WIDTH - margin - _RIGHT - gaps) / n_columns, 4.2)
        height = width * (top - bottom) / (right - left)
        total_width = margin + _RIGHT + n_columns * width + gaps
        wide = total_width > 9
        lines = wrapped_lines(caption, total_width)
        total_height = _TOP + (0.45 if wide else 0.66) + 0.165 * len(lines) + len(settings) * (height + _TITLE)
        return cls(margin, width, height, total_width, total_height, wide, lines)

    def rectangle(self, row: int, column: int) -> tuple[float, float, float, float]:
        """Return left, bottom, width and height of a panel as fractions of the figure."""
        x = self.margin + column * (self.width + _GAP)
        y = self.total_height - _TOP - (row + 1) * (self.height + _TITLE)
        across, up = self.total_width, self.total_height
        return (x / across, y / up, self.width / across, self.height / up)


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
    layout = _Layout.fit(settings, len(counts), panels[0].extent, caption)
    figure = Figure(figsize=(layout.total_width, layout.total_height), facecolor=PAPER)
    for row, setting in enumerate(settings):
        for column, count in enumerate(counts):
            rectangle = layout.rectangle(row, column)
            panel = places.get((setting, count))
            if panel is None:
                draw_empty(figure.add_axes(rectangle))
            else:
                draw_moons_panel(figure.add_axes(rectangle), panel, train, test, bold=panel.best and len(settings) > 1)
        _row_label(figure, setting, (0.12 / layout.total_width, rectangle[1] + rectangle[3] / 2))
    for column, count in enumerate(counts):
        left, _, width, _ = layout.rectangle(0, column)
        place = (left + width / 2, 1 - 0.2 / layout.total_height)
        text = count_label(count, "prototype")
        figure.text(*place, text, ha="center", va="center", fontsize=12, weight="bold", color=INK)
    _legend(figure, layout, class_names)
    return figure


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


def _row_label(figure: Figure, setting: _Setting, place: tuple[float, float]) -> None:
    method, parameters = setting
    x, y = place
    figure.text(x, y, method, fontsize=11.5, weight="bold", color=INK, va="bottom")
    figure.text(x, y, parameters.replace(", ", "\n"), fontsize=8.5, color=QUIET, va="top", linespacing=1.35)


def _legend(figure: Figure, layout: _Layout, class_names: Sequence[str]) -> None:
    handles = legend_handles(class_names)
    figure.legend(
        handles=handles,
        loc="lower center",
        bbox_to_anchor=(0.5, (0.12 + 0.165 * len(layout.caption)) / layout.total_height),
        ncols=len(handles) if layout.wide else 3,
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        handletextpad=0.4,
        columnspacing=1.6,
        borderaxespad=0,
    )
    draw_caption(figure, layout.caption)


def _caption(panels: Sequence[MoonsPanel], is_tested: bool) -> list[str]:
    seeds = sorted({panel.n for panel in panels})
    words = ["accuracies in %"]
    if seeds != [1]:
        words = [f"accuracies in %, mean ± std over {seeds_label(seeds)}", "the pictures show the lowest seed"]
    if len({(panel.method, panel.setting) for panel in panels}) > 1:
        tested = ", or not distinguishable from it (Wilcoxon test)" if is_tested else ""
        words.append(f"bold: best test accuracy of a column{tested}")
    return words
