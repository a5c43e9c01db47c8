"""Panels of attention by class: totals as bars, and the largest attentions of each class as curves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, MaxNLocator
from numpy.typing import NDArray

from idwbench.figures.style import INK, QUIET, RULE, class_colour, style_axes

__all__ = ["draw_class_bars", "draw_class_curves"]

_LABEL = 7.5  # points


def draw_class_bars(
    axes: Axes,
    heights: NDArray[np.floating],
    names: Sequence[str],
    *,
    marked: int | None = None,
    after: NDArray[np.floating] | None = None,
) -> None:
    """Draw a bar (classes,) for each class in its colour.

    Args:
        axes: The panel.
        heights: (classes,).
        names: Names of the classes.
        marked: The class whose name is bold.
        after: Heights of a second bar beside each first one, which then is hollow.
    """
    places = range(len(heights))
    colours = [class_colour(place) for place in places]
    if after is None:
        axes.bar(places, heights, 0.72, color=colours)
    else:
        axes.bar([place - 0.2 for place in places], heights, 0.36, facecolor="none", edgecolor=colours, linewidth=1.0)
        axes.bar([place + 0.2 for place in places], after, 0.36, color=colours)
    style_axes(axes, label_size=_LABEL)
    axes.grid(False, axis="x")
    axes.axhline(0, color=RULE, linewidth=0.8)
    axes.set_xlim(-0.6, len(heights) - 0.4)
    _style_numbers(axes)
    fits = _width(axes) / len(heights) >= max(map(len, names)) * 0.7 * _LABEL / 72
    axes.set_xticks(places, names, rotation=0 if fits else 90, fontsize=_LABEL if fits else 6.5)
    for place, label in enumerate(axes.get_xticklabels()):
        label.set(color=colours[place], weight="bold" if place == marked else "normal")


def _width(axes: Axes) -> float:
    """Return the width of a panel in inches."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure.get_figwidth() * axes.get_position().width


def draw_class_curves(axes: Axes, curves: Sequence[NDArray[np.floating]]) -> None:
    """Draw for each class its largest attentions, (n,) in decreasing order, in its colour."""
    for label, curve in enumerate(curves):
        marker = "o" if len(curve) <= 20 else ""
        axes.plot(np.arange(1, len(curve) + 1), curve, color=class_colour(label), linewidth=1.2, marker=marker, ms=2.5)
    style_axes(axes, label_size=_LABEL)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.set_xlim(left=0)
    _style_numbers(axes)


def _style_numbers(axes: Axes) -> None:
    """Write few numbers on the vertical axis, thousands as 20k."""
    axes.yaxis.set_major_locator(MaxNLocator(4))
    low, high = axes.get_ylim()
    if max(abs(low), abs(high)) >= 1000:
        axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.tick_params(axis="y", colors=QUIET)
    axes.tick_params(axis="x", colors=INK, length=0)
