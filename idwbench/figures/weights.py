"""The paper's Figure 1: the attention weight of a key against its distance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.errors import ConfigError
from idwbench.figures.style import INK, PAPER, RULE, draw_caption, method_colour, style_axes, wrapped_lines

__all__ = ["WeightCurve", "draw_weights"]

_WIDTH, _HEIGHT = 6.6, 4.4  # inches
_DASHES = (":", "--", "-.", "-", (0, (5, 1, 1, 1, 1, 1)))


@dataclass(frozen=True)
class WeightCurve:
    """The weight (n,) of a key for one method; `formula` is the score in the legend."""

    method: str
    formula: str
    weight: NDArray[np.floating]


def draw_weights(distance: NDArray[np.floating], curves: Sequence[WeightCurve], caption: str = "") -> Figure:
    """Return one panel with a line for each method over the distances (n,), with marks where all weights are ½.

    Raises:
        ConfigError: no curves, or one of another length than the distances.
    """
    if not curves:
        raise ConfigError("the figure of weights needs at least one method")
    for curve in curves:
        if curve.weight.shape != distance.shape:
            problem = f"weights of '{curve.method}': expected shape {distance.shape}, got {curve.weight.shape}"
            raise ConfigError(problem)
    lines = wrapped_lines([caption], _WIDTH)
    height = _HEIGHT + 0.165 * len(lines)
    figure = Figure(figsize=(_WIDTH, height), facecolor=PAPER)
    bottom = (0.62 + 0.165 * len(lines)) / height
    axes = figure.add_axes((0.62 / _WIDTH, bottom, (_WIDTH - 0.8) / _WIDTH, 1 - 0.15 / height - bottom))
    axes.axhline(0.5, color=RULE, linewidth=0.9, zorder=1)
    axes.axvline(1.0, color=RULE, linewidth=0.9, zorder=1)
    for place, curve in enumerate(curves):
        label = f"{curve.method}:  {curve.formula}"
        style = _DASHES[place % len(_DASHES)]
        axes.plot(
            distance, curve.weight, color=method_colour(curve.method), linestyle=style, linewidth=2.0, label=label
        )
    axes.set_xlim(float(distance.min()), float(distance.max()))
    axes.set_ylim(-0.02, 1.04)
    axes.set_yticks(np.linspace(0, 1, 6))
    axes.set_xlabel("distance d of the first key", fontsize=10, color=INK)
    axes.set_ylabel("weight of the first key", fontsize=10, color=INK)
    style_axes(axes, label_size=9, has_grid=False)
    axes.legend(loc="upper right", frameon=False, fontsize=10, labelcolor=INK, handlelength=3.2, borderaxespad=0.2)
    draw_caption(figure, lines)
    return figure
