"""The figures that need no runs: attention weights (the paper's Figure 1), and kernel regression."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas
from matplotlib.figure import Figure
from scipy.special import expit

from idwbench.attention.kernels import KERNELS
from idwbench.attention.scores import get_method
from idwbench.errors import NoNeighboursWarning
from idwbench.figures.lines import Axis, Look, draw_lines
from idwbench.figures.style import INK, QUIET, RULE, class_colour, method_colour, new_page, style_axes
from idwbench.models.kernel_regression import kernel_regression, kernel_weights

__all__ = ["EPSILON", "kernel_regression_figure", "kernels_figure", "weights_figure", "weights_p1_figure"]

EPSILON = 1e-3
# The dashes of a score, and its formula of d or d².
_SCORES = {
    "neg_dist": (":", "−d²"),
    "gaussian": ("--", "exp(−{d}/2)"),
    "inv_dist": ("-.", "1/(ε + {d})"),
    "idw": ("-", "−log(ε + {d})"),
}
_N_KEYS, _N_QUERIES, _NOISE, _BANDWIDTH = 50, 200, 0.2, 0.4
_DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))


def weights_figure() -> Figure:
    """The weight of one of two keys against its distance for p = 2, the other at distance 1 (the paper's Figure 1)."""
    return _draw_weights(2.0, "as in the paper's text")


def weights_p1_figure() -> Figure:
    """The same as the authors' notebook draws it: p = 1 for all scores but −d², and exp(−d/2), the Gaussian of √d."""
    return _draw_weights(1.0, "p = 1 as in the authors' notebook, beside −d²")


def _draw_weights(power: float, which: str) -> Figure:
    import torch

    from idwbench.attention.forward import scores

    distance = np.linspace(0.0, 5.0, 1001)
    query, tables, looks = torch.zeros(1, 1, dtype=torch.float64), [], {}
    for method, (dash, formula) in _SCORES.items():
        given = {"power": 2.0 if method == "neg_dist" else power, "epsilon": EPSILON, "sigma_squared": 2.0}
        parameters = {one.name: given[one.name] for one in get_method(method).parameters}
        # The query is the origin of a line; the last key is the other one, at distance 1.
        keys = np.append(np.sqrt(distance) if method == "gaussian" and power == 1 else distance, 1.0)
        *first, second = scores(query, torch.from_numpy(keys)[:, None], method, **parameters)[0].tolist()
        label = f"{method}:  {formula.format(d='d²' if power == 2 else 'd')}"
        weight = expit(np.subtract(first, second))  # the softmax of two scores
        tables.append(pandas.DataFrame({"label": label, "x": distance, "value": weight}))
        looks[label] = Look(method_colour(method), dash)
    caption = f"two keys, the second at distance 1; weights are the softmax of the scores; ε = {EPSILON:g}; {which}"
    x, y = Axis("distance d of the first key", limits=(0, 5)), Axis("weight of the first key", limits=(-0.02, 1.04))
    figure = draw_lines(pandas.concat(tables), looks, x, y, [caption], height=3.2)
    # All weights are ½ at distance 1.
    figure.axes[0].axhline(0.5, color=RULE, linewidth=0.9, zorder=1)
    figure.axes[0].axvline(1.0, color=RULE, linewidth=0.9, zorder=1)
    return figure


def kernels_figure() -> Figure:
    """The kernels of kernel regression against the distance."""
    distance = np.linspace(0.0, 3.0, 601)
    tables, looks = [], {}
    for place, kernel in enumerate(KERNELS.values()):
        if kernel.has_bandwidth:
            value = np.asarray(kernel.weights(np.concatenate([[0.0], distance**2])[None], {"bandwidth": 1.0})[0, 1:])
        else:
            value = 1 / np.maximum(distance, 1e-3) ** 2
        label = f"{kernel.name}:  {kernel.formula}"
        tables.append(pandas.DataFrame({"label": label, "x": distance, "value": value}))
        looks[label] = Look(class_colour(place), _DASHES[place % len(_DASHES)])
    x, y = (
        Axis("distance d in bandwidths h", limits=(0, 3)),
        Axis("weight before division by the sum", limits=(-0.02, 1.5)),
    )
    caption = "shepard with p = 2 and ε = 0, which has no bandwidth"
    return draw_lines(pandas.concat(tables), looks, x, y, [caption], height=3.2)


def kernel_regression_figure() -> Figure:
    """Estimates of a noisy sine by each kernel, with the matrix of attention weights below."""
    generator = np.random.default_rng(0)
    keys = np.sort(generator.uniform(0.0, 5.0, _N_KEYS))
    targets = np.sin(2 * keys) + generator.normal(scale=_NOISE, size=_N_KEYS)
    grid = np.linspace(0.0, 5.0, _N_QUERIES)
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
        below.pcolormesh(grid, np.arange(_N_KEYS), cells, cmap="Greys", vmin=0, rasterized=True)
        below.set_xlim(0.0, 5.0)
        below.set_xlabel("query", fontsize=10, color=INK)
    rows[0][0].legend(loc="lower left", frameon=False, fontsize=8, labelcolor=INK)
    rows[0][0].set_ylabel("target", fontsize=10, color=INK)
    rows[1][0].set_ylabel("key, in order", fontsize=10, color=INK)
    for axes in rows.flat:
        style_axes(axes, label_size=8, has_grid=False)
    return figure
