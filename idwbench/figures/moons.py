"""Predictions, points and keys in the plane: the paper's Figure 2, and its Figure 5 over power and epsilon."""

from __future__ import annotations

from collections import defaultdict

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from idwbench.errors import ConfigError
from idwbench.figures import plane
from idwbench.figures.runs import Selection, first_run
from idwbench.figures.style import INK, QUIET, percent_label, seeds_label
from idwbench.report.frame import Row
from idwbench.report.labels import count_label
from idwbench.report.statistics import Statistic
from idwbench.report.summaries import Section
from idwbench.runs.kinds.models import ModelConfig

__all__ = ["Place", "absence_label", "collect_grid", "moons_figure", "power_epsilon_figure"]

Place = tuple[float, float]
_Panel = tuple[Row, plane.PlanePicture]


def moons_figure(selection: Selection) -> Figure:
    """Data, predictions and keys for the lowest seed, and mean accuracies over all seeds (the paper's Figure 2).

    There is a row for each method with its parameters, and a column for each number of prototypes.

    Raises:
        ConfigError: no complete run, or the data does not have two classes in two dimensions.
    """
    section = selection.first_section(selection.of_kind())
    models, data = selection.models(section), plane.plane_data(selection.dataset(section.config.dataset))
    panels: dict[tuple[tuple[str, str], int], _Panel] = {}
    for model in models:
        config = model.row.model
        picture = plane.plane_picture(config, model.keys, model.values, data)
        panels[(config.method, config.parameters_label), config.prototypes] = (model.row, picture)
    rows = {row: plane.RowLabel(row[0], row[1].replace(", ", "\n")) for row, _ in panels}
    columns = {n: count_label(n, "prototype") for n in sorted({n for _, n in panels})}

    def draw(axes: Axes, panel: _Panel) -> None:
        row, picture = panel
        outside = plane.draw_plane(axes, picture, data)
        plane.draw_note(axes, f"{count_label(outside, 'key')} outside" if outside else "")
        train, test = (row.statistics.get(split, Statistic(0.0, None, {})) for split in ("train", "test"))
        axes.set_title(f"train {percent_label(train)}", loc="left", fontsize=8.5, color=QUIET, pad=3.5)
        weight = "bold" if test.best and len(rows) > 1 else "normal"
        axes.set_title(f"test {percent_label(test)}", loc="right", fontsize=9.5, color=INK, weight=weight, pad=3.5)

    caption = _caption({row.n for row, _ in panels.values()}, has_best=len(rows) > 1, is_tested=section.is_tested)
    legend = plane.legend_handles(data.dataset.class_names)
    captions = [caption, section.title]
    return plane.draw_plane_grid(panels, rows, columns, draw, data.extent, captions, legend, widest=4.2, title=0.3)


def _caption(counts: set[int], *, has_best: bool, is_tested: bool) -> str:
    words = ["accuracies in %"]
    if counts != {1}:
        words = [f"accuracies in %, mean ± std over {seeds_label(counts)}", "pictures show the lowest seed"]
    if has_best:
        tested = ", or not distinguishable from it (Wilcoxon)" if is_tested else ""
        words.append(f"bold: best test accuracy of a column{tested}")
    return "; ".join(words)


def power_epsilon_figure(selection: Selection) -> Figure:
    """Data, predictions and keys over power and epsilon, for the lowest seed (the paper's Figure 5).

    There is a row for each power, and a column for each epsilon.

    Raises:
        ConfigError: fewer than two pairs of power and epsilon, or the data does not have two classes in two dimensions.
    """
    section, source, grid = collect_grid(selection)
    data = plane.plane_data(selection.dataset(section.config.dataset))

    def draw(axes: Axes, row: Row) -> None:
        if not row.n:
            plane.draw_empty(axes, absence_label(row.n_diverged))
            return
        picture = plane.plane_picture(row.model, *selection.arrays(first_run(row).run_key), data, points=100)
        outside = plane.draw_plane(axes, picture, data, test=False, scale=0.4)
        if "test" in row.statistics:
            axes.set_title(percent_label(row.statistics["test"]), loc="left", fontsize=8.5, color=INK, pad=2.5)
        notes = [f"{row.n_diverged} diverged" * bool(row.n_diverged), f"{outside} outside" * bool(outside)]
        plane.draw_note(axes, ", ".join(filter(None, notes)), size=6.5)

    rows = {power: plane.RowLabel(f"p = {power:g}") for power, _ in grid}
    columns = {epsilon: f"ε = {epsilon:g}" for epsilon in sorted({epsilon for _, epsilon in grid})}
    counts = {row.statistics["test"].n for row in grid.values() if "test" in row.statistics} - {1}
    over = f", mean ± std over {seeds_label(counts)}; pictures show the lowest seed" if counts else ""
    captions = [f"above each panel: test accuracy in %{over}", source]
    legend = plane.legend_handles(data.dataset.class_names, test=False)
    return plane.draw_plane_grid(grid, rows, columns, draw, data.extent, captions, legend, widest=2.6, title=0.24)


def collect_grid(selection: Selection) -> tuple[Section, str, dict[Place, Row]]:
    """Return the first section, a model of it with data set and protocol, and its rows by power and epsilon.

    It is the method and number of prototypes with the most pairs.

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
        raise ConfigError(problem, hint="run the sweep paper_power_epsilon")
    if others := sum(row.n for row in section.rows) - sum(row.n for row in rows.values()):
        selection.leave_out(f"{count_label(others, 'run')} of other models (drawn: {label})")
    return section, f"{label} · {section.title}", rows


def _label(model: ModelConfig) -> str:
    words = [model.method, count_label(model.prototypes, "prototype")]
    initialisation = getattr(model, "initialisation", "default")
    words += [f"initialisation {initialisation}"] if initialisation != "default" else []
    words += [f"plugin {model.plugin_sha256[:8]}"] if model.plugin_sha256 else []
    return " · ".join(words)


def absence_label(n_diverged: int) -> str:
    """Return why a place has no result: ``no run``, or ``10 diverged``."""
    return f"{n_diverged} diverged" if n_diverged else "no run"
