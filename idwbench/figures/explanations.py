"""An explained answer: the input, the answer, and for each layer the memory that it attends to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure, SubFigure
from numpy.typing import NDArray

from idwbench.explanations.explanation import CURVE_SIZE, Answer, Explanation, LayerAttention, MemoryItem
from idwbench.figures.attention_by_class import draw_class_bars, draw_class_curves
from idwbench.figures.style import INK, QUIET, RULE, class_colour, new_page
from idwbench.figures.tiles import WRONG, Picture, Tile, Words, draw_tiles, grid_height, tile_height

__all__ = ["draw_explanation"]

_WIDTH, _TILES, _BARS, _CURVES = 10.0, 5.5, 2.4, 2.1  # inches
_ANSWER, _TITLE, _PANEL = 2.1, 0.35, 1.75  # inches: heights of the first block, of titles, and of bars and curves
_LINE = 0.21  # height of a line below a tile, in tiles
_NAMES = {"prototypes": "prototypes", "training data": "training samples", "history of training": "slots"}


def draw_explanation(explained: Explanation) -> Figure:
    """Return a figure with the input and the answer, and a block for each layer.

    A block has its entries with the largest weights, each with its class and weight below, the total weight of each
    class as bars, and the largest weights of each class as curves.
    """
    grids = [_tiles(explained, layer) for layer in explained.layers]
    least = _PANEL if explained.class_names else 0.0
    heights = [_ANSWER, *(_TITLE + max(least, _grid_height(explained, tiles)) for tiles in grids)]
    figure, body = new_page(_WIDTH, sum(heights), _notes(explained))
    parts = body.subfigures(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
    _draw_answer(parts[0], explained)
    for part, layer, tiles in zip(parts[1:], explained.layers, grids, strict=True):
        _draw_layer(part, explained, layer, tiles)
    return figure


def _aspect(explained: Explanation) -> float:
    return explained.image_shape[0] / explained.image_shape[1] if explained.image_shape else 0.8


def _columns(n: int) -> int:
    return 5 if n <= 10 else 8


def _line(n: int) -> float:
    return _LINE if n <= 10 else 1.25 * _LINE


def _grid_height(explained: Explanation, tiles: Sequence[Tile]) -> float:
    """Return the height of the entries of a layer, in inches."""
    if not tiles:
        return 0.0
    height = max(tile_height(tile, _aspect(explained), _line(len(tiles))) for tile in tiles)
    return _TILES * grid_height(len(tiles), _columns(len(tiles)), height)


def _tiles(explained: Explanation, layer: LayerAttention) -> list[Tile]:
    tiles = []
    for item in layer.items:
        colour = RULE if item.label is None else class_colour(item.label)
        size = 8.0 if len(layer.items) <= 10 else 6.0
        first, *others = _item_lines(explained, item)
        words = Words(first, INK if item.label is None else colour, size, bold=True)
        below = (words, *(Words(line, size=size) for line in others))
        tiles.append(Tile((_picture(explained, item.picture, colour),), below))
    return tiles


def _picture(explained: Explanation, pixels: NDArray[np.float64], frame: str) -> Picture:
    return Picture(pixels if explained.image_shape is None else pixels.reshape(explained.image_shape), frame)


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


def _draw_answer(part: SubFigure, explained: Explanation) -> None:
    part.suptitle(explained.model, x=0.01, ha="left", fontsize=11.5, weight="bold", color=INK)
    left, right = part.subfigures(1, 2, squeeze=False, width_ratios=(_TILES, _BARS + _CURVES))[0]
    image, text = left.subplots(1, 2, width_ratios=(1.4, _TILES - 1.4))
    draw_tiles(image, [Tile((_picture(explained, explained.query.picture, INK),))], 1, _aspect(explained))
    text.set_axis_off()
    for number, (line, size, colour) in enumerate(_answer_lines(explained)):
        place: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "top"}
        text.annotate(line, (0, 1), (0, -17 * number), fontsize=size, color=colour, **place).set_in_layout(False)
    if explained.answer.probabilities is None:
        return
    bars = right.subplots()
    after = None if explained.effect is None else explained.effect.answer.probabilities
    names, marked = explained.class_names, explained.answer.label
    draw_class_bars(bars, explained.answer.probabilities, names, _BARS + _CURVES - 0.5, marked=marked, after=after)
    title = "probability" if after is None else "probability: hollow before, filled after"
    bars.set_title(title, fontsize=8.5, color=INK, loc="left")


def _answer_lines(explained: Explanation) -> list[tuple[str, float, str]]:
    """Return the lines beside the input: text, size and colour."""
    query = explained.query
    target = explained.class_name(query.label) or ("" if query.target is None else _numbers(query.target))
    right = query.label is None or query.label == explained.answer.label
    lines = [(f"input {query.text}", 9.0, QUIET), (f"answer {_answer(explained, explained.answer)}", 10.0, INK)]
    if target:
        lines.append((f"target {target}", 10.0, INK if right else WRONG))
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


def _draw_layer(part: SubFigure, explained: Explanation, layer: LayerAttention, tiles: Sequence[Tile]) -> None:
    name = f"{layer.name} · " if explained.memory == "history of training" else ""
    title = f"{name}{layer.size:,} {_NAMES[explained.memory]}"
    part.suptitle(title, x=0.01, ha="left", fontsize=10.5, weight="bold", color=INK)
    left, right = part.subfigures(1, 2, squeeze=False, width_ratios=(_TILES, _BARS + _CURVES))[0]
    draw_tiles(left.subplots(), tiles, _columns(len(tiles)), _aspect(explained), _line(len(tiles)))
    if not explained.class_names:
        return
    bars, curves = right.subplots(1, 2, width_ratios=(_BARS, _CURVES))
    for axes in (bars, curves):
        axes.set_box_aspect((_PANEL - 0.55) / (_CURVES - 0.5))
        axes.set_anchor("N")
    word = explained.weight_name
    draw_class_bars(bars, layer.totals, explained.class_names, _BARS - 0.5, marked=explained.answer.label)
    bars.set_title(f"total {word}", fontsize=8.5, color=INK, loc="left")
    draw_class_curves(curves, layer.curves)
    curves.set_title(f"largest {word}s", fontsize=8.5, color=INK, loc="left")


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


def _numbers(numbers: Sequence[float] | NDArray[np.floating]) -> str:
    return ", ".join(f"{number:.4g}" for number in numbers[:3]) + (", …" if len(numbers) > 3 else "")
