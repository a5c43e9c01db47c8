"""Comparisons of patches and of what else mends a wrong prediction: benefit against harm, and effect by number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.errors import ConfigError
from idwbench.figures.lines import Axis, Line, Panel, PanelRow, draw_rows, panel_rows
from idwbench.figures.runs import Selection
from idwbench.figures.style import QUIET, class_colour, seeds_label
from idwbench.report.frame import Row
from idwbench.report.labels import count_label
from idwbench.report.statistics import Statistic
from idwbench.report.studies import TOGETHER, WAY_LABELS, Compared, compared_models
from idwbench.runs.kinds.patch_study import PatchStudyConfig
from idwbench.runs.metrics import PATCH_MEASURES, PATCH_WAYS

__all__ = ["PlanePoint", "collect_planes", "repairs_by_number_figure", "repairs_figure", "repairs_together_figure"]

# Patches of the paper, local ones, and what needs no patch.
_MARKERS = dict(zip(PATCH_WAYS, ".oooooDDDDs^v", strict=True))
_COLOURS = dict(zip(PATCH_WAYS, (8, 0, 1, 5, 3, 4, 2, 4, 0, 1, 9, 6, 7), strict=True))
_BY_NUMBER = ("exact", "margin_1", "confidence_90", "local", "override", "fine_tuning", "retraining")
_COLUMNS, _SIDE = 4, 2.5
# The number of predictions up to which axes of many patches are linear.
_LINEAR = 10.0


class PlanePoint(NamedTuple):
    """A way in a plane: numbers of other test predictions that became wrong, and that became right, over seeds."""

    way: str
    harm: Statistic
    benefit: Statistic


def repairs_figure(selection: Selection) -> Figure:
    """For each model other test predictions that one mended input makes right, against those it makes wrong.

    Raises:
        ConfigError: no complete comparison.
    """
    return _draw_planes(collect_planes(selection), 0.1, "of the mean over the wrong inputs, each mended alone")


def repairs_together_figure(selection: Selection) -> Figure:
    """For each model other test predictions that are right, against those that are wrong, if all inputs are mended.

    Raises:
        ConfigError: no complete comparison.
    """
    return _draw_planes(collect_planes(selection, TOGETHER), _LINEAR, "all inputs of the study mended in one network")


def collect_planes(selection: Selection, suffix: str = "") -> list[tuple[str, list[PlanePoint]]]:
    """Return the title and the points of each model, of inputs mended alone, or with the suffix `TOGETHER`.

    Raises:
        ConfigError: no complete comparison.
    """
    planes = []
    for row, statistics in _models(selection):
        harm, benefit = statistics[f"worse{suffix}"], statistics[f"better{suffix}"]
        ways = [way for way in PATCH_WAYS if way != "unpatched" and way in harm]
        planes.append((_title(row), [PlanePoint(way, harm[way], benefit[way]) for way in ways]))
    return planes


def _models(selection: Selection) -> list[Compared]:
    """Return each model that was compared; raises `ConfigError` without one."""
    models = compared_models(selection.runs)
    if not models:
        problem = "no complete run of kind 'patch_study' with compare: true"
        raise ConfigError(problem, hint="run the sweep repairs_tables")
    n_compared = sum(row.n for row, _ in models)
    if others := sum(run.state == "complete" for run in selection.runs) - n_compared:
        selection.leave_out(f"{count_label(others, 'run')} that compare{'s' if others == 1 else ''} nothing")
    return models


def _title(row: Row) -> str:
    model = row.model
    power = f", p={model.parameters['power']:g}" if "power" in model.parameters else ""
    return f"{row.config.dataset.name}\n{model.method}{power}, {model.prototypes} prototypes"


def _draw_planes(planes: Sequence[tuple[str, Sequence[PlanePoint]]], linear: float, meaning: str) -> Figure:
    """Return a plane for each model, whose axes are linear up to a number and logarithmic beyond."""
    seeds = {point.harm.n for _, points in planes for point in points}
    caption = [
        f"Each point: mean ± sample standard deviation over {seeds_label(seeds)}, within their range; {meaning}.",
        f"Above the line a way helps more than it harms. Axes are linear up to {linear:g} and logarithmic beyond.",
    ]
    panels = [Panel(title, [*map(_line, points)]) for title, points in planes]
    x, y = Axis("others made wrong", linear=linear), Axis("others made right", linear=linear)
    figure = draw_rows(panel_rows(y, panels, _COLUMNS), x, caption, shared=True, height=_SIDE)
    for axes in figure.axes:
        axes.axline((0, 0), (1, 1), color=QUIET, linewidth=0.8, linestyle="dashed")
    return figure


def _line(point: PlanePoint) -> Line:
    harm, benefit = (np.array([[*one.values.values()]]).T for one in (point.harm, point.benefit))
    colour, marker = class_colour(_COLOURS[point.way]), _MARKERS[point.way]
    options: dict[str, Any] = {"markers": True, "marker": marker, "x_values": harm}
    return Line(WAY_LABELS[point.way], colour, "none", np.zeros(1), benefit, **options)


def repairs_by_number_figure(selection: Selection) -> Figure:
    """For each model effects against the number of inputs that are mended in one network, solved as a whole.

    These are the other test predictions made right less those made wrong, the calibration error, and the share of the
    noisy copies with the wanted label.

    Raises:
        ConfigError: no complete comparison.
    """
    models = [row for row, _ in _models(selection) if isinstance(row.model, PatchStudyConfig)][:_COLUMNS]
    if not models:
        problem = "no complete run of kind 'patch_study' with compare: true"
        raise ConfigError(problem, hint="the heads of networks are not compared by number")
    arrays = [[selection.store.load_arrays(key) for key in row.run_keys] for row in models]
    measures = (
        (Axis("right less wrong", linear=_LINEAR), ("better", "worse")),
        (Axis("calibration error"), ("calibration_error",)),
        (Axis("noise: label kept (%)", percent=True), ("noise_kept",)),
    )
    titled = [(_title(row), studies) for row, studies in zip(models, arrays, strict=True)]
    drawn = [
        PanelRow("", y, [Panel(title, _lines(studies, names)) for title, studies in titled]) for y, names in measures
    ]
    caption = [
        f"Mean ± sample standard deviation over {seeds_label({len(studies) for studies in arrays})}, within the range "
        "of the seeds; patches are solved as a whole.",
        f"Right less wrong: of the other test predictions, linear up to {_LINEAR:g} and logarithmic beyond.",
    ]
    ticks = sorted({int(n) for studies in arrays for n in _counts(studies)})
    return draw_rows(drawn, Axis("number of inputs that are mended", base=10, ticks=ticks), caption)


def _counts(studies: Sequence[dict[str, NDArray[Any]]]) -> list[int]:
    """Return the numbers of inputs that all seeds have."""
    return sorted(set.intersection(*({int(n) for n in study["counts"]} for study in studies)))


def _lines(studies: Sequence[dict[str, NDArray[Any]]], names: Sequence[str]) -> list[Line]:
    """Return the line of a measure, or of the difference of two, of each way that has them."""
    lines, counts = [], _counts(studies)
    columns = [[study["counts"].tolist().index(n) for n in counts] for study in studies]
    for way in _BY_NUMBER:
        tables = [study["together"][PATCH_WAYS.index(way)][:, own] for study, own in zip(studies, columns, strict=True)]
        measured = np.array([[table[PATCH_MEASURES.index(name)] for name in names] for table in tables])
        values = measured[:, 0] - measured[:, 1:].sum(1)
        n = np.isfinite(values).any(0).sum()
        line = Line(WAY_LABELS[way], class_colour(_COLOURS[way]), "-", np.array(counts), values, markers=bool(n == 1))
        lines += [line] if n else []
    return lines
