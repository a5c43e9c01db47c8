"""Attention by class in each layer of recorded networks, for one test image of each data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError, RecordingError
from idwbench.explanations.explanation import CURVE_SIZE, Explanation
from idwbench.explanations.memory import Outputs, Request, task_names
from idwbench.figures.explanations import draw_class_bars, draw_class_curves, draw_query
from idwbench.figures.runs import Selection, first_run
from idwbench.figures.style import INK, QUIET, new_page
from idwbench.figures.tiles import WRONG
from idwbench.report.labels import count_label
from idwbench.results.records import StoredRun
from idwbench.runs.kinds.mlp import MlpConfig

__all__ = ["attention_by_class_figure", "collect_attention", "draw_attention_by_class", "first_wrong_row"]

_MOST_PANELS = 4
_WIDTH, _BLOCK, _SIDE = 10.0, 3.4, 1.5  # inches: of the figure, height of a block, and width of its image


def attention_by_class_figure(selection: Selection) -> Figure:
    """The largest attentions and the total attention of each class in each layer, for the lowest seed of each setting.

    The test image is the first one of the first part of the data that is answered wrongly.

    Raises:
        ConfigError: no complete run of kind ``mlp`` has a recording, or the inputs are not images.
    """
    panels, sources = collect_attention(selection)
    if any(explained.image_shape is None for explained in panels):
        raise ConfigError("the figure needs images")
    return draw_attention_by_class(panels, sources)


def collect_attention(selection: Selection, top: int = 1) -> tuple[list[Explanation], list[str]]:
    """Return an explained answer of each recorded network, and their data sets and protocols.

    An answer has the `top` training samples with the largest attention of each layer.

    Raises:
        ConfigError: no complete run of kind ``mlp`` has a recording.
    """
    sections = selection.sections(selection.of_kind("mlp"))
    rows = [(section, row) for section in sections for row in section.rows if row.n]
    rows = [(section, row) for section, row in rows if isinstance(row.model, MlpConfig) and row.model.record]
    if len(rows) > _MOST_PANELS:
        selection.leave_out(count_label(len(rows) - _MOST_PANELS, "other setting"))
    panels, missing = [], []
    for section, row in rows[:_MOST_PANELS]:
        try:
            panels.append(_explained(selection, first_run(row), top))
        except RecordingError as error:
            missing.append(f"{section.config.dataset_label}: {error}")
    if not panels:
        problem = missing[0] if missing else "no complete run of kind 'mlp' was recorded"
        raise ConfigError(problem)
    selection.leave_out(*missing)
    return panels, list(dict.fromkeys(section.title for section, _ in rows[:_MOST_PANELS]))


def _explained(selection: Selection, run: StoredRun, top: int) -> Explanation:
    from idwbench.dual.recording import open_recording
    from idwbench.explanations.explain import explain_memory
    from idwbench.explanations.training_data import history_memory

    recording = open_recording(selection.store, run)
    data_dir, load = selection.data_dir, cache(load_dataset)
    dataset = load(run.config.dataset, data_dir)
    memory = history_memory(run.config, recording, dataset)
    row = first_wrong_row(dataset, memory.outputs)
    request = Request(f"{run.config.dataset_label}:test:{row}", top=top, data_dir=data_dir, load=load)
    explained = explain_memory(memory, request)
    parts = ", ".join(task_names(run.config))  # of the data: sequence (mnist, fashion_mnist)
    label = f"{run.config.dataset_label} ({parts})" if parts else run.config.dataset_label
    return replace(explained, model=f"{label} · {explained.model}")


def first_wrong_row(dataset: Dataset, outputs: Outputs) -> int:
    """Return the first test row of the first part of the data that is answered wrongly; the first row if none is."""
    test = dataset.test
    wrong = outputs(test.inputs).argmax(1) != test.labels
    if test.tasks is not None:
        wrong &= test.tasks == 0
    return int(np.argmax(wrong))


def draw_attention_by_class(panels: Sequence[Explanation], sources: Sequence[str] = ()) -> Figure:
    """Return a figure with a block for each answer: the image, and for each layer curves and totals by class."""
    note = (
        f"curves: the largest attentions of single slots of each class, at most {CURVE_SIZE}, in decreasing order; "
        "bars: total attention of each class; bold: the class that is answered"
    )
    figure, body = new_page(_WIDTH, len(panels) * _BLOCK, [note, *sources])
    parts = body.subfigures(len(panels), 1, squeeze=False)
    for part, explained in zip(parts[:, 0], panels, strict=True):
        part.suptitle(explained.model, x=0.01, ha="left", fontsize=11, weight="bold", color=INK)
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
