"""The figures of networks that write one sequence for another: alignments, and accuracy by length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from idwbench.errors import ConfigError
from idwbench.figures.lines import Axis, Panel, PanelRow, draw_rows, lines_of, place_styles
from idwbench.figures.runs import Selection, first_run, row_labels
from idwbench.figures.style import INK, new_page, style_axes
from idwbench.report.frame import Row
from idwbench.report.summaries import Section, section_headers
from idwbench.runs.dataset_base import SequencePairsConfig
from idwbench.runs.kinds.sequence_to_sequence import SequenceToSequenceConfig

__all__ = ["accuracy_by_length_figure", "alignment_figure"]

_KIND = "sequence_to_sequence"
_MOST_COLUMNS, _MOST_LINES, _MOST_ROWS = 4, 10, 4
_INCHES = 2.35  # of a map with its labels


def alignment_figure(selection: Selection) -> Figure:
    """Weights of the source's letters for each letter that a network writes; a row for each data set.

    The source is the longest that the first network of a row writes right, the first of these of the test data; the
    networks are those of the lowest seed.

    Raises:
        ConfigError: no run of this kind with a look-up is complete.
    """
    sections = selection.sections(selection.of_kind(_KIND))
    looked_up = [(one, [row for row in one.rows if row.n and row.model.method != "context_vector"]) for one in sections]
    looked_up = [(one, rows) for one, rows in looked_up if rows]
    if not looked_up:
        raise ConfigError("one context vector has no alignment, and no other run is complete")
    shown = [
        (one, selection.first(rows, _MOST_COLUMNS, "other model"))
        for one, rows in selection.first(looked_up, _MOST_ROWS, "other data set or protocol")
    ]
    columns = max(len(rows) for _, rows in shown)
    caption = (
        "rows: the letters that the network writes, and the end; columns: the letters that it reads; "
        "black is weight 1; in percent the mean weight of the right letters over all test data"
    )
    figure, body = new_page(max(columns, 2) * _INCHES, len(shown) * (_INCHES + 0.2), [caption])
    grid = body.subplots(len(shown), columns, squeeze=False)
    for line, (section, rows) in zip(grid, shown, strict=True):
        _draw_maps(line, selection, section, rows)
    return figure


def _draw_maps(line: Sequence[Axes], selection: Selection, section: Section, rows: Sequence[Row]) -> None:
    """Draw the maps of the models of one data set."""
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


def accuracy_by_length_figure(selection: Selection) -> Figure:
    """Exact match against the length of the source, over seeds; one panel for each data set.

    Raises:
        ConfigError: no run of this kind is complete.
    """
    sections = selection.sections(selection.of_kind(_KIND))
    rows = [(section, row) for section in sections for row in section.rows if row.n]
    labels = row_labels([row for _, row in rows])
    styles = place_styles(selection.first([*dict.fromkeys(labels)], _MOST_LINES, "other model"))
    panels = []
    for header, section in zip(section_headers(sections), sections, strict=True):
        config = section.config.dataset
        assert isinstance(config, SequencePairsConfig)
        own = [(row, label) for (of, row), label in zip(rows, labels, strict=True) if of is section and label in styles]
        points = (point for row, label in own for point in _points(selection, row, label))
        panels.append(Panel(f"{header} ({config.shortest} to {config.longest})", lines_of(points, styles)))
    shown = selection.first(panels, _MOST_ROWS, "other data set or protocol")
    x, y = Axis("letters of the source"), Axis("exact match in %", percent=True, limits=(-2, 102))
    caption = ["in brackets the lengths of the training"]
    return draw_rows([PanelRow("", y, shown)], x, caption, shared=True, height=2.6)


def _points(selection: Selection, row: Row, label: str) -> Iterator[tuple[str, float, int, float]]:
    """Yield the exact match of the seeds of a model by length."""
    for run in row.complete:
        arrays = selection.store.load_arrays(run.run_key)
        for length, value in zip(arrays["lengths"], arrays["exact_match_by_length"], strict=True):
            yield label, float(length), run.config.seed, float(value)
