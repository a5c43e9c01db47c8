"""The paper's Figure 2: two-dimensional data, predictions and keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from idwbench.errors import ConfigError
from idwbench.figures.drawing import INK, PAPER, QUIET, RULE, class_colour, diverging, fade
from idwbench.report.labels import count_label

__all__ = ["MoonsPanel", "Points", "draw_moons", "draw_moons_panel"]

_WIDTH = 10.0  # inches
_RIGHT, _TOP = 0.10, 0.36  # margins, in inches
_GAP, _TITLE = 0.12, 0.30  # between columns; above each panel
_BLUE, _ORANGE = class_colour(0), class_colour(1)
_REGIONS: LinearSegmentedColormap = diverging(
    "idwbench_regions", to_hex(fade(_BLUE, 0.34)), "#F8F8F6", to_hex(fade(_ORANGE, 0.34))
)


@dataclass(frozen=True)
class Points:
    """Inputs (n, 2) in the data's own units, and labels (n,) 0 or 1."""

    inputs: NDArray[np.floating]
    labels: NDArray[np.integer]


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
    extent: tuple[float, float, float, float]
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

    @classmethod
    def fit(cls, settings: Sequence[_Setting], n_columns: int, extent: tuple[float, float, float, float]) -> _Layout:
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
        total_height = _TOP + (0.62 if wide else 1.15) + len(settings) * (height + _TITLE)
        return cls(margin, width, height, total_width, total_height, wide)

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
) -> Figure:
    """Return the grid of panels: a row for each method (in the order given), a column for each number of prototypes.

    Args:
        panels: One for each place of the grid; places without one stay empty.
        train: Training points.
        test: Test points.
        class_names: Those of the labels 0 and 1.
        is_tested: Whether `MoonsPanel.best` comes from a paired test over seeds, and not from means alone.

    Raises:
        ConfigError: no panels, two for one place, or arrays of another shape than stated.
    """
    places = _placed(panels)
    settings = list(dict.fromkeys(setting for setting, _ in places))
    counts = sorted({prototypes for _, prototypes in places})
    layout = _Layout.fit(settings, len(counts), panels[0].extent)
    figure = Figure(figsize=(layout.total_width, layout.total_height), facecolor=PAPER)
    for row, setting in enumerate(settings):
        for column, count in enumerate(counts):
            rectangle = layout.rectangle(row, column)
            panel = places.get((setting, count))
            if panel is None:
                _draw_nothing(figure.add_axes(rectangle))
            else:
                draw_moons_panel(figure.add_axes(rectangle), panel, train, test, bold=panel.best and len(settings) > 1)
        _row_label(figure, setting, (0.12 / layout.total_width, rectangle[1] + rectangle[3] / 2))
    for column, count in enumerate(counts):
        left, _, width, _ = layout.rectangle(0, column)
        place = (left + width / 2, 1 - 0.2 / layout.total_height)
        text = count_label(count, "prototype")
        figure.text(*place, text, ha="center", va="center", fontsize=12, weight="bold", color=INK)
    _legend(figure, layout, class_names, _caption(panels, is_tested))
    return figure


def draw_moons_panel(axes: Axes, panel: MoonsPanel, train: Points, test: Points, *, bold: bool = False) -> None:
    """Draw one panel: P(class) as background, the decision boundary, the points, and the keys."""
    left, right, bottom, top = panel.extent
    probability = np.asarray(panel.grid_probability, dtype=np.float64)
    axes.imshow(
        probability,
        cmap=_REGIONS,
        vmin=0,
        vmax=1,
        extent=panel.extent,
        origin="lower",
        interpolation="bilinear",
        aspect="auto",
        zorder=0,
    )
    if probability.min() < 0.5 < probability.max():
        x = _cell_centres(left, right, probability.shape[1])
        y = _cell_centres(bottom, top, probability.shape[0])
        axes.contour(x, y, probability, levels=[0.5], colors=[QUIET], linewidths=0.9, zorder=1)
    for label in (0, 1):
        colour = class_colour(label)
        here = train.inputs[train.labels == label]
        axes.scatter(here[:, 0], here[:, 1], s=7, color=colour, alpha=0.55, linewidths=0, zorder=2)
        here = test.inputs[test.labels == label]
        axes.scatter(here[:, 0], here[:, 1], s=20, marker="x", color=colour, linewidths=1.1, zorder=3)
    outside = _draw_keys(axes, panel)
    axes.set(xlim=(left, right), ylim=(bottom, top))
    _draw_frame(axes)
    train_text, test_text = (f"{100 * value:.1f}" for value in (panel.train_accuracy, panel.test_accuracy))
    axes.set_title(f"train {train_text}", loc="left", fontsize=8.5, color=QUIET, pad=3.5)
    weight = "bold" if bold else "normal"
    axes.set_title(f"test {test_text}", loc="right", fontsize=9.5, color=INK, weight=weight, pad=3.5)
    if outside:
        box: dict[str, Any] = {"boxstyle": "round,pad=0.25", "facecolor": PAPER, "edgecolor": "none", "alpha": 0.85}
        note = f"{count_label(outside, 'key')} outside"
        place: dict[str, Any] = {"transform": axes.transAxes, "ha": "left", "va": "bottom", "zorder": 6}
        axes.text(0.015, 0.03, note, fontsize=7.5, color=INK, bbox=box, **place)


