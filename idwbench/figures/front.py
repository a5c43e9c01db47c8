"""Accuracy against what keys are like and against the number of prototypes, and how many of them share an answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.errors import ConfigError
from idwbench.figures.lines import (
    Axis,
    Line,
    Panel,
    PanelRow,
    draw_block,
    legend_handles,
    lines_of,
    place_styles,
    spread_caption,
)
from idwbench.figures.runs import Selection, best_rows
from idwbench.figures.style import INK, QUIET, class_colour, new_page
from idwbench.models.array_weights import ArrayNetwork
from idwbench.report.frame import Row
from idwbench.report.labels import constants_title, count_label, metric_label, setting_label, varying_settings
from idwbench.report.references import PUBLISHED_CLASSIFIERS, PUBLISHED_CLASSIFIERS_NOTE, PublishedClassifier
from idwbench.report.summaries import Section, section_headers
from idwbench.runs.kinds.prototypes import PrototypesConfig
from idwbench.runs.metrics import HEADLINES, METRICS
from idwbench.runs.protocol import Protocol

__all__ = ["accuracy_by_size_figure", "effective_prototypes", "effective_prototypes_figure", "front_figure"]

_MOST_LINES, _MOST_INPUTS = 10, 2000
_SIDE = 3.6  # inches of a panel
# Measures of keys, and the split of each.
_KEY_MEASURES = {"key_correlation": "train", "key_agreement": "train", "nearest_key_accuracy": "test"}
_QUANTILES = np.linspace(0.0, 1.0, 21)


def front_figure(selection: Selection) -> Figure:
    """The headline metric against measures of keys: a line for each number of prototypes, along which p grows.

    Settings of the protocol are those with the best mean on the validation split.

    Raises:
        ConfigError: no complete run of prototypes has a power and measures of its keys.
    """
    section, (found,) = selection.on_first_data("prototypes")
    metric = HEADLINES[section.config.dataset.task]
    powered = [row for row in found if row.n and "power" in row.model.parameters]
    rows = best_rows(powered, metric.name, tuple(Protocol.model_fields)) if powered else []
    table = _measured(rows, metric.name)
    measures = [name for name in _KEY_MEASURES if table[name].notna().any()]
    if not measures:
        raise ConfigError("no complete run has a power and measures of its keys", hint="run the sweep front")
    styles = place_styles(selection.first([*dict.fromkeys(table.label)], _MOST_LINES, "other setting"))
    y = Axis(f"test {metric_label(metric.name)}", metric.percent)
    columns = []
    for name in measures:
        lines = [
            _along(own, name, styles[label][0])
            for label, own in table.groupby("label", sort=False)
            if label in styles and own[name].notna().any()
        ]
        columns.append((Axis(f"{metric_label(name)} ({_KEY_MEASURES[name]})"), y, Panel("", lines)))
    powers = sorted({*table.x})
    captions = [
        f"along each line p is {', '.join(f'{power:g}' for power in powers)}, the smallest at the cross",
        constants_title([row.config for row in rows], ("power", *varying_settings([row.settings for row in rows]))),
    ]
    figure = _draw_columns(columns, captions)
    for axes, (_, _, panel) in zip(figure.axes, columns, strict=True):
        for line in panel.lines:
            assert line.x_values is not None
            smallest = np.nanmean(line.x_values[:, 0]), (100 if metric.percent else 1) * np.nanmean(line.values[:, 0])
            axes.plot(*smallest, "x", color=INK, markersize=8, zorder=5)
    return figure


def _measured(rows: Sequence[Row], metric: str) -> pandas.DataFrame:
    """Return a row for each run: label, power (x), seed, the metric on the test data (value), and measures of keys."""
    varying = varying_settings([row.settings for row in rows])
    others = [name for name in varying if name not in ("power", "prototypes", *Protocol.model_fields)]
    found = []
    for row in sorted(rows, key=lambda row: (row.model.prototypes, row.settings.get("slope_rank", 0))):
        words = [count_label(row.model.prototypes, "prototype")]
        words += [setting_label(name, row.settings[name]) for name in others if row.settings.get(name)]
        for seed, run in enumerate(row.complete):  # a number: seeds may be those of the data
            facts = {"label": ", ".join(words), "x": float(row.model.parameters["power"]), "seed": seed}
            measures = {name: run.metric(name, split) for name, split in _KEY_MEASURES.items()}
            found.append({**facts, "value": run.metric(metric), **measures})
    return pandas.DataFrame(found, columns=["label", "x", "seed", "value", *_KEY_MEASURES])


def _along(own: pandas.DataFrame, measure: str, colour: str) -> Line:
    """Return the line of one setting through means of a measure (x) and of the metric, in the order of the power."""
    own = own[own[measure].notna()]
    values, places = (own.pivot(index="seed", columns="x", values=name).astype(float) for name in ("value", measure))
    factor = 100.0 if METRICS[measure].percent else 1.0
    options: dict[str, Any] = {"markers": True, "x_values": factor * places.to_numpy()}
    return Line(own.label.iloc[0], colour, "-", values.columns.to_numpy(), values.to_numpy(), **options)


def _draw_columns(columns: Sequence[tuple[Axis, Axis, Panel]], captions: Sequence[str]) -> Figure:
    """Return a figure with panels beside each other, each with its axes: the one below, and the one on the left."""
    rows = [PanelRow("", y, [panel]) for _, y, panel in columns]
    handles = legend_handles([line for _, _, panel in columns for line in panel.lines])
    figure, body = new_page(_SIDE * len(columns), _SIDE, [spread_caption(rows), *captions], handles)
    parts = body.subfigures(1, len(columns), squeeze=False)
    for part, (x, _, _), row in zip(parts[0], columns, rows, strict=True):
        draw_block(part, [row], x, 1)
    return figure


def accuracy_by_size_figure(selection: Selection) -> Figure:
    """The headline metric on the test data against the number of prototypes, and against that of parameters.

    There is a line for each rank of slopes; other settings are those with the best mean on the validation split.
    Methods of scikit-learn on the same data are level lines; on MNIST published classifiers are points.

    Raises:
        ConfigError: no run of prototypes is complete.
    """
    section, (networks, k_means, others) = selection.on_first_data("prototypes", "baseline", "scikit_learn")
    metric, varying = HEADLINES[section.config.dataset.task], varying_settings([row.settings for row in networks])
    axes = [name for name in varying if name not in ("prototypes", "slope_rank")]
    rows = sorted((row for row in best_rows(networks, metric.name, axes) if row.n), key=_rank)
    labelled = [(_rank_label(row), row) for row in rows] + [(row.model.method, row) for row in k_means]
    published = PUBLISHED_CLASSIFIERS.get(section.config.dataset.name, ())
    table = pandas.DataFrame(
        (
            (label, row.model.prototypes, row.n_parameters, seed, value)
            for label, row in labelled
            for seed, value in row.statistics["test"].values.items()
        ),
        columns=["label", "prototypes", "parameters", "seed", "value"],
    )
    styles = {label: (class_colour(place), "-") for place, label in enumerate(dict.fromkeys(table.label))}
    y, columns = Axis(f"test {metric_label(metric.name)}", metric.percent), []
    for size in ("prototypes", "parameters"):
        own = lines_of(table.rename(columns={size: "x"})[["label", "x", "seed", "value"]], styles, markers=True)
        own += _published_lines(published, size)
        ends = np.array([min(line.x.min() for line in own), max(line.x.max() for line in own)], np.float64)
        for place, row in enumerate(others):
            values = np.array([[*row.statistics["test"].values.values()]]).T
            label = f"{row.model.method} {row.model.parameters_label}".strip()
            own.append(Line(label, class_colour(len(styles) + place), ":", ends, np.repeat(values, 2, axis=1)))
        columns.append((Axis(f"number of {size}", base=10), y, Panel("", own)))
    captions = [
        "other settings are chosen by validation" if axes else "",
        PUBLISHED_CLASSIFIERS_NOTE if published else "",
        constants_title([row.config for row in rows], varying),
    ]
    return _draw_columns(columns, captions)


def _rank(row: Row) -> int:
    return int(row.settings.get("slope_rank", 0))


def _rank_label(row: Row) -> str:
    return f"{row.model.method}, slopes of rank {_rank(row)}" if _rank(row) else row.model.method


def _published_lines(published: Sequence[PublishedClassifier], size: str) -> list[Line]:
    """Return the points of published classifiers against their number of prototypes or parameters, by name."""
    lines = []
    for marker, name in zip("s^D", dict.fromkeys(each.name for each in published), strict=False):
        own = [each for each in published if each.name == name]
        x = np.array([getattr(each, size) for each in own], np.float64)
        accuracies = np.array([each.test_accuracy for each in own])
        lines.append(Line(name, QUIET, "none", x, accuracies, markers=True, marker=marker))
    return lines


def effective_prototypes(weights: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the effective number of prototypes in each answer, 1/Σ_j a_j², for weights a (n, prototypes).

    It is between 1, one prototype alone, and their number, if all have the same weight (the participation ratio).
    """
    return np.asarray(1 / np.square(weights).sum(axis=-1), np.float64)


