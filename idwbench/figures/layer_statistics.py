"""The figure of statistics of layers: scores, weights and gradients against the step of the training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.errors import ConfigError
from idwbench.figures.lines import Axis, Line, Panel, PanelRow, draw_rows, lines_of, place_styles
from idwbench.figures.runs import Selection
from idwbench.figures.style import seeds_label
from idwbench.report.frame import Row
from idwbench.runs.metrics import LAYER_STATISTICS

__all__ = ["layer_statistics_figure"]

_AXES = {
    "score_variance": Axis("variance of scores", base=10),
    "weight_entropy": Axis("entropy in nats"),
    "gradient_norm": Axis("gradient", base=10),
    "score_gradient_norm": Axis("gradient by scores", base=10),
}
_MOST_LINES, _MOST_LAYERS = 10, 5


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
    selection.leave_out_more(rows[_MOST_LINES:], "other model")
    rows = rows[:_MOST_LINES]
    labels = _labels(rows)
    table = pandas.concat(
        _measured(selection.store.load_arrays(run.run_key)).assign(model=model, seed=seed)
        for model, row in enumerate(rows)
        for seed, run in enumerate(row.complete)
    )
    scored = {*table[(table.statistic == "score_variance") & table.value.notna()].layer}
    layers = [layer for layer in table.layer.unique() if layer in scored or not scored]
    selection.leave_out(f"layers {', '.join(layers[_MOST_LAYERS:])}" if layers[_MOST_LAYERS:] else "")
    drawn = []
    for name in LAYER_STATISTICS:
        panels = [Panel(layer, _lines(table, name, layer, labels)) for layer in layers[:_MOST_LAYERS]]
        drawn += [PanelRow("", _AXES[name], panels)] if any(panel.lines for panel in panels) else []
    caption = (
        f"{section.title}; line: mean over {seeds_label({row.n for row in rows})}, of logarithms where the axis has "
        "them; gradient: norm of that of a batch's mean loss by all parameters of the layer, and by those that act "
        "through the scores alone"
    )
    # 0 and the powers of ten.
    ticks = [step for step in sorted({*table.step}) if step == 0 or step == 10 ** (len(str(step)) - 1)]
    return draw_rows(drawn, Axis("updates", base=10, ticks=ticks), [caption], height=1.9)


def _measured(arrays: Mapping[str, NDArray[np.generic]]) -> pandas.DataFrame:
    """Return the statistics of one run: a row for each of them, each step and each layer."""
    layers, steps = arrays["statistics.layers"].tobytes().decode().split("\n"), arrays["statistics.steps"]
    tables = []
    for name in LAYER_STATISTICS:
        values = pandas.DataFrame(np.asarray(arrays[f"statistics.{name}"], np.float64), steps, layers)
        long = values.rename_axis("step").melt(var_name="layer", ignore_index=False).reset_index()
        tables.append(long.assign(statistic=name))
    return pandas.concat(tables)


def _lines(table: pandas.DataFrame, statistic: str, layer: str, labels: Sequence[str]) -> list[Line]:
    """Return a line for each model that has the layer and the statistic there."""
    is_geometric = _AXES[statistic].base is not None
    own = table[(table.statistic == statistic) & (table.layer == layer) & np.isfinite(table.value)]
    # A statistic that is 0 has no logarithm: the gradient of values that do not depend on the scores.
    own = own[own.value > 0] if is_geometric else own
    lines, styles = [], place_styles(labels)
    for model, label in enumerate(labels):
        one = own[own.model == model]
        points = ((label, *point) for point in zip(one.step, one.seed, one.value, strict=True))
        lines += lines_of(points, styles, geometric=is_geometric)
    return lines


def _labels(rows: Sequence[Row]) -> list[str]:
    """Return method and settings of each row, without settings that all rows have if there are several."""
    words = [[word for word in row.model.parameters_label.split(", ") if word != "statistics"] for row in rows]
    shared = set.intersection(*map(set, words)) if len(rows) > 1 else set()
    shown = [", ".join(word for word in own if word not in shared) for own in words]
    return [f"{row.model.method} {label}".strip() for row, label in zip(rows, shown, strict=True)]