def _draw_keys(axes: Axes, panel: MoonsPanel) -> int:
    """Draw the keys within the extent and return the number of those outside."""
    left, right, bottom, top = panel.extent
    x, y = panel.keys[:, 0], panel.keys[:, 1]
    inside = (x >= left) & (x <= right) & (y >= bottom) & (y <= top)
    colours = [class_colour(int(label)) for label in np.argmax(panel.values[inside], axis=1)]
    size = float(np.clip(420 / max(len(x), 1), 11, 62))
    axes.scatter(
        x[inside],
        y[inside],
        s=size,
        marker="D",
        c=colours,
        edgecolors=INK,
        linewidths=0.6 if size < 16 else 0.9,
        zorder=5,
    )
    return int(np.count_nonzero(~inside))


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


def _draw_frame(axes: Axes) -> None:
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set(color=RULE, linewidth=0.8)


def _draw_nothing(axes: Axes) -> None:
    _draw_frame(axes)
    axes.text(0.5, 0.5, "no run", transform=axes.transAxes, ha="center", va="center", fontsize=9, color=QUIET)


def _legend(figure: Figure, layout: _Layout, class_names: Sequence[str], caption: Sequence[str]) -> None:
    def mark(marker: str, size: float, label: str, **style: Any) -> Line2D:
        return Line2D([], [], linestyle="none", marker=marker, markersize=size, label=label, **style)

    handles = [
        mark("s", 9, f"class {class_names[0]}", color=fade(_BLUE, 0.8), markeredgewidth=0),
        mark("s", 9, f"class {class_names[1]}", color=fade(_ORANGE, 0.8), markeredgewidth=0),
        mark("o", 4, "training point", color=QUIET, markeredgewidth=0),
        mark("x", 5.5, "test point", color=QUIET, markeredgewidth=1.2),
        mark("D", 6.5, "key, in the class of its value", color=PAPER, markeredgecolor=INK, markeredgewidth=1.0),
        Line2D([], [], color=QUIET, linewidth=0.9, label="P(class) = ½"),
    ]
    figure.legend(
        handles=handles,
        loc="lower center",
        bbox_to_anchor=(0.5, (0.27 if layout.wide else 0.55) / layout.total_height),
        ncols=len(handles) if layout.wide else 3,
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        handletextpad=0.4,
        columnspacing=1.6,
        borderaxespad=0,
    )
    text = ("; " if layout.wide else "\n").join(caption)
    figure.text(0.5, 0.06 / layout.total_height, text, ha="center", va="bottom", fontsize=8.5, color=QUIET)


def _caption(panels: Sequence[MoonsPanel], is_tested: bool) -> list[str]:
    seeds = sorted({panel.n for panel in panels})
    over = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    words = ["accuracies in %"]
    if seeds != [1]:
        words = [f"accuracies in %, means over {over} seeds", "the pictures show the lowest seed"]
    if len({(panel.method, panel.setting) for panel in panels}) > 1:
        tested = ", or not distinguishable from it (Wilcoxon test)" if is_tested else ""
        words.append(f"bold: best test accuracy of a column{tested}")
    return words


def _cell_centres(low: float, high: float, n: int) -> NDArray[np.float64]:
    half = (high - low) / n / 2
    return np.linspace(low + half, high - half, n)
