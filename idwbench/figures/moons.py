"""The paper's Figure 2: two-dimensional data, predictions and keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from idwbench.data.loading import load_dataset
from idwbench.figures.plane import (
    PlaneData,
    PlanePicture,
    draw_empty,
    draw_note,
    draw_plane,
    label_column,
    label_row,
    legend_handles,
    outside_label,
    plane_data,
    plane_page,
    plane_picture,
)
from idwbench.figures.registry import figure_of_runs
from idwbench.figures.runs import select_runs_of_kind, stored_models
from idwbench.figures.style import INK, QUIET, Drawing, percent_label, seeds_label
from idwbench.report.labels import count_label
from idwbench.report.statistics import Statistic
from idwbench.results.records import StoredRun

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["Moons", "MoonsPanel", "collect_moons", "draw_moons", "moons_figure"]


@dataclass(frozen=True)
class MoonsPanel:
    """One model: the label of its parameters, its accuracies over `n` seeds, and the picture of one seed."""

    method: str
    setting: str
    prototypes: int
    train: Statistic
    test: Statistic
    n: int
    picture: PlanePicture


@dataclass(frozen=True)
class Moons:
    """The data of the figure.

    Attributes:
        panels: In the order of rows.
        data: Their data set.
        is_tested: Whether the best test accuracies come from a paired test over seeds, and not from means alone.
        source: Data set and protocol.
        left_out: One line for each kind of runs that is not drawn.
    """

    panels: Sequence[MoonsPanel]
    data: PlaneData
    is_tested: bool = False
    source: str = ""
    left_out: tuple[str, ...] = ()


@figure_of_runs("moons")
def moons_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """Data, predictions and keys for the lowest seed, and mean accuracies over all seeds (the paper's Figure 2).

    Raises:
        ConfigError: no complete run, or the data does not have two classes in two dimensions.
    """
    moons = collect_moons(store, runs, data_dir)
    return Drawing(draw_moons(moons), moons.left_out)


def collect_moons(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Moons:
    """Return a panel for each model with complete runs; it raises as the figure does."""
    selection = select_runs_of_kind(runs)
    section, left_out = selection.first()
    models, unusable = stored_models(store, selection, section)
    data = plane_data(load_dataset(section.dataset_config, data_dir))
    panels = []
    for model in models:
        row, config = model.row, model.row.model
        picture = plane_picture(config, model.keys, model.values, data)
        train, test = (row.statistics.get(split, Statistic(0.0, None, {})) for split in ("train", "test"))
        panels.append(
            MoonsPanel(config.method, config.parameters_label, config.prototypes, train, test, row.n, picture)
        )
    return Moons(panels, data, section.is_tested, section.title, (*left_out, *unusable))


def draw_moons(moons: Moons) -> Figure:
    """Return the grid of panels: a row for each method with its parameters, a column for each number of prototypes."""
    places = {((panel.method, panel.setting), panel.prototypes): panel for panel in moons.panels}
    settings = list(dict.fromkeys(setting for setting, _ in places))
    counts = sorted({prototypes for _, prototypes in places})
    # Room for the longest name, in bold, and for the longest parameter.
    words = [0.1 * len(method) for method, _ in settings]
    words += [0.072 * len(line) for _, setting in settings for line in setting.split(", ")]
    legend = legend_handles(moons.data.dataset.class_names)
    figure, grid = plane_page(
        (len(settings), len(counts)),
        moons.data.extent,
        ["; ".join(_caption(moons)), moons.source],
        legend,
        margin=0.3 + max(words),
        widest=4.2,
        title=0.3,
    )
    for setting, places_of_row in zip(settings, grid, strict=True):
        for count, axes in zip(counts, places_of_row, strict=True):
            panel = places.get((setting, count))
            if panel is None:
                draw_empty(axes)
            else:
                _draw_panel(axes, panel, moons.data, bold=panel.test.best and len(settings) > 1)
        label_row(places_of_row[0], setting[0], setting[1].replace(", ", "\n"))
    for count, axes in zip(counts, grid[0], strict=True):
        label_column(axes, count_label(count, "prototype"))
    return figure


def _draw_panel(axes: Axes, panel: MoonsPanel, data: PlaneData, *, bold: bool) -> None:
    draw_note(axes, outside_label(draw_plane(axes, panel.picture, data)))
    train, test = (percent_label(one.mean, one.std) for one in (panel.train, panel.test))
    axes.set_title(f"train {train}", loc="left", fontsize=8.5, color=QUIET, pad=3.5)
    weight = "bold" if bold else "normal"
    axes.set_title(f"test {test}", loc="right", fontsize=9.5, color=INK, weight=weight, pad=3.5)


def _caption(moons: Moons) -> list[str]:
    seeds = sorted({panel.n for panel in moons.panels})
    words = ["accuracies in %"]
    if seeds != [1]:
        words = [f"accuracies in %, mean ± std over {seeds_label(seeds)}", "the pictures show the lowest seed"]
    if len({(panel.method, panel.setting) for panel in moons.panels}) > 1:
        tested = ", or not distinguishable from it (Wilcoxon test)" if moons.is_tested else ""
        words.append(f"bold: best test accuracy of a column{tested}")
    return words
