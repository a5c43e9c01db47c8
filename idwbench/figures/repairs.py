"""Comparisons of patches and of what else mends a wrong prediction: benefit against harm, and effect by number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.errors import ConfigError
from idwbench.figures.lines import Axis, Look, draw_lines
from idwbench.figures.runs import Selection
from idwbench.figures.style import QUIET, class_colour
from idwbench.report.frame import Row
from idwbench.report.labels import count_label
from idwbench.report.studies import TOGETHER, WAY_LABELS, Compared, compared_models
from idwbench.runs.kinds.patch_study import PatchStudyConfig
from idwbench.runs.metrics import PATCH_MEASURES, PATCH_WAYS

__all__ = ["repairs_by_number_figure", "repairs_figure", "repairs_together_figure"]

# Patches of the paper, local ones, and what needs no patch.
_MARKERS = dict(zip(PATCH_WAYS, ".oooooDDDDs^v", strict=True))
_COLOURS = dict(zip(PATCH_WAYS, (8, 0, 1, 5, 3, 4, 2, 4, 0, 1, 9, 6, 7), strict=True))
_BY_NUMBER = ("exact", "margin_1", "confidence_90", "local", "override", "fine_tuning", "retraining")
_COLUMNS, _SIDE = 4, 2.5
# The number of predictions up to which axes of many patches are linear.
_LINEAR = 10.0

_MEASURES = {
    "other": (Axis("right less wrong", linear=_LINEAR), ("better", "worse")),
    "calibration": (Axis("calibration error"), ("calibration_error",)),
    "noise": (Axis("noise: label kept (%)", percent=True), ("noise_kept",)),
}

Study = dict[str, NDArray[Any]]


def repairs_figure(selection: Selection) -> Figure:
    """For each model other test predictions that one mended input makes right, against those it makes wrong.

    Raises:
        ConfigError: no complete comparison.
    """
    return _draw_planes(selection, "", 0.1, "means over the wrong inputs, each mended alone")


def repairs_together_figure(selection: Selection) -> Figure:
    """For each model other test predictions that are right, against those that are wrong, if all inputs are mended.

    Raises:
        ConfigError: no complete comparison.
    """
    return _draw_planes(selection, TOGETHER, _LINEAR, "all inputs of the study mended in one network")


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
    return f"{row.config.dataset.name}\n{model.method}{power}\n{model.prototypes} prototypes"


def _draw_planes(selection: Selection, suffix: str, linear: float, meaning: str) -> Figure:
    """Return a plane for each model with a point for each way, for measures with a suffix.

    Its axes are linear up to a number and logarithmic beyond.
    """
    tables = []
    for row, statistics in _models(selection):
        better, worse = (statistics[f"{name}{suffix}"] for name in ("better", "worse"))
        for way in (way for way in PATCH_WAYS if way != "unpatched" and way in worse):
            points = pandas.DataFrame({"x_value": worse[way].values, "value": better[way].values})
            points = points.rename_axis("seed").reset_index()
            tables.append(points.assign(panel=_title(row), label=WAY_LABELS[way], x=0.0))
    looks = {WAY_LABELS[way]: Look(class_colour(_COLOURS[way]), "none", _MARKERS[way]) for way in PATCH_WAYS}
    caption = (
        f"{meaning}; above the dashed line a way helps more than it harms; axes are linear up to {linear:g} and "
        "logarithmic beyond"
    )
    x, y = Axis("others made wrong", linear=linear), Axis("others made right", linear=linear)
    figure = draw_lines(pandas.concat(tables), looks, x, y, [caption], columns=_COLUMNS, height=_SIDE)
    for axes in figure.axes:
        axes.axline((0, 0), (1, 1), color=QUIET, linewidth=0.8, linestyle="dashed")
    return figure


def repairs_by_number_figure(selection: Selection) -> Figure:
    """For each model effects against the number of inputs that are mended in one network, solved as a whole.

    These are the other test predictions made right less those made wrong, the calibration error, and the share of the
    noisy copies with the wanted label.

    Raises:
        ConfigError: no complete comparison, or none whose seeds have a number of inputs in common.
    """
    models = [row for row, _ in _models(selection) if isinstance(row.model, PatchStudyConfig)][:_COLUMNS]
    if not models:
        problem = "no complete run of kind 'patch_study' with compare: true"
        raise ConfigError(problem, hint="the heads of networks are not compared by number")
    studies = [(_title(row), [selection.store.load_arrays(key) for key in row.run_keys]) for row in models]
    points = [
        (measure, title, *point)
        for measure, (_, names) in _MEASURES.items()
        for title, own in studies
        for point in _points(own, names)
    ]
    if not points:
        raise ConfigError("the seeds of no comparison have a number of inputs in common")
    table = pandas.DataFrame(points, columns=["measure", "panel", "label", "x", "seed", "value"])
    caption = (
        "patches are solved as a whole; right less wrong: of the other test predictions, linear up to "
        f"{_LINEAR:g} and logarithmic beyond"
    )
    looks = {WAY_LABELS[way]: Look(class_colour(_COLOURS[way])) for way in _BY_NUMBER}
    x = Axis("number of inputs that are mended", base=10, ticks=sorted({*table.x}))
    return draw_lines(table, looks, x, {measure: y for measure, (y, _) in _MEASURES.items()}, [caption])


def _points(studies: Sequence[Study], names: Sequence[str]) -> Iterator[tuple[str, int, int, float]]:
    """Yield a measure, or the difference of two, of each way by the numbers of inputs that all seeds have."""
    counts = set.intersection(*(set(study["counts"].tolist()) for study in studies))
    for way in _BY_NUMBER:
        for seed, study in enumerate(studies):
            first, *others = (study["together"][PATCH_WAYS.index(way), PATCH_MEASURES.index(name)] for name in names)
            for n, value in zip(study["counts"].tolist(), first - sum(others), strict=True):
                if n in counts and np.isfinite(value):
                    yield WAY_LABELS[way], n, seed, value
