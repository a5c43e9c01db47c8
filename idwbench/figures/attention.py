"""What trained networks attend to: a perceptron to the classes of its training, a sequence network to its source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset
from idwbench.errors import ConfigError, RecordingError
from idwbench.explanations.explanation import Explanation
from idwbench.explanations.memory import Outputs, Request, task_names
from idwbench.figures.explanations import draw_explanation
from idwbench.figures.runs import Selection, first_run, row_labels
from idwbench.figures.style import (
    INK,
    PAPER,
    QUIET,
    RULE,
    class_colour,
    new_page,
    seeds_label,
    style_axes,
    titled_parts,
)
from idwbench.report.frame import Row
from idwbench.report.labels import count_label
from idwbench.report.summaries import Section
from idwbench.results.records import StoredRun
from idwbench.runs.config import RunConfig
from idwbench.runs.dataset_base import SequencePairsConfig
from idwbench.runs.datasets import PartsConfig
from idwbench.runs.kinds.mlp import MlpConfig
from idwbench.runs.kinds.sequence_to_sequence import SequenceToSequenceConfig

__all__ = [
    "alignment_figure",
    "attended_classes_figure",
    "attention_by_class_figure",
    "collect_attention",
    "first_wrong_row",
]

_WIDTH = 10.0  # inches
_MAP = 2.75  # inches: height of a map of classes
_ALIGNMENT = 2.35  # inches: of an alignment with its labels
_MOST_PANELS, _MOST_SETTINGS, _MOST_COLUMNS = 4, 2, 4
_ARRAY = "attended_classes"
_COLOURS = LinearSegmentedColormap.from_list("idwbench_shares", [PAPER, class_colour(0), INK]).with_extremes(bad=RULE)
_SHARES = PowerNorm(0.5, 0, 1)


def attention_by_class_figure(selection: Selection) -> Figure:
    """The largest attentions and the total attention of each class in each layer, for the lowest seed of each setting.

    The test image is the first one of the first part of the data that is answered wrongly.

    Raises:
        ConfigError: no complete run of kind ``mlp`` on images has a recording.
    """
    panels, sources = collect_attention(selection)
    return draw_explanation(*panels, sources=sources)


def collect_attention(selection: Selection, top: int = 5) -> tuple[list[Explanation], list[str]]:
    """Return an explained answer to an image of each recorded network, and their data sets and protocols.

    An answer has the `top` training samples with the largest attention of each layer.

    Raises:
        ConfigError: no complete run of kind ``mlp`` on images has a recording.
    """
    sections = selection.sections(selection.of_kind("mlp"))
    rows = [(one, row) for one in sections for row in one.rows if row.n and getattr(row.model, "record", False)]
    rows = selection.first(rows, _MOST_PANELS, "other setting")
    panels, missing = [], []
    for section, row in rows:
        try:
            panels.append(_explained(selection, first_run(row), top))
        except (ConfigError, RecordingError) as error:
            missing.append(f"{section.config.dataset_label}: {error.problem}")
    if not panels:
        raise ConfigError(missing[0] if missing else "no complete run of kind 'mlp' was recorded")
    selection.leave_out(*missing)
    return panels, list(dict.fromkeys(section.title for section, _ in rows))


def _explained(selection: Selection, run: StoredRun, top: int) -> Explanation:
    """Return the explained answer; raises `RecordingError` without a recording, `ConfigError` without images."""
    from idwbench.dual.recording import open_recording
    from idwbench.explanations.explain import explain_memory
    from idwbench.explanations.training_data import history_memory

    recording, dataset = open_recording(selection.store, run), selection.dataset(run.config.dataset)
    if dataset.image_shape is None:
        raise ConfigError("the figure needs images")
    memory = history_memory(run.config, recording, dataset)
    row = first_wrong_row(dataset, memory.outputs)
    request = Request(f"{run.config.dataset_label}:test:{row}", top=top, load=lambda config, folder: dataset)
    explained = explain_memory(memory, request)
    return replace(explained, model=f"{_data_label(run.config)} · {explained.model}")


def _data_label(config: RunConfig) -> str:
    """Return ``sequence (mnist, fashion_mnist)``, or the name of data of one part."""
    parts = ", ".join(task_names(config))
    return f"{config.dataset_label} ({parts})" if parts else config.dataset_label


def first_wrong_row(dataset: Dataset, outputs: Outputs) -> int:
    """Return the first test row of the first part of the data that is answered wrongly; the first row if none is."""
    test = dataset.test
    wrong = outputs(test.inputs).argmax(1) != test.labels
    if test.tasks is not None:
        wrong &= test.tasks == 0
    return int(np.argmax(wrong))


def attended_classes_figure(selection: Selection) -> Figure:
    """The share of the test inputs of each class whose largest total attention goes to each class of the training.

    Classes of different parts of the data are apart, and right and wrong answers too; inputs of all seeds together.

    Raises:
        ConfigError: no complete run of kind ``mlp`` on a joint or sequence data set has these numbers.
    """
    rows = [row for section in selection.sections(selection.of_kind("mlp")) for row in section.rows if row.n]
    known = []
    for row in (row for row in rows if isinstance(row.config.dataset, PartsConfig)):
        stored = (selection.store.load_arrays(run.run_key).get(_ARRAY) for run in row.complete)
        if counts := [one.astype(np.float64) for one in stored if one is not None]:
            known.append((row, counts))
    if not known:
        hint = "run the sweep dual_parts, or train joint and sequence data sets again"
        raise ConfigError(f"no complete run on data of several parts has the array {_ARRAY}", hint=hint)
    if missing := len(rows) - len(known):
        selection.leave_out(f"{count_label(missing, 'setting')} without several parts or without the array {_ARRAY}")
    shown = selection.first(known, _MOST_SETTINGS, "other setting")
    caption = (
        "row: a class of the test inputs, with right or with wrong answers; column: the class of the training to which "
        "their largest total attention in the layer goes; colour: share of the inputs of the row, "
        f"{seeds_label({len(counts) for _, counts in shown})} together; grey: no such input"
    )
    figure, body = new_page(_WIDTH, len(shown) * (2 * _MAP + 0.75), [caption])
    parts = titled_parts(body, [f"{_data_label(row.config)} · {row.model.parameters_label}" for row, _ in shown])
    for part, (row, counts) in zip(parts, shown, strict=True):
        _draw_attended_classes(part, row, np.sum(counts, axis=0))
    return figure


def _draw_attended_classes(part: SubFigure, row: Row, counts: NDArray[np.float64]) -> None:
    """Draw a map for each layer, that of right answers above that of wrong ones."""
    dataset, model = row.config.dataset, row.model
    assert isinstance(dataset, PartsConfig) and isinstance(model, MlpConfig)
    numbers = counts.sum(-1, keepdims=True)
    by_answers = np.divide(counts, numbers, out=np.full_like(counts, np.nan), where=numbers > 0)
    grid = part.subplots(2, len(model.layer_names), squeeze=False)
    for line, answers, shares in zip(grid, ("right", "wrong"), by_answers, strict=True):
        for axes, layer, own in zip(line, model.layer_names, shares, strict=True):
            _draw_map(axes, own, dataset.of)
            axes.set_title(f"{layer} · {answers} answers", fontsize=9.5, color=INK, loc="left")
    scale = ScalarMappable(_SHARES, _COLOURS)
    bar = part.colorbar(scale, ax=grid, shrink=0.5, aspect=28, pad=0.01, format=PercentFormatter(1, 0, " %"))
    bar.set_ticks([0, 0.05, 0.2, 0.5, 1])
    bar.ax.tick_params(labelsize=7.5, colors=QUIET, length=2)
    bar.outline.set_visible(False)


def _draw_map(axes: Axes, shares: NDArray[np.float64], parts: Sequence[str]) -> None:
    """Draw shares (classes, classes) with the numbers of the classes, and the names of their parts."""
    n = len(shares)
    n_classes = n // len(parts)
    axes.imshow(shares, cmap=_COLOURS, norm=_SHARES, interpolation="nearest")
    digits = [str(place % n_classes) for place in range(n)]
    axes.set_xticks(range(n), digits)
    axes.set_yticks(range(n), digits)
    axes.tick_params(labelsize=5.5, colors=QUIET, length=0, pad=1.5)
    for place in range(1, len(parts)):
        axes.axhline(place * n_classes - 0.5, color=QUIET, linewidth=0.8)
        axes.axvline(place * n_classes - 0.5, color=QUIET, linewidth=0.8)
    middles = np.arange(len(parts)) * n_classes + (n_classes - 1) / 2
    axes.set_xticks(middles, parts, minor=True)
    axes.set_yticks(middles, parts, minor=True, rotation=90, va="center")
    axes.tick_params(which="minor", labelsize=7, colors=QUIET, length=0, pad=11)
    axes.spines[:].set(color=RULE)


def alignment_figure(selection: Selection) -> Figure:
    """Weights of the source's letters for each letter that a network writes; a row for each data set.

    The source is the longest that the first network of a row writes right, the first of these of the test data; the
    networks are those of the lowest seed.

    Raises:
        ConfigError: no run of this kind with a look-up is complete.
    """
    sections = selection.sections(selection.of_kind("sequence_to_sequence"))
    looked_up = [(one, [row for row in one.rows if row.n and row.model.method != "context_vector"]) for one in sections]
    looked_up = [(one, rows) for one, rows in looked_up if rows]
    if not looked_up:
        raise ConfigError("one context vector has no alignment, and no other run is complete")
    shown = [
        (one, selection.first(rows, _MOST_COLUMNS, "other model"))
        for one, rows in selection.first(looked_up, _MOST_PANELS, "other data set or protocol")
    ]
    columns = max(len(rows) for _, rows in shown)
    caption = (
        "rows: the letters that the network writes, and the end; columns: the letters that it reads; "
        "black is weight 1; in percent the mean weight of the right letters over all test data"
    )
    figure, body = new_page(max(columns, 2) * _ALIGNMENT, len(shown) * (_ALIGNMENT + 0.2), [caption])
    grid = body.subplots(len(shown), columns, squeeze=False)
    for line, (section, rows) in zip(grid, shown, strict=True):
        _draw_alignments(line, selection, section, rows)
    return figure


def _draw_alignments(line: Sequence[Axes], selection: Selection, section: Section, rows: Sequence[Row]) -> None:
    """Draw the alignments of the models of one data set."""
    from idwbench.models.sequence_to_sequence import sequence_model_from_arrays

    config = section.config.dataset
    assert isinstance(config, SequencePairsConfig)
    models = []
    for row in rows:
        assert isinstance(row.model, SequenceToSequenceConfig)
        arrays = selection.store.load_arrays(first_run(row).run_key)
        models.append(sequence_model_from_arrays(row.model, config, arrays))
    task, inputs = models[0].task, selection.dataset(config).test.inputs.astype(np.int64)
    texts = sorted((task.source.decode(source) for source in inputs.tolist()), key=len, reverse=True)
    text = next((text for text in texts if models[0].write(text).text == task.answer(text)), texts[0])
    for axes, row, label, model in zip(line, rows, row_labels(rows), models, strict=False):
        written = model.write(text)
        assert written.weights is not None
        axes.imshow(written.weights, cmap="Greys", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        axes.set_xticks(range(len(text)), [*text])
        axes.set_yticks(range(len(written.weights)), [*written.text, "end"][: len(written.weights)])
        style_axes(axes, has_grid=False)
        alignment = 100 * (first_run(row).metric("alignment") or 0.0)
        axes.set_title(f"{label}\n{alignment:.0f} %", fontsize=9, color=INK)
    line[0].set_ylabel(section.config.dataset_label, fontsize=10, color=INK)
    for axes in line[len(rows) :]:
        axes.set_axis_off()
