"""Predictions in the plane (the paper's Figure 2, and Figure 5 over power and epsilon), and heat maps over the same."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap

import matplotlib
import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from idwbench.errors import ConfigError
from idwbench.figures import plane
from idwbench.figures.runs import Model, Selection, first_run
from idwbench.figures.style import INK, PAPER, QUIET, new_page, percent_label, write
from idwbench.report.frame import Row
from idwbench.report.labels import count_label
from idwbench.report.statistics import Statistic
from idwbench.report.summaries import Section, section_headers
from idwbench.runs.metrics import HEADLINES, METRICS

__all__ = ["HeatMap", "collect_heat_maps", "moons_figure", "power_epsilon_figure", "power_epsilon_heatmap_figure"]

# Metrics of the quality of prototypes, on the training data.
_QUALITY = ("relative_coverage", "key_distance", "dead_keys")
_CELL_WIDTH, _CELL_HEIGHT = 0.78, 0.5  # inches
_MAP_WIDTH = 3.4  # at least, for the title and the note beside it
_BRIGHT = 0.5  # lightness of a cell from which its words are dark
_LOGARITHMIC = 50.0  # ratio of the largest to the smallest mean from which colours are logarithmic
_CAPTION = "mean ± sample standard deviation over {} seeds; light: better"

Place = tuple[float, float]


def moons_figure(selection: Selection) -> Figure:
    """Data, predictions and keys for the lowest seed, and mean accuracies over all seeds (the paper's Figure 2).

    There is a row for each method with its parameters, and a column for each number of prototypes.

    Raises:
        ConfigError: no complete run, or the data does not have two classes in two dimensions.
    """
    section = selection.first_section(selection.of_kind())
    models, dataset = selection.models(section), selection.dataset(section.config.dataset)
    configs = [model.row.model for model in models]
    labels = [model.row.parameters_label for model in models]
    places = [((config.method, label), config.prototypes) for config, label in zip(configs, labels, strict=True)]
    rows = {row: (row[0], row[1].replace(", ", "\n"), QUIET) for row, _ in places}
    columns = {n: count_label(n, "prototype") for n in sorted({n for _, n in places})}

    def draw(axes: Axes, model: Model) -> None:
        outside = plane.draw_plane(axes, plane.plane_picture(model.row.model, model.arrays, dataset))
        plane.draw_note(axes, f"{count_label(outside, 'key')} outside" if outside else "")
        statistics = model.row.statistics
        train, test = (statistics.get(split, Statistic(0.0, None, 0, {})) for split in ("train", "test"))
        axes.set_title(f"train {percent_label(train)}", loc="left", fontsize=8.5, color=QUIET, pad=3.5)
        weight = "bold" if test.best and len(rows) > 1 else "normal"
        axes.set_title(f"test {percent_label(test)}", loc="right", fontsize=9.5, color=INK, weight=weight, pad=3.5)

    tested = ", or not distinguishable from it (Wilcoxon)" if section.is_tested else ""
    best = f"bold: best test accuracy of a column{tested}" if len(rows) > 1 else ""
    captions = [plane.accuracies_caption({model.row.n for model in models}), best, section.title]
    panels = dict(zip(places, models, strict=True))
    return plane.draw_plane_grid(panels, rows, columns, draw, dataset, captions, widest=4.2, title=0.3)


def power_epsilon_figure(selection: Selection) -> Figure:
    """Data, predictions and keys over power and epsilon, for the lowest seed (the paper's Figure 5).

    There is a row for each power, and a column for each epsilon.

    Raises:
        ConfigError: fewer than two pairs of power and epsilon, or the data does not have two classes in two dimensions.
    """
    section = selection.first_section(selection.of_kind())
    label, grid = _collect_grid(selection, section)
    dataset = selection.dataset(section.config.dataset)

    def draw(axes: Axes, row: Row) -> None:
        if not row.n:
            plane.draw_empty(axes, _diverged(row) or "no run")
            return
        picture = plane.plane_picture(row.model, selection.arrays(first_run(row).run_key), dataset, points=100)
        outside = plane.draw_plane(axes, picture, test=False, scale=0.4)
        if "test" in row.statistics:
            axes.set_title(percent_label(row.statistics["test"]), loc="left", fontsize=8.5, color=INK, pad=2.5)
        notes = filter(None, (_diverged(row), f"{outside} outside" if outside else ""))
        plane.draw_note(axes, ", ".join(notes), size=6.5)

    rows = {power: (f"p = {power:g}", "", QUIET) for power, _ in grid}
    columns = {epsilon: f"ε = {epsilon:g}" for epsilon in sorted({epsilon for _, epsilon in grid})}
    counts = {row.statistics["test"].n for row in grid.values() if "test" in row.statistics}
    caption = plane.accuracies_caption(counts, "above each panel: test accuracy in %")
    captions = [caption, f"{label} · {section.title}"]
    legend = plane.legend_handles(dataset.class_names, test=False)
    return plane.draw_plane_grid(grid, rows, columns, draw, dataset, captions, legend, widest=2.6, title=0.24)


def _collect_grid(selection: Selection, section: Section) -> tuple[str, dict[Place, Row]]:
    """Return the model of a section with the most pairs of power and epsilon, and its rows by these.

    Raises:
        ConfigError: there are fewer than two pairs.
    """
    groups: dict[str, dict[Place, Row]] = defaultdict(dict)
    for row in section.rows:
        power, epsilon = (row.model.parameters.get(name) for name in ("power", "epsilon"))
        if isinstance(power, float) and isinstance(epsilon, float):
            groups[_label(row)][power, epsilon] = row
    # Of equally many pairs the last: rows are sorted by prototypes and method.
    label = max(groups, key=lambda name: (len(groups[name]), list(groups).index(name)), default="")
    rows = dict(sorted(groups[label].items()))
    if len(rows) < 2:
        problem = "the figure needs runs of a method with at least two pairs of power and epsilon"
        raise ConfigError(problem, hint="run the sweep paper_power_epsilon")
    if others := sum(row.n for row in section.rows) - sum(row.n for row in rows.values()):
        selection.leave_out(f"{count_label(others, 'run')} of other models (drawn: {label})")
    return label, rows


def _label(row: Row) -> str:
    words = [word for word in row.parameters_label.split(", ") if not word.startswith(("p=", "ε="))]
    return " · ".join([row.model.method, count_label(row.model.prototypes, "prototype"), *words])


def _diverged(row: Row) -> str:
    """Return ``10 diverged``, or an empty text."""
    return f"{row.n_diverged} diverged" if row.n_diverged else ""


@dataclass(frozen=True)
class HeatMap:
    """One metric.

    Attributes:
        cells: By power and epsilon ``mean``, ``std`` and ``n`` over seeds, NaN where there are too few, and a ``note``:
            the number of diverged runs, if any, or why there is no mean.
    """

    title: str
    metric: str
    cells: pandas.DataFrame

    @property
    def is_logarithmic(self) -> bool:
        """Whether brightness is: the means differ by a factor of 50."""
        low, high = self.cells["mean"].min(), self.cells["mean"].max()
        return bool(low > 0 and high / low > _LOGARITHMIC)

    def shown(self) -> pandas.DataFrame:
        """Return the cells with ``text``, ``spread``, and ``brightness`` from 0, the worst, to 1; all equal are ½."""
        means = np.log(self.cells["mean"]) if self.is_logarithmic else self.cells["mean"]
        low, high = means.min(), means.max()
        share = (means - low) / (high - low) if high > low else means - low + 0.5
        factor, forms = (100, ("{:.1f}", "± {:.1f}")) if METRICS[self.metric].percent else (1, ("{:.3g}", "± {:.2g}"))
        text, spread = (
            ["" if math.isnan(number) else form.format(factor * number) for number in self.cells[name]]
            for name, form in zip(("mean", "std"), forms, strict=True)
        )
        share = share if METRICS[self.metric].higher_is_better else 1 - share
        return self.cells.assign(brightness=share, text=text, spread=spread)


def power_epsilon_heatmap_figure(selection: Selection) -> Figure:
    """The headline metric and the quality of prototypes over power and epsilon, mean ± std over seeds.

    Of several data sets there is one map each, of the headline metric.

    Raises:
        ConfigError: fewer than two pairs of power and epsilon.
    """
    return _draw_heat_maps(*collect_heat_maps(selection))


def collect_heat_maps(selection: Selection) -> tuple[list[HeatMap], str]:
    """Return the heat maps, and the model with its data set and protocol.

    One data set has a map for each metric, several have one each for the headline metric.

    Raises:
        ConfigError: fewer than two pairs of power and epsilon.
    """
    sections = selection.sections(selection.of_kind())
    grids = [_collect_grid(selection, section) for section in sections]
    headlines = [_headline(section, own) for section, (_, own) in zip(sections, grids, strict=True)]
    if len(sections) > 1:
        drawn = zip(grids, headlines, section_headers(sections), strict=True)
        models, metrics = {label for label, _ in grids}, {*starmap(_metric_title, headlines)}
        source = (" and ".join(sorted(models)), sections[0].protocol, " or ".join(sorted(metrics)))
        return [_heat_map(rows, *headline, title) for (_, rows), headline, title in drawn], " · ".join(source)
    label, rows = grids[0]
    stored = {key for row in rows.values() for run in row.complete for key in run.metrics}
    shown = [headlines[0], *(("train", name) for name in _QUALITY if ("train", name) in stored)]
    missing = ", ".join(name for name in _QUALITY if ("train", name) not in stored)
    selection.leave_out(f"{missing}, which no run has" if missing else "")
    maps = [_heat_map(rows, split, name, _metric_title(split, name)) for split, name in shown]
    return maps, f"{label} · {sections[0].title}"


def _headline(section: Section, rows: Mapping[Place, Row]) -> tuple[str, str]:
    """Return the split and the name of the metric that says how good the models are: of new data, if there are any."""
    name = HEADLINES[section.config.dataset.task].name
    has_new = any(("holdout", name) in run.metrics for row in rows.values() for run in row.complete)
    return ("holdout" if has_new else "test"), name


def _metric_title(split: str, name: str) -> str:
    words = name.replace("_", " ") + (" in %" if METRICS[name].percent else "")
    return words if name in _QUALITY else f"{split} {words}"


def _heat_map(rows: Mapping[Place, Row], split: str, name: str, title: str) -> HeatMap:
    cells = []
    for row in rows.values():
        values = pandas.Series([run.metric(name, split) for run in row.complete], dtype=np.float64).dropna()
        note = _diverged(row) if len(values) else "not measured" if row.n else _diverged(row) or "no run"
        cells.append({"mean": values.mean(), "std": values.std(), "n": len(values), "note": note})
    table = pandas.DataFrame(cells, pandas.MultiIndex.from_tuples(rows, names=("power", "epsilon")))
    return HeatMap(title, name, table)


def _draw_heat_maps(maps: Sequence[HeatMap], source: str = "") -> Figure:
    """Return the maps in two columns, with a row for each power and a column for each epsilon.

    Colours go from dark (worst) to light (best).
    """
    places = pandas.MultiIndex.from_product(
        pandas.concat([one.cells for one in maps]).index.remove_unused_levels().levels
    )
    n_powers, n_epsilons = map(len, places.levels)
    columns = min(2 if len(maps) < 5 else 3, len(maps))
    rows = -(-len(maps) // columns)
    width = max(columns * (max(_CELL_WIDTH * n_epsilons, _MAP_WIDTH) + 0.75), 5.0)
    counts = {n for one in maps for n in one.cells["n"] if n}
    n_seeds = counts.pop() if len(counts) == 1 else "n"
    figure, body = new_page(width, rows * (_CELL_HEIGHT * n_powers + 0.8), [_CAPTION.format(n_seeds), source])
    grid = body.subplots(rows, columns, squeeze=False).ravel()
    for axes, one in zip(grid, maps, strict=False):
        _draw_map(axes, one, places, with_n=n_seeds == "n")
    for axes in grid[len(maps) :]:
        axes.remove()
    return figure


def _draw_map(axes: Axes, one: HeatMap, places: pandas.MultiIndex, *, with_n: bool) -> None:
    powers, epsilons = places.levels
    cells = one.shown().reindex(places).fillna({"note": "no run"})
    brightness = np.ma.masked_invalid(cells.brightness.to_numpy().reshape(len(powers), len(epsilons)))
    colours = matplotlib.colormaps["cividis"].with_extremes(bad="#F7F7F7")
    # The page of a figure is white: edges are gaps between cells.
    axes.pcolormesh(brightness, cmap=colours, vmin=0, vmax=1, edgecolors=PAPER, linewidth=1)
    axes.invert_yaxis()
    for number, cell in enumerate(cells.itertuples()):
        row, column = divmod(number, len(epsilons))
        middle, style = (column + 0.5, row + 0.5), {"xycoords": "data", "ha": "center", "va": "center"}
        if math.isnan(cell.mean):
            write(axes, cell.note, middle, (0, 0), fontsize=7.5, color=QUIET, **style)
        else:
            colour = INK if cell.brightness > _BRIGHT else PAPER
            notes = [cell.spread.replace(" ", "\u202f"), f"n={cell.n:.0f}" if with_n else "", cell.note]
            below = ", ".join(filter(None, notes))
            write(axes, cell.text, middle, (0, 6 if below else 0), fontsize=11, color=colour, **style)
            write(axes, below, middle, (0, -9), fontsize=7.5, color=colour, **style)
    axes.set_xticks(np.arange(len(epsilons)) + 0.5, [f"{epsilon:g}" for epsilon in epsilons])
    axes.set_yticks(np.arange(len(powers)) + 0.5, [f"{power:g}" for power in powers])
    axes.tick_params(length=0, labelsize=9, colors=INK)
    axes.set_xlabel("ε", fontsize=10, color=INK, labelpad=2)
    axes.set_ylabel("power p", fontsize=10, color=INK)
    axes.set_title(one.title, loc="left", fontsize=10.5, weight="bold", color=INK)
    notes = ["lower is better"] * (not METRICS[one.metric].higher_is_better) + [
        "logarithmic colours"
    ] * one.is_logarithmic
    axes.set_title("\n".join(notes), loc="right", fontsize=8, color=QUIET)
    axes.spines[:].set_visible(False)
