"""Lines over seeds against a size: recall, entropy, variance and capacity of lookups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from numpy.typing import NDArray

from idwbench.errors import ConfigError
from idwbench.figures.style import INK, PAPER, QUIET, RULE, draw_caption, wrapped_lines

__all__ = ["Axis", "Series", "SeriesPanel", "draw_series"]

_WIDTH, _LEFT, _RIGHT, _GAP = 10.0, 0.72, 0.12, 0.24  # inches
_HEIGHT, _TITLE, _AXIS = 2.3, 0.34, 0.52


@dataclass(frozen=True)
class Axis:
    """The label of an axis, and whether it is logarithmic."""

    label: str
    logarithmic: bool = False


@dataclass(frozen=True)
class Series:
    """One line of a panel.

    Attributes:
        label: That in the legend, or none.
        x: (points,), ascending.
        values: (seeds, points); NaN where a seed has none. One row without spread is drawn as a plain line.
        markers: Whether points are drawn with error bars instead of a line with a band.
        geometric: Whether mean and standard deviation are those of the logarithms.
    """

    label: str
    colour: str
    dash: Any
    x: NDArray[np.floating]
    values: NDArray[np.floating]
    markers: bool = False
    geometric: bool = False


@dataclass(frozen=True)
class SeriesPanel:
    """The lines of one panel."""

    title: str
    series: Sequence[Series]


def draw_series(
    panels: Sequence[SeriesPanel], x: Axis, y: Axis, *, caption: str, source: str = "", columns: int = 3
) -> Figure:
    """Return the panels in rows of `columns`, with common axes; a band is the mean ± sample standard deviation.

    Raises:
        ConfigError: no line.
    """
    every = [series for panel in panels for series in panel.series]
    if not every:
        raise ConfigError("the figure needs at least one line")
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    width = min((_WIDTH - _LEFT - _RIGHT - _GAP * (columns - 1)) / columns, 5.2)
    total_width = max(_LEFT + _RIGHT + columns * (width + _GAP) - _GAP, 6.0)
    handles = _handles(every)
    longest = max(len(str(handle.get_label())) for handle in handles)
    legend_columns = max(1, min(len(handles), int(total_width / (0.6 + 0.078 * longest))))
    lines = wrapped_lines([caption, source], total_width)
    footer = 0.14 + 0.19 * -(-len(handles) // legend_columns) + 0.165 * len(lines)
    total = rows * (_HEIGHT + _TITLE) + _AXIS + footer
    figure = Figure(figsize=(total_width, total), facecolor=PAPER)
    first: Axes | None = None
    for place, panel in enumerate(panels):
        row, column = divmod(place, columns)
        left, bottom = _LEFT + column * (width + _GAP), total - (row + 1) * (_HEIGHT + _TITLE)
        rectangle = (left / total_width, bottom / total, width / total_width, _HEIGHT / total)
        axes = figure.add_axes(rectangle, sharex=first, sharey=first)
        first = first or axes
        _draw_panel(axes, panel, (x, y), is_left=column == 0, is_lowest=place + columns >= len(panels))
    figure.legend(
        handles=handles,
        loc="lower center",
        bbox_to_anchor=(0.5, (0.08 + 0.165 * len(lines)) / total),
        ncols=legend_columns,
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        handlelength=2.6,
        columnspacing=1.4,
        borderaxespad=0,
    )
    draw_caption(figure, lines)
    return figure


def _draw_panel(axes: Axes, panel: SeriesPanel, labels: tuple[Axis, Axis], *, is_left: bool, is_lowest: bool) -> None:
    for label, axis in zip(labels, (axes.xaxis, axes.yaxis), strict=True):
        if label.logarithmic:
            (axes.set_xscale if axis is axes.xaxis else axes.set_yscale)("log")
            # Sizes are mostly powers of two.
            axis.set_major_locator(LogLocator(base=2 if axis is axes.xaxis else 10, numticks=7))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:.2g}" if value < 1 else f"{value:g}"))
    for series in panel.series:
        _draw_one(axes, series)
    axes.set_title(panel.title, fontsize=10, weight="bold", color=INK, pad=5)
    axes.tick_params(labelleft=is_left, labelbottom=is_lowest, labelsize=8.5, colors=QUIET, which="both")
    axes.grid(True, color=RULE, linewidth=0.5, alpha=0.6)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set(color=RULE, visible=side in ("left", "bottom"))
    if is_left:
        axes.set_ylabel(labels[1].label, fontsize=9.5, color=INK)
    if is_lowest:
        axes.set_xlabel(labels[0].label, fontsize=9.5, color=INK)


def _draw_one(axes: Axes, series: Series) -> None:
    values = np.asarray(series.values, np.float64)
    here = np.isfinite(values).any(0)
    x, values = np.asarray(series.x, np.float64)[here], values[:, here]
    mean, below, above = _spread(np.log(values) if series.geometric else values)
    if series.geometric:
        mean, below, above = np.exp(mean), np.exp(below), np.exp(above)
    if series.markers:
        errors = np.stack([mean - below, above - mean])
        axes.errorbar(
            x, mean, errors, color=series.colour, linestyle="none", marker="o", markersize=4, capsize=2, elinewidth=1
        )
        return
    if len(values) > 1:
        axes.fill_between(x, below, above, color=series.colour, alpha=0.16, linewidth=0)
    marker = "o" if len(x) == 1 else None
    axes.plot(x, mean, color=series.colour, linestyle=series.dash, linewidth=1.5, marker=marker, markersize=4)


def _spread(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean, and the mean ± sample standard deviation within the range of the seeds.

    So a recall is not above 1, and a logarithmic axis has no numbers below 0.
    """
    mean = np.nanmean(values, axis=0)
    n = np.isfinite(values).sum(0)
    std = np.sqrt((np.nan_to_num(values - mean) ** 2).sum(0) / np.maximum(n - 1, 1))
    low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    return mean, np.clip(mean - std, low, high), np.clip(mean + std, low, high)


def _handles(every: Sequence[Series]) -> list[Line2D]:
    found: dict[str, Line2D] = {}
    for one in (series for series in every if series.label):
        dash: Any = "none" if one.markers else one.dash
        marker = "o" if one.markers else None
        line = Line2D([], [], color=one.colour, linestyle=dash, marker=marker, markersize=4, linewidth=1.8)
        line.set_label(one.label)
        found.setdefault(one.label, line)
    return list(found.values())
