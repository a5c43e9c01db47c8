"""Learning curves over seeds: mean, standard deviation and range against the epoch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from idwbench.attention.scores import METHODS
from idwbench.errors import ConfigError
from idwbench.figures.lines import DASHES, Axis, Line, Panel, PanelRow, draw_rows, has_range
from idwbench.figures.registry import figure_of_runs
from idwbench.figures.runs import Selection, runs_of_row, select_runs_of_kinds
from idwbench.figures.style import CLASS_COLOURS, Drawing, class_colour, method_colour, seeds_label
from idwbench.report.labels import count_label, metric_label
from idwbench.report.summaries import Section
from idwbench.results.records import StoredRun
from idwbench.runs.kinds.models import ModelConfig
from idwbench.runs.metrics import headline_metric
from idwbench.runs.results import CurvePoint

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["collect_curves", "curves_figure"]

_MOST_SECTIONS, _MOST_COLUMNS = 4, 4
_MOST_SETTINGS = {True: 10, False: len(DASHES)}  # of a method: if it is the only one, and otherwise

Points = dict[str, list[CurvePoint]]
Styles = dict[str, tuple[str, str]]


@figure_of_runs("curves")
def curves_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """The headline metric of the test data and the training loss against the epoch, mean ± std over seeds.

    Raises:
        ConfigError: no complete run has a learning curve.
    """
    rows, source, left_out = collect_curves(store, runs)
    return Drawing(draw_rows(rows, Axis("epoch"), [_caption(rows), source]), left_out)


def collect_curves(store: Results, runs: Sequence[StoredRun]) -> tuple[list[PanelRow], str, tuple[str, ...]]:
    """Return the rows of panels, the data set and protocol if there is one, and what is left out.

    There is a row for each metric, a panel for each number of prototypes, and a line for each setting, whose values
    (seeds, epochs) are NaN where a run has none.

    Raises:
        ConfigError: no complete run has a learning curve.
    """
    points = store.load_curves([run.run_key for run in runs if run.state == "complete"])
    kinds = {str(run.config.model.kind) for run in runs if points.get(run.run_key)}
    selection = select_runs_of_kinds(runs, kinds)
    left_out = list(selection.left_out)
    if more := [section.title for section in selection.sections[_MOST_SECTIONS:]]:
        left_out.append(f"not drawn: {count_label(len(more), 'other data set or protocol')}, beginning with {more[0]}")
    sections = selection.sections[:_MOST_SECTIONS]
    rows = []
    for section in sections:
        rows += _rows(selection, section, points, left_out, heading=section.title if len(sections) > 1 else "")
    if not rows:
        raise ConfigError("no run to draw has a learning curve", location=("figure",))
    return rows, sections[0].title if len(sections) == 1 else "", tuple(left_out)


def _rows(selection: Selection, section: Section, points: Points, left_out: list[str], heading: str) -> list[PanelRow]:
    models = [row for row in section.rows if row.n]
    styles, omitted = _styles(sorted((row.model for row in models), key=lambda model: model.prototypes))
    if omitted:
        shown = f"{omitted[0]}{', …' if omitted[1:] else ''}"
        left_out.append(f"not drawn: {count_label(len(omitted), 'setting')} ({shown})")
    counts = sorted({row.model.prototypes for row in models})
    if counts[_MOST_COLUMNS:]:
        left_out.append(f"not drawn: {', '.join(map(str, counts[_MOST_COLUMNS:]))} prototypes")
    metric = headline_metric(section.dataset_config.task)
    label = f"test {metric_label(metric.name).replace(' (lower is better)', '')}"
    rows: list[PanelRow] = []
    for which, axis in (
        (("test", metric.name), Axis(label, metric.percent)),
        (("train", "loss"), Axis("training loss", base=10)),
    ):
        panels = []
        for count in counts[:_MOST_COLUMNS]:
            title = count_label(count, "prototype") if count else "without prototypes" if any(counts) else ""
            chosen = [row for row in models if row.model.prototypes == count and _label(row.model) in styles]
            lines = [_line(runs_of_row(selection.runs, section, row), points, which, styles) for row in chosen]
            panels.append(Panel(title, [line for line in lines if line is not None]))
        if any(panel.lines for panel in panels):
            rows.append(PanelRow("" if rows else heading, axis, panels))
    return rows


def _styles(models: Sequence[ModelConfig]) -> tuple[Styles, list[str]]:
    """Return colour and dash by label, and the labels that are left out: there are not enough of them.

    The colour is that of the method. If there is one method, or if models have other names than those of methods of
    attention, each setting has a colour.
    """
    settings: dict[str, list[str]] = defaultdict(list)
    for model in models:
        if _label(model) not in settings[model.method]:
            settings[model.method].append(_label(model))
    if not settings.keys() <= METHODS.keys():
        labels = [label for group in settings.values() for label in group]
        n_colours, most = len(CLASS_COLOURS), len(CLASS_COLOURS) * len(DASHES)
        styles = {label: (class_colour(place), DASHES[place // n_colours]) for place, label in enumerate(labels[:most])}
        return styles, labels[most:]
    alone = len(settings) == 1
    styles, omitted = {}, []
    for method, labels in settings.items():
        omitted += labels[_MOST_SETTINGS[alone] :]
        for place, label in enumerate(labels[: _MOST_SETTINGS[alone]]):
            single = alone and len(labels) > 1
            styles[label] = (class_colour(place), "-") if single else (method_colour(method), DASHES[place])
    return styles, omitted


def _label(model: ModelConfig) -> str:
    return " ".join(filter(None, (model.method, model.parameters_label)))


def _line(runs: Sequence[StoredRun], points: Points, which: tuple[str, str], styles: Styles) -> Line | None:
    """Return the values of all seeds at all epochs, NaN where a run has none; None without any, or for one epoch."""
    curves = [{point.epoch: point.values.get(which, np.nan) for point in points[run.run_key]} for run in runs]
    epochs = sorted({epoch for curve in curves for epoch in curve})
    values = np.array([[curve.get(epoch, np.nan) for epoch in epochs] for curve in curves], np.float64)
    if len(epochs) < 2 or not np.isfinite(values).any():
        return None
    label = _label(runs[0].config.model)
    return Line(label, *styles[label], np.array(epochs), values[np.isfinite(values).any(axis=1)])


def _caption(rows: Sequence[PanelRow]) -> str:
    panels = [panel for row in rows for panel in row.panels]
    counts = {len(line.values) for panel in panels for line in panel.lines}
    if counts == {1}:
        return "one seed: no spread"
    ranged = [has_range(panel) for panel in panels]
    light = "" if not any(ranged) else "; light band: range" + ("" if all(ranged) else " (up to 3 lines)")
    band = "band: mean ± sample standard deviation, within the range of the seeds"
    return f"line: mean over {seeds_label(counts)}; {band}{light}"
