"""Metrics over seeds against the epoch or step of the training, the number of prototypes, and the length of sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.attention.scores import METHODS
from idwbench.errors import ConfigError
from idwbench.figures.lines import DASHES, Axis, Look, draw_lines, place_looks
from idwbench.figures.runs import Selection, best_rows, row_labels
from idwbench.figures.style import QUIET, method_colour
from idwbench.report.frame import Row, chosen_split
from idwbench.report.labels import constants_title, count_label, metric_label, sortable, varying_settings
from idwbench.report.summaries import Section, section_headers
from idwbench.runs.dataset_base import SequencePairsConfig
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
    "score_variance": Axis("variance of scores", base=10, centre="geometric mean"),
    "weight_entropy": Axis("entropy in nats"),
    "gradient_norm": Axis("gradient", base=10, centre="geometric mean"),
    "score_gradient_norm": Axis("gradient by scores", base=10, centre="geometric mean"),
}
_OF_KERNELS = ("method", "bandwidth", "power", "epsilon")

# A table of points, with looks by label and axes by measure.
Curves = tuple[pandas.DataFrame, dict[str, Look], dict[str, Axis]]


def curves_figure(selection: Selection) -> Figure:
    """The headline metric on validation, or on test without it, and the training loss by epoch, mean ± std over seeds.

    Raises:
        ConfigError: no complete run has a learning curve.
    """
    (table, looks, axes), source = collect_curves(selection)
    return draw_lines(table, looks, Axis("epoch"), axes, [source])


def collect_curves(selection: Selection) -> tuple[Curves, str]:
    """Return the table of points with looks and axes, see `draw_lines`, and what all data sets and protocols share.

    There is a measure for each metric, a panel for each number of prototypes, and a line for each setting.

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
    rows = [row for section in sections for row in section.rows if row.n]
    looks = _looks([(row.model.method, _label(row)) for row in rows])
    omitted = [label for label in dict.fromkeys(map(_label, rows)) if label not in looks]
    if omitted:
        shown = f"{omitted[0]}{', …' if omitted[1:] else ''}"
        selection.leave_out(f"{count_label(len(omitted), 'setting')} ({shown})")
    axes = {axis.label: axis for section in sections for axis in _measures(section).values()}
    headings = section_headers(sections) if len(sections) > 1 else [""] * len(sections)
    tables = [
        table.assign(block=heading)
        for heading, section in zip(headings, sections, strict=True)
        if len(table := _points(selection, section, points, looks))
    ]
    if not tables:
        raise ConfigError("no run to draw has a learning curve")
    first, *rest = (section.title.split(" · ") for section in sections)
    shared = " · ".join(word for word in first if all(word in own for own in rest))
    return (pandas.concat(tables), looks, axes), shared


def _measures(section: Section) -> dict[tuple[str, str], Axis]:
    """Return the axes by split and metric."""
    metric = HEADLINES[section.config.dataset.task]
    split = "validation" if chosen_split(section.rows, metric.name, None) == "validation" else "test"
    measured = Axis(f"{split} {metric_label(metric.name).replace(' (lower is better)', '')}", metric.percent)
    return {(split, metric.name): measured, ("train", "loss"): Axis("training loss", base=10)}


def _points(
    selection: Selection, section: Section, points: Mapping[str, list[CurvePoint]], looks: Mapping[str, Look]
) -> pandas.DataFrame:
    """Return the points of lines with several epochs."""
    rows = [row for row in section.rows if row.n and _label(row) in looks]
    counts = sorted({row.model.prototypes for row in rows})
    if counts[_MOST_PANELS:]:
        selection.leave_out(f"{', '.join(map(str, counts[_MOST_PANELS:]))} prototypes")
    without = "without prototypes" if any(counts) else ""
    titles = {count: count_label(count, "prototype") if count else without for count in counts[:_MOST_PANELS]}
    found = [
        (axis.label, titles[row.model.prototypes], _label(row), point.epoch, seed, value)
        for which, axis in _measures(section).items()
        for row in rows
        if row.model.prototypes in titles
        for seed, run in enumerate(row.complete)
        for point in points[run.run_key]
        if (value := point.values.get(which)) is not None
    ]
    table = pandas.DataFrame(found, columns=["measure", "panel", "label", "x", "seed", "value"])
    table = table[np.isfinite(table.value.astype(np.float64))]
    return table[table.groupby(["measure", "panel", "label"]).x.transform("nunique") > 1]


def _looks(labelled: Sequence[tuple[str, str]]) -> dict[str, Look]:
    """Return the looks of as many labels, given with their methods, as there are.

    The colour is that of the method, of which each setting has a dash. If there is one method, or if models have other
    names than those of methods of attention, each setting has a colour.
    """
    table = pandas.DataFrame(labelled, columns=["method", "label"]).drop_duplicates()
    methods = {*table.method}
    if methods <= METHODS.keys() and (len(methods) > 1 or len(table) == 1):
        known = zip(table.method, table.label, table.groupby("method").cumcount(), strict=True)
        return {label: Look(method_colour(method), DASHES[n]) for method, label, n in known if n < len(DASHES)}
    return place_looks(table.label)