def effective_prototypes_figure(selection: Selection) -> Figure:
    """The effective number of prototypes in an answer against p, and the weight of keys by their place in distance.

    The second panel is of the largest number of prototypes: keys from the nearest to the farthest, a line for each p.

    Raises:
        ConfigError: no complete run of prototypes has a power and weights that are a softmax.
    """
    sections = selection.sections(selection.of_kind())
    found = [(section, row) for section in sections for row in section.rows if row.n and _has_power(row)]
    if not found:
        raise ConfigError("no complete run has a power and weights that are a softmax", hint="run the sweep front")
    headers = dict(zip(map(id, sections), _data_labels(selection, sections), strict=True))
    largest = max(row.model.prototypes for _, row in found)
    counts, by_place = [], []
    for section, row in sorted(found, key=lambda pair: (pair[1].model.prototypes, pair[1].model.parameters["power"])):
        words = [count_label(row.model.prototypes, "prototype"), headers[id(section)]]
        label, power = ", ".join(filter(None, words)), row.settings["power"]
        for seed, weights in enumerate(_weights(selection, section, row)):
            counts.append((label, power, seed, effective_prototypes(weights).mean()))
            if row.model.prototypes == largest and section is found[-1][0]:
                ordered = np.sort(weights, axis=1)[:, ::-1].mean(axis=0) * largest
                shown = np.interp(_QUANTILES, np.linspace(0, 1, largest), ordered)
                by_place += [
                    (f"p = {power:g}", 100 * q, seed, value) for q, value in zip(_QUANTILES, shown, strict=True)
                ]
    labels = selection.first([*dict.fromkeys(point[0] for point in counts)], _MOST_LINES, "other setting")
    kept = [point for point in counts if point[0] in labels]
    powers = {label: (class_colour(place), "--") for place, label in enumerate(dict.fromkeys(p[0] for p in by_place))}
    x = Axis("power p", base=2, ticks=sorted({point[1] for point in kept}))
    y = Axis("effective number of prototypes", base=10)
    places = Axis("keys by distance in %, the nearest 0"), Axis("weight in multiples of the mean", base=10)
    columns = [
        (x, y, Panel("", lines_of(kept, place_styles(labels), markers=True))),
        (*places, Panel("", lines_of(by_place, powers))),
    ]
    captions = [f"weights at up to {_MOST_INPUTS:,} test inputs; right: {count_label(largest, 'prototype')}"]
    return _draw_columns(columns, captions)


def _data_labels(selection: Selection, sections: Sequence[Section]) -> list[str]:
    """Return what tells the data of sections apart: nothing of one, or the number of features if all differ in it."""
    if len(sections) == 1:
        return [""]
    features = [selection.dataset(section.config.dataset).n_features for section in sections]
    is_telling = len({*features}) == len(features) and len({one.config.dataset.name for one in sections}) == 1
    return [count_label(n, "feature") for n in features] if is_telling else section_headers(sections)


def _has_power(row: Row) -> bool:
    model = row.model
    if not isinstance(model, PrototypesConfig) or "power" not in model.parameters:
        return False
    return model.method_record.weighting == "softmax"


def _weights(selection: Selection, section: Section, row: Row) -> Iterator[NDArray[np.float64]]:
    """Yield the weights (n, prototypes) at test inputs in each run of a row."""
    assert isinstance(row.model, PrototypesConfig)
    inputs = selection.dataset(section.config.dataset).splits["test"].inputs[:_MOST_INPUTS]
    for run in row.complete:
        arrays = selection.arrays(run.run_key)
        network = ArrayNetwork(row.model.method_record, row.model.parameters, arrays["keys"], arrays["values"])
        yield network.weights(inputs)
