"""The paper's Figure 2: two-dimensional data, predictions and keys."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from idwbench.figures.plane import (
    PlanePicture,
    RowLabel,
    draw_note,
    draw_plane,
    draw_plane_grid,
    legend_handles,
    plane_data,
    plane_picture,
)
from idwbench.figures.runs import Selection
from idwbench.figures.style import INK, QUIET, percent_label, seeds_label
from idwbench.report.frame import Row
from idwbench.report.labels import count_label
from idwbench.report.statistics import Statistic

__all__ = ["moons_figure"]


def moons_figure(selection: Selection) -> Figure:
    """Data, predictions and keys for the lowest seed, and mean accuracies over all seeds (the paper's Figure 2).

    There is a row for each method with its parameters, and a column for each number of prototypes.

    Raises:
        ConfigError: no complete run, or the data does not have two classes in two dimensions.
    """
    section = selection.first_section(selection.of_kind())
    models, data = selection.models(section), plane_data(selection.dataset(section.config.dataset))
    panels: dict[tuple[tuple[str, str], int], tuple[Row, PlanePicture]] = {}
    for model in models:
        config = model.row.model
        picture = plane_picture(config, model.keys, model.values, data)
        panels[(config.method, config.parameters_label), config.prototypes] = (model.row, picture)
    rows = {(method, setting): RowLabel(method, setting.replace(", ", "\n")) for (method, setting), _ in panels}

    def draw(axes: Axes, panel: tuple[Row, PlanePicture]) -> None:
        row, picture = panel
        outside = draw_plane(axes, picture, data)
        draw_note(axes, f"{count_label(outside, 'key')} outside" if outside else "")
        train, test = (row.statistics.get(split, Statistic(0.0, None, {})) for split in ("train", "test"))
        axes.set_title(f"train {percent_label(train)}", loc="left", fontsize=8.5, color=QUIET, pad=3.5)
        weight = "bold" if test.best and len(rows) > 1 else "normal"
        axes.set_title(f"test {percent_label(test)}", loc="right", fontsize=9.5, color=INK, weight=weight, pad=3.5)

    caption = _caption({row.n for row, _ in panels.values()}, has_best=len(rows) > 1, is_tested=section.is_tested)
    return draw_plane_grid(
        panels,
        rows,
        {n: count_label(n, "prototype") for n in sorted({n for _, n in panels})},
        draw,
        extent=data.extent,
        caption=[caption, section.title],
        legend=legend_handles(data.dataset.class_names),
        widest=4.2,
        title=0.3,
    )


def _caption(counts: set[int], *, has_best: bool, is_tested: bool) -> str:
    words = ["accuracies in %"]
    if counts != {1}:
        words = [f"accuracies in %, mean ± std over {seeds_label(counts)}", "pictures show the lowest seed"]
    if has_best:
        tested = ", or not distinguishable from it (Wilcoxon)" if is_tested else ""
        words.append(f"bold: best test accuracy of a column{tested}")
    return "; ".join(words)
