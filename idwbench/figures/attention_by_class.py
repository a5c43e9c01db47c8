"""Attention by class in each layer of recorded networks, for one test image of each data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import EngFormatter, MaxNLocator
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError, RecordingError
from idwbench.explanations.explanation import CURVE_SIZE, Explanation
from idwbench.explanations.memory import Outputs, Request, task_names
from idwbench.figures.registry import figure_of_runs
from idwbench.figures.runs import runs_of_row, select_runs_of_kind
from idwbench.figures.style import INK, QUIET, RULE, Drawing, class_colour, clean_text, new_page, style_axes
from idwbench.figures.tiles import WRONG, Picture, Tile, draw_tiles
from idwbench.report.frame import Row
from idwbench.report.labels import count_label
from idwbench.results.records import StoredRun
from idwbench.runs.kinds.mlp import MlpConfig

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = [
    "AttentionPanel",
    "attention_by_class_figure",
    "collect_attention",
    "draw_attention_by_class",
    "draw_class_bars",
    "draw_class_curves",
    "first_wrong_row",
]

_MOST_PANELS = 4
_WIDTH, _BLOCK, _SIDE = 10.0, 3.4, 1.5  # inches: of the figure, height of a block, and width of its image
_LABEL = 7.5  # points


@dataclass(frozen=True)
class AttentionPanel:
    """An explained answer of a recorded network."""

    title: str
    explained: Explanation


@figure_of_runs("attention_by_class")
def attention_by_class_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """The largest attentions and the total attention of each class in each layer, for the lowest seed of each setting.

    The test image is the first one of the first part of the data that is answered wrongly.

    Raises:
        ConfigError: no complete run of kind ``mlp`` has a recording, or the inputs are not images.
    """
    panels, sources, left_out = collect_attention(store, runs, data_dir)
    if any(panel.explained.image_shape is None for panel in panels):
        raise ConfigError("the figure needs images", location=("figure",))
    return Drawing(draw_attention_by_class(panels, sources), left_out)


def collect_attention(
    store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None, top: int = 1
) -> tuple[list[AttentionPanel], tuple[str, ...], tuple[str, ...]]:
    """Return the panels of the figure, their data sets and protocols, and what is left out.

    A panel has the `top` training samples with the largest attention of each layer.

    Raises:
        ConfigError: no complete run of kind ``mlp`` has a recording.
    """
    selection = select_runs_of_kind(runs, "mlp")
    panels, left_out, missing = [], list(selection.left_out), []
    rows = [(section, row) for section in selection.sections for row in section.rows if row.n and _is_recorded(row)]
    if len(rows) > _MOST_PANELS:
        left_out.append(f"not drawn: {count_label(len(rows) - _MOST_PANELS, 'other setting')}")
    for section, row in rows[:_MOST_PANELS]:
        run = min(runs_of_row(selection.runs, section, row), key=lambda run: run.config.seed)
        try:
            panels.append(_panel(store, run, data_dir, top))
        except RecordingError as error:
            missing.append(f"not drawn: {section.dataset}: {error}")
    if not panels:
        problem = missing[0].removeprefix("not drawn: ") if missing else "no complete run of kind 'mlp' was recorded"
        raise ConfigError(problem, location=("figure",))
    titles = dict.fromkeys(section.title for section, _ in rows[:_MOST_PANELS])
    return panels, tuple(titles), (*left_out, *missing)


def _is_recorded(row: Row) -> bool:
    return isinstance(row.model, MlpConfig) and row.model.record


def _panel(store: Results, run: StoredRun, data_dir: Path | None, top: int) -> AttentionPanel:
    from idwbench.dual.recording import open_recording
    from idwbench.explanations.explain import explain_memory
    from idwbench.explanations.training_data import history_memory

    recording = open_recording(store, run)
    load = cache(load_dataset)
    dataset = load(run.config.dataset, data_dir)
    memory = history_memory(run.config, recording, dataset)
    row = first_wrong_row(dataset, memory.outputs)
    request = Request(f"{run.config.dataset_label}:test:{row}", top=top, data_dir=data_dir, load=load)
    explained = explain_memory(memory, request)
    parts = ", ".join(task_names(run.config))  # of the data: sequence (mnist, fashion_mnist)
    label = f"{run.config.dataset_label} ({parts})" if parts else run.config.dataset_label
    return AttentionPanel(f"{label} · {explained.model}", explained)


def first_wrong_row(dataset: Dataset, outputs: Outputs) -> int:
    """Return the first test row of the first part of the data that is answered wrongly; the first row if none is."""
    test = dataset.test
    wrong = outputs(test.inputs).argmax(1) != test.labels
    if test.tasks is not None:
        wrong &= test.tasks == 0
    return int(np.argmax(wrong))


def draw_attention_by_class(panels: Sequence[AttentionPanel], sources: Sequence[str] = ()) -> Figure:
    """Return a figure with a block for each answer: the image, and for each layer curves and totals by class."""
    note = (
        f"curves: the largest attentions of single slots of each class, at most {CURVE_SIZE}, in decreasing order; "
        "bars: total attention of each class; bold: the class that is answered"
    )
    figure, body = new_page(_WIDTH, len(panels) * _BLOCK, [note, *sources])
    parts = body.subfigures(len(panels), 1, squeeze=False)
    for part, panel in zip(parts[:, 0], panels, strict=True):
        part.suptitle(panel.title, x=0.01, ha="left", fontsize=11, weight="bold", color=INK)
        left, right = part.subfigures(1, 2, squeeze=False, width_ratios=(_SIDE, _WIDTH - _SIDE))[0]
        _draw_query(left.subplots(), panel.explained)
        _draw_layers(right, panel.explained)
    return figure


def _draw_query(axes: Axes, explained: Explanation) -> None:
    shape, query = explained.image_shape, explained.query
    assert shape is not None
    aspect = shape[0] / shape[1]
    draw_tiles(axes, [Tile((Picture(query.picture.reshape(shape), INK),))], 1, aspect)
    is_wrong = query.label != explained.answer.label
    lines = [
        (query.text, QUIET),
        (f"target {explained.class_name(query.label)}", WRONG if is_wrong else INK),
        (f"answer {explained.class_name(explained.answer.label)}", INK),
    ]
    for number, (text, colour) in enumerate(lines):
        axes.text(0, aspect + 0.1 + 0.19 * number, text, va="top", fontsize=8.5, color=colour).set_in_layout(False)


def _draw_layers(part: SubFigure, explained: Explanation) -> None:
    n = len(explained.layers)
    grid = part.subplots(2, n, squeeze=False)
    for place, layer in enumerate(explained.layers):
        draw_class_curves(grid[0, place], layer.curves)
        grid[0, place].set_title(layer.name, fontsize=9.5, color=INK, loc="left")
        width = (_WIDTH - _SIDE) / n - 0.5
        draw_class_bars(grid[1, place], layer.totals, explained.class_names, width, marked=explained.answer.label)


def draw_class_bars(
    axes: Axes,
    heights: NDArray[np.floating],
    names: Sequence[str],
    width: float,
    *,
    marked: int | None = None,
    after: NDArray[np.floating] | None = None,
) -> None:
    """Draw a bar (classes,) for each class in its colour.

    Args:
        axes: The panel.
        heights: (classes,).
        names: Names of the classes, upright if they are wider than the bars.
        width: About that of the panel, in inches.
        marked: The class whose name is bold.
        after: Heights of a second bar beside each first one, which then is hollow.
    """
    places = range(len(heights))
    colours = [class_colour(place) for place in places]
    if after is None:
        axes.bar(places, heights, 0.72, color=colours)
    else:
        axes.bar([place - 0.2 for place in places], heights, 0.36, facecolor="none", edgecolor=colours, linewidth=1.0)
        axes.bar([place + 0.2 for place in places], after, 0.36, color=colours)
    style_axes(axes, label_size=_LABEL)
    axes.grid(False, axis="x")
    axes.axhline(0, color=RULE, linewidth=0.8)
    axes.set_xlim(-0.6, len(heights) - 0.4)
    _style_numbers(axes)
    fits = width / len(heights) >= max(map(len, names)) * 0.7 * _LABEL / 72
    shown = [clean_text(name) for name in names]
    axes.set_xticks(places, shown, rotation=0 if fits else 90, fontsize=_LABEL if fits else 6.5, parse_math=False)
    for place, label in enumerate(axes.get_xticklabels()):
        label.set(color=colours[place], weight="bold" if place == marked else "normal")


def draw_class_curves(axes: Axes, curves: Sequence[NDArray[np.floating]]) -> None:
    """Draw for each class its largest attentions, (n,) in decreasing order, in its colour."""
    for label, curve in enumerate(curves):
        marker = "o" if len(curve) <= 20 else ""
        axes.plot(np.arange(1, len(curve) + 1), curve, color=class_colour(label), linewidth=1.2, marker=marker, ms=2.5)
    style_axes(axes, label_size=_LABEL)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.set_xlim(left=0)
    _style_numbers(axes)


def _style_numbers(axes: Axes) -> None:
    """Write few numbers on the vertical axis, thousands as 20k."""
    axes.yaxis.set_major_locator(MaxNLocator(4))
    low, high = axes.get_ylim()
    if max(abs(low), abs(high)) >= 1000:
        axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.tick_params(axis="y", colors=QUIET)
    axes.tick_params(axis="x", colors=INK, length=0)
