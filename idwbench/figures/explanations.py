"""An explained answer: the input, the answer, and for each layer the memory that it attends to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from idwbench.explanations.explanation import CURVE_SIZE, Answer, Explanation, LayerAttention, MemoryItem
from idwbench.figures.class_attention import draw_class_bars, draw_class_curves
from idwbench.figures.keys import draw_tile
from idwbench.figures.style import INK, PAPER, QUIET, RULE, class_colour, draw_caption, wrapped_lines

__all__ = ["draw_explanation"]

_WIDTH = 10.0  # inches
_LEFT, _TILES = 0.15, 5.2  # inches: margin, width of the tiles of a layer
_BARS, _CURVES = (5.95, 1.75), (8.2, 1.65)  # inches: left edge and width of the panels
_HEADER, _PANEL = 0.42, 1.75  # inches: title of a block, least height of its content
_LINE = 0.19  # height of a line below a tile, in tiles of a fifth of the width
_GAP = 0.12  # between tiles, in tiles
_MOST_NUMBERS = 6
_WRONG = "#A50026"
_NAMES = {"prototypes": "prototypes", "training data": "training samples", "history of training": "slots"}


@dataclass(frozen=True)
class _Tiles:
    """The grid of the entries of a layer."""

    columns: int
    rows: int
    aspect: float
    lines: int

    @classmethod
    def of(cls, n: int, image_shape: tuple[int, int] | None, lines: int = 0) -> _Tiles:
        columns = 5 if n <= 10 else 8
        aspect = image_shape[0] / image_shape[1] if image_shape else 0.8
        return cls(columns, max(1, -(-n // columns)), aspect, lines)

    @property
    def line(self) -> float:
        """Height of a line, in tiles."""
        return _LINE if self.columns == 5 else 1.25 * _LINE

    @property
    def text(self) -> float:
        return (self.lines + 0.4) * self.line

    @property
    def step(self) -> float:
        return self.aspect + self.text

    @property
    def width(self) -> float:
        return self.columns * (1 + _GAP) - _GAP

    @property
    def height(self) -> float:
        """Height in inches."""
        return self.rows * self.step * _TILES / self.width


def draw_explanation(explained: Explanation) -> Figure:
    """Return a figure with the input and the answer, and a block for each layer.

    A block has its entries with the largest weights, each with its class and weight below, the total weight of each
    class as bars, and the largest weights of each class as curves.
    """
    tiles = [_tiles(explained, layer) for layer in explained.layers]
    blocks = [_HEADER + max(_PANEL if explained.class_names else 0.0, grid.height) + 0.12 for grid in tiles]
    lines = wrapped_lines(_notes(explained), _WIDTH)
    first = _HEADER + 1.65
    total = first + sum(blocks) + 0.2 + 0.165 * len(lines)
    figure = Figure(figsize=(_WIDTH, total), facecolor=PAPER)
    _draw_answer(figure, explained, first)
    top = total - first
    for layer, grid, block in zip(explained.layers, tiles, blocks, strict=True):
        _draw_layer(figure, explained, layer, grid, top)
        top -= block
    draw_caption(figure, lines)
    return figure


def _tiles(explained: Explanation, layer: LayerAttention) -> _Tiles:
    lines = max((len(_item_lines(explained, item)) for item in layer.items), default=0)
    return _Tiles.of(len(layer.items), explained.image_shape, lines)


def _notes(explained: Explanation) -> list[str]:
    word = explained.weight_name
    if not explained.class_names:
        return [f"below each entry: its {'value' if explained.memory == 'prototypes' else 'target'} and its weight"]
    below = {
        "prototypes": "below each prototype: the class with its largest value, its weight, and its value for the class "
        "that is answered",
        "training data": "below each training sample: its class and its weight",
        "history of training": "below each training sample: its class, and its attention summed over its visits, with "
        "their number; in the last layer what it adds to the logit of the answer",
    }[explained.memory]
    if any("nearest" in item.source for layer in explained.layers for item in layer.items):
        below += "; a prototype in feature space is shown as its nearest training image"
    single = " of single slots" if explained.memory == "history of training" else ""
    curves = f"curves: the largest {word}s of each class{single}, at most {CURVE_SIZE}, in decreasing order"
    return [below, f"bars: total {word} of each class; {curves}; bold: the class that is answered"]


def _draw_answer(figure: Figure, explained: Explanation, height: float) -> None:
    up, total = 1 / figure.get_figheight(), figure.get_figheight()
    figure.text(_LEFT / _WIDTH, 1 - 0.2 * up, explained.model, fontsize=11.5, weight="bold", color=INK, va="center")
    axes = _axes(figure, _LEFT, total - height + 0.2, 1.35, height - _HEADER - 0.2)
    grid = _Tiles.of(1, explained.image_shape)
    _draw_entry(axes, explained.query.picture, explained.image_shape, 0.0, 0.0, INK, grid.aspect)
    axes.set(xlim=(-0.02, 1.02), ylim=(grid.aspect + 0.02, -0.02), aspect="equal", anchor="NW")
    axes.set_axis_off()
    y = 1 - (_HEADER + 0.12) * up
    for line, size, colour in _answer_lines(explained):
        figure.text(1.65 / _WIDTH, y, line, fontsize=size, color=colour, va="center")
        y -= 0.235 * up
    if explained.class_names:
        panel = _axes(
            figure, _BARS[0], total - height + 0.45, _CURVES[0] + _CURVES[1] - _BARS[0], height - _HEADER - 0.7
        )
        after = None if explained.effect is None else explained.effect.answer.probabilities
        assert explained.answer.probabilities is not None
        names = explained.class_names
        draw_class_bars(panel, explained.answer.probabilities, names, marked=explained.answer.label, after=after)
        title = "probability" if after is None else "probability: hollow before, filled after"
        panel.set_title(title, fontsize=8.5, color=INK, loc="left")


def _answer_lines(explained: Explanation) -> list[tuple[str, float, str]]:
    """Return the lines beside the input: text, size and colour."""
    query = explained.query
    target = explained.class_name(query.label) or ("" if query.target is None else _numbers(query.target))
    right = query.label is None or query.label == explained.answer.label
    lines = [(f"input {query.text}", 9.0, QUIET), (f"answer {_answer(explained, explained.answer)}", 10.0, INK)]
    if target:
        lines.append((f"target {target}", 10.0, INK if right else _WRONG))
    if (effect := explained.effect) is not None:
        lines.append((f"without {', '.join(effect.conditions)}: {_answer(explained, effect.answer)}", 9.0, INK))
        for change in effect.accuracy:
            text = f"{change.name}: accuracy {100 * change.before:.1f} → {100 * change.after:.1f} %"
            lines.append((text, 9.0, INK))
    return lines


def _answer(explained: Explanation, answer: Answer) -> str:
    if answer.probabilities is None or answer.label is None:
        return _numbers(answer.outputs)
    return f"{explained.class_name(answer.label)} (probability {answer.probabilities[answer.label]:.3f})"


def _draw_layer(figure: Figure, explained: Explanation, layer: LayerAttention, grid: _Tiles, top: float) -> None:
    y = (top - 0.18) / figure.get_figheight()
    is_history = explained.memory == "history of training"
    title = f"{f'{layer.name} · ' if is_history else ''}{layer.size:,} {_NAMES[explained.memory]}"
    figure.text(_LEFT / _WIDTH, y, title, fontsize=10.5, weight="bold", color=INK, va="center")
    if layer.items:
        axes = _axes(figure, _LEFT, top - _HEADER - grid.height, _TILES, grid.height)
        for place, item in enumerate(layer.items):
            _draw_item(axes, explained, item, grid, *divmod(place, grid.columns))
        axes.set(xlim=(-0.01, grid.width + 0.01), ylim=(grid.rows * grid.step, -0.02))
        axes.set_axis_off()
    if explained.class_names:
        word = explained.weight_name
        bars, curves = (
            _axes(figure, left, top - _HEADER - _PANEL + 0.45, width, _PANEL - 0.45) for left, width in (_BARS, _CURVES)
        )
        draw_class_bars(bars, layer.totals, explained.class_names, marked=explained.answer.label)
        bars.set_title(f"total {word}", fontsize=8.5, color=INK, loc="left")
        draw_class_curves(curves, layer.curves)
        curves.set_title(f"largest {word}s", fontsize=8.5, color=INK, loc="left")


def _draw_item(axes: Axes, explained: Explanation, item: MemoryItem, grid: _Tiles, row: int, column: int) -> None:
    left, top = column * (1 + _GAP), row * grid.step
    colour = RULE if item.label is None else class_colour(item.label)
    _draw_entry(axes, item.picture, explained.image_shape, left, top, colour, grid.aspect)
    size = 8.0 if grid.columns == 5 else 6.0
    for number, text in enumerate(_item_lines(explained, item)):
        y = top + grid.aspect + (0.7 + number) * grid.line
        style: dict[str, Any] = (
            {"color": INK} if number else {"color": colour if item.label is not None else INK, "weight": "bold"}
        )
        axes.text(left + 0.5, y, text, ha="center", va="center", fontsize=size, **style)


def _item_lines(explained: Explanation, item: MemoryItem) -> list[str]:
    """Return the lines below an entry: class or target, weight, and what depends on the memory."""
    name = explained.class_name(item.label)
    if not explained.class_names and item.value is not None:
        name = _numbers(item.value)
    weight = f"{item.weight:.4g}" + (f" ({item.visits}×)" if item.step is not None else "")
    if explained.memory == "prototypes" and item.value is not None and explained.answer.label is not None:
        return [name, weight, f"value {item.value[explained.answer.label]:+.3g}"]
    if explained.memory == "history of training" and item.contribution is not None:
        return [name, weight, f"adds {item.contribution:+.3g}"]
    return [name, weight]


def _draw_entry(
    axes: Axes,
    picture: NDArray[np.float64],
    image_shape: tuple[int, int] | None,
    left: float,
    top: float,
    frame: str,
    aspect: float,
) -> None:
    """Draw an input as an image, or as its first numbers."""
    if image_shape is not None:
        draw_tile(axes, picture.reshape(image_shape), left, top, frame)
        return
    axes.add_patch(Rectangle((left, top), 1, aspect, fill=False, edgecolor=frame, linewidth=1.4, clip_on=False))
    text = "\n".join(
        [*(f"{number:.4g}" for number in picture[:_MOST_NUMBERS]), *(["…"] * (len(picture) > _MOST_NUMBERS))]
    )
    axes.text(left + 0.5, top + aspect / 2, text, ha="center", va="center", fontsize=7, color=INK)


def _axes(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Return axes at a place in inches."""
    total = figure.get_figheight()
    return figure.add_axes((left / _WIDTH, bottom / total, width / _WIDTH, height / total))


def _numbers(numbers: Sequence[float] | NDArray[np.floating]) -> str:
    return ", ".join(f"{number:.4g}" for number in numbers[:3]) + (", …" if len(numbers) > 3 else "")
