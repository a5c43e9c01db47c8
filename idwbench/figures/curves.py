"""Learning curves over seeds: mean, standard deviation and range against the epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np
from matplotlib.figure import Figure

from idwbench.attention.scores import METHODS
from idwbench.errors import ConfigError
from idwbench.figures.lines import DASHES, Axis, Line, Panel, PanelRow, Style, draw_rows, has_range, lines_of
from idwbench.figures.runs import Selection
from idwbench.figures.style import CLASS_COLOURS, class_colour, method_colour, seeds_label
from idwbench.report.frame import Row
from idwbench.report.labels import count_label, metric_label
from idwbench.report.summaries import Section
from idwbench.runs.kinds.models import ModelConfig
from idwbench.runs.metrics import HEADLINES
from idwbench.runs.results import CurvePoint

__all__ = ["collect_curves", "curves_figure"]

_MOST_SECTIONS, _MOST_COLUMNS = 4, 4

Points = dict[str, list[CurvePoint]]


def curves_figure(selection: Selection) -> Figure:
    """The headline metric of the test data and the training loss against the epoch, mean ± std over seeds.

    Raises:
        ConfigError: no complete run has a learning curve.
    """
    rows, source = collect_curves(selection)
    return draw_rows(rows, Axis("epoch"), [_caption(rows), source])


def collect_curves(selection: Selection) -> tuple[list[PanelRow], str]:
    """Return the rows of panels, and the data set and protocol if there is one.

    There is a row for each metric, a panel for each number of prototypes, and a line for each setting, whose values
    (seeds, epochs) are NaN where a run has none.

    Raises:
        ConfigError: no complete run has a learning curve.
    """
    points = selection.store.load_curves([run.run_key for run in selection.runs if run.state == "complete"])
    kinds = {run.config.model.kind for run in selection.runs if points.get(run.run_key)}
    sections = selection.sections([run for run in selection.runs if run.config.model.kind in kinds])
    if more := sections[_MOST_SECTIONS:]:
        others = count_label(len(more), "other data set or protocol")
        selection.leave_out(f"{others}, beginning with {more[0].title}")
    sections = sections[:_MOST_SECTIONS]
    rows = [row for section in sections for row in _rows(selection, section, points, has_heading=len(sections) > 1)]
    if not rows:
        raise ConfigError("no run to draw has a learning curve")
    return rows, sections[0].title if len(sections) == 1 else ""


def _rows(selection: Selection, section: Section, points: Points, *, has_heading: bool) -> list[PanelRow]:
    models = [row for row in section.rows if row.n]
    styles, omitted = _styles(sorted((row.model for row in models), key=lambda model: model.prototypes))
    if omitted:
        shown = f"{omitted[0]}{', …' if omitted[1:] else ''}"
        selection.leave_out(f"{count_label(len(omitted), 'setting')} ({shown})")
    counts = sorted({row.model.prototypes for row in models})
    if counts[_MOST_COLUMNS:]:
        selection.leave_out(f"{', '.join(map(str, counts[_MOST_COLUMNS:]))} prototypes")
    metric = HEADLINES[section.config.dataset.task]
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
            panels.append(Panel(title, [line for row in chosen for line in _lines(row, points, which, styles)]))
        if any(panel.lines for panel in panels):
            rows.append(PanelRow(section.title if has_heading and not rows else "", axis, panels))
    return rows


def _styles(models: Sequence[ModelConfig]) -> tuple[dict[str, Style], list[str]]:
    """Return colour and dash by label, and the labels that are left out: there are not enough of them.

    The colour is that of the method, of which each setting has a dash. If there is one method, or if models have other
    names than those of methods of attention, each setting has a colour.
    """
    labels = list(dict.fromkeys((model.method, _label(model)) for model in models))
    methods = {method for method, _ in labels}
    if methods <= METHODS.keys() and (len(methods) > 1 or len(labels) == 1):
        styles: dict[str, Style] = {}
        for method, group in groupby(sorted(labels, key=lambda label: label[0]), key=lambda label: label[0]):
            styles |= {label: (method_colour(method), dash) for (_, label), dash in zip(group, DASHES, strict=False)}
    else:
        colours = [(class_colour(place), dash) for dash in DASHES for place in range(len(CLASS_COLOURS))]
        styles = {label: style for (_, label), style in zip(labels, colours, strict=False)}
    return styles, [label for _, label in labels if label not in styles]


def _label(model: ModelConfig) -> str:
    return " ".join(filter(None, (model.method, model.parameters_label)))


def _lines(row: Row, points: Points, which: tuple[str, str], styles: Mapping[str, Style]) -> list[Line]:
    """Return the line of a model with several epochs: the values of all seeds, NaN where a run has none."""
    found = (
        (_label(row.model), point.epoch, seed, point.values[which])
        for seed, run in enumerate(row.complete)
        for point in points[run.run_key]
        if which in point.values
    )
    return [line for line in lines_of(found, styles) if len(line.x) > 1 and np.isfinite(line.values).any()]


def _caption(rows: Sequence[PanelRow]) -> str:
    panels = [panel for row in rows for panel in row.panels]
    counts = {len(line.values) for panel in panels for line in panel.lines}
    if counts == {1}:
        return "one seed: no spread"
    ranged = [has_range(panel) for panel in panels]
    light = "" if not any(ranged) else "; light band: range" + ("" if all(ranged) else " (up to 3 lines)")
    band = "band: mean ± sample standard deviation, within the range of the seeds"
    return f"line: mean over {seeds_label(counts)}; {band}{light}"
