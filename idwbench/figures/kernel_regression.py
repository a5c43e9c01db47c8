"""Two figures of kernel regression: the kernels, and their estimates of a curve with the weights below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.errors import ConfigError
from idwbench.figures.style import INK, PAPER, QUIET, RULE, class_colour, draw_caption, wrapped_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Estimate", "KernelCurve", "draw_estimates", "draw_kernels"]

Array = NDArray[np.floating]

_WIDTH, _HEIGHT = 6.6, 4.2  # inches
_PANEL = 2.5
_LINE = 0.165
_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))


@dataclass(frozen=True)
class KernelCurve:
    """The value (n,) of a kernel at each distance; `label` is its name with its formula."""

    label: str
    value: Array


@dataclass(frozen=True)
class Estimate:
    """The estimate (queries,) of one kernel and its weights (queries, keys), both NaN without neighbours."""

    title: str
    estimate: Array
    weights: Array


def draw_kernels(distance: Array, curves: Sequence[KernelCurve], caption: str = "") -> Figure:
    """Return one panel with a line for each kernel over the distances (n,), in units of the bandwidth.

    Raises:
        ConfigError: no curves.
    """
    if not curves:
        raise ConfigError("the figure of kernels needs at least one kernel")
    lines = wrapped_lines([caption], _WIDTH)
    height = _HEIGHT + _LINE * len(lines)
    figure = Figure(figsize=(_WIDTH, height), facecolor=PAPER)
    bottom = (0.62 + _LINE * len(lines)) / height
    axes = figure.add_axes((0.62 / _WIDTH, bottom, (_WIDTH - 0.8) / _WIDTH, 1 - 0.15 / height - bottom))
    for place, curve in enumerate(curves):
        colour, style = class_colour(place), _DASHES[place % len(_DASHES)]
        axes.plot(distance, curve.value, color=colour, linestyle=style, linewidth=2.0, label=curve.label)
    axes.set_xlim(float(distance.min()), float(distance.max()))
    axes.set_ylim(-0.02, 1.5)
    axes.set_xlabel("distance d in bandwidths h", fontsize=10, color=INK)
    axes.set_ylabel("weight before division by the sum", fontsize=10, color=INK)
    _style(axes)
    axes.legend(loc="upper right", frameon=False, fontsize=10, labelcolor=INK, handlelength=3.2)
    draw_caption(figure, lines)
    return figure


def draw_estimates(
    grid: Array, truth: Array, points: tuple[Array, Array], estimates: Sequence[Estimate], caption: str = ""
) -> Figure:
    """Return a column for each kernel: data, truth and estimate above, the matrix of weights below.

    Args:
        grid: The queries (queries,), in increasing order.
        truth: The true function (queries,).
        points: Training inputs (keys,), in increasing order, and their targets (keys,).
        estimates: One for each column.
        caption: Text below the panels.

    Raises:
        ConfigError: no estimates.
    """
    if not estimates:
        raise ConfigError("the figure of kernel regression needs at least one kernel")
    width = _PANEL * len(estimates) + 0.8
    lines = wrapped_lines([caption], width)
    height = 5.2 + _LINE * len(lines)
    figure = Figure(figsize=(width, height), facecolor=PAPER)
    margins = {"left": 0.72 / width, "right": 1 - 0.1 / width, "top": 1 - 0.35 / height}
    rows = figure.subplots(
        *(2, len(estimates)),
        squeeze=False,
        sharey="row",
        gridspec_kw={**margins, "bottom": (0.62 + _LINE * len(lines)) / height, "hspace": 0.18, "wspace": 0.08},
    )
    for above, below, one in zip(rows[0], rows[1], estimates, strict=True):
        above.set_title(one.title, fontsize=10, color=INK)
        above.plot(*points, ".", color=QUIET, markersize=4, label="data")
        above.plot(grid, truth, color=RULE, linewidth=3.0, label="truth")
        above.plot(grid, one.estimate, color=class_colour(0), linewidth=1.6, label="estimate")
        # The largest weight is black in each panel; a query without neighbours is white.
        below.pcolormesh(grid, np.arange(one.weights.shape[1]), np.nan_to_num(one.weights).T, cmap="Greys", vmin=0)
        for axes in (above, below):
            axes.set_xlim(float(grid.min()), float(grid.max()))
        below.set_xlabel("query", fontsize=10, color=INK)
    rows[0][0].legend(loc="lower left", frameon=False, fontsize=8, labelcolor=INK)
    rows[0][0].set_ylabel("target", fontsize=10, color=INK)
    rows[1][0].set_ylabel("key, in order", fontsize=10, color=INK)
    for axes in rows.flat:
        _style(axes)
    draw_caption(figure, lines)
    return figure


def _style(axes: Axes) -> None:
    axes.tick_params(colors=QUIET, labelsize=8)
    for side, spine in axes.spines.items():
        spine.set(color=RULE, visible=side in ("left", "bottom"))
