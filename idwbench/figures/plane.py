"""Two-dimensional data on given axes: decision regions, points and keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from idwbench.figures.style import INK, PAPER, QUIET, RULE, class_colour, diverging, fade

__all__ = [
    "Extent",
    "Points",
    "cell_centres",
    "draw_boundary",
    "draw_empty",
    "draw_frame",
    "draw_keys_in_plane",
    "draw_note",
    "draw_points",
    "draw_regions",
    "legend_handles",
    "legend_mark",
]

_BLUE, _ORANGE = class_colour(0), class_colour(1)
_REGIONS: LinearSegmentedColormap = diverging(
    "idwbench_regions", to_hex(fade(_BLUE, 0.34)), "#F8F8F6", to_hex(fade(_ORANGE, 0.34))
)

# x minimum, x maximum, y minimum, y maximum
Extent = tuple[float, float, float, float]


@dataclass(frozen=True)
class Points:
    """Inputs (n, 2) in the data's own units, and labels (n,) 0 or 1."""

    inputs: NDArray[np.floating]
    labels: NDArray[np.integer]


def draw_regions(axes: Axes, probability: NDArray[np.floating], extent: Extent) -> None:
    """Draw P(class 1) as background, with its boundary at ½.

    `probability` is that at the middles of the cells of a grid over `extent`, first row lowest.
    """
    probability = np.asarray(probability, dtype=np.float64)
    axes.imshow(
        probability,
        cmap=_REGIONS,
        vmin=0,
        vmax=1,
        extent=extent,
        origin="lower",
        interpolation="bilinear",
        aspect="auto",
        zorder=0,
    )
    draw_boundary(axes, probability, extent)
    axes.set(xlim=extent[:2], ylim=extent[2:])


def draw_boundary(axes: Axes, probability: NDArray[np.floating], extent: Extent, style: str = "solid") -> None:
    """Draw the line P(class 1) = ½, if there is one."""
    left, right, bottom, top = extent
    if probability.min() < 0.5 < probability.max():
        x = cell_centres(left, right, probability.shape[1])
        y = cell_centres(bottom, top, probability.shape[0])
        axes.contour(
            x, y, probability, levels=[0.5], colors=[QUIET], linewidths=0.9, linestyles=[style], zorder=1
        )  # above the background and below the points


def draw_points(axes: Axes, train: Points, test: Points | None = None, *, size: float = 7) -> None:
    """Draw training points as dots and test points as crosses, in the colours of their classes."""
    for label in (0, 1):
        colour = class_colour(label)
        here = train.inputs[train.labels == label]
        axes.scatter(here[:, 0], here[:, 1], s=size, color=colour, alpha=0.55, linewidths=0, zorder=2)
        if test is not None:
            here = test.inputs[test.labels == label]
            axes.scatter(here[:, 0], here[:, 1], s=2.9 * size, marker="x", color=colour, linewidths=1.1, zorder=3)


def draw_keys_in_plane(
    axes: Axes, keys: NDArray[np.floating], values: NDArray[np.floating], extent: Extent, *, largest: float = 62
) -> int:
    """Draw the keys within `extent` as diamonds in the colour of their class, and return the number of those outside.

    `largest` is the largest area of a diamond, in square points.
    """
    left, right, bottom, top = extent
    x, y = keys[:, 0], keys[:, 1]
    inside = (x >= left) & (x <= right) & (y >= bottom) & (y <= top)
    colours = [class_colour(int(label)) for label in np.argmax(values[inside], axis=1)]
    size = float(np.clip(largest * 6.8 / max(len(x), 1), 11, largest))
    width = 0.6 if size < 16 else 0.9
    axes.scatter(x[inside], y[inside], s=size, marker="D", c=colours, edgecolors=INK, linewidths=width, zorder=5)
    return int(np.count_nonzero(~inside))


def draw_note(axes: Axes, text: str, *, size: float = 7.5) -> None:
    """Write `text` in the lower left corner, above everything."""
    box: dict[str, Any] = {"boxstyle": "round,pad=0.25", "facecolor": PAPER, "edgecolor": "none", "alpha": 0.85}
    place: dict[str, Any] = {"transform": axes.transAxes, "ha": "left", "va": "bottom", "zorder": 6}
    axes.text(0.015, 0.03, text, fontsize=size, color=INK, bbox=box, **place)


def draw_frame(axes: Axes) -> None:
    """Draw a thin frame without ticks."""
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set(color=RULE, linewidth=0.8)


def draw_empty(axes: Axes, text: str = "no run") -> None:
    """Draw a frame with `text` in its middle."""
    draw_frame(axes)
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", fontsize=9, color=QUIET)


def legend_mark(marker: str, size: float, label: str, **style: Any) -> Line2D:
    """Return a mark for a legend."""
    return Line2D([], [], linestyle="none", marker=marker, markersize=size, label=label, **style)


def legend_handles(class_names: Sequence[str], *, test: bool = True) -> list[Line2D]:
    """Return the marks of classes, points, keys and boundary."""
    handles = [
        legend_mark("s", 9, f"class {class_names[0]}", color=fade(_BLUE, 0.8), markeredgewidth=0),
        legend_mark("s", 9, f"class {class_names[1]}", color=fade(_ORANGE, 0.8), markeredgewidth=0),
        legend_mark("o", 4, "training point", color=QUIET, markeredgewidth=0),
        legend_mark("x", 5.5, "test point", color=QUIET, markeredgewidth=1.2),
        legend_mark("D", 6.5, "key, in the class of its value", color=PAPER, markeredgecolor=INK, markeredgewidth=1.0),
        Line2D([], [], color=QUIET, linewidth=0.9, label="P(class) = ½"),
    ]
    return handles if test else [handle for handle in handles if handle.get_label() != "test point"]


def cell_centres(low: float, high: float, n: int) -> NDArray[np.float64]:
    """Return the middles of `n` equal parts of an interval, where the pixels of an image of it are."""
    half = (high - low) / n / 2
    return np.linspace(low + half, high - half, n)
