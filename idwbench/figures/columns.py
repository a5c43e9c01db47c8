"""The prototypes of a table: as lines over its named columns, and among its rows in the two columns that tell most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.data.columns import Columns
from idwbench.data.dataset import Dataset
from idwbench.errors import ConfigError
from idwbench.figures.plane import legend_mark
from idwbench.figures.runs import Model, Selection
from idwbench.figures.style import INK, PAPER, QUIET, class_colour, clean_text, new_page, style_axes
from idwbench.runs.datasets import dataset_label

__all__ = ["columns_figure", "label_columns", "telling_features"]

_WIDTH, _LINES, _HEIGHT = 10.0, 6.3, 3.0  # inches: of the figure and of its lines, and the height of a model
_MOST_MODELS, _MOST_FEATURES, _FEW = 4, 30, 10
_NOTE = (
    "left: prototypes in the colour of the class of their value; numbers in standard deviations from the mean, of "
    "categories the share; right: training rows and prototypes (diamonds) in the two columns of numbers whose means "
    "differ most between the classes, relative to their spread within"
)


def columns_figure(selection: Selection) -> Figure:
    """The prototypes of each method for the lowest seed as lines over the columns of a table, and in two of them.

    Raises:
        ConfigError: no complete run, the data is no table of classes, or no method has points as keys.
    """
    section = selection.first_section(selection.of_kind())
    dataset = selection.dataset(section.config.dataset)
    if dataset.columns is None or not dataset.class_names:
        raise ConfigError(f"the figure needs a table of classes; {dataset_label(dataset.config)} is none")
    models = selection.first(selection.point_models(section), _MOST_MODELS, "other setting")
    columns, order = dataset.columns, telling_features(dataset.train.inputs, dataset.train.labels)
    pair = [place for place in order.tolist() if not columns.is_category[place]][:2]
    legend = [legend_mark("s", 8, name, color=class_colour(n)) for n, name in enumerate(dataset.class_names)]
    figure, body = new_page(_WIDTH, len(models) * _HEIGHT, [_NOTE, section.title], legend)
    for part, model in zip(body.subfigures(len(models), 1, squeeze=False)[:, 0], models, strict=True):
        part.suptitle(model.title(section.metric), x=0.01, ha="left", fontsize=10.5, weight="bold", color=INK)
        left, right = part.subplots(1, 2, width_ratios=(_LINES, _WIDTH - _LINES))
        _draw_lines(left, model, np.sort(order[:_MOST_FEATURES]), columns)
        if len(pair) == 2:
            _draw_pair(right, model, dataset, pair, columns)
        else:
            right.set_axis_off()
    return figure


def telling_features(inputs: NDArray[np.floating], labels: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the features in the order of the variance of class means divided by the variance within classes."""
    classes = [inputs[labels == label].astype(np.float64) for label in np.unique(labels)]
    between = np.var([rows.mean(0) for rows in classes], axis=0)
    within = np.mean([rows.var(0) for rows in classes], axis=0)
    return np.argsort(-between / np.maximum(within, 1e-12), kind="stable")


def _draw_lines(axes: Axes, model: Model, shown: NDArray[np.intp], columns: Columns) -> None:
    for key, label in zip(model.keys, model.values.argmax(1).tolist(), strict=True):
        axes.plot(key[shown], color=class_colour(label), linewidth=1.0, marker=".", markersize=4, alpha=0.8)
    style_axes(axes, label_size=7.5)
    label_columns(axes, [columns.features[place] for place in shown.tolist()])


def label_columns(axes: Axes, words: Sequence[str]) -> None:
    """Write what each place on the horizontal axis stands for: obliquely, or upright if it is more than a few."""
    is_few = len(words) <= _FEW
    names = [clean_text(word) for word in words]
    axes.set_xticks(range(len(names)), names, fontsize=7.0 if is_few else 6.0, parse_math=False)
    axes.tick_params(axis="x", rotation=30 if is_few else 90)
    for label in axes.get_xticklabels():
        label.set_horizontalalignment("right" if is_few else "center")


def _draw_pair(axes: Axes, model: Model, dataset: Dataset, pair: Sequence[int], columns: Columns) -> None:
    rows, keys = (dataset.scaling.invert(part)[:, pair] for part in (dataset.train.inputs, model.keys))
    colours = [class_colour(label) for label in dataset.train.labels.tolist()]
    axes.scatter(rows[:, 0], rows[:, 1], s=7, c=colours, alpha=0.45, linewidths=0)
    own = [class_colour(label) for label in model.values.argmax(1).tolist()]
    axes.scatter(keys[:, 0], keys[:, 1], s=42, marker="D", c=own, edgecolors=INK, linewidths=0.9)
    style_axes(axes, label_size=7.5)
    for axis, place in zip((axes.xaxis, axes.yaxis), pair, strict=True):
        axis.set_label_text(columns.features[place], fontsize=8, color=QUIET)
    axes.set_facecolor(PAPER)
