"""Two figures of kernel regression, which need no runs: the kernels, and their estimates of a curve."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.attention.kernels import KERNELS
from idwbench.errors import NoNeighboursWarning
from idwbench.figures.lines import Line
from idwbench.figures.registry import figure_of_formulas
from idwbench.figures.style import INK, QUIET, RULE, Drawing, class_colour, new_page, style_axes
from idwbench.models.kernel_regression import kernel_regression, kernel_weights

__all__ = ["Estimate", "collect_estimates", "collect_kernels", "estimates_figure", "kernels_figure"]

_FARTHEST, _POINTS = 3.0, 601
_KEYS, _QUERIES, _NOISE, _BANDWIDTH = 50, 200, 0.2, 0.4
_DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))

Array = NDArray[np.floating]


@dataclass(frozen=True)
class Estimate:
    """The estimate (queries,) of one kernel and its weights (queries, keys), both NaN without neighbours."""

    title: str
    estimate: Array
    weights: Array


@figure_of_formulas("kernels")
def kernels_figure() -> Drawing:
    """The kernels of kernel regression against the distance."""
    figure, body = new_page(6.6, 4.2, ["shepard with p = 2 and ε = 0, which has no bandwidth"])
    axes = body.subplots()
    for line in collect_kernels():
        axes.plot(line.x, line.values[0], color=line.colour, linestyle=line.dash, linewidth=2.0, label=line.label)
    axes.set(xlim=(0, _FARTHEST), ylim=(-0.02, 1.5))
    axes.set_xlabel("distance d in bandwidths h", fontsize=10, color=INK)
    axes.set_ylabel("weight before division by the sum", fontsize=10, color=INK)
    style_axes(axes, has_grid=False)
    axes.legend(loc="upper right", frameon=False, fontsize=10, labelcolor=INK, handlelength=3.2)
    return Drawing(figure)


def collect_kernels() -> list[Line]:
    """Return for each kernel its value by the distance in bandwidths; the label is its name with its formula."""
    distance = np.linspace(0.0, _FARTHEST, _POINTS)
    lines = []
    for place, kernel in enumerate(KERNELS.values()):
        if kernel.has_bandwidth:
            value = np.asarray(kernel.weights(np.concatenate([[0.0], distance**2])[None], {"bandwidth": 1.0})[:, 1:])
        else:
            value = 1 / np.maximum(distance[None], 1e-3) ** 2
        label, dash = f"{kernel.name}:  {kernel.formula}", _DASHES[place % len(_DASHES)]
        lines.append(Line(label, class_colour(place), dash, distance, value))
    return lines


@figure_of_formulas("kernel_regression")
def estimates_figure() -> Drawing:
    """Estimates of a noisy sine by each kernel, with the matrix of attention weights below."""
    grid, truth, points, estimates = collect_estimates()
    caption = f"sin(2x) with noise of standard deviation {_NOISE}; below, the weight of each key (darker is larger)"
    figure, body = new_page(2.5 * len(estimates) + 0.8, 5.2, [caption])
    rows = body.subplots(2, len(estimates), squeeze=False, sharex=True, sharey="row")
    for above, below, one in zip(rows[0], rows[1], estimates, strict=True):
        above.set_title(one.title, fontsize=10, color=INK)
        above.plot(*points, ".", color=QUIET, markersize=4, label="data")
        above.plot(grid, truth, color=RULE, linewidth=3.0, label="truth")
        above.plot(grid, one.estimate, color=class_colour(0), linewidth=1.6, label="estimate")
        # The largest weight is black in each panel; a query without neighbours is white.
        below.pcolormesh(grid, np.arange(one.weights.shape[1]), np.nan_to_num(one.weights).T, cmap="Greys", vmin=0)
        below.set_xlim(float(grid.min()), float(grid.max()))
        below.set_xlabel("query", fontsize=10, color=INK)
    rows[0][0].legend(loc="lower left", frameon=False, fontsize=8, labelcolor=INK)
    rows[0][0].set_ylabel("target", fontsize=10, color=INK)
    rows[1][0].set_ylabel("key, in order", fontsize=10, color=INK)
    for axes in rows.flat:
        style_axes(axes, label_size=8, has_grid=False)
    return Drawing(figure)


def collect_estimates() -> tuple[Array, Array, tuple[Array, Array], list[Estimate]]:
    """Return the queries (queries,), the true function of them, keys with their targets, and one estimate a kernel."""
    generator = np.random.default_rng(0)
    keys = np.sort(generator.uniform(0.0, 5.0, _KEYS))
    targets = np.sin(2 * keys) + generator.normal(scale=_NOISE, size=_KEYS)
    grid = np.linspace(0.0, 5.0, _QUERIES)
    estimates = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoNeighboursWarning)
        for name, kernel in KERNELS.items():
            arguments = grid[:, None], keys[:, None]
            estimate = kernel_regression(*arguments, targets, name, _BANDWIDTH)
            label = f"h = {_BANDWIDTH}" if kernel.has_bandwidth else "p = 2, ε = 0"
            estimates.append(Estimate(f"{name}, {label}", estimate, kernel_weights(*arguments, name, _BANDWIDTH)))
    return grid, np.sin(2 * grid), (keys, targets), estimates
