"""Lines over seeds: their tidy data, and panels of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis as MatplotlibAxis
from matplotlib.axis import XAxis
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from idwbench.figures.style import INK, QUIET, new_page, style_axes

__all__ = [
    "DASHES",
    "Axis",
    "Line",
    "Panel",
    "PanelRow",
    "draw_line",
    "draw_rows",
    "has_range",
    "legend_handles",
    "line_spread",
    "set_log_scale",
]

DASHES: tuple[Any, ...] = ("-", "--", "-.", ":")
_WIDTH, _HEIGHT, _TITLE, _AXIS = 10.0, 2.0, 0.3, 0.45  # inches: of a figure, and the heights of a row of panels
_FEW = 3  # number of lines of a panel up to which their range is drawn too
_DECADES = 2.0  # range of a logarithmic axis up to which it has ticks between powers of its base

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Line:
    """The values (seeds, n) of one setting at each x (n,); NaN where a seed has none.

    Attributes:
        label: That in the legend, or none.
        dash: A style of matplotlib; ``none`` for points alone.
        markers: Whether points have error bars instead of a band.
        geometric: Whether mean and standard deviation are those of the logarithms.
    """

    label: str
    colour: str
    dash: Any
    x: NDArray[np.number]
    values: NDArray[np.floating]
    markers: bool = False
    geometric: bool = False


@dataclass(frozen=True)
class Panel:
    """Lines between the same axes."""

    title: str
    lines: Sequence[Line]


@dataclass(frozen=True)
class Axis:
    """The label of an axis; whether numbers are shown times 100; and the base of its logarithms, or none."""

    label: str
    percent: bool = False
    base: int | None = None


@dataclass(frozen=True)
class PanelRow:
    """Panels with one axis of values; a heading begins a new block of rows with the same axis below."""

    heading: str
    y: Axis
    panels: Sequence[Panel]


def line_spread(line: Line) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return x, mean, the mean ∓ sample standard deviation within the range of the seeds, and the number of seeds.

    They have the x at which a seed has a value. Within the range a recall is not above 1, and a logarithmic axis has no
    numbers below 0.
    """
    values = np.asarray(line.values, np.float64)
    here = np.isfinite(values).any(0)
    values = np.where(np.isfinite(values), values, np.nan)[:, here]
    values = np.log(values) if line.geometric else values
    mean, n = np.nanmean(values, axis=0), np.isfinite(values).sum(0)
    std = np.sqrt((np.nan_to_num(values - mean) ** 2).sum(0) / np.maximum(n - 1, 1))
    low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    below, above = (np.clip(mean + sign * std, low, high) for sign in (-1, 1))
    if line.geometric:
        mean, below, above = np.exp(mean), np.exp(below), np.exp(above)
    return np.asarray(line.x, np.float64)[here], mean, below, above, n.astype(np.float64)


def draw_line(axes: Axes, line: Line, factor: float = 1.0, *, with_range: bool = False) -> None:
    """Draw the mean over seeds with a band, or with error bars; `with_range` adds a light band of all seeds."""
    x, mean, below, above, n = line_spread(line)
    mean, below, above = (factor * numbers for numbers in (mean, below, above))
    if line.markers:
        errors = np.stack([mean - below, above - mean])
        style = {"linestyle": line.dash, "linewidth": 1.8, "marker": "o", "markersize": 4, "capsize": 2}
        axes.errorbar(x, mean, errors, color=line.colour, label=line.label, elinewidth=1, **style)
        return
    several = n > 1
    if several.any():
        if with_range:
            values = factor * np.asarray(line.values, np.float64)[:, np.isin(line.x, x[several])]
            low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
            axes.fill_between(x[several], low, high, color=line.colour, alpha=0.10, linewidth=0)
        axes.fill_between(x[several], below[several], above[several], color=line.colour, alpha=0.18, linewidth=0)
    style = {"marker": "o" if len(x) == 1 else None, "markersize": 4, "linewidth": 1.6}
    axes.plot(x, mean, color=line.colour, linestyle=line.dash, label=line.label, **style)


def legend_handles(lines: Sequence[Line]) -> list[Line2D]:
    """Return a mark for each label."""
    by_label = {line.label: line for line in reversed(lines) if line.label}
    return [
        Line2D([], [], color=line.colour, linestyle=line.dash, marker="o" if line.markers else None, markersize=4,
               linewidth=1.8, label=line.label)
        for line in reversed(by_label.values())
    ]  # fmt: skip


