"""The paper's Figure 5: data, predictions and keys over power and epsilon; and the runs by these two."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from idwbench.errors import ConfigError
from idwbench.figures.plane import (
    PlanePicture,
    RowLabel,
    draw_empty,
    draw_note,
    draw_plane,
    draw_plane_grid,
    legend_handles,
    plane_data,
    plane_picture,
)
from idwbench.figures.runs import Selection, first_run
from idwbench.figures.style import INK, percent_label, seeds_label
from idwbench.report.frame import Row
from idwbench.report.labels import count_label
from idwbench.report.summaries import Section
from idwbench.runs.kinds.models import ModelConfig

__all__ = ["Grid", "absence_label", "collect_grid", "power_epsilon_figure"]

_GRID = 100  # points of the grid of predictions in each direction

Place = tuple[float, float]


@dataclass(frozen=True)
class Grid:
    """The rows of one method and number of prototypes by power and epsilon.

    Attributes:
        source: The model with its data set and protocol.
    """

    section: Section
    source: str
    rows: dict[Place, Row]


def power_epsilon_figure(selection: Selection) -> Figure:
    """Data, predictions and keys over power and epsilon, for the lowest seed (the paper's Figure 5).

    There is a row for each power, and a column for each epsilon.

    Raises:
        ConfigError: fewer than two pairs of power and epsilon, or the data does not have two classes in two dimensions.
    """
    grid = collect_grid(selection)
    data = plane_data(selection.dataset(grid.section.config.dataset))
    pictures: dict[Place, tuple[Row, PlanePicture | None]] = {}
    for place, row in grid.rows.items():
        arrays = selection.arrays(first_run(row).run_key) if row.n else None
        pictures[place] = (row, plane_picture(row.model, *arrays, data, _GRID) if arrays else None)

    def draw(axes: Axes, panel: tuple[Row, PlanePicture | None]) -> None:
        row, picture = panel
        if picture is None:
            draw_empty(axes, absence_label(row.n_diverged))
            return
        outside = draw_plane(axes, picture, data, test=False, scale=0.4)
        if "test" in row.statistics:
            axes.set_title(percent_label(row.statistics["test"]), loc="left", fontsize=8.5, color=INK, pad=2.5)
        notes = [f"{row.n_diverged} diverged" * bool(row.n_diverged), f"{outside} outside" * bool(outside)]
        draw_note(axes, ", ".join(filter(None, notes)), size=6.5)

    powers, epsilons = (sorted({place[axis] for place in pictures}) for axis in (0, 1))
    counts = {row.statistics["test"].n for row in grid.rows.values() if "test" in row.statistics} - {1}
    over = f", mean ± std over {seeds_label(counts)}; pictures show the lowest seed" if counts else ""
    return draw_plane_grid(
        pictures,
        {power: RowLabel(f"p = {power:g}") for power in powers},
        {epsilon: f"ε = {epsilon:g}" for epsilon in epsilons},
        draw,
        extent=data.extent,
        caption=[f"above each panel: test accuracy in %{over}", grid.source],
        legend=legend_handles(data.dataset.class_names, test=False),
        widest=2.6,
        title=0.24,
    )


def collect_grid(selection: Selection) -> Grid:
    """Return the method and number of prototypes with the most pairs of power and epsilon in the first section.

    Raises:
        ConfigError: there are fewer than two pairs.
    """
    section = selection.first_section(selection.of_kind())
    groups: dict[str, dict[Place, Row]] = defaultdict(dict)
    for row in section.rows:
        power, epsilon = (row.model.parameters.get(name) for name in ("power", "epsilon"))
        if isinstance(power, float) and isinstance(epsilon, float):
            groups[_label(row.model)][power, epsilon] = row
    # Of equally many pairs the last: rows are sorted by prototypes and method.
    label = max(groups, key=lambda name: (len(groups[name]), list(groups).index(name)), default="")
    rows = dict(sorted(groups[label].items()))
    if len(rows) < 2:
        problem = "the figure needs runs of a method with at least two pairs of power and epsilon"
        raise ConfigError(problem, location=("figure",), hint="run the sweep paper_power_epsilon")
    if others := sum(row.n for row in section.rows) - sum(row.n for row in rows.values()):
        selection.leave_out(f"{count_label(others, 'run')} of other models (drawn: {label})")
    return Grid(section, f"{label} · {section.title}", rows)


def _label(model: ModelConfig) -> str:
    words = [model.method, count_label(model.prototypes, "prototype")]
    initialisation = getattr(model, "initialisation", "default")
    words += [f"initialisation {initialisation}"] if initialisation != "default" else []
    words += [f"plugin {model.plugin_sha256[:8]}"] if model.plugin_sha256 else []
    return " · ".join(words)


def absence_label(n_diverged: int) -> str:
    """Return why a place has no result: ``no run``, or ``10 diverged``."""
    return f"{n_diverged} diverged" if n_diverged else "no run"
