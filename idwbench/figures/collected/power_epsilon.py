"""Figure 5 of the paper, and heat maps over power and epsilon, from stored runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError
from idwbench.figures.collected.plane import PlaneData, class_probability, plane_data
from idwbench.figures.heat_maps import HeatCell, HeatMap, draw_heat_maps
from idwbench.figures.power_epsilon import PowerEpsilonPanel, draw_power_epsilon
from idwbench.figures.registry import figure_of_runs
from idwbench.figures.runs import first_run, runs_of_row, select_runs_of_kind
from idwbench.figures.style import Drawing
from idwbench.report.labels import count_label
from idwbench.report.statistics import statistic
from idwbench.report.summaries import Row, Section
from idwbench.results.records import StoredRun
from idwbench.runs.metrics import METRICS, headline_metric

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["QUALITY", "power_epsilon_figure", "power_epsilon_heatmap_figure", "power_epsilon_maps"]

# Metrics of the quality of prototypes, on the training data.
QUALITY = ("relative_coverage", "key_distance", "dead_keys")
_GRID = 100  # points of the grid of predictions in each direction

Place = tuple[float, float]


@dataclass(frozen=True)
class _Grid:
    """The rows of one method and number of prototypes by power and epsilon."""

    label: str
    section: Section
    rows: dict[Place, Row]
    runs: tuple[StoredRun, ...]
    left_out: tuple[str, ...]

    @property
    def source(self) -> str:
        return f"{self.label} · {self.section.title}"


@figure_of_runs("power_epsilon")
def power_epsilon_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """Data, predictions and keys over power and epsilon, for the lowest seed (the paper's Figure 5).

    Raises:
        ConfigError: fewer than two pairs of power and epsilon, or the data does not have two classes in two dimensions.
    """
    grid = _grid(runs)
    data = plane_data(load_dataset(grid.section.dataset_config, data_dir))
    panels = [_panel(store, grid, place, row, data) for place, row in sorted(grid.rows.items())]
    figure = draw_power_epsilon(panels, data.train, data.extent, data.dataset.class_names, source=grid.source)
    return Drawing(figure, grid.left_out)


@figure_of_runs("power_epsilon_heatmap")
def power_epsilon_heatmap_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """The headline metric and the quality of prototypes over power and epsilon, mean ± std over seeds.

    Raises:
        ConfigError: fewer than two pairs of power and epsilon.
    """
    maps, source, left_out = power_epsilon_maps(runs)
    return Drawing(draw_heat_maps(maps, source=source), left_out)


def power_epsilon_maps(runs: Sequence[StoredRun]) -> tuple[list[HeatMap], str, tuple[str, ...]]:
    """Return the heat maps of the figure, the model with its data set and protocol, and what is left out.

    Raises:
        ConfigError: fewer than two pairs of power and epsilon.
    """
    grid = _grid(runs)
    headline = headline_metric(grid.section.dataset_config.task).name
    stored = {key for run in grid.runs for key in run.metrics}
    split = "holdout" if ("holdout", headline) in stored else "test"
    shown = [(split, headline), *(("train", name) for name in QUALITY if ("train", name) in stored)]
    maps = [_heat_map(grid, split, name) for split, name in shown]
    missing = [name for name in QUALITY if ("train", name) not in stored]
    left_out = (f"not drawn: {', '.join(missing)}, which no run has",) if missing else ()
    return maps, grid.source, (*grid.left_out, *left_out)


def _grid(runs: Sequence[StoredRun]) -> _Grid:
    """Return the method and number of prototypes with the most pairs of power and epsilon in the first section."""
    selection = select_runs_of_kind(runs)
    section, left_out = selection.first()
    groups: dict[str, dict[Place, Row]] = defaultdict(dict)
    others = 0
    for row in section.rows:
        model = row.model
        place = tuple(model.parameters.get(name) for name in ("power", "epsilon"))
        if not all(isinstance(number, float) for number in place):
            others += row.n
            continue
        words = [model.method, count_label(model.prototypes, "prototype")]
        initialisation = getattr(model, "initialisation", "default")
        words += [f"initialisation {initialisation}"] if initialisation != "default" else []
        words += [f"plugin {model.plugin_sha256[:8]}"] if model.plugin_sha256 else []
        groups[" · ".join(words)][float(place[0] or 0), float(place[1] or 0)] = row
    # Of equally many pairs the last: rows are sorted by prototypes and method.
    label = max(groups, key=lambda name: (len(groups[name]), list(groups).index(name)), default="")
    if len(groups.get(label, {})) < 2:
        problem = "the figure needs runs of a method with at least two pairs of power and epsilon"
        raise ConfigError(problem, location=("figure",), hint="run the sweep paper_power_epsilon")
    rows = groups[label]
    others += sum(row.n for name, found in groups.items() if name != label for row in found.values())
    more = (f"not drawn: {count_label(others, 'run')} of other models (drawn: {label})",) if others else ()
    chosen = tuple(run for row in rows.values() for run in runs_of_row(selection.runs, section, row))
    return _Grid(label, section, rows, chosen, (*left_out, *more))


def _panel(store: Results, grid: _Grid, place: Place, row: Row, data: PlaneData) -> PowerEpsilonPanel:
    power, epsilon = place
    if not row.n:
        return PowerEpsilonPanel(power, epsilon, n_diverged=row.n_diverged)
    run = first_run(runs_of_row(grid.runs, grid.section, row))
    arrays = store.load_arrays(run.run_key)
    keys, values = (np.asarray(arrays[name], np.float32) for name in ("keys", "values"))
    return PowerEpsilonPanel(
        power,
        epsilon,
        accuracy=row.statistics.get("test"),
        n_diverged=row.n_diverged,
        keys=data.dataset.scaling.invert(keys),
        values=values,
        probability=class_probability(row.model, keys, values, data, _GRID),
    )


def _heat_map(grid: _Grid, split: str, name: str) -> HeatMap:
    definition = METRICS.get(name)
    cells = {}
    for cell, row in grid.rows.items():
        runs = runs_of_row(grid.runs, grid.section, row)
        found = statistic({place: run.metric(name, split) for place, run in enumerate(runs)})
        cells[cell] = HeatCell(found, row.n_diverged)
    words = name.replace("_", " ") + (" in %" if definition and definition.percent else "")
    title = words if name in QUALITY else f"{split} {words}"
    return HeatMap(
        title,
        percent=definition is not None and definition.percent,
        higher_is_better=definition is not None and definition.higher_is_better,
        cells=cells,
    )