def draw_rows(rows: Sequence[PanelRow], x: Axis, caption: Sequence[str], *, shared: bool = False) -> Figure:
    """Return a figure with rows of panels; panels of a row share their axes, those of a block the axis below.

    In panels with up to three lines a lighter band is the range of the seeds, unless the lines have error bars.

    Args:
        rows: At least one.
        x: The axis below.
        caption: Sentences below the legend.
        shared: Whether all rows have the same axis of values.
    """
    lines = [line for row in rows for panel in row.panels for line in panel.lines]
    columns = max(len(row.panels) for row in rows)
    numbers = [0]
    for row in rows[1:]:
        numbers.append(numbers[-1] + bool(row.heading))
    blocks = [[row for _, row in group] for _, group in groupby(zip(numbers, rows, strict=True), lambda pair: pair[0])]
    titles = sum(1 for row in rows if shared or row is rows[0] or row.heading)
    height = len(rows) * _HEIGHT + titles * _TITLE + len(blocks) * _AXIS + 0.25 * sum(bool(row.heading) for row in rows)
    width = min(_WIDTH, max(5.2, 0.8 + 4.6 * columns))
    figure, body = new_page(width, height, caption, legend_handles(lines))
    parts = body.subfigures(len(blocks), 1, squeeze=False, height_ratios=[len(block) + 0.4 for block in blocks])
    for part, block in zip(parts[:, 0], blocks, strict=True):
        _draw_block(part, block, columns, x, shared=shared)
    return figure


def _draw_block(part: SubFigure, rows: Sequence[PanelRow], columns: int, x: Axis, *, shared: bool) -> None:
    grid = part.subplots(len(rows), columns, squeeze=False, sharex=True, sharey=True if shared else "row")
    if rows[0].heading:
        part.suptitle(rows[0].heading, x=0.01, ha="left", fontsize=9.5, color=QUIET)
    for number, (row, places) in enumerate(zip(rows, grid, strict=True)):
        for column, axes in enumerate(places):
            if column >= len(row.panels):
                axes.set_visible(False)
                continue
            is_lowest = number + 1 == len(rows) or column >= len(rows[number + 1].panels)
            _draw_panel(axes, row.panels[column], x if is_lowest else None, row.y, is_left=column == 0)
            if number == 0 or shared:
                axes.set_title(row.panels[column].title, fontsize=10.5, weight="bold", color=INK, pad=5)
        for axis, which in ((places[0].xaxis, x), (places[0].yaxis, row.y)):
            _set_scale(axis, which, row.panels)


def _draw_panel(axes: Axes, panel: Panel, x: Axis | None, y: Axis, *, is_left: bool) -> None:
    for line in panel.lines:
        draw_line(axes, line, 100.0 if y.percent else 1.0, with_range=has_range(panel))
    style_axes(axes)
    axes.tick_params(labelleft=is_left, labelbottom=x is not None)
    if is_left:
        axes.set_ylabel(y.label, fontsize=9.5, color=INK)
    if x is not None:
        axes.set_xlabel(x.label, fontsize=9.5, color=INK)


def has_range(panel: Panel) -> bool:
    """Return whether the range of the seeds is drawn."""
    return len(panel.lines) <= _FEW


def _set_scale(axis: MatplotlibAxis, which: Axis, panels: Sequence[Panel]) -> None:
    """Set a logarithmic scale where all numbers are positive, or few ticks at whole numbers of epochs."""
    is_x = isinstance(axis, XAxis)
    numbers = [line.x if is_x else line.values for panel in panels for line in panel.lines]
    low, high = min(map(np.nanmin, numbers)), max(map(np.nanmax, numbers))
    if which.base is not None and low > 0:
        set_log_scale(axis, which.base, float(low), float(high))
    elif is_x:
        axis.set_major_locator(MaxNLocator(nbins=6, integer=True))


def set_log_scale(axis: MatplotlibAxis, base: int, low: float, high: float) -> None:
    """Set a logarithmic scale with plain numbers; a short one has ticks between powers of ten."""
    scale = axis.axes.set_xscale if isinstance(axis, XAxis) else axis.axes.set_yscale
    scale("log", base=base)
    is_short = base == 10 and high < 10**_DECADES * low
    axis.set_major_locator(LogLocator(base=base, subs=(1.0, 2.0, 5.0) if is_short else (1.0,), numticks=8))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:.2g}" if value < 1 else f"{value:g}"))
