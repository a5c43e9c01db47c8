"""The figure of statistics of layers: scores, weights and gradients against the step of the training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.errors import ConfigError
from idwbench.figures.lines import DASHES, Axis, Line, Panel, PanelRow, draw_rows, line_of_seeds
from idwbench.figures.runs import Selection
from idwbench.figures.style import class_colour, seeds_label
from idwbench.report.frame import Row
from idwbench.report.labels import count_label
from idwbench.runs.metrics import LAYER_STATISTICS

__all__ = ["layer_statistics_figure"]

_AXES = {
    "score_variance": Axis("variance of scores", base=10),
    "weight_entropy": Axis("entropy in nats"),
    "gradient_norm": Axis("gradient", base=10),
    "score_gradient_norm": Axis("gradient by scores", base=10),
}
_MOST_LINES, _MOST_LAYERS = 10, 5

Arrays = Mapping[str, NDArray[np.generic]]


def layer_statistics_figure(selection: Selection) -> Figure:
    """Variance of scores, entropy of weights and norms of gradients by layer against the step; a row for each.

    The layers are those with scores, or all layers if none has; the models those of the first data set and protocol.

    Raises:
        ConfigError: no complete run has the statistics.
    """
    runs = [run for run in selection.runs if getattr(run.config.model, "statistics", False)]
    if not any(run.state == "complete" for run in runs):
        raise ConfigError("no complete run has statistics of layers", hint="train networks with statistics: true")
    section = selection.first_section(runs)
    rows = [row for row in section.rows if row.n]
    selection.leave_out(*([count_label(len(rows) - _MOST_LINES, "other model")] if rows[_MOST_LINES:] else []))
    rows = rows[:_MOST_LINES]
    arrays = {run.run_key: selection.store.load_arrays(run.run_key) for row in rows for run in row.complete}
    layers = _layers([*arrays.values()])
    selection.leave_out(*([f"layers {', '.join(layers[_MOST_LAYERS:])}"] if layers[_MOST_LAYERS:] else []))
    labels = _labels(rows)
    lines = {
        name: [Panel(layer, _lines(rows, labels, arrays, name, layer)) for layer in layers[:_MOST_LAYERS]]
        for name in LAYER_STATISTICS
    }
    panels = [PanelRow("", _AXES[name], each) for name, each in lines.items() if any(panel.lines for panel in each)]
    caption = (
        f"{section.title}; line: mean over {seeds_label({row.n for row in rows})}, of logarithms where the axis has "
        "them; gradient: norm of that of a batch's mean loss by all parameters of the layer, and by those that act "
        "through the scores alone"
    )
    steps = sorted({step for each in arrays.values() for step in each["statistics.steps"].tolist()})
    return draw_rows(panels, Axis("updates", base=10, ticks=_ticks(steps)), [caption], height=1.9)


def _ticks(steps: Sequence[int]) -> list[int]:
    """Return 0 and the powers of ten among the steps."""
    return [step for step in steps if step == 0 or step == 10 ** (len(str(step)) - 1)]


def _names(arrays: Arrays) -> list[str]:
    return arrays["statistics.layers"].tobytes().decode().split("\n")


def _layers(every: Sequence[Arrays]) -> list[str]:
    """Return the layers that have scores in some run, or all layers if none has."""
    names = list(dict.fromkeys(name for arrays in every for name in _names(arrays)))
    scored = {
        name
        for arrays in every
        for name, column in zip(_names(arrays), np.transpose(arrays["statistics.score_variance"]), strict=True)
        if np.isfinite(np.asarray(column, np.float64)).any()
    }
    return [name for name in names if name in scored or not scored]


def _lines(
    rows: Sequence[Row], labels: Sequence[str], arrays: Mapping[str, Arrays], statistic: str, layer: str
) -> list[Line]:
    """Return a line for each model that has the layer and the statistic there."""
    lines = []
    for place, row in enumerate(rows):
        values: dict[float, dict[int, float]] = {}
        for seed, run in enumerate(row.complete):
            one = arrays[run.run_key]
            if layer not in _names(one):
                continue
            column: Any = one[f"statistics.{statistic}"][:, _names(one).index(layer)]
            for step, value in zip(one["statistics.steps"].tolist(), column.tolist(), strict=True):
                values.setdefault(step, {})[seed] = value
        # A statistic that is 0 has no logarithm: the gradient of values that do not depend on the scores.
        is_geometric = _AXES[statistic].base is not None
        values = {step: {s: v for s, v in own.items() if v > 0 or not is_geometric} for step, own in values.items()}
        if any(np.isfinite(value) for own in values.values() for value in own.values()):
            dash = DASHES[place // 5 % len(DASHES)]
            lines.append(line_of_seeds(labels[place], class_colour(place), dash, values, geometric=is_geometric))
    return lines


def _labels(rows: Sequence[Row]) -> list[str]:
    """Return method and settings of each row, without settings that all rows have if there are several."""
    words = [[word for word in row.model.parameters_label.split(", ") if word != "statistics"] for row in rows]
    shared = set.intersection(*map(set, words)) if len(rows) > 1 else set()
    return [
        " ".join([row.model.method, ", ".join(word for word in own if word not in shared)]).strip()
        for row, own in zip(rows, words, strict=True)
    ]
