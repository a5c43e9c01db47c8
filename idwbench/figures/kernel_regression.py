"""Two figures of kernel regression, which need no runs: the kernels, and their estimates of a curve."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from idwbench.attention.kernels import KERNELS
from idwbench.errors import NoNeighboursWarning
from idwbench.figures.lines import Axis, Line, Panel, PanelRow, draw_rows
from idwbench.figures.style import INK, QUIET, RULE, Drawing, class_colour, new_page, style_axes
from idwbench.models.kernel_regression import kernel_regression, kernel_weights

__all__ = ["kernel_regression_figure", "kernels_figure"]

_FARTHEST, _POINTS = 3.0, 601
_KEYS, _QUERIES, _NOISE, _BANDWIDTH = 50, 200, 0.2, 0.4
_DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))


def kernels_figure() -> Drawing:
    """The kernels of kernel regression against the distance."""
    distance = np.linspace(0.0, _FARTHEST, _POINTS)
    lines = []
    for place, kernel in enumerate(KERNELS.values()):
        if kernel.has_bandwidth:
            value = np.asarray(kernel.weights(np.concatenate([[0.0], distance**2])[None], {"bandwidth": 1.0})[:, 1:])
        else:
            value = 1 / np.maximum(distance[None], 1e-3) ** 2
        label, dash = f"{kernel.name}:  {kernel.formula}", _DASHES[place % len(_DASHES)]
        lines.append(Line(label, class_colour(place), dash, distance, value))
    x = Axis("distance d in bandwidths h", limits=(0, _FARTHEST))
    y = Axis("weight before division by the sum", limits=(-0.02, 1.5))
    caption = ["shepard with p = 2 and ε = 0, which has no bandwidth"]
    return Drawing(draw_rows([PanelRow("", y, [Panel("", lines)])], x, caption, height=3.2))


def kernel_regression_figure() -> Drawing:
    """Estimates of a noisy sine by each kernel, with the matrix of attention weights below."""
    generator = np.random.default_rng(0)
    keys = np.sort(generator.uniform(0.0, 5.0, _KEYS))
    targets = np.sin(2 * keys) + generator.normal(scale=_NOISE, size=_KEYS)
    grid = np.linspace(0.0, 5.0, _QUERIES)
    caption = f"sin(2x) with noise of standard deviation {_NOISE}; below, the weight of each key (darker is larger)"
    figure, body = new_page(2.5 * len(KERNELS) + 0.8, 5.2, [caption])
    rows = body.subplots(2, len(KERNELS), squeeze=False, sharex=True, sharey="row")
    for above, below, (name, kernel) in zip(rows[0], rows[1], KERNELS.items(), strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoNeighboursWarning)
            estimate = kernel_regression(grid[:, None], keys[:, None], targets, name, _BANDWIDTH)
            weights = kernel_weights(grid[:, None], keys[:, None], name, _BANDWIDTH)
        title = f"{name}, h = {_BANDWIDTH}" if kernel.has_bandwidth else f"{name}, p = 2, ε = 0"
        above.set_title(title, fontsize=10, color=INK)
        above.plot(keys, targets, ".", color=QUIET, markersize=4, label="data")
        above.plot(grid, np.sin(2 * grid), color=RULE, linewidth=3.0, label="truth")
        above.plot(grid, estimate, color=class_colour(0), linewidth=1.6, label="estimate")
        # The largest weight is black in each panel; a query without neighbours is white. An image: 50,000 shapes would
        # make an SVG file of 10 MB.
        cells = np.nan_to_num(weights).T
        below.pcolormesh(grid, np.arange(_KEYS), cells, cmap="Greys", vmin=0, rasterized=True)
        below.set_xlim(0.0, 5.0)
        below.set_xlabel("query", fontsize=10, color=INK)
    rows[0][0].legend(loc="lower left", frameon=False, fontsize=8, labelcolor=INK)
    rows[0][0].set_ylabel("target", fontsize=10, color=INK)
    rows[1][0].set_ylabel("key, in order", fontsize=10, color=INK)
    for axes in rows.flat:
        style_axes(axes, label_size=8, has_grid=False)
    return Drawing(figure)
