"""Attention by class in each layer of recorded networks, for one test image of each data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from idwbench.errors import ConfigError
from idwbench.explanations.explanation import CURVE_SIZE, Explanation
from idwbench.figures.class_attention import draw_class_bars, draw_class_curves
from idwbench.figures.keys import draw_tile
from idwbench.figures.style import INK, PAPER, QUIET, draw_caption, wrapped_lines

__all__ = ["AttentionPanel", "draw_attention_by_class"]

_WIDTH = 10.0  # inches
_LEFT, _IMAGE, _SIDE = 0.15, 1.1, 1.75  # inches: margin, width of the image, left edge of the layers
_TITLE, _LAYER, _CURVES, _BARS, _BELOW = 0.34, 0.26, 1.25, 1.0, 0.5  # inches, from above
_WRONG = "#A50026"
_BETWEEN = 0.28  # inches, between curves and bars
_BLOCK = _TITLE + _LAYER + _CURVES + _BETWEEN + _BARS + _BELOW


@dataclass(frozen=True)
class AttentionPanel:
    """An explained answer of a recorded network."""

    title: str
    explained: Explanation


def draw_attention_by_class(panels: Sequence[AttentionPanel], *, sources: Sequence[str] = ()) -> Figure:
    """Return a figure with a block for each answer: the image, and for each layer curves and totals by class.

    `sources` are the last lines of the caption: data sets and protocols.

    Raises:
        ConfigError: no panels, or inputs that are not images.
    """
    if not panels:
        raise ConfigError("the figure needs at least one recorded network")
    notes = [
        f"curves: the largest attentions of single slots of each class, at most {CURVE_SIZE}, in decreasing order; "
        "bars: total attention of each class; bold: the class that is answered",
        *sources,
    ]
    lines = wrapped_lines(notes, _WIDTH)
    total = len(panels) * _BLOCK + 0.1 + 0.165 * len(lines)
    figure = Figure(figsize=(_WIDTH, total), facecolor=PAPER)
    for number, panel in enumerate(panels):
        _draw_block(figure, panel, total - number * _BLOCK)
    draw_caption(figure, lines)
    return figure


def _draw_block(figure: Figure, panel: AttentionPanel, top: float) -> None:
    explained, up = panel.explained, 1 / figure.get_figheight()
    shape = explained.image_shape
    if shape is None:
        raise ConfigError("the figure needs images")
    figure.text(_LEFT / _WIDTH, (top - 0.2) * up, panel.title, fontsize=11, weight="bold", color=INK, va="center")
    height = _IMAGE * shape[0] / shape[1]
    image_top = top - _TITLE - _LAYER
    axes = _axes(figure, _LEFT, image_top - height, _IMAGE, height)
    draw_tile(axes, explained.query.picture.reshape(shape), 0.0, 0.0, INK)
    axes.set(xlim=(-0.02, 1.02), ylim=(shape[0] / shape[1] + 0.02, -0.02))
    axes.set_axis_off()
    is_wrong = explained.query.label != explained.answer.label
    words = [explained.query.text, f"target {explained.class_name(explained.query.label)}"]
    words.append(f"answer {explained.class_name(explained.answer.label)}")
    colours = [QUIET, _WRONG if is_wrong else INK, INK]
    for number, text in enumerate(words):
        y = (image_top - height - 0.16 - 0.19 * number) * up
        figure.text(_LEFT / _WIDTH, y, text, fontsize=8.5, color=colours[number], va="center")
    step = (_WIDTH - _SIDE - 0.1) / len(explained.layers)
    for place, layer in enumerate(explained.layers):
        left, width = _SIDE + place * step + 0.35, step - 0.5
        bottom = image_top - _CURVES
        curves = _axes(figure, left, bottom, width, _CURVES)
        draw_class_curves(curves, layer.curves)
        curves.set_title(layer.name, fontsize=9.5, color=INK, loc="left")
        bars = _axes(figure, left, bottom - _BETWEEN - _BARS, width, _BARS)
        draw_class_bars(bars, layer.totals, explained.class_names, marked=explained.answer.label)


def _axes(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Return axes at a place in inches."""
    total = figure.get_figheight()
    return figure.add_axes((left / _WIDTH, bottom / total, width / _WIDTH, height / total))