def _label(row: Row) -> str:
    return " ".join(filter(None, (row.model.method, row.parameters_label)))


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
    # A statistic that is 0 has no logarithm: the gradient of values that do not depend on the scores.
    table = table[np.isfinite(table.value) & ((table.value > 0) | (table.measure == "weight_entropy"))]
    scored = {*table[table.measure == "score_variance"].panel}
    layers = [layer for layer in table.panel.unique() if layer in scored or not scored]
    selection.leave_out(f"layers {', '.join(layers[_MOST_LAYERS:])}" if layers[_MOST_LAYERS:] else "")
    table = table[table.panel.isin(layers[:_MOST_LAYERS])]
    table = table.sort_values("measure", key=lambda names: names.map([*_AXES].index), kind="stable")
    caption = (
        f"{section.title}; gradient: norm of that of a batch's mean loss by all "
        "parameters of the layer, and by those that act through the scores alone"
    )
    # 0 and the powers of ten.
    ticks = [step for step in sorted({*table.x}) if step == 0 or step == 10 ** (len(str(step)) - 1)]
    return draw_lines(table, place_looks(labels), Axis("updates", base=10, ticks=ticks), _AXES, [caption], height=1.9)


def _measured(arrays: Mapping[str, NDArray[np.generic]]) -> pandas.DataFrame:
    """Return the statistics of one run: a row for each of them, each step (x) and each layer."""
    layers, steps = arrays["statistics.layers"].tobytes().decode().split("\n"), arrays["statistics.steps"]
    tables = {
        name: pandas.DataFrame(np.asarray(arrays[f"statistics.{name}"]), steps, layers) for name in LAYER_STATISTICS
    }
    table = pandas.concat(tables, names=["measure", "x"]).rename_axis(columns="panel")
    return table.astype(np.float64).stack(future_stack=True).rename("value").reset_index()


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
    looks = _looks([(row.model.method, label) for row, label in zip(chosen, labels, strict=True)])
    learned = pandas.DataFrame(
        (
            (label, row.model.prototypes, seed, value)
            for row, label in zip(chosen, labels, strict=True)
            if label in looks
            for seed, value in row.statistics[split].values.items()
        ),
        columns=["label", "x", "seed", "value"],
    )
    counts = sorted({*learned.x})
    limit, kernel = memory.statistics[split], memory.config.model
    names = (kernel.method.replace("_kernel", " kernel"), kernel.parameters_label.split(", initialisation")[0])
    label = f"all data: {', '.join(filter(None, names))}"
    on_all_data = pandas.DataFrame({"label": label, "seed": limit.values.keys(), "value": limit.values.values()})
    varying = varying_settings([group.settings for group in networks])
    constants = constants_title([group.config for group in networks], (*varying, "prototypes", "dataset_seed"))
    of_data = "seeds are those of the data" if memory.data_seeds else ""
    # Points of equal counts stand beside each other.
    place = learned.label.map([*looks].index)
    beside = learned.assign(x=learned.x * 1.02 ** (2 * place - len(looks) + 1))
    table = pandas.concat([on_all_data.merge(pandas.Series(counts, name="x"), how="cross"), beside])
    looks = {label: Look(QUIET, "--"), **{name: replace(look, marker="o") for name, look in looks.items()}}
    x = Axis("number of learned prototypes", base=2, limits=(counts[0] / 1.25, counts[-1] * 1.25), ticks=counts)
    y = Axis(f"{split} {metric_label(metric.name)}", metric.percent)
    captions = [of_data, _answer(learned, limit.mean, metric.higher_is_better), constants]
    return draw_lines(table, looks, x, y, captions, height=3.2)


def _answer(learned: pandas.DataFrame, limit: float, higher_is_better: bool) -> str:
    """Return the smallest number of prototypes of each line whose mean is at least as good as a limit."""
    words = []
    for label, line in learned.groupby("label", sort=False):
        means = line.groupby("x").value.mean()
        enough = means[means >= limit if higher_is_better else means <= limit].index
        words.append(f"{label}: {f'{enough[0]:g}' if enough.size else 'none of these'}")
    return "fewest prototypes whose mean is at least as good as with all data: " + "; ".join(words)


def accuracy_by_length_figure(selection: Selection) -> Figure:
    """Exact match against the length of the source, over seeds; one panel for each data set.

    Raises:
        ConfigError: no run of this kind is complete.
    """
    sections = selection.sections(selection.of_kind("sequence_to_sequence"))
    rows = [(section, row) for section in sections for row in section.rows if row.n]
    labels = row_labels([row for _, row in rows])
    looks = place_looks(selection.first([*dict.fromkeys(labels)], _MOST_LINES, "other model"))
    points: list[tuple[Any, ...]] = []
    for header, section in zip(section_headers(sections), sections, strict=True):
        config = section.config.dataset
        assert isinstance(config, SequencePairsConfig)
        title = f"{header} ({config.shortest} to {config.longest})"
        own = [(row, label) for (of, row), label in zip(rows, labels, strict=True) if of is section and label in looks]
        points += [(title, label, *point) for row, label in own for point in _by_length(selection, row)]
    table = pandas.DataFrame(points, columns=["panel", "label", "x", "seed", "value"])
    shown = selection.first([*table.panel.unique()], _MOST_PANELS, "other data set or protocol")
    x, y = Axis("letters of the source"), Axis("exact match in %", percent=True, limits=(-2, 102))
    caption = ["in brackets the lengths of the training"]
    return draw_lines(table[table.panel.isin(shown)], looks, x, y, caption, columns=_MOST_PANELS, height=2.6)


def _by_length(selection: Selection, row: Row) -> Iterator[tuple[float, int, float]]:
    """Yield length, seed and exact match of a model."""
    for run in row.complete:
        arrays = selection.store.load_arrays(run.run_key)
        for length, value in zip(arrays["lengths"], arrays["exact_match_by_length"], strict=True):
            yield float(length), run.config.seed, float(value)
