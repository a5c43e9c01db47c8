"""Heat maps over power and epsilon, each cell with mean, spread and number of seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from idwbench.figures.power_epsilon import absence_label, collect_grid
from idwbench.figures.runs import Selection
from idwbench.figures.style import INK, PAPER, QUIET, new_page
from idwbench.report.frame import Row
from idwbench.report.statistics import Statistic, statistic
from idwbench.runs.metrics import METRICS, headline_metric

__all__ = [
    "QUALITY",
    "HeatCell",
    "HeatMap",
    "collect_heat_maps",
    "colour_scale",
    "draw_heat_maps",
    "number_label",
    "power_epsilon_heatmap_figure",
]

# Metrics of the quality of prototypes, on the training data.
QUALITY = ("relative_coverage", "key_distance", "dead_keys")
_CELL_WIDTH, _CELL_HEIGHT = 0.88, 0.48  # inches
_BRIGHT = 0.5  # lightness of a cell from which its words are dark
_LOGARITHMIC = 50.0  # ratio of the largest to the smallest mean from which colours are logarithmic
_CAPTION = "mean ± sample standard deviation over n seeds; light: better"


@dataclass(frozen=True)
class HeatCell:
    """A metric over seeds, None if no complete run has it, and the numbers of diverged and of complete runs."""

    statistic: Statistic | None = None
    n_diverged: int = 0
    n_complete: int = 0

    @property
    def absence(self) -> str:
        """Why there is no number: ``not measured`` if complete runs lack it; else ``no run``, or how many diverged."""
        return "not measured" if self.n_complete else absence_label(self.n_diverged)


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


def power_epsilon_heatmap_figure(selection: Selection) -> Figure:
    """The headline metric and the quality of prototypes over power and epsilon, mean ± std over seeds.

    Raises:
        ConfigError: fewer than two pairs of power and epsilon.
    """
    return draw_heat_maps(*collect_heat_maps(selection))


def collect_heat_maps(selection: Selection) -> tuple[list[HeatMap], str]:
    """Return a heat map for each metric, and the model with its data set and protocol.

    Raises:
        ConfigError: fewer than two pairs of power and epsilon.
    """
    grid = collect_grid(selection)
    headline = headline_metric(grid.section.config.dataset.task).name
    stored = {key for row in grid.rows.values() for run in row.complete for key in run.metrics}
    split = "holdout" if ("holdout", headline) in stored else "test"
    shown = [(split, headline), *(("train", name) for name in QUALITY if ("train", name) in stored)]
    missing = ", ".join(name for name in QUALITY if ("train", name) not in stored)
    selection.leave_out(f"{missing}, which no run has" if missing else "")
    return [_heat_map(grid.rows, split, name) for split, name in shown], grid.source


def _heat_map(rows: Mapping[tuple[float, float], Row], split: str, name: str) -> HeatMap:
    cells = {}
    for place, row in rows.items():
        values = {number: run.metric(name, split) for number, run in enumerate(row.complete)}
        cells[place] = HeatCell(statistic(values), row.n_diverged, row.n)
    metric = METRICS[name]
    words = name.replace("_", " ") + (" in %" if metric.percent else "")
    return HeatMap(words if name in QUALITY else f"{split} {words}", metric.percent, metric.higher_is_better, cells)


def draw_heat_maps(maps: Sequence[HeatMap], source: str = "") -> Figure:
    """Return the maps in two columns, with a row for each power and a column for each epsilon.

    Colours go from dark (worst) to light (best); they are logarithmic if the means of a map differ by a factor of 50.
    """
    powers, epsilons = (sorted({place[axis] for one in maps for place in one.cells}) for axis in (0, 1))
    columns = min(2, len(maps))
    rows = -(-len(maps) // columns)
    width = max(columns * (_CELL_WIDTH * len(epsilons) + 0.75), 5.0)
    figure, body = new_page(width, rows * (_CELL_HEIGHT * len(powers) + 0.8), [_CAPTION, source])
    grid = body.subplots(rows, columns, squeeze=False).flat
    for axes, one in zip(grid, maps, strict=False):
        _draw_map(axes, one, powers, epsilons)
    for axes in list(grid)[len(maps) :]:
        axes.set_visible(False)
    return figure


def _draw_map(axes: Axes, one: HeatMap, powers: Sequence[float], epsilons: Sequence[float]) -> None:
    cells = [[one.cells.get((power, epsilon), HeatCell()) for epsilon in epsilons] for power in powers]
    means = np.array([[cell.statistic.mean if cell.statistic else np.nan for cell in row] for row in cells])
    norm = colour_scale(one)
    colours = matplotlib.colormaps["cividis" if one.higher_is_better else "cividis_r"].with_extremes(bad="#F7F7F7")
    # The page of a figure is white: edges are gaps between cells.
    axes.pcolormesh(np.ma.masked_invalid(means), cmap=colours, norm=norm, edgecolors=PAPER, linewidth=1)
    axes.invert_yaxis()
    for (row, column), mean in np.ndenumerate(means):
        share = float(norm(mean))
        is_light = np.isnan(mean) or (share if one.higher_is_better else 1 - share) > _BRIGHT
        _write_cell(axes, cells[row][column], (column + 0.5, row + 0.5), INK if is_light else PAPER, one.percent)
    axes.set_xticks(np.arange(len(epsilons)) + 0.5, [f"{epsilon:g}" for epsilon in epsilons])
    axes.set_yticks(np.arange(len(powers)) + 0.5, [f"{power:g}" for power in powers])
    axes.tick_params(length=0, labelsize=9, colors=INK)
    axes.set_xlabel("ε", fontsize=10, color=INK, labelpad=2)
    axes.set_ylabel("power p", fontsize=10, color=INK)
    axes.set_title(one.title, loc="left", fontsize=10.5, weight="bold", color=INK)
    direction = "" if one.higher_is_better else "lower is better"
    notes = filter(None, (direction, "logarithmic colours" if isinstance(norm, LogNorm) else ""))
    axes.set_title(", ".join(notes), loc="right", fontsize=8, color=QUIET)
    axes.spines[:].set_visible(False)


def _write_cell(axes: Axes, cell: HeatCell, centre: tuple[float, float], ink: str, percent: bool) -> None:
    place: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "center"}
    if cell.statistic is None:
        axes.annotate(cell.absence, centre, (0, 0), fontsize=7.5, color=QUIET, **place)
        return
    axes.annotate(number_label(cell.statistic, percent=percent), centre, (0, 5), fontsize=8, color=ink, **place)
    count = f"n={cell.statistic.n}" + (f", {cell.n_diverged} diverged" if cell.n_diverged else "")
    axes.annotate(count, centre, (0, -7), fontsize=6.5, color=ink, **place)


def colour_scale(one: HeatMap) -> Normalize:
    """Return the function from means to 0 … 1; it is logarithmic if they differ by a factor of 50."""
    means = [cell.statistic.mean for cell in one.cells.values() if cell.statistic is not None]
    low, high = (min(means), max(means)) if means else (0.0, 1.0)
    if low > 0 and high / low > _LOGARITHMIC:
        return LogNorm(low, high)
    # Equal values are in the middle of the colours.
    return Normalize(low, high) if high > low else Normalize(low - 1, high + 1)


def number_label(found: Statistic, *, percent: bool) -> str:
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
