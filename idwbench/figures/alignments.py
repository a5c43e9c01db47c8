"""The figures of networks that write one sequence for another: alignments, and accuracy by length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from idwbench.errors import ConfigError
from idwbench.figures.lines import DASHES, Axis, Line, Panel, PanelRow, draw_rows, line_of_seeds
from idwbench.figures.runs import Selection, first_run, row_label
from idwbench.figures.style import INK, class_colour, new_page, seeds_label, style_axes
from idwbench.report.by_dataset import section_headers
from idwbench.report.frame import Row
from idwbench.report.labels import count_label
from idwbench.report.summaries import Section
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
    n_more = sum(len(rows[_MOST_COLUMNS:]) for _, rows in looked_up) + sum(
        len(rows) for _, rows in looked_up[_MOST_ROWS:]
    )
    selection.leave_out(count_label(n_more, "other model") if n_more else "")
    shown = [(one, rows[:_MOST_COLUMNS]) for one, rows in looked_up[:_MOST_ROWS]]
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
    for axes, row, model in zip(line, rows, models, strict=False):
        written = model.write(text)
        assert written.weights is not None
        axes.imshow(written.weights, cmap="Greys", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        axes.set_xticks(range(len(text)), [*text])
        axes.set_yticks(range(len(written.weights)), [*written.text, "end"][: len(written.weights)])
        style_axes(axes, has_grid=False)
        method, _, others = row_label(row).partition(", ")
        alignment = 100 * (first_run(row).metric("alignment") or 0.0)
        axes.set_title(
            "\n".join([method, " · ".join(filter(None, [others, f"{alignment:.0f} %"]))]), fontsize=9, color=INK
        )
    line[0].set_ylabel(section.config.dataset_label, fontsize=10, color=INK)
    for axes in line[len(rows) :]:
        axes.set_axis_off()


def accuracy_by_length_figure(selection: Selection) -> Figure:
    """Exact match against the length of the source, over seeds; one panel for each data set.

    Raises:
        ConfigError: no run of this kind is complete.
    """
    panels, left_out, n_seeds = [], 0, set()
    sections = selection.sections(selection.of_kind(_KIND))
    labels = list(dict.fromkeys(row_label(row) for section in sections for row in section.rows if row.n))
    for header, section in zip(section_headers(sections), sections, strict=True):
        rows = [row for row in section.rows if row.n]
        left_out += sum(labels.index(row_label(row)) >= _MOST_LINES for row in rows)
        chosen = [row for row in rows if labels.index(row_label(row)) < _MOST_LINES]
        n_seeds |= {row.n for row in chosen}
        config = section.config.dataset
        assert isinstance(config, SequencePairsConfig)
        title = f"{header} ({config.shortest} to {config.longest})"
        panels.append(Panel(title, [_line(selection, row, labels.index(row_label(row))) for row in chosen]))
    selection.leave_out(count_label(left_out, "other model") if left_out else "")
    caption = (
        f"line: mean over {seeds_label(n_seeds)}; band: mean ± sample standard deviation, within their range; "
        "in brackets the lengths of the training"
    )
    x, y = Axis("letters of the source"), Axis("exact match in %", percent=True, limits=(-2, 102))
    return draw_rows([PanelRow("", y, panels[:_MOST_ROWS])], x, [caption], shared=True, height=2.6)


def _line(selection: Selection, row: Row, place: int) -> Line:
    """Return the line of a model; `place` is its colour and dash."""
    values: dict[float, dict[int, float]] = {}
    for run in row.complete:
        arrays = selection.store.load_arrays(run.run_key)
        for length, value in zip(arrays["lengths"], arrays["exact_match_by_length"], strict=True):
            values.setdefault(float(length), {})[run.config.seed] = float(value)
    return line_of_seeds(row_label(row), class_colour(place), DASHES[place // 5 % len(DASHES)], values)
