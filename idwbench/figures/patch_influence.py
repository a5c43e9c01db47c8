"""What patches change: class probabilities against the distance, and calibration against the number of patches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from idwbench.errors import ConfigError
from idwbench.figures.lines import Line as Curve
from idwbench.figures.lines import legend_handles
from idwbench.figures.style import INK, LEGEND, PAPER, draw_caption, seeds_label, style_axes, wrapped_lines

__all__ = ["draw_patch_influence"]

_WIDTH, _LEFT, _RIGHT, _GAP, _WIDE_GAP = 10.0, 0.72, 0.1, 0.18, 0.85  # inches
_HEIGHT, _TITLE, _AXIS, _LEGEND_ROW = 2.6, 0.36, 0.5, 0.2
_PANEL = (_WIDTH - _LEFT - _RIGHT - _GAP - _WIDE_GAP) / 3


def draw_patch_influence(
    settings: Sequence[Curve],
    sizes: Sequence[Curve],
    calibration: Sequence[Curve],
    *,
    varied: str = "ε",
    notes: Sequence[str] = (),
) -> Figure:
    """Return three panels; the first two share their axes.

    Args:
        settings: The largest change of a class probability against the distance, for several settings: median over
            seeds with quartiles, where at least half of the seeds have points.
        sizes: The same for the sizes of η.
        calibration: The expected calibration error against the number of patches, for the same sizes: mean ± std.
        varied: What differs between `settings`.
        notes: Sentences below the caption.

    Raises:
        ConfigError: no curve in one of the panels.
    """
    if not (settings and sizes and calibration):
        raise ConfigError("the figure of the influence of patches needs a curve for each of its panels")
    lines = wrapped_lines([*_caption(sizes, settings, calibration), *notes], _WIDTH)
    columns = 2
    legend = _LEGEND_ROW * -(-len(settings) // columns)
    bottom = 0.12 + 0.165 * len(lines) + legend + _AXIS
    total = bottom + _HEIGHT + _TITLE
    figure = Figure(figsize=(_WIDTH, total), facecolor=PAPER)
    lefts = (_LEFT, _LEFT + _PANEL + _GAP, _LEFT + 2 * _PANEL + _GAP + _WIDE_GAP)
    places = [(left / _WIDTH, bottom / total, _PANEL / _WIDTH, _HEIGHT / total) for left in lefts]
    one = figure.add_axes(places[0])
    two = figure.add_axes(places[1], sharex=one, sharey=one)
    three = figure.add_axes(places[2])
    label = "distance from the patch (scaled units)"
    _style(one, f"exact η, by {varied}" if len(settings) > 1 else "exact η", label)
    _style(two, "by size of η", label)
    _style(three, "calibration, by size of η", "number of patches")
    one.set_ylabel("largest change of a class probability", fontsize=9.5, color=INK)
    two.tick_params(labelleft=False)
    three.set_ylabel("expected calibration error", fontsize=9.5, color=INK)
    _set_distances(one, (*settings, *sizes))
    _draw_influence(one, settings)
    _draw_influence(two, sizes)
    _draw_calibration(three, calibration)
    for axes in (one, three):
        axes.set_ylim(bottom=0)  # last, since it ends the automatic limits
    top = (bottom - _AXIS) / total
    _draw_legend(figure, settings, ((lefts[0] + _PANEL / 2) / _WIDTH, top), columns)
    _draw_legend(figure, sizes, ((lefts[1] + lefts[2] + _PANEL) / 2 / _WIDTH, top), len(sizes))
    draw_caption(figure, lines)
    return figure


def _style(axes: Axes, title: str, label: str) -> None:
    axes.set_title(title, fontsize=10.5, weight="bold", color=INK, pad=5)
    axes.set_xlabel(label, fontsize=9.5, color=INK)
    style_axes(axes)


def _set_distances(axes: Axes, curves: Sequence[Curve]) -> None:
    """Set a logarithmic axis; a short one has ticks between powers of ten."""
    found = [x for curve in curves for x in curve.x[np.isfinite(curve.values).any(0)]] or [1.0]
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if max(found) < 100 * min(found) else (1.0,)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())


def _draw_influence(axes: Axes, curves: Sequence[Curve]) -> None:
    for curve in curves:
        values = np.asarray(curve.values, np.float64)
        usual = 2 * np.isfinite(values).sum(0) >= len(values)
        low, middle, high = np.full((3, values.shape[1]), np.nan)
        if usual.any():
            low[usual], middle[usual], high[usual] = np.nanquantile(values[:, usual], (0.25, 0.5, 0.75), axis=0)
        if len(values) > 1:
            axes.fill_between(curve.x, low, high, color=curve.colour, alpha=0.15, linewidth=0)
            # A band has no width at a bin between two empty ones.
            drawn = np.pad(usual, 1)
            alone = drawn[1:-1] & ~drawn[:-2] & ~drawn[2:]
            axes.vlines(curve.x[alone], low[alone], high[alone], color=curve.colour, alpha=0.4, linewidth=2)
        # Markers, for the same reason.
        style = {"linestyle": curve.dash, "linewidth": 1.6, "marker": "o", "markersize": 2.5}
        axes.plot(curve.x, middle, color=curve.colour, **style)


def _draw_calibration(axes: Axes, curves: Sequence[Curve]) -> None:
    # Linear from 0 to 1, logarithmic above.
    axes.set_xscale("symlog", linthresh=1, linscale=0.5)
    axes.xaxis.set_major_locator(FixedLocator(sorted({float(x) for curve in curves for x in curve.x})))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    for curve in curves:
        values = np.asarray(curve.values, np.float64)
        mean = np.nanmean(values, axis=0)
        axes.plot(curve.x, mean, color=curve.colour, linestyle=curve.dash, linewidth=1.6, marker="o", markersize=3.5)
        several = np.isfinite(values).sum(0) > 1
        if several.any():
            std = np.nanstd(values[:, several], axis=0, ddof=1)
            low, high = np.maximum(mean[several] - std, 0), mean[several] + std
            axes.fill_between(curve.x[several], low, high, color=curve.colour, alpha=0.15, linewidth=0)


def _draw_legend(figure: Figure, curves: Sequence[Curve], place: tuple[float, float], columns: int) -> None:
    style = {**LEGEND, "loc": "upper center", "handlelength": 2.6, "columnspacing": 1.4}
    figure.legend(handles=legend_handles(curves), bbox_to_anchor=place, ncols=columns, **style)


def _caption(sizes: Sequence[Curve], settings: Sequence[Curve], calibration: Sequence[Curve]) -> list[str]:
    seeds = {len(curve.values) for curve in (*sizes, *settings)}
    spread = "one seed: no spread" if seeds == {1} else f"median over {seeds_label(seeds)}, with quartiles"
    bins = "largest over all patches and the points in a bin of distances, the first from 0"
    counts = np.isfinite(np.asarray(calibration[0].values, np.float64)).sum(0)
    by_count = {int(n): [f"{x:g}" for x in calibration[0].x[counts == n]] for n in sorted(set(counts), reverse=True)}
    parts = [f"{seeds_label({n})} ({', '.join(patches)} patches)" for n, patches in by_count.items()]
    mean = "one seed" if set(by_count) == {1} else f"mean ± std over {', '.join(parts)}"
    return [
        f"left and middle: {bins}; smaller in a bin with few points; {spread}",
        f"right: patches of wrong inputs, one after the other; {mean}",
    ]
