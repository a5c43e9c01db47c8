"""Learning curves of stored runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from idwbench.attention.scores import METHODS
from idwbench.errors import ConfigError
from idwbench.figures.collected.selection import Selection, runs_of_row, select_runs_of_kinds
from idwbench.figures.curves import DASHES, Curve, CurvePanel, CurveRow, draw_curves
from idwbench.figures.registry import figure_of_runs
from idwbench.figures.style import CLASS_COLOURS, Drawing, class_colour, method_colour
from idwbench.report.labels import count_label, metric_label
from idwbench.report.summaries import Row, Section
from idwbench.results.records import StoredRun
from idwbench.runs.kinds.models import ModelConfig
from idwbench.runs.metrics import headline_metric
from idwbench.runs.results import CurvePoint

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["curve_rows", "curves_figure"]

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
    rows, source, left_out = curve_rows(store, runs)
    return Drawing(draw_curves(rows, source=source), left_out)


def curve_rows(store: Results, runs: Sequence[StoredRun]) -> tuple[list[CurveRow], str, tuple[str, ...]]:
    """Return the rows of the figure, the data set and protocol if there is one, and what is left out.

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
    if not any(panel.curves for row in rows for panel in row.panels):
        raise ConfigError("no run to draw has a learning curve", location=("figure",))
    return rows, sections[0].title if len(sections) == 1 else "", tuple(left_out)


def _rows(selection: Selection, section: Section, points: Points, left_out: list[str], heading: str) -> list[CurveRow]:
    by_count: dict[int, list[Row]] = defaultdict(list)
    for row in section.rows:
        if row.n:
            by_count[row.model.prototypes].append(row)
    styles, omitted = _styles([row.model for rows in by_count.values() for row in rows])
    if omitted:
        left_out.append(
            f"not drawn: {count_label(len(omitted), 'setting')} ({omitted[0]}{', …' if omitted[1:] else ''})"
        )
    counts = list(by_count)
    if counts[_MOST_COLUMNS:]:
        left_out.append(f"not drawn: {', '.join(map(str, counts[_MOST_COLUMNS:]))} prototypes")
    metric = headline_metric(section.dataset_config.task)
    axes = (
        ("test", metric.name, f"test {metric_label(metric.name).replace(' (lower is better)', '')}", metric.percent),
        ("train", "loss", "training loss", False),
    )
    rows: list[CurveRow] = []
    for split, name, label, percent in axes:
        panels = []
        for count in counts[:_MOST_COLUMNS]:
            curves = [
                _curve(runs_of_row(selection.runs, section, row), points, (split, name), styles)
                for row in by_count[count]
                if _label(row.model) in styles
            ]
            found = [curve for curve in curves if curve is not None]
            title = count_label(count, "prototype") if count else "without prototypes" if any(counts) else ""
            panels.append(CurvePanel(title, found))
        if any(panel.curves for panel in panels):
            rows.append(CurveRow("" if rows else heading, label, percent, name == "loss", panels))
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
        found = {label: (class_colour(place), DASHES[place // n_colours]) for place, label in enumerate(labels[:most])}
        return found, labels[most:]
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


def _curve(runs: Sequence[StoredRun], points: Points, which: tuple[str, str], styles: Styles) -> Curve | None:
    """Return the values of all seeds at all epochs, NaN where a run has none; None without any, or for one epoch."""
    curves = [{point.epoch: point.values.get(which, np.nan) for point in points[run.run_key]} for run in runs]
    epochs = sorted({epoch for curve in curves for epoch in curve})
    values = np.array([[curve.get(epoch, np.nan) for epoch in epochs] for curve in curves], np.float64)
    if len(epochs) < 2 or not np.isfinite(values).any():
        return None
    label = _label(runs[0].config.model)
    colour, dash = styles[label]
    return Curve(label, colour, dash, np.array(epochs), values[np.isfinite(values).any(axis=1)])
