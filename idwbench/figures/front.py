"""Accuracy against what keys are like and against the number of prototypes, and how many of them share an answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pandas
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.errors import ConfigError
from idwbench.figures.lines import Axis, Look, draw_lines
from idwbench.figures.runs import Selection, best_rows
from idwbench.figures.style import INK, QUIET, class_colour
from idwbench.models.array_weights import ArrayNetwork
from idwbench.report.frame import Row
from idwbench.report.labels import constants_title, count_label, metric_label, setting_label, varying_settings
from idwbench.report.references import PUBLISHED_CLASSIFIERS, PUBLISHED_CLASSIFIERS_NOTE
from idwbench.report.summaries import Section, section_headers
from idwbench.runs.kinds.prototypes import PrototypesConfig
from idwbench.runs.metrics import HEADLINES, METRICS
from idwbench.runs.protocol import Protocol

__all__ = ["accuracy_by_size_figure", "effective_prototypes", "effective_prototypes_figure", "front_figure"]

_MOST_LINES, _MOST_INPUTS, _HEIGHT = 10, 2000, 2.8
# Measures of keys, and the split of each.
_KEY_MEASURES = {
    "key_correlation": "train",
    "key_agreement": "train",
    "nearest_key_accuracy": "test",
    "relative_coverage": "train",
    "outside_features": "train",
}
_SIZES = ("prototypes", "parameters")
_BY_POWER, _BY_PLACE = "prototypes that share an answer", "weight of a key by its place"
_PLACES = np.linspace(0.0, 1.0, 21)


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
    table = _by_power(rows, metric.name)
    if table.empty:
        raise ConfigError("no complete run has a power and measures of its keys", hint="run the sweep front")
    looks = _joined_points(selection.first([*table.label.unique()], _MOST_LINES, "other setting"))
    table = table[table.label.isin(looks)]
    powers = ", ".join(f"{power:g}" for power in sorted({*table.x}))
    captions = [
        f"along each line p is {powers}, the smallest at the cross",
        constants_title([row.config for row in rows], ("power", *varying_settings([row.settings for row in rows]))),
    ]
    y = Axis(f"test {metric_label(metric.name)}", metric.percent)
    figure = draw_lines(table, looks, {name: Axis(name) for name in table.block}, y, captions, height=1.35)
    for axes, (_, own) in zip(figure.axes, table.groupby("block", sort=False), strict=True):
        smallest = own[own.x == own.groupby("label").x.transform("min")].groupby("label")
        means = smallest[["x_value", "value"]].mean() * [1.0, 100.0 if metric.percent else 1.0]
        axes.plot(means.x_value, means.value, "x", color=INK, markersize=8, zorder=5)
    return figure


def _by_power(rows: Sequence[Row], metric: str) -> pandas.DataFrame:
    """Return for each run and measure of its keys: label, power (x), seed, value on the test data, and the measure."""
    varying = varying_settings([row.settings for row in rows])
    others = [name for name in varying if name not in ("power", "prototypes", *Protocol.model_fields)]
    found = []
    for measure, split in _KEY_MEASURES.items():
        block, factor = f"{metric_label(measure)} ({split})", 100.0 if METRICS[measure].percent else 1.0
        for row in sorted(rows, key=lambda row: (row.model.prototypes, _rank(row))):
            words = [count_label(row.model.prototypes, "prototype")]
            words += [setting_label(name, row.settings[name]) for name in others if row.settings.get(name)]
            for seed, run in enumerate(row.complete):  # a number: seeds may be those of the data
                if (value := run.metric(measure, split)) is not None:
                    point = (block, ", ".join(words), row.model.parameters["power"], seed)
                    found.append((*point, run.metric(metric), factor * value))
    return pandas.DataFrame(found, columns=["block", "label", "x", "seed", "value", "x_value"])


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
    published = PUBLISHED_CLASSIFIERS.get(section.config.dataset.name, ())
    measured = [
        (label, row.model.prototypes, row.n_parameters, seed, value)
        for label, row in [*((_rank_label(row), row) for row in rows), *((row.model.method, row) for row in k_means)]
        for seed, value in row.statistics["test"].values.items()
    ]
    measured += [(one.name, one.prototypes, one.parameters, 0, one.test_accuracy) for one in published]
    sizes = pandas.DataFrame(measured, columns=["label", *_SIZES, "seed", "value"])
    table = sizes.melt(["label", "seed", "value"], _SIZES, "block", "x")
    ends = table.groupby("block", sort=False).x.agg(["min", "max"])
    levels = [
        (f"{row.model.method} {row.model.parameters_label}".strip(), seed, value, block, x)
        for row in others
        for seed, value in row.statistics["test"].values.items()
        for block, x in [*ends["min"].items(), *ends["max"].items()]
    ]
    level = pandas.DataFrame(levels, columns=table.columns).astype(table.dtypes)
    table = pandas.concat([table, level])
    looks = _joined_points(table.label.unique())
    looks |= {label: Look(looks[label].colour, ":") for label, *_ in levels}
    names = dict.fromkeys(one.name for one in published)
    looks |= {name: Look(QUIET, "none", marker) for name, marker in zip(names, "s^D", strict=False)}
    captions = [
        "other settings are chosen by validation" if axes else "",
        PUBLISHED_CLASSIFIERS_NOTE if published else "",
        constants_title([row.config for row in rows], varying),
    ]
    y = Axis(f"test {metric_label(metric.name)}", metric.percent)
    below = {size: Axis(f"number of {size}", base=10) for size in _SIZES}
    return draw_lines(table, looks, below, y, captions, height=_HEIGHT)


def _joined_points(labels: Iterable[str]) -> dict[str, Look]:
    return {label: Look(class_colour(place), "-", "o") for place, label in enumerate(labels)}


def _rank(row: Row) -> int:
    return int(row.settings.get("slope_rank", 0))


def _rank_label(row: Row) -> str:
    return f"{row.model.method}, slopes of rank {_rank(row)}" if _rank(row) else row.model.method


def effective_prototypes(weights: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the effective number of prototypes in each answer, 1/Σ_j a_j², for weights a (n, prototypes).

    It is between 1, one prototype alone, and their number, if all have the same weight (the participation ratio).
    """
    return np.asarray(1 / np.square(weights).sum(axis=-1), np.float64)


