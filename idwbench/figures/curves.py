"""Metrics over seeds against the epoch or step of the training, the number of prototypes, and the length of sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
import pandas
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.attention.scores import METHODS
from idwbench.errors import ConfigError
from idwbench.figures import lines
from idwbench.figures.lines import DASHES, Axis, Line, Panel, PanelRow, Style
from idwbench.figures.runs import Selection, best_rows, row_labels
from idwbench.figures.style import CLASS_COLOURS, QUIET, class_colour, method_colour
from idwbench.report.frame import Row
from idwbench.report.labels import constants_title, count_label, metric_label, sortable, varying_settings
from idwbench.report.summaries import Section, section_headers
from idwbench.runs.dataset_base import SequencePairsConfig
from idwbench.runs.kinds.models import ModelConfig
from idwbench.runs.metrics import HEADLINES, LAYER_STATISTICS
from idwbench.runs.protocol import Protocol
from idwbench.runs.results import CurvePoint

__all__ = [
    "accuracy_by_length_figure",
    "collect_curves",
    "curves_figure",
    "layer_statistics_figure",
    "prototypes_needed_figure",
]

_MOST_PANELS, _MOST_LINES, _MOST_LAYERS = 4, 10, 5
_AXES = {
    "score_variance": Axis("variance of scores", base=10),
    "weight_entropy": Axis("entropy in nats"),
    "gradient_norm": Axis("gradient", base=10),
    "score_gradient_norm": Axis("gradient by scores", base=10),
}
_OF_KERNELS = ("method", "bandwidth", "power", "epsilon")

Points = dict[str, list[CurvePoint]]


def curves_figure(selection: Selection) -> Figure:
    """The headline metric of the test data and the training loss against the epoch, mean ± std over seeds.

    Raises:
        ConfigError: no complete run has a learning curve.
    """
    rows, source = collect_curves(selection)
    return lines.draw_rows(rows, Axis("epoch"), [source])


def collect_curves(selection: Selection) -> tuple[list[PanelRow], str]:
    """Return the rows of panels, and the data set and protocol if there is one.

    There is a row for each metric, a panel for each number of prototypes, and a line for each setting, whose values
    (seeds, epochs) are NaN where a run has none.

    Raises:
        ConfigError: no complete run has a learning curve.
    """
    keys = [run.run_key for run in selection.runs if run.state == "complete"]
    points = {key: selection.store.load_curve(key) for key in keys}
    kinds = {run.config.model.kind for run in selection.runs if points.get(run.run_key)}
    sections = selection.sections([run for run in selection.runs if run.config.model.kind in kinds])
    if more := sections[_MOST_PANELS:]:
        others = count_label(len(more), "other data set or protocol")
        selection.leave_out(f"{others}, beginning with {more[0].title}")
    sections = sections[:_MOST_PANELS]
    rows = [row for section in sections for row in _rows(selection, section, points, has_heading=len(sections) > 1)]
    if not rows:
        raise ConfigError("no run to draw has a learning curve")
    return rows, sections[0].title if len(sections) == 1 else ""


def _rows(selection: Selection, section: Section, points: Points, *, has_heading: bool) -> list[PanelRow]:
    models = [row for row in section.rows if row.n]
    styles = _styles([(row.model.method, _label(row.model)) for row in models])
    omitted = [label for label in dict.fromkeys(_label(row.model) for row in models) if label not in styles]
    if omitted:
        shown = f"{omitted[0]}{', …' if omitted[1:] else ''}"
        selection.leave_out(f"{count_label(len(omitted), 'setting')} ({shown})")
    counts = sorted({row.model.prototypes for row in models})
    if counts[_MOST_PANELS:]:
        selection.leave_out(f"{', '.join(map(str, counts[_MOST_PANELS:]))} prototypes")
    metric = HEADLINES[section.config.dataset.task]
    label = f"test {metric_label(metric.name).replace(' (lower is better)', '')}"
    rows: list[PanelRow] = []
    for which, axis in (
        (("test", metric.name), Axis(label, metric.percent)),
        (("train", "loss"), Axis("training loss", base=10)),
    ):
        panels = []
        for count in counts[:_MOST_PANELS]:
            title = count_label(count, "prototype") if count else "without prototypes" if any(counts) else ""
            chosen = [row for row in models if row.model.prototypes == count and _label(row.model) in styles]
            panels.append(Panel(title, [line for row in chosen for line in _curves(row, points, which, styles)]))
        if any(panel.lines for panel in panels):
            rows.append(PanelRow(section.title if has_heading and not rows else "", axis, panels))
    return rows


def _styles(labelled: Sequence[tuple[str, str]]) -> dict[str, Style]:
    """Return colour and dash of as many labels, given with their methods, as there are styles for.

    The colour is that of the method, of which each setting has a dash. If there is one method, or if models have other
    names than those of methods of attention, each setting has a colour.
    """
    labels = list(dict.fromkeys(labelled))
    methods = {method for method, _ in labels}
    if methods <= METHODS.keys() and (len(methods) > 1 or len(labels) == 1):
        styles: dict[str, Style] = {}
        for method, group in groupby(sorted(labels, key=lambda label: label[0]), key=lambda label: label[0]):
            styles |= {label: (method_colour(method), dash) for (_, label), dash in zip(group, DASHES, strict=False)}
        return styles
    colours = [(class_colour(place), dash) for dash in DASHES for place in range(len(CLASS_COLOURS))]
    return {label: style for (_, label), style in zip(labels, colours, strict=False)}


def _label(model: ModelConfig) -> str:
    return " ".join(filter(None, (model.method, model.versioned_label)))


def _curves(row: Row, points: Points, which: tuple[str, str], styles: Mapping[str, Style]) -> list[Line]:
    """Return the line of a model with several epochs: the values of all seeds, NaN where a run has none."""
    found = (
        (_label(row.model), point.epoch, seed, point.values[which])
        for seed, run in enumerate(row.complete)
        for point in points[run.run_key]
        if which in point.values
    )
    return [line for line in lines.lines_of(found, styles) if len(line.x) > 1 and np.isfinite(line.values).any()]


def layer_statistics_figure(selection: Selection) -> Figure:
    """Variance of scores, entropy of weights and norms of gradients by layer against the step; a row for each.

    The layers are those with scores, or all layers if none has; the models those of the first data set and protocol.

    Raises:
        ConfigError: no complete run has the statistics.
    """
    runs = [run for run in selection.runs if getattr(run.config.model, "statistics", False)]
    if not any(run.state == "complete" for run in runs):
        raise ConfigError("no complete run has statistics of layers", hint="train networks with statistics: true")
    section = selection.first_section(runs)
    rows = selection.first([row for row in section.rows if row.n], _MOST_LINES, "other model")
    labels = row_labels(rows)
    table = pandas.concat(
        _measured(selection.store.load_arrays(run.run_key)).assign(label=label, seed=seed)
        for label, row in zip(labels, rows, strict=True)
        for seed, run in enumerate(row.complete)
    )
    table = table[np.isfinite(table.value)]
    scored = {*table[table.statistic == "score_variance"].layer}
    layers = [layer for layer in table.layer.unique() if layer in scored or not scored]
    selection.leave_out(f"layers {', '.join(layers[_MOST_LAYERS:])}" if layers[_MOST_LAYERS:] else "")
    styles, drawn = lines.place_styles(labels), []
    for name, axis in _AXES.items():
        # A statistic that is 0 has no logarithm: the gradient of values that do not depend on the scores.
        is_geometric = axis.base is not None
        own = table[(table.statistic == name) & ((table.value > 0) | (not is_geometric))]
        panels = []
        for layer in layers[:_MOST_LAYERS]:
            panels.append(Panel(layer, lines.lines_of(own[own.layer == layer], styles, geometric=is_geometric)))
        drawn += [PanelRow("", axis, panels)] if any(panel.lines for panel in panels) else []
    caption = (
        f"{section.title}; of the entropy the mean itself; gradient: norm of that of a batch's mean loss by all "
        "parameters of the layer, and by those that act through the scores alone"
    )
    # 0 and the powers of ten.
    ticks = [step for step in sorted({*table.x}) if step == 0 or step == 10 ** (len(str(step)) - 1)]
    return lines.draw_rows(drawn, Axis("updates", base=10, ticks=ticks), [caption], height=1.9)


def _measured(arrays: Mapping[str, NDArray[np.generic]]) -> pandas.DataFrame:
    """Return the statistics of one run: a row for each of them, each step (x) and each layer."""
    layers, steps = arrays["statistics.layers"].tobytes().decode().split("\n"), arrays["statistics.steps"]
    tables = []
    for name in LAYER_STATISTICS:
        values = pandas.DataFrame(np.asarray(arrays[f"statistics.{name}"], np.float64), steps, layers)
        long = values.rename_axis("x").melt(var_name="layer", ignore_index=False).reset_index()
        tables.append(long.assign(statistic=name))
    return pandas.concat(tables)


def prototypes_needed_figure(selection: Selection) -> Figure:
    """The headline metric against the number of learned prototypes, beside kernel regression on all training data.

    Settings of the protocol, and the kernel with its parameters, are those with the best mean metric on the validation
    split; without one, the first in the order of tables. The metric is that of the holdout if there is one.

    Raises:
        ConfigError: no complete run of prototypes, or none of kernel regression on the same data.
    """
    section, (networks, memories) = selection.on_first_data("prototypes", "kernel_regression")
    metric = HEADLINES[section.config.dataset.task]
    if not memories:
        problem = "no run of kernel regression on the same data"
        raise ConfigError(problem, hint="run the sweep kernel_regression")
    complete = [run for row in memories + networks for run in row.complete]
    split = "holdout" if all(run.metric(metric.name, "holdout") is not None for run in complete) else "test"
    memory = best_rows(memories, metric.name, (*_OF_KERNELS, *Protocol.model_fields))[0]
    chosen = best_rows(networks, metric.name, tuple(Protocol.model_fields))
    chosen.sort(key=lambda row: sortable({"method": row.model.method}))
    labels = row_labels(chosen)
    styles = _styles([(row.model.method, label) for row, label in zip(chosen, labels, strict=True)])
    points = (
        (label, row.model.prototypes, seed, value)
        for row, label in zip(chosen, labels, strict=True)
        if label in styles
        for seed, value in row.statistics[split].values.items()
    )
    learned = lines.lines_of(points, styles)
    counts = sorted({int(count) for line in learned for count in line.x})
    limit, kernel = memory.statistics[split], memory.config.model
    names = (kernel.method.replace("_kernel", " kernel"), kernel.parameters_label.split(", initialisation")[0])
    label = f"all data: {', '.join(filter(None, names))}"
    on_all_data = ((label, count, seed, value) for count in counts for seed, value in limit.values.items())
    all_data = lines.lines_of(on_all_data, {label: (QUIET, "--")})
    varying = varying_settings([group.settings for group in networks])
    constants = constants_title([group.config for group in networks], (*varying, "prototypes", "dataset_seed"))
    of_data = "seeds are those of the data" if memory.data_seeds else ""
    # Points of equal counts stand beside each other.
    shifts = [1.02 ** (2 * place - len(learned) + 1) for place in range(len(learned))]
    drawn = [replace(line, x=shift * line.x, markers=True) for line, shift in zip(learned, shifts, strict=True)]
    x = Axis("number of learned prototypes", base=2, limits=(counts[0] / 1.25, counts[-1] * 1.25), ticks=counts)
    y = Axis(f"{split} {metric_label(metric.name)}", metric.percent)
    captions = [of_data, _answer(learned, limit.mean, metric.higher_is_better), constants]
    return lines.draw_rows([PanelRow("", y, [Panel("", [*all_data, *drawn])])], x, captions, height=3.2)


def _answer(learned: Sequence[Line], limit: float, higher_is_better: bool) -> str:
    """Return the smallest number of prototypes of each line whose mean is at least as good as a limit."""
    words = []
    for line in learned:
        x, means, *_ = lines.line_spread(line)
        enough = x[means >= limit if higher_is_better else means <= limit]
        words.append(f"{line.label}: {f'{enough[0]:g}' if enough.size else 'none of these'}")
    return "fewest prototypes whose mean is at least as good as with all data: " + "; ".join(words)


def accuracy_by_length_figure(selection: Selection) -> Figure:
    """Exact match against the length of the source, over seeds; one panel for each data set.

    Raises:
        ConfigError: no run of this kind is complete.
    """
    sections = selection.sections(selection.of_kind("sequence_to_sequence"))
    rows = [(section, row) for section in sections for row in section.rows if row.n]
    labels = row_labels([row for _, row in rows])
    styles = lines.place_styles(selection.first([*dict.fromkeys(labels)], _MOST_LINES, "other model"))
    panels = []
    for header, section in zip(section_headers(sections), sections, strict=True):
        config = section.config.dataset
        assert isinstance(config, SequencePairsConfig)
        own = [(row, label) for (of, row), label in zip(rows, labels, strict=True) if of is section and label in styles]
        points = (point for row, label in own for point in _by_length(selection, row, label))
        panels.append(Panel(f"{header} ({config.shortest} to {config.longest})", lines.lines_of(points, styles)))
    shown = selection.first(panels, _MOST_PANELS, "other data set or protocol")
    x, y = Axis("letters of the source"), Axis("exact match in %", percent=True, limits=(-2, 102))
    caption = ["in brackets the lengths of the training"]
    return lines.draw_rows([PanelRow("", y, shown)], x, caption, shared=True, height=2.6)


def _by_length(selection: Selection, row: Row, label: str) -> Iterator[tuple[str, float, int, float]]:
    """Yield the exact match of the seeds of a model by length."""
    for run in row.complete:
        arrays = selection.store.load_arrays(run.run_key)
        for length, value in zip(arrays["lengths"], arrays["exact_match_by_length"], strict=True):
            yield label, float(length), run.config.seed, float(value)
