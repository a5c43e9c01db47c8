"""The paper's Figure 5: data, predictions and keys over power and epsilon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.errors import ConfigError
from idwbench.figures.drawing import INK, PAPER, draw_caption, percent_label, seeds_label, wrapped_lines
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
from idwbench.report.statistics import Statistic

__all__ = ["PowerEpsilonPanel", "absence_label", "draw_power_epsilon"]

_WIDTH, _MARGIN, _RIGHT = 10.0, 0.75, 0.1  # inches
_TOP, _TITLE, _GAP, _LEGEND = 0.36, 0.22, 0.09, 0.44


@dataclass(frozen=True)
class PowerEpsilonPanel:
    """One power and epsilon.

    Attributes:
        accuracy: Of the test points over seeds; None if no run is complete.
        n_diverged: Number of diverged runs, which are not in `accuracy`.
        keys: (prototypes, 2), in the data's own units, for one seed; None if no run is complete.
        values: (prototypes, 2).
        probability: P(class 1) on a regular grid over the extent, first row lowest.
    """

    power: float
    epsilon: float
    accuracy: Statistic | None = None
    n_diverged: int = 0
    keys: NDArray[np.floating] | None = None
    values: NDArray[np.floating] | None = None
    probability: NDArray[np.floating] | None = None


def draw_power_epsilon(
    panels: Sequence[PowerEpsilonPanel],
    train: Points,
    extent: Extent,
    class_names: Sequence[str] = ("0", "1"),
    *,
    source: str = "",
) -> Figure:
    """Return the grid of panels: a row for each power, a column for each epsilon.

    Raises:
        ConfigError: no panels, or two for one place.
    """
    places = {(panel.power, panel.epsilon): panel for panel in panels}
    if not panels or len(places) < len(panels):
        raise ConfigError("the figure of power and epsilon needs one panel for each of its places")
    powers, epsilons = (sorted({place[axis] for place in places}) for axis in (0, 1))
    width = min((_WIDTH - _MARGIN - _RIGHT - _GAP * (len(epsilons) - 1)) / len(epsilons), 2.6)
    total_width = _MARGIN + _RIGHT + len(epsilons) * (width + _GAP) - _GAP
    height = width * (extent[3] - extent[2]) / (extent[1] - extent[0])
    lines = wrapped_lines([_caption(panels), source], total_width)
    wide = total_width > 7.5
    footer = _LEGEND + (0 if wide else 0.4) + 0.165 * len(lines)
    total = _TOP + len(powers) * (height + _TITLE) + footer
    figure = Figure(figsize=(total_width, total), facecolor=PAPER)
    for row, power in enumerate(powers):
        bottom = total - _TOP - (row + 1) * (height + _TITLE)
        label = f"p = {power:g}"
        y = (bottom + height / 2) / total
        figure.text(0.1 / total_width, y, label, fontsize=10.5, weight="bold", color=INK, va="center")
        for column, epsilon in enumerate(epsilons):
            left = _MARGIN + column * (width + _GAP)
            axes = figure.add_axes((left / total_width, bottom / total, width / total_width, height / total))
            _draw_panel(axes, places.get((power, epsilon)), train, extent)
            if row == 0:
                x, y = (left + width / 2) / total_width, 1 - 0.17 / total
                text = f"ε = {epsilon:g}"
                figure.text(x, y, text, ha="center", va="center", fontsize=10.5, weight="bold", color=INK)
    handles = legend_handles(class_names, test=False)
    figure.legend(
        handles=handles,
        loc="lower center",
        bbox_to_anchor=(0.5, (0.12 + 0.165 * len(lines)) / total),
        ncols=len(handles) if wide else 2,
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        handletextpad=0.4,
        columnspacing=1.6,
        borderaxespad=0,
    )
    draw_caption(figure, lines)
    return figure


def absence_label(n_diverged: int) -> str:
    """Return why a place has no result: ``no run``, or ``10 diverged``."""
    return f"{n_diverged} diverged" if n_diverged else "no run"


def _draw_panel(axes: Axes, panel: PowerEpsilonPanel | None, train: Points, extent: Extent) -> None:
    if panel is None or panel.keys is None or panel.values is None or panel.probability is None:
        draw_empty(axes, absence_label(panel.n_diverged if panel else 0))
        return
    draw_regions(axes, panel.probability, extent)
    draw_points(axes, train, size=3)
    outside = draw_keys_in_plane(axes, panel.keys, panel.values, extent, largest=24)
    draw_frame(axes)
    if panel.accuracy is not None:
        text = percent_label(panel.accuracy.mean, panel.accuracy.std)
        axes.set_title(text, loc="left", fontsize=8.5, color=INK, pad=2.5)
    notes = [f"{panel.n_diverged} diverged"] if panel.n_diverged else []
    notes += [f"{outside} outside"] if outside else []
    if notes:
        draw_note(axes, ", ".join(notes), size=6.5)


def _caption(panels: Sequence[PowerEpsilonPanel]) -> str:
    counts = {panel.accuracy.n for panel in panels if panel.accuracy is not None}
    if not counts or counts == {1}:
        return "above each panel: test accuracy in %"
    return f"above each panel: test accuracy in %, mean ± std over {seeds_label(counts)}; pictures show the lowest seed"
