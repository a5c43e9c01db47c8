"""Attention by class of stored runs of kind ``mlp`` with a recording, for one test image of each data set."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError, RecordingError
from idwbench.explanations.memory import Outputs, Request, task_names
from idwbench.figures.attention_by_class import AttentionPanel, draw_attention_by_class
from idwbench.figures.registry import figure_of_runs
from idwbench.figures.runs import runs_of_row, select_runs_of_kind
from idwbench.figures.style import Drawing
from idwbench.report.frame import Row
from idwbench.report.labels import count_label
from idwbench.results.records import StoredRun
from idwbench.runs.kinds.mlp import MlpConfig

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["attention_by_class_figure", "attention_panels", "first_wrong_row"]

_MOST_PANELS = 4


@figure_of_runs("attention_by_class")
def attention_by_class_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """The largest attentions and the total attention of each class in each layer, for the lowest seed of each setting.

    The test image is the first one of the first part of the data that is answered wrongly.

    Raises:
        ConfigError: no complete run of kind ``mlp`` has a recording, or the inputs are not images.
    """
    panels, sources, left_out = attention_panels(store, runs, data_dir)
    return Drawing(draw_attention_by_class(panels, sources=sources), left_out)


def attention_panels(
    store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None, top: int = 1
) -> tuple[list[AttentionPanel], tuple[str, ...], tuple[str, ...]]:
    """Return the panels of the figure, their data sets and protocols, and what is left out.

    A panel has the `top` training samples with the largest attention of each layer.

    Raises:
        ConfigError: no complete run of kind ``mlp`` has a recording, or the inputs are not images.
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
    return AttentionPanel(f"{_data_label(run)} · {explained.model}", explained)


def _data_label(run: StoredRun) -> str:
    """Return the name of the data, with its parts: ``sequence (mnist, fashion_mnist)``."""
    parts = ", ".join(task_names(run.config))
    return f"{run.config.dataset_label} ({parts})" if parts else run.config.dataset_label


def first_wrong_row(dataset: Dataset, outputs: Outputs) -> int:
    """Return the first test row of the first part of the data that is answered wrongly; the first row if none is."""
    test = dataset.test
    wrong = outputs(test.inputs).argmax(1) != test.labels
    if test.tasks is not None:
        wrong &= test.tasks == 0
    return int(np.argmax(wrong))
