"""Learning curves over seeds: mean, standard deviation and range against the epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from idwbench.errors import ConfigError
from idwbench.figures.style import INK, PAPER, QUIET, draw_footer, seeds_label, style_axes, wrapped_lines

__all__ = ["Curve", "CurvePanel", "CurveRow", "draw_curves", "legend_handles"]

_WIDTH, _LEFT, _RIGHT, _GAP = 10.0, 0.72, 0.1, 0.18  # inches
_HEIGHT, _BETWEEN, _TITLE, _HEADING, _AXIS = 1.75, 0.2, 0.36, 0.22, 0.5
_FEW = 3  # number of lines of a panel up to which their range is drawn too
_DECADES = 2.0  # range of a logarithmic axis up to which it has ticks between powers of ten
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":")


@dataclass(frozen=True)
class Curve:
    """One line: `values` (seeds, n) against `x` (n,), such as epochs; NaN where a seed has none."""

    label: str
    colour: str
    dash: Any
    x: NDArray[np.number]
    values: NDArray[np.floating]


@dataclass(frozen=True)
class CurvePanel:
    """The curves of one number of prototypes; without a title if no model has any."""

    title: str
    curves: Sequence[Curve]


@dataclass(frozen=True)
class CurveRow:
    """Panels with one axis of values.

    Attributes:
        heading: Text above the row, or none.
        label: That of the axis of values.
        percent: Whether values are shown times 100.
        logarithmic: Whether the axis is logarithmic, if all values are positive.
    """

    heading: str
    label: str
    percent: bool
    logarithmic: bool
    panels: Sequence[CurvePanel]


def draw_curves(rows: Sequence[CurveRow], *, source: str = "") -> Figure:
    """Return the rows of panels; panels of a row share their axes.

    A line is the mean over seeds and its band the mean ± sample standard deviation, within the range of the seeds and
    drawn at epochs that more than one run has reached. In panels with up to three lines a lighter band is the range.

    Raises:
        ConfigError: no curve.
    """
    curves = [curve for row in rows for panel in row.panels for curve in panel.curves]
    if not curves:
        raise ConfigError("the figure of curves needs at least one learning curve")
    n_columns = max(len(row.panels) for row in rows)
    width = min((_WIDTH - _LEFT - _RIGHT - _GAP * (n_columns - 1)) / n_columns, 4.4)
    total_width = max(_LEFT + _RIGHT + n_columns * (width + _GAP) - _GAP, 5.2)
    handles = legend_handles(curves)
    legend_columns = max(1, int(total_width / (0.55 + 0.085 * max(len(str(h.get_label())) for h in handles))))
    legend_rows = -(-len(handles) // legend_columns)
    lines = wrapped_lines([_caption(rows), source], total_width)
    footer = 0.15 + 0.19 * legend_rows + 0.165 * len(lines)
    heights = [_HEIGHT + (_TITLE if row.heading or place == 0 else _BETWEEN) for place, row in enumerate(rows)]
    heights = [height + (_HEADING if row.heading else 0) for height, row in zip(heights, rows, strict=True)]
    heights = [height + (_AXIS if _ends_block(rows, place) else 0) for place, height in enumerate(heights)]
    total = sum(heights) + footer
    figure = Figure(figsize=(total_width, total), facecolor=PAPER)
    top = total
    for place, (row, height) in enumerate(zip(rows, heights, strict=True)):
        has_axis = _ends_block(rows, place)
        bottom = top - height + (_AXIS if has_axis else 0)
        shown_titles = place == 0 or bool(row.heading)
        _draw_row(figure, row, bottom, width, has_axis=has_axis, titles=shown_titles)
        top -= height
    draw_footer(figure, handles, lines, legend_columns, above=0.1, handlelength=2.6, columnspacing=1.4)
    return figure


def _ends_block(rows: Sequence[CurveRow], place: int) -> bool:
    """Return whether a row has the labels of epochs: the last row, and that above a heading."""
    return place + 1 == len(rows) or bool(rows[place + 1].heading)


def _draw_row(figure: Figure, row: CurveRow, bottom: float, width: float, *, has_axis: bool, titles: bool) -> None:
    across, up = figure.get_size_inches()
    first: Axes | None = None
    positive = all(np.nanmin(curve.values) > 0 for panel in row.panels for curve in panel.curves)
    for column, panel in enumerate(row.panels):
        left = _LEFT + column * (width + _GAP)
        rectangle = (left / across, bottom / up, width / across, _HEIGHT / up)
        axes = figure.add_axes(rectangle, sharex=first, sharey=first)
        for curve in panel.curves:
            _draw_curve(axes, curve, 100.0 if row.percent else 1.0, with_range=len(panel.curves) <= _FEW)
        if first is None:
            if row.logarithmic and positive:
                _set_log_scale(axes, row)
            axes.set_ylabel(row.label, fontsize=9.5, color=INK)
            axes.yaxis.set_label_coords(-0.5 / width, 0.5)
            axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        first = first or axes
        axes.tick_params(labelleft=column == 0, labelbottom=has_axis, which="both")
        style_axes(axes)
        if has_axis:
            axes.set_xlabel("epoch", fontsize=9.5, color=INK)
        if titles:
            axes.set_title(panel.title, fontsize=10.5, weight="bold", color=INK, pad=5)
    if row.heading:
        place = (0.1 / across, (bottom + _HEIGHT + _TITLE + _HEADING - 0.16) / up)
        figure.text(*place, row.heading, fontsize=9.5, color=QUIET, va="center")


def _set_log_scale(axes: Axes, row: CurveRow) -> None:
    values = [curve.values for panel in row.panels for curve in panel.curves]
    decades = np.log10(max(map(np.nanmax, values)) / min(map(np.nanmin, values)))
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < _DECADES else (1.0,)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def _draw_curve(axes: Axes, curve: Curve, factor: float, *, with_range: bool) -> None:
    values = factor * np.asarray(curve.values, dtype=np.float64)
    found = np.isfinite(values).sum(0)
    here, several = found > 0, found > 1
    mean = np.full(len(found), np.nan)
    mean[here] = np.nanmean(values[:, here], axis=0)
    if several.any():
        x, part = curve.x[several], values[:, several]
        low, high = np.nanmin(part, axis=0), np.nanmax(part, axis=0)
        if with_range:
            axes.fill_between(x, low, high, color=curve.colour, alpha=0.10, linewidth=0)
        std = np.nanstd(part, axis=0, ddof=1)
        # Within the range: an accuracy is not above 1, and a logarithmic axis has no numbers below 0.
        below, above = (np.clip(mean[several] + sign * std, low, high) for sign in (-1, 1))
        axes.fill_between(x, below, above, color=curve.colour, alpha=0.20, linewidth=0)
    marker = "o" if here.sum() == 1 else None
    axes.plot(curve.x[here], mean[here], color=curve.colour, linestyle=curve.dash, linewidth=1.6, marker=marker)


def legend_handles(curves: Sequence[Curve]) -> list[Line2D]:
    """Return a line for each label."""
    styles = {curve.label: (curve.colour, curve.dash) for curve in curves}
    return [
        Line2D([], [], color=colour, linestyle=dash, linewidth=1.8, label=label)
        for label, (colour, dash) in styles.items()
    ]


def _caption(rows: Sequence[CurveRow]) -> str:
    panels = [panel for row in rows for panel in row.panels]
    counts = {len(curve.values) for panel in panels for curve in panel.curves}
    if counts == {1}:
        return "one seed: no spread"
    ranged = [len(panel.curves) <= _FEW for panel in panels]
    light = "" if not any(ranged) else "; light band: range" + ("" if all(ranged) else f" (up to {_FEW} lines)")
    band = "band: mean ± sample standard deviation, within the range of the seeds"
    return f"line: mean over {seeds_label(counts)}; {band}{light}"
