"""The primitive of figures of lines over seeds: their tidy data, and panels of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.axis import Axis as MatplotlibAxis
from matplotlib.axis import XAxis
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator, StrMethodFormatter
from numpy.typing import NDArray

from idwbench.figures.style import INK, PAPER, QUIET, class_colour, new_page, seeds_label, style_axes

__all__ = [
    "DASHES",
    "Axis",
    "Line",
    "Panel",
    "PanelRow",
    "Style",
    "draw_block",
    "draw_rows",
    "legend_handles",
    "line_spread",
    "lines_of",
    "panel_rows",
    "place_styles",
    "spread_caption",
]

DASHES: tuple[Any, ...] = ("-", "--", "-.", ":")
_WIDTH, _HEIGHT, _TITLE, _AXIS = 10.0, 2.0, 0.3, 0.45  # inches: of a figure, and the heights of a row of panels
_FEW = 3  # number of lines of a panel up to which their range is drawn too
_DECADES = 2.0  # range of a logarithmic axis up to which it has ticks between powers of its base

Floats = NDArray[np.float64]
Style = tuple[str, Any]  # colour and dash


@dataclass(frozen=True)
class Line:
    """The values (seeds, n) of one setting at each x (n,), NaN where a seed has none; or those (n,) of a formula.

    Attributes:
        label: That in the legend, or none.
        dash: A style of matplotlib; ``none`` for points alone.
        markers: Whether points have error bars instead of a band.
        geometric: Whether mean and standard deviation are those of the logarithms.
        quartiles: Whether median and quartiles stand for mean and standard deviation, at each x that at least half of
            the seeds have.
        marker: That of points.
        x_values: The values (seeds, n) of x by seed, whose mean with error bars then stands for x.
    """

    label: str
    colour: str
    dash: Any
    x: NDArray[np.number]
    values: NDArray[np.floating]
    markers: bool = False
    geometric: bool = False
    quartiles: bool = False
    marker: str = "o"
    x_values: NDArray[np.floating] | None = None


def lines_of(
    points: Iterable[tuple[str, float, int, float]] | pandas.DataFrame, styles: Mapping[str, Style], **options: Any
) -> list[Line]:
    """Return a line for each label, in the order of their first points; of several at one x and seed the last counts.

    Args:
        points: Label, x, seed and value of each, or a table with these columns.
        styles: Colour and dash by label.
        options: Those of `Line`.
    """
    table = pandas.DataFrame(points, columns=["label", "x", "seed", "value"])
    table = table.drop_duplicates(["label", "x", "seed"], keep="last")
    lines = []
    for label, own in table.groupby("label", sort=False):
        values = own.pivot(index="seed", columns="x", values="value")
        x = values.columns.to_numpy(np.float64)
        lines.append(Line(str(label), *styles[str(label)], x, values.to_numpy(np.float64), **options))
    return lines


def place_styles(labels: Sequence[str], *, markers: bool = False) -> dict[str, Style]:
    """Return colour and dash of each label by its place; lines of points have no dash."""
    return {
        label: (class_colour(place), "none" if markers else DASHES[place // 5 % len(DASHES)])
        for place, label in enumerate(labels)
    }


@dataclass(frozen=True)
class Panel:
    """Lines between the same axes."""

    title: str
    lines: Sequence[Line]


@dataclass(frozen=True)
class Axis:
    """An axis.

    Attributes:
        percent: Whether numbers are shown times 100.
        base: Of its logarithms, or none.
        linear: The number up to which it is linear, logarithmic beyond, or none.
        limits: The least and the largest number; None is as the data have it.
        ticks: Numbers with ticks; by default a few.
    """

    label: str
    percent: bool = False
    base: int | None = None
    linear: float | None = None
    limits: tuple[float | None, float | None] = (None, None)
    ticks: Sequence[float] = ()


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
    values = np.atleast_2d(np.asarray(line.values, np.float64))
    table = pandas.DataFrame(values, columns=np.asarray(line.x, np.float64))
    table = table.replace([np.inf, -np.inf], np.nan)
    if line.quartiles:
        table = table.loc[:, table.count() >= len(table) / 2].reindex(columns=table.columns)
        spread = [table.quantile(share) for share in (0.5, 0.25, 0.75)]
    else:
        table = table.loc[:, table.notna().any()]
        table = np.log(table) if line.geometric else table
        mean, std = table.mean(), table.std().fillna(0.0)
        spread = [mean, (mean - std).clip(lower=table.min()), (mean + std).clip(upper=table.max())]
        spread = [np.exp(numbers) for numbers in spread] if line.geometric else spread
    middle, below, above, n = (numbers.to_numpy(np.float64) for numbers in (*spread, table.count()))
    return table.columns.to_numpy(np.float64), middle, below, above, n


def _draw_line(axes: Axes, line: Line, factor: float = 1.0, *, with_range: bool = False) -> None:
    """Draw the mean over seeds with a band, or with error bars; `with_range` adds a light band of all seeds."""
    x, mean, below, above, n = line_spread(line)
    mean, below, above = (factor * numbers for numbers in (mean, below, above))
    size = 2.5 if line.quartiles else 4
    style: dict[str, Any] = {"color": line.colour, "linestyle": line.dash, "label": line.label, "markersize": size}
    if line.markers:
        errors, x_errors = np.stack([mean - below, above - mean]), None
        style |= {"linewidth": 1.8, "marker": line.marker, "capsize": 2, "elinewidth": 1}
        if line.x_values is not None:
            style |= {"markeredgecolor": PAPER, "markersize": 6, "capsize": 0}  # points may lie on each other
            _, x, low, high, _ = line_spread(replace(line, values=line.x_values))
            x_errors = np.stack([x - low, high - x])
        axes.errorbar(x, mean, errors, x_errors, **style)
        return
    # A band has no width at an x without neighbours.
    drawn = np.pad(np.isfinite(mean), 1)
    alone = drawn[1:-1] & ~drawn[:-2] & ~drawn[2:]
    if (several := n > 1).any():
        if with_range:
            values = factor * np.asarray(line.values, np.float64)[:, np.isin(line.x, x[several])]
            low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
            axes.fill_between(x[several], low, high, color=line.colour, alpha=0.10, linewidth=0)
        axes.fill_between(x, below, above, several, color=line.colour, alpha=0.18, linewidth=0)
        if (lone := alone & several).any():
            axes.vlines(x[lone], below[lone], above[lone], color=line.colour, alpha=0.4, linewidth=2)
    axes.plot(x, mean, linewidth=1.6, marker="o" if alone.any() or line.quartiles else None, **style)


def legend_handles(lines: Sequence[Line]) -> list[Line2D]:
    """Return a mark for each label."""
    by_label = {line.label: line for line in reversed(lines) if line.label}
    return [
        Line2D([], [], color=line.colour, linestyle=line.dash, marker=line.marker if line.markers else None,
               markersize=4, linewidth=1.8, label=line.label)
        for line in reversed(by_label.values())
    ]  # fmt: skip


def draw_rows(
    rows: Sequence[PanelRow], x: Axis, caption: Sequence[str], *, shared: bool = False, height: float = _HEIGHT
) -> Figure:
    """Return a figure with rows of panels; panels of a row share their axes, those of a block the axis below.

    In panels with up to three lines a lighter band is the range of the seeds, unless the lines have error bars.

    Args:
        rows: At least one.
        x: The axis below.
        caption: Sentences below the legend, after that of `spread_caption`.
        shared: Whether all rows have the same axis of values.
        height: Of a panel, in inches.
    """
    blocks: list[list[PanelRow]] = []
    for row in rows:
        if row.heading or not blocks:
            blocks.append([])
        blocks[-1].append(row)
    columns = max(len(row.panels) for row in rows)
    heights = [
        len(block) * height + (len(block) if shared else 1) * _TITLE + _AXIS + 0.25 * bool(block[0].heading)
        for block in blocks
    ]
    handles = legend_handles([line for row in rows for panel in row.panels for line in panel.lines])
    width = min(_WIDTH, 0.8 + columns * max(4.6, 1.8 * height))
    figure, body = new_page(width, sum(heights), [spread_caption(rows), *caption], handles)
    parts = body.subfigures(len(blocks), 1, squeeze=False, height_ratios=heights)
    for part, block in zip(parts[:, 0], blocks, strict=True):
        draw_block(part, block, x, columns, shared=shared)
    return figure


def panel_rows(y: Axis, panels: Sequence[Panel], columns: int) -> list[PanelRow]:
    """Return panels with the same axis of values in rows of `columns`."""
    return [PanelRow("", y, panels[start : start + columns]) for start in range(0, len(panels), columns)]


def draw_block(part: SubFigure, rows: Sequence[PanelRow], x: Axis, columns: int, *, shared: bool = False) -> None:
    """Draw rows of panels with the same axis below, see `draw_rows`."""
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
        lines = [line for panel in row.panels for line in panel.lines]
        _set_scale(places[0].xaxis, x, [line.x for line in lines])
        _set_scale(places[0].yaxis, row.y, [line.values for line in lines])


def _draw_panel(axes: Axes, panel: Panel, x: Axis | None, y: Axis, *, is_left: bool) -> None:
    for line in panel.lines:
        _draw_line(axes, line, 100.0 if y.percent else 1.0, with_range=_has_range(panel))
    style_axes(axes)
    axes.tick_params(labelleft=is_left, labelbottom=x is not None)
    if is_left:
        axes.set_ylabel(y.label, fontsize=9.5, color=INK)
    if x is not None:
        axes.set_xlabel(x.label, fontsize=9.5, color=INK)


def _has_range(panel: Panel) -> bool:
    """Return whether the range of the seeds is drawn."""
    return len(panel.lines) <= _FEW and not any(line.markers or line.quartiles for line in panel.lines)


def spread_caption(rows: Sequence[PanelRow]) -> str:
    """Return what shows the mean and the spread over seeds; empty if all lines are formulas."""
    panels = [panel for row in rows for panel in row.panels]
    lines = [line for panel in panels for line in panel.lines if line.values.ndim > 1]
    counts = {int(n) for line in lines for n in line_spread(line)[-1] if n}
    if max(counts, default=1) == 1:
        return "one seed: no spread" if lines else ""
    marked = {line.markers for line in lines}
    point, bar = "point" if marked == {True} else "line", "bar" if marked == {True} else "band"
    if marked == {True, False}:
        point, bar = "line or point", "band or bar"
    if any(line.quartiles for line in lines):
        return f"{point}: median over {seeds_label(counts)}; {bar}: quartiles"
    of_logarithms = " of the logarithms" if any(line.geometric for line in lines) else ""
    ranged = [_has_range(panel) for panel in panels if panel.lines]
    light = "" if not any(ranged) else "; light band: range" + ("" if all(ranged) else f" (up to {_FEW} lines)")
    spread = f"{bar}: mean ± sample standard deviation{of_logarithms}, within the range of the seeds{light}"
    return f"{point}: mean{of_logarithms} over {seeds_label(counts)}; {spread}"


def _set_scale(axis: MatplotlibAxis, which: Axis, numbers: Sequence[NDArray[Any]]) -> None:
    """Set a logarithmic scale with plain numbers where all are positive, and ticks."""
    is_x = isinstance(axis, XAxis)
    axes = axis.axes
    set_scale, set_limits = (axes.set_xscale, axes.set_xlim) if is_x else (axes.set_yscale, axes.set_ylim)
    if which.linear is not None:
        set_scale("symlog", linthresh=which.linear)
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        return
    finite = np.concatenate([each[np.isfinite(each)] for each in numbers])
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (1.0, 1.0)
    if which.base is not None and (low > 0 or which.ticks):
        # With ticks at 0 it is linear up to 1.
        set_scale("log", base=which.base) if low > 0 else set_scale("symlog", linthresh=1, linscale=0.5)
        is_short = which.base == 10 and high < 10**_DECADES * low
        axis.set_major_locator(LogLocator(base=which.base, subs=(1.0, 2.0, 5.0) if is_short else (1.0,), numticks=8))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:.2g}" if value < 1 else f"{value:g}"))
    elif is_x and which.limits == (None, None):
        axis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    if which.ticks:
        axis.set_major_locator(FixedLocator(sorted(set(which.ticks))))
    if which.limits != (None, None):
        set_limits(*which.limits)
