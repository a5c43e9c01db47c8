"""The paper's Figure 5: data, predictions and keys over power and epsilon."""

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
from idwbench.figures.style import INK, percent_label, seeds_label
from idwbench.report.statistics import Statistic

__all__ = ["PowerEpsilonPanel", "absence_label", "draw_power_epsilon"]


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
    caption = [_caption(panels), source]
    grid = PanelGrid(
        *(len(powers), len(epsilons), extent, caption),
        margin=0.75,
        widest=2.6,
        title=0.22,
        legend=(0.44, 0.84),
        gap=0.09,
        narrow=7.5,
    )
    for row, power in enumerate(powers):
        place = (0.1 / grid.figure.get_figwidth(), grid.row_middle(row))
        grid.figure.text(*place, f"p = {power:g}", fontsize=10.5, weight="bold", color=INK, va="center")
        for column, epsilon in enumerate(epsilons):
            _draw_panel(grid.add_axes(row, column), places.get((power, epsilon)), train, extent)
            if row == 0:
                grid.label_column(column, f"ε = {epsilon:g}", size=10.5, below=0.17)
    grid.draw_legend(legend_handles(class_names, test=False), 2, spacing=1.6)
    return grid.figure


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
