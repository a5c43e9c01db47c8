"""Keys of two features in the plane, with the training points that moved them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.errors import ConfigError
from idwbench.figures.style import INK, PAPER, QUIET, RULE, class_colour, draw_caption, fade, wrapped_lines

__all__ = ["PlanePanel", "draw_key_history_plane"]

_PANEL, _SIDE, _HEADER, _GAP = 2.5, 0.35, 0.42, 0.12  # inches
_LARGEST, _SMALLEST = 80.0, 5.0  # areas of points in square points

Points = NDArray[np.floating]


@dataclass(frozen=True)
class PlanePanel:
    """Training points with a weight each, around one point.

    Attributes:
        title: Above the panel.
        weights: (points,); the area of a point is its size, and a ring means that it is negative.
        end: (2,), marked by a star.
        start: (2,), from where an arrow leads to `end`, or None.
    """

    title: str
    weights: NDArray[np.floating]
    end: Points
    start: Points | None = None


def draw_key_history_plane(
    rows: Sequence[tuple[str, Sequence[PlanePanel]]],
    points: Points,
    labels: NDArray[np.integer],
    title: str,
    captions: Sequence[str] = (),
) -> Figure:
    """Return a figure with rows of panels.

    Args:
        rows: The name of each row, and its panels, as many in each.
        points: The training points, (n, 2), in the data's own units.
        labels: Their classes, (n,).
        title: The model.
        captions: Sentences below the figure.

    Raises:
        ConfigError: no panels, or rows of different lengths.
    """
    lengths = {len(panels) for _, panels in rows}
    if len(lengths) != 1 or 0 in lengths:
        raise ConfigError("the figure of the history of keys needs as many keys in each row, at least one")
    columns, limits = lengths.pop(), _limits(rows, points)
    aspect = float((limits[1][1] - limits[1][0]) / (limits[0][1] - limits[0][0]))
    height = _PANEL * aspect
    width = _SIDE + columns * (_PANEL + _GAP)
    lines = wrapped_lines(captions, width)
    below = 0.15 + 0.165 * len(lines)
    total = _HEADER + len(rows) * (height + 0.3) + below
    figure = Figure(figsize=(width, total), facecolor=PAPER)
    for number, (name, panels) in enumerate(rows):
        bottom = total - _HEADER - (number + 1) * (height + 0.3)
        middle = (0.5 * _SIDE / width, (bottom + height / 2) / total)
        figure.text(*middle, name, rotation=90, ha="center", va="center", fontsize=9, color=QUIET)
        for column, panel in enumerate(panels):
            left = _SIDE + column * (_PANEL + _GAP)
            axes = figure.add_axes((left / width, bottom / total, _PANEL / width, height / total))
            _draw_panel(axes, panel, points, labels)
            axes.set(xlim=limits[0], ylim=limits[1], xticks=[], yticks=[])
    figure.text(0.1 / width, 1 - 0.22 / total, title, fontsize=11.5, weight="bold", color=INK, va="center")
    draw_caption(figure, lines)
    return figure


def _limits(rows: Sequence[tuple[str, Sequence[PlanePanel]]], points: Points) -> list[tuple[float, float]]:
    """Return the limits of both axes: all points, keys and initial keys."""
    others = [
        place for _, panels in rows for panel in panels for place in (panel.end, panel.start) if place is not None
    ]
    everything = np.concatenate([points, np.array(others)])
    low, high = everything.min(0), everything.max(0)
    margin = 0.06 * (high - low).max()
    return [(float(low[axis] - margin), float(high[axis] + margin)) for axis in range(2)]


def _draw_panel(axes: Axes, panel: PlanePanel, points: Points, labels: NDArray[np.integer]) -> None:
    sizes = np.abs(panel.weights) / (np.abs(panel.weights).max() or 1.0)
    for label in np.unique(labels):
        colour = class_colour(int(label))
        of_class = labels == label
        axes.scatter(points[of_class, 0], points[of_class, 1], s=_SMALLEST, color=[fade(colour, 0.35)], linewidths=0)
        for chosen, filled in ((of_class & (panel.weights > 0), True), (of_class & (panel.weights < 0), False)):
            face = colour if filled else "none"
            areas = _LARGEST * sizes[chosen]
            axes.scatter(
                points[chosen, 0],
                points[chosen, 1],
                s=areas,
                facecolors=face,
                edgecolors=colour,
                linewidths=0.8,
                alpha=0.75,
            )
    if panel.start is not None:
        style = {"arrowstyle": "->", "color": INK, "linewidth": 1.2, "shrinkA": 0.0, "shrinkB": 3.0}
        axes.annotate("", xy=(panel.end[0], panel.end[1]), xytext=(panel.start[0], panel.start[1]), arrowprops=style)
    axes.plot(*panel.end, marker="*", markersize=11, color=INK, markeredgecolor=PAPER, markeredgewidth=0.7)
    axes.set_title(panel.title, fontsize=8.5, color=INK, pad=3)
    for spine in axes.spines.values():
        spine.set(color=RULE)
