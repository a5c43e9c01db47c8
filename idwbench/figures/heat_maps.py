"""Heat maps over power and epsilon, each cell with mean, spread and number of seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from idwbench.errors import ConfigError
from idwbench.figures.power_epsilon import absence_label
from idwbench.figures.style import INK, PAPER, QUIET, RULE, draw_caption, wrapped_lines
from idwbench.report.statistics import Statistic

__all__ = ["HeatCell", "HeatMap", "draw_heat_maps"]

_CELL_WIDTH, _CELL_HEIGHT = 0.88, 0.48  # inches
_LEFT, _TITLE, _BOTTOM, _SIDE = 0.62, 0.4, 0.5, 0.22
_LOGARITHMIC = 50.0  # ratio of the largest to the smallest mean from which colours are logarithmic


@dataclass(frozen=True)
class HeatCell:
    """A metric over seeds, None if no run is complete, and the number of diverged runs."""

    statistic: Statistic | None
    n_diverged: int = 0


@dataclass(frozen=True)
class HeatMap:
    """One metric.

    Attributes:
        percent: Whether numbers are shown times 100.
        cells: By power and epsilon.
    """

    title: str
    percent: bool
    higher_is_better: bool
    cells: Mapping[tuple[float, float], HeatCell]


def draw_heat_maps(maps: Sequence[HeatMap], *, title: str = "", source: str = "") -> Figure:
    """Return the maps in two columns, with a row for each power and a column for each epsilon.

    Colours go from dark (worst) to light (best); they are logarithmic if the means of a map differ by a factor of 50.

    Raises:
        ConfigError: no map, or no cell.
    """
    places = [place for each in maps for place in each.cells]
    if not places:
        raise ConfigError("the heat maps need at least one power and epsilon")
    powers, epsilons = (sorted({place[axis] for place in places}) for axis in (0, 1))
    width, height = _CELL_WIDTH * len(epsilons), _CELL_HEIGHT * len(powers)
    columns = min(2, len(maps))
    rows = -(-len(maps) // columns)
    total_width = max(columns * (_LEFT + width) + (columns - 1) * _SIDE + 0.15, 5.0)
    caption = "mean ± sample standard deviation over n seeds; light: better"
    lines = wrapped_lines([f"{title}; {caption}" if title else caption, source], total_width)
    total = rows * (_TITLE + height + _BOTTOM) + 0.1 + 0.165 * len(lines)
    figure = Figure(figsize=(total_width, total), facecolor=PAPER)
    for place, each in enumerate(maps):
        row, column = divmod(place, columns)
        left = _LEFT + column * (_LEFT + width + _SIDE)
        bottom = total - (row + 1) * (_TITLE + height) - row * _BOTTOM
        axes = figure.add_axes((left / total_width, bottom / total, width / total_width, height / total))
        _draw_map(axes, each, powers, epsilons)
    draw_caption(figure, lines)
    return figure


def _draw_map(axes: Axes, each: HeatMap, powers: Sequence[float], epsilons: Sequence[float]) -> None:
    norm, logarithmic = _norm(each)
    colours = matplotlib.colormaps["cividis" if each.higher_is_better else "cividis_r"]
    for row, power in enumerate(powers):
        for column, epsilon in enumerate(epsilons):
            cell = each.cells.get((power, epsilon), HeatCell(None))
            found = cell.statistic
            colour = colours(norm(found.mean)) if found else (0.97, 0.97, 0.97, 1.0)
            hatch = "///" if found is None and cell.n_diverged else None
            box = Rectangle((column, row), 1, 1, facecolor=colour, edgecolor=RULE if hatch else PAPER, hatch=hatch)
            axes.add_patch(box)
            ink = _readable(colour) if found else QUIET
            if found is None:
                label = absence_label(cell.n_diverged)
                background = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.5} if hatch else None
                axes.text(
                    column + 0.5, row + 0.5, label, ha="center", va="center", fontsize=7.5, color=ink, bbox=background
                )
                continue
            number = _number(found, percent=each.percent)
            axes.text(column + 0.5, row + 0.38, number, ha="center", va="center", fontsize=8, color=ink)
            count = f"n={found.n}" + (f", {cell.n_diverged} diverged" if cell.n_diverged else "")
            axes.text(column + 0.5, row + 0.73, count, ha="center", va="center", fontsize=6.5, color=ink)
    axes.set(xlim=(0, len(epsilons)), ylim=(len(powers), 0))
    axes.set_xticks(np.arange(len(epsilons)) + 0.5, [f"{epsilon:g}" for epsilon in epsilons])
    axes.set_yticks(np.arange(len(powers)) + 0.5, [f"{power:g}" for power in powers])
    axes.tick_params(length=0, labelsize=9, colors=INK)
    axes.set_xlabel("ε", fontsize=10, color=INK, labelpad=2)
    axes.set_ylabel("power p", fontsize=10, color=INK)
    axes.set_title(each.title, loc="left", fontsize=10.5, weight="bold", color=INK)
    direction = "" if each.higher_is_better else "lower is better"
    notes = ", ".join(filter(None, (direction, "logarithmic colours" if logarithmic else "")))
    axes.set_title(notes, loc="right", fontsize=8, color=QUIET)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _norm(each: HeatMap) -> tuple[Normalize, bool]:
    means = [cell.statistic.mean for cell in each.cells.values() if cell.statistic is not None]
    low, high = (min(means), max(means)) if means else (0.0, 1.0)
    if low > 0 and high / low > _LOGARITHMIC:
        return LogNorm(low, high), True
    # Equal values are in the middle of the colours.
    return Normalize(low, high) if high > low else Normalize(low - 1, high + 1), False


def _number(found: Statistic, *, percent: bool) -> str:
    """Return ``97.5 ± 1.2``; about three digits of the mean, and as many decimals of the standard deviation."""
    numbers = [number * (100 if percent else 1) for number in (found.mean, found.std) if number is not None]
    largest = max(map(abs, numbers))
    decimals = 1
    if not percent and largest:
        magnitude = math.floor(math.log10(largest))
        decimals = max(2 - magnitude, 0) if magnitude >= 0 else 1 - magnitude
        if not -4 <= magnitude < 5:
            return " ± ".join(f"{number:.1e}" for number in numbers)
    return " ± ".join(f"{number:.{decimals}f}" for number in numbers)


def _readable(colour: tuple[float, float, float, float]) -> str:
    red, green, blue = colour[:3]
    return INK if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else PAPER
