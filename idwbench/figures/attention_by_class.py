"""Attention by class in each layer of recorded networks, for one test image of each data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError, RecordingError
from idwbench.explanations.explanation import CURVE_SIZE, Explanation
from idwbench.explanations.memory import Outputs, Request, task_names
from idwbench.figures.explanations import draw_class_bars, draw_class_curves, draw_query
from idwbench.figures.runs import first_run, runs_of_kind, select_sections
from idwbench.figures.style import INK, QUIET, Drawing, new_page
from idwbench.figures.tiles import WRONG
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
    "first_wrong_row",
]

_MOST_PANELS = 4
_WIDTH, _BLOCK, _SIDE = 10.0, 3.4, 1.5  # inches: of the figure, height of a block, and width of its image


@dataclass(frozen=True)
class AttentionPanel:
    """An explained answer of a recorded network."""

    title: str
    explained: Explanation


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
    sections, left_out = select_sections(runs, runs_of_kind(runs, "mlp"))
    rows = [(section, row) for section in sections for row in section.rows if row.n]
    rows = [(section, row) for section, row in rows if isinstance(row.model, MlpConfig) and row.model.record]
    if len(rows) > _MOST_PANELS:
        left_out.append(f"not drawn: {count_label(len(rows) - _MOST_PANELS, 'other setting')}")
    panels, missing = [], []
    for section, row in rows[:_MOST_PANELS]:
        try:
            panels.append(_panel(store, first_run(row), data_dir, top))
        except RecordingError as error:
            missing.append(f"{section.dataset}: {error}")
    if not panels:
        problem = missing[0] if missing else "no complete run of kind 'mlp' was recorded"
        raise ConfigError(problem, location=("figure",))
    titles = dict.fromkeys(section.title for section, _ in rows[:_MOST_PANELS])
    return panels, tuple(titles), (*left_out, *(f"not drawn: {line}" for line in missing))


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
        explained = panel.explained
        part.suptitle(panel.title, x=0.01, ha="left", fontsize=11, weight="bold", color=INK)
        left, right = part.subfigures(1, 2, squeeze=False, width_ratios=(_SIDE, _WIDTH - _SIDE))[0]
        _draw_query(left.subplots(), explained)
        grid = right.subplots(2, len(explained.layers), squeeze=False)
        for (above, below), layer in zip(grid.T, explained.layers, strict=True):
            draw_class_curves(above, layer.curves)
            above.set_title(layer.name, fontsize=9.5, color=INK, loc="left")
            draw_class_bars(below, layer.totals, explained.class_names, explained.answer.label)
    return figure


def _draw_query(axes: Axes, explained: Explanation) -> None:
    draw_query(axes, explained)
    query, bottom = explained.query, axes.get_ylim()[0]
    is_wrong = query.label != explained.answer.label
    lines = [
        (query.text, QUIET),
        (f"target {explained.class_name(query.label)}", WRONG if is_wrong else INK),
        (f"answer {explained.class_name(explained.answer.label)}", INK),
    ]
    for number, (text, colour) in enumerate(lines):
        axes.text(0, bottom + 0.19 * number, text, va="top", fontsize=8.5, color=colour).set_in_layout(False)
