"""The paper's Figure 5: data, predictions and keys over power and epsilon; and the runs by these two."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError
from idwbench.figures.plane import (
    PlaneData,
    PlanePicture,
    draw_empty,
    draw_note,
    draw_plane,
    label_column,
    label_row,
    legend_handles,
    plane_data,
    plane_page,
    plane_picture,
)
from idwbench.figures.registry import figure_of_runs
from idwbench.figures.runs import first_run, runs_of_row, select_runs_of_kind
from idwbench.figures.style import INK, Drawing, percent_label, seeds_label
from idwbench.report.frame import Row
from idwbench.report.labels import count_label
from idwbench.report.statistics import Statistic
from idwbench.report.summaries import Section
from idwbench.results.records import StoredRun

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = [
    "PowerEpsilon",
    "PowerEpsilonPanel",
    "absence_label",
    "collect_grid",
    "collect_panels",
    "power_epsilon_figure",
]

_GRID = 100  # points of the grid of predictions in each direction

Place = tuple[float, float]


@dataclass(frozen=True)
class PowerEpsilon:
    """The rows of one method and number of prototypes by power and epsilon, and their complete runs."""

    label: str
    section: Section
    rows: dict[Place, Row]
    runs: dict[Place, list[StoredRun]]
    left_out: tuple[str, ...]

    @property
    def source(self) -> str:
        """The model with its data set and protocol."""
        return f"{self.label} · {self.section.title}"


@dataclass(frozen=True)
class PowerEpsilonPanel:
    """One power and epsilon.

    Attributes:
        accuracy: Of the test points over seeds; None if no run is complete.
        n_diverged: Number of diverged runs, which are not in `accuracy`.
        picture: That of one seed; None if no run is complete.
    """

    accuracy: Statistic | None = None
    n_diverged: int = 0
    picture: PlanePicture | None = None


@figure_of_runs("power_epsilon")
def power_epsilon_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """Data, predictions and keys over power and epsilon, for the lowest seed (the paper's Figure 5).

    Raises:
        ConfigError: fewer than two pairs of power and epsilon, or the data does not have two classes in two dimensions.
    """
    grid = collect_grid(runs)
    data = plane_data(load_dataset(grid.section.dataset_config, data_dir))
    return Drawing(_draw(collect_panels(store, grid, data), data, grid.source), grid.left_out)


def collect_grid(runs: Sequence[StoredRun]) -> PowerEpsilon:
    """Return the method and number of prototypes with the most pairs of power and epsilon in the first section.

    Raises:
        ConfigError: there are fewer than two pairs.
    """
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
    rows = groups.pop(label)
    others += sum(row.n for other in groups.values() for row in other.values())
    more = (f"not drawn: {count_label(others, 'run')} of other models (drawn: {label})",) if others else ()
    complete = {place: runs_of_row(selection.runs, section, row) for place, row in sorted(rows.items())}
    return PowerEpsilon(label, section, dict(sorted(rows.items())), complete, (*left_out, *more))


def collect_panels(store: Results, grid: PowerEpsilon, data: PlaneData) -> dict[Place, PowerEpsilonPanel]:
    """Return a panel for each power and epsilon."""
    panels = {}
    for place, row in grid.rows.items():
        picture = None
        if row.n:
            arrays = store.load_arrays(first_run(grid.runs[place]).run_key)
            keys, values = (np.asarray(arrays[name], np.float32) for name in ("keys", "values"))
            picture = plane_picture(row.model, keys, values, data, _GRID)
        panels[place] = PowerEpsilonPanel(row.statistics.get("test"), row.n_diverged, picture)
    return panels


def absence_label(n_diverged: int) -> str:
    """Return why a place has no result: ``no run``, or ``10 diverged``."""
    return f"{n_diverged} diverged" if n_diverged else "no run"


def _draw(panels: dict[Place, PowerEpsilonPanel], data: PlaneData, source: str) -> Figure:
    """Return the grid of panels: a row for each power, a column for each epsilon."""
    powers, epsilons = (sorted({place[axis] for place in panels}) for axis in (0, 1))
    counts = {panel.accuracy.n for panel in panels.values() if panel.accuracy is not None} - {1}
    over = f", mean ± std over {seeds_label(counts)}; pictures show the lowest seed" if counts else ""
    figure, grid = plane_page(
        (len(powers), len(epsilons)),
        data.extent,
        [f"above each panel: test accuracy in %{over}", source],
        legend_handles(data.dataset.class_names, test=False),
        margin=0.75,
        widest=2.6,
        title=0.24,
    )
    for power, row in zip(powers, grid, strict=True):
        label_row(row[0], f"p = {power:g}", size=10.5)
        for epsilon, axes in zip(epsilons, row, strict=True):
            _draw_panel(axes, panels.get((power, epsilon), PowerEpsilonPanel()), data)
    for epsilon, axes in zip(epsilons, grid[0], strict=True):
        label_column(axes, f"ε = {epsilon:g}", size=10.5, above=15)
    return figure


def _draw_panel(axes: Axes, panel: PowerEpsilonPanel, data: PlaneData) -> None:
    if panel.picture is None:
        draw_empty(axes, absence_label(panel.n_diverged))
        return
    outside = draw_plane(axes, panel.picture, data, test=False, size=3, largest=24)
    if panel.accuracy is not None:
        text = percent_label(panel.accuracy.mean, panel.accuracy.std)
        axes.set_title(text, loc="left", fontsize=8.5, color=INK, pad=2.5)
    notes = [f"{panel.n_diverged} diverged" * bool(panel.n_diverged), f"{outside} outside" * bool(outside)]
    draw_note(axes, ", ".join(filter(None, notes)), size=6.5)
