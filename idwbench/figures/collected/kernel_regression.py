"""The figures of kernels and of their estimates; they need no runs."""

from __future__ import annotations

import warnings

import numpy as np

from idwbench.attention.kernels import KERNELS
from idwbench.errors import NoNeighboursWarning
from idwbench.figures.kernel_regression import Estimate, KernelCurve, draw_estimates, draw_kernels
from idwbench.figures.registry import figure_of_formulas
from idwbench.figures.style import Drawing
from idwbench.models.kernel_regression import kernel_regression, kernel_weights

__all__ = ["estimates_figure", "kernels_figure"]

_FARTHEST, _POINTS = 3.0, 601
_KEYS, _QUERIES, _NOISE, _BANDWIDTH = 50, 200, 0.2, 0.4


@figure_of_formulas("kernels")
def kernels_figure() -> Drawing:
    """The kernels of kernel regression against the distance."""
    distance = np.linspace(0.0, _FARTHEST, _POINTS)
    curves = []
    for kernel in KERNELS.values():
        if kernel.has_bandwidth:
            value = np.asarray(kernel.weights(np.concatenate([[0.0], distance**2])[None], {"bandwidth": 1.0})[0, 1:])
        else:
            value = 1 / np.maximum(distance, 1e-3) ** 2
        curves.append(KernelCurve(f"{kernel.name}:  {kernel.formula}", value))
    return Drawing(draw_kernels(distance, curves, "shepard with p = 2 and ε = 0, which has no bandwidth"))


@figure_of_formulas("kernel_regression")
def estimates_figure() -> Drawing:
    """Estimates of a noisy sine by each kernel, with the matrix of attention weights below."""
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
            weights = kernel_weights(*arguments, name, _BANDWIDTH)
            label = f"h = {_BANDWIDTH}" if kernel.has_bandwidth else "p = 2, ε = 0"
            estimates.append(Estimate(f"{name}, {label}", estimate, weights))
    caption = f"sin(2x) with noise of standard deviation {_NOISE}; below, the weight of each key (darker is larger)"
    return Drawing(draw_estimates(grid, np.sin(2 * grid), (keys, targets), estimates, caption))