def effective_prototypes_figure(selection: Selection) -> Figure:
    """The effective number of prototypes in an answer against p, and the weight of keys by their place in distance.

    The second panel is of the largest number of prototypes: keys from the nearest to the farthest, a line for each p.
    Of several data sets it is the last.

    Raises:
        ConfigError: no complete run of prototypes has a power and weights that are a softmax.
    """
    sections = selection.sections(selection.of_kind())
    found = [(section, row) for section in sections for row in section.rows if row.n and _has_power(row)]
    if not found:
        raise ConfigError("no complete run has a power and weights that are a softmax", hint="run the sweep front")
    inputs = [selection.dataset(one.config.dataset).splits["test"].inputs[:_MOST_INPUTS] for one in sections]
    data = dict(zip(map(id, sections), zip(inputs, _data_labels(sections, inputs), strict=True), strict=True))
    largest = max(row.model.prototypes for _, row in found)
    points = []
    for section, row in sorted(found, key=lambda pair: (pair[1].model.prototypes, pair[1].model.parameters["power"])):
        own_inputs, header = data[id(section)]
        words = [count_label(row.model.prototypes, "prototype"), header]
        label, power = ", ".join(filter(None, words)), row.settings["power"]
        for seed, weights in enumerate(_weights(selection, row, own_inputs)):
            points.append((_BY_POWER, label, power, seed, effective_prototypes(weights).mean()))
            if row.model.prototypes == largest and section is found[-1][0]:
                ordered = np.sort(weights, axis=1)[:, ::-1].mean(axis=0) * largest
                shown = np.interp(_PLACES, np.linspace(0, 1, largest), ordered)
                points += [(_BY_PLACE, f"p = {power:g}", x, seed, y) for x, y in zip(100 * _PLACES, shown, strict=True)]
    table = pandas.DataFrame(points, columns=["measure", "label", "x", "seed", "value"])
    table["block"] = table.measure
    labels, powers = (table[table.block == block].label.unique() for block in (_BY_POWER, _BY_PLACE))
    looks = _joined_points(selection.first([*labels], _MOST_LINES, "other setting"))
    looks |= {label: Look(class_colour(place), "--") for place, label in enumerate(powers)}
    below = {
        _BY_POWER: Axis("power p", base=2, ticks=sorted({*table[table.block == _BY_POWER].x})),
        _BY_PLACE: Axis("keys by distance in %, the nearest 0"),
    }
    y = {block: Axis(label, base=10) for block, label in ((_BY_POWER, "effective number"), (_BY_PLACE, "weight"))}
    of_data = f" of {data[id(found[-1][0])][1]}" if len(sections) > 1 else ""
    below_are = f"{count_label(largest, 'prototype')}{of_data}"
    caption = f"at up to {_MOST_INPUTS:,} test inputs; below: {below_are}, 1 is the mean weight"
    return draw_lines(table[table.label.isin(looks)], looks, below, y, [caption], height=_HEIGHT)


def _data_labels(sections: Sequence[Section], inputs: Sequence[NDArray[np.floating]]) -> list[str]:
    """Return what tells the data of sections apart: nothing of one, or the number of features if all differ in it."""
    if len(sections) == 1:
        return [""]
    features = [own.shape[1] for own in inputs]
    is_telling = len({*features}) == len(features) and len({one.config.dataset.name for one in sections}) == 1
    return [count_label(n, "feature") for n in features] if is_telling else section_headers(sections)


def _has_power(row: Row) -> bool:
    model = row.model
    if not isinstance(model, PrototypesConfig) or "power" not in model.parameters:
        return False
    return model.method_record.weighting == "softmax"


def _weights(selection: Selection, row: Row, inputs: NDArray[np.floating]) -> Iterator[NDArray[np.float64]]:
    """Yield the weights (n, prototypes) at inputs in each run of a row."""
    assert isinstance(row.model, PrototypesConfig)
    for run in row.complete:
        arrays = selection.arrays(run.run_key)
        network = ArrayNetwork(row.model.method_record, row.model.parameters, arrays["keys"], arrays["values"])
        yield network.weights(inputs)
