"""An explained answer: the input, the answer, and for each layer the memory that it attends to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import EngFormatter, MaxNLocator
from numpy.typing import NDArray

from idwbench.explanations.explanation import CURVE_SIZE, Explanation, LayerAttention, MemoryItem, Plane
from idwbench.figures.plane import draw_regions
from idwbench.figures.style import (
    INK,
    PAPER,
    QUIET,
    RULE,
    class_colour,
    label_columns,
    new_page,
    style_axes,
    titled_parts,
    write,
)
from idwbench.figures.tiles import WRONG, Picture, Tile, TileGrid, Words, draw_tiles
from idwbench.report.labels import cell_label

__all__ = ["draw_explanation"]

_WIDTH, _TILES, _TILE = 10.0, 5.5, 0.64  # inches: of a figure, of tiles, and of a tile of one of several layers
_ANSWER, _TITLE = 2.1, 0.35  # inches: heights of the first block, and of titles
_PANEL, _MANY_PANEL = 1.75, 1.35  # inches: heights of bars and curves, and of those of one of several layers
_LINES, _COLUMNS, _MOST_COLUMNS = 2.4, 5.8, 30  # inches: height and width of lines over columns; columns at most
_COLUMNS_NOTE = (
    "a line for each entry, in the colour of its class, as wide as its weight is large: its numbers less those of the "
    "input, whose values stand below; of categories the share of others than the input's"
)
_MAP = 3.6  # inches: height of a map
_MAP_NOTE = (
    "shades: the answer to all inputs of the plane, the stronger the surer; dots: training rows; star: the input; "
    "diamonds: entries, in the colour of their class and as large as their weight"
)
_LINE_STYLES = ("-", ":")  # of the parts of the data
_FEW = 10  # number of entries up to which they are large
_SHORT = 20  # letters of all names of classes up to which they stand upright
_PATCH = re.compile(r"\(patch \d+\)$")
_NAMES = {"prototypes": "prototypes", "training data": "training samples", "history of training": "slots"}

# The title of a part of the figure, its height, and the function that draws it.
Block = tuple[str, float, Callable[[SubFigure], None]]


def draw_explanation(*several: Explanation, sources: Sequence[str] = ()) -> Figure:
    """Return a figure with the input and the answer of each explanation, and a block for each layer.

    A block has its entries with the largest weights, each with its class and weight below, the total weight of each
    class as bars, and the largest weights of each class as curves. `sources` are the last sentences below.
    """
    titles, heights, draw = zip(*(block for explained in several for block in _blocks(explained)), strict=True)
    figure, body = new_page(_WIDTH, sum(heights), [*_notes(several[0]), *sources])
    for part, draw_block in zip(titled_parts(body, titles, heights), draw, strict=True):
        draw_block(part)
    return figure


def _blocks(explained: Explanation) -> Iterator[Block]:
    """Yield the blocks of the answer and of each layer.

    Entries of a table are points of its plane, or lines over its columns; others are tiles.
    """
    yield explained.model, _ANSWER, partial(_draw_answer, explained)
    for layer in explained.layers:
        width = _COLUMNS
        if explained.plane is not None:
            height, draw = _MAP, partial(_draw_map, explained, layer, explained.plane)
        elif explained.columns is not None:
            height, draw = _LINES, partial(_draw_differences, explained, layer)
        else:
            grid = _grid(explained, layer)
            width, least = (_TILES, _PANEL) if len(explained.layers) == 1 else (_TILE * grid.columns, _MANY_PANEL)
            height = max(least if explained.class_names else 0.0, width * grid.size[1] / grid.size[0])
            draw = partial(draw_tiles, grid=grid)
        name = f"{layer.name} · " if explained.memory == "history of training" else ""
        title = f"{name}{layer.size:,} {_NAMES[explained.memory]}"
        yield title, _TITLE + height, partial(_draw_layer, explained, layer, width, draw)


def _draw_layer(
    explained: Explanation, layer: LayerAttention, width: float, draw: Callable[[Axes], None], part: SubFigure
) -> None:
    """Draw entries, the total weights of the classes, and the largest weights of each; parts of the data are apart."""
    left, right = part.subfigures(1, 2, squeeze=False, width_ratios=(width, _WIDTH - width))[0]
    draw(left.subplots())
    if not explained.class_names:
        return
    bars, curves = right.subplots(1, 2)
    shown: Sequence[Any] = layer.tasks or (layer,)
    totals, tasks = np.stack([one.totals for one in shown]), [one.task for one in layer.tasks]
    _draw_class_bars(bars, totals, explained.class_names, explained.answer.label, tasks=tasks)
    for one, style in zip(shown, _LINE_STYLES, strict=False):
        _draw_class_curves(curves, one.curves, style)
    for axes, word in ((bars, f"total {explained.weight_name}"), (curves, f"largest {explained.weight_name}s")):
        axes.set_title(word, fontsize=8.5, color=INK, loc="left")
        axes.set_box_aspect(0.35 if tasks else 0.6)
        axes.set_anchor("N")


def _shares_of_largest(layer: LayerAttention) -> list[float]:
    """Return the size of each entry's weight as a part of the largest."""
    sizes = [abs(item.weight) for item in layer.items]
    largest = max(sizes, default=0.0) or 1.0
    return [size / largest for size in sizes]


def _draw_map(explained: Explanation, layer: LayerAttention, plane: Plane, axes: Axes) -> None:
    """Draw the answers, the training rows, the input, and the entries, as large as their weight is."""
    draw_regions(axes, plane.probabilities, plane.extent)
    colours = [class_colour(label) for label in range(plane.probabilities.shape[2])]
    own_colours = [colours[label] for label in plane.labels.tolist()]
    axes.scatter(plane.points[:, 0], plane.points[:, 1], s=6, c=own_colours, alpha=0.5, linewidths=0, zorder=1)
    own, shares = explained.query.picture, _shares_of_largest(layer)
    for item, share in zip(reversed(layer.items), reversed(shares), strict=True):
        x, y = item.picture
        axes.plot([own[0], x], [own[1], y], color=QUIET, linewidth=0.4 + 1.6 * share, alpha=0.7, zorder=2)
        colour = colours[item.label or 0]
        axes.scatter([x], [y], s=18 + 70 * share, marker="D", color=colour, edgecolors=INK, linewidths=0.8, zorder=3)
    axes.plot(*own, marker="*", markersize=13, color=INK, markeredgecolor=PAPER, zorder=4)
    _style(axes)
    axes.grid(False)
    names = ("", "") if explained.columns is None else explained.columns.names
    for axis, name in zip((axes.xaxis, axes.yaxis), names, strict=True):
        axis.set_label_text(name, fontsize=7.5)


def _draw_differences(explained: Explanation, layer: LayerAttention, axes: Axes) -> None:
    """Draw a line for each entry: how far it is from the input in each column, as wide as its weight is large."""
    assert explained.columns is not None
    differences = [explained.differences(item) for item in layer.items]
    most = np.abs(np.array(differences)).max(0, initial=0.0) if differences else np.zeros(len(explained.columns))
    shown = np.sort(np.argsort(-most, kind="stable")[:_MOST_COLUMNS])
    lines = zip(layer.items, differences, _shares_of_largest(layer), strict=True)
    for item, apart, share in reversed(list(lines)):
        colour = QUIET if item.label is None else class_colour(item.label)
        axes.plot(np.array(apart)[shown], color=colour, linewidth=0.5 + 3.0 * share, marker=".", alpha=0.8)
    axes.axhline(0, color=INK, linewidth=1.2)
    _style(axes)
    names, own = explained.columns.names, explained.columns.texts(explained.query.picture)
    label_columns(axes, [f"{names[place]} {own[place]}" for place in shown.tolist()])
    axes.set_ylabel("less the input, in sd" if explained.spreads is not None else "less the input", fontsize=7.5)


def _grid(explained: Explanation, layer: LayerAttention) -> TileGrid:
    """Return a tile for each entry; a few are large, unless there are several layers."""
    columns, line, size = (5, 0.21, 8.0) if len(layer.items) <= _FEW else (8, 0.26, 6.0)
    if len(explained.layers) > 1:
        columns, line, size = min(max(len(layer.items), 1), 10), 0.24, 5.5
    tiles = []
    for item in layer.items:
        colour = "" if item.label is None else class_colour(item.label)
        first, *others = _item_lines(explained, item)
        words = (Words(first, colour or INK, size, bold=True), *(Words(other, size=size) for other in others))
        tiles.append(Tile((_picture(explained, item.picture, colour or RULE),), words))
    return TileGrid(tiles, columns, line)


def _picture(explained: Explanation, pixels: NDArray[np.float64], frame: str) -> Picture:
    return Picture(pixels if explained.image_shape is None else pixels.reshape(explained.image_shape), frame)


def _notes(explained: Explanation) -> list[str]:
    word = explained.weight_name
    table_note = _MAP_NOTE if explained.plane is not None else _COLUMNS_NOTE if explained.columns is not None else ""
    if not explained.class_names:
        what = "value" if explained.memory == "prototypes" else "target"
        return [table_note or f"below each entry: its {what} and its weight"]
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
    bars = f"bars: total {word} of each class"
    if any(layer.tasks for layer in explained.layers):
        bars, curves = f"{bars}, those of two data sets side by side", f"{curves}, those of the second data set dotted"
    return [table_note or below, f"{bars}; {curves}; bold: the class that is answered"]


def _draw_answer(explained: Explanation, part: SubFigure) -> None:
    left, right = part.subfigures(1, 2, squeeze=False, width_ratios=(_TILES, _WIDTH - _TILES))[0]
    if explained.columns is None and explained.plane is None:
        image, text = left.subplots(1, 2, width_ratios=(1.4, _TILES - 1.4))
        draw_tiles(image, TileGrid([Tile((_picture(explained, explained.query.picture, INK),))], 1))
    else:
        text = left.subplots()
    text.set_axis_off()
    for number, (line, colour) in enumerate(_answer_lines(explained)):
        write(text, line, (0, 1), (0, -17 * number), fontsize=9.5, color=colour, va="top").set_in_layout(False)
    if explained.answer.probabilities is None:
        return
    bars = right.subplots()
    after = None if explained.effect is None else explained.effect.answer.probabilities
    names, marked = explained.class_names, explained.answer.label
    _draw_class_bars(bars, explained.answer.probabilities, names, marked, after=after)
    title = "probability" if after is None else "probability: hollow before, filled after"
    bars.set_title(title, fontsize=8.5, color=INK, loc="left")


def _answer_lines(explained: Explanation) -> list[tuple[str, str]]:
    """Return the lines beside the input with their colours."""
    query = explained.query
    target = explained.class_name(query.label) or ("" if query.target is None else cell_label(query.target.tolist()))
    right = query.label is None or query.label == explained.answer.label
    lines = [(f"input {query.text}", QUIET), (f"answer {explained.answer_text(explained.answer)}", INK)]
    if target:
        lines.append((f"target {target}", INK if right else WRONG))
    if (effect := explained.effect) is not None:
        lines.append((f"without {', '.join(effect.conditions)}: {explained.answer_text(effect.answer)}", INK))
        for change in effect.accuracy:
            lines.append((f"{change.name}: accuracy {100 * change.before:.1f} → {100 * change.after:.1f} %", INK))
    return lines


def _item_lines(explained: Explanation, item: MemoryItem) -> list[str]:
    """Return the lines below an entry: class or target, weight, and what depends on the memory."""
    name = explained.class_name(item.label)
    if not explained.class_names and item.value is not None:
        name = cell_label(item.value.tolist())
    weight = f"{item.weight:.4g}" + (f" ({item.visits}×)" if item.step is not None else "")
    if patch := _PATCH.search(item.source):
        weight += f" {patch[0]}"
    if explained.memory == "prototypes" and item.value is not None and explained.answer.label is not None:
        return [name, weight, f"value {item.value[explained.answer.label]:+.3g}"]
    if explained.memory == "history of training" and item.contribution is not None:
        return [name, weight, f"adds {item.contribution:+.2g}"]
    return [name, weight]


def _draw_class_bars(
    axes: Axes,
    heights: NDArray[np.floating],
    names: Sequence[str],
    marked: int | None = None,
    *,
    after: NDArray[np.floating] | None = None,
    tasks: Sequence[str] = (),
) -> None:
    """Draw a bar for each class in its colour.

    Args:
        axes: The panel.
        heights: (classes,), or (tasks, classes).
        names: Names of the classes.
        marked: The class whose name is bold.
        after: Heights of a second bar beside each first one, which then is hollow.
        tasks: Names of the parts of the data, whose bars stand beside each other with the numbers of the classes.
    """
    n, colours = len(names), [class_colour(label) for label in range(len(names))]
    places = np.add.outer(np.arange(max(len(tasks), 1)) * (n + 1), np.arange(n))
    if after is None:
        axes.bar(places.ravel(), heights.ravel(), 0.8 if tasks else 0.72, color=colours * len(places))
    else:
        axes.bar(places[0] - 0.2, heights, 0.36, facecolor="none", edgecolor=colours, linewidth=1.0)
        axes.bar(places[0] + 0.2, after, 0.36, color=colours)
    axes.axhline(0, color=RULE, linewidth=0.8)
    axes.set_xlim(-0.6, places.max() + 0.6)
    _style(axes)
    axes.grid(False, axis="x")
    words = [str(label) for label in range(n)] if tasks else [*names]
    is_short = n * max(map(len, words)) <= _SHORT
    size = 6.0 if tasks else 7.5 if is_short else 6.5
    axes.set_xticks(places.ravel(), words * len(places), fontsize=size)
    axes.tick_params(axis="x", rotation=0 if is_short else 90)
    for place, text in enumerate(axes.get_xticklabels()):
        text.set(color=colours[place % n], weight="bold" if place % n == marked else "normal")
    style: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "ha": "center", "va": "top"}
    for task, middle in zip(tasks, places.mean(axis=1), strict=False):
        write(axes, task, (middle, 0), (0, -14), fontsize=6.5, color=QUIET, **style)


def _draw_class_curves(axes: Axes, curves: Sequence[NDArray[np.floating]], style: str = "-") -> None:
    """Draw for each class its largest attentions, (n,) in decreasing order, in its colour."""
    for label, curve in enumerate(curves):
        line: dict[str, Any] = {"color": class_colour(label), "linestyle": style, "linewidth": 1.2, "markersize": 2.5}
        axes.plot(np.arange(1, len(curve) + 1), curve, marker="o" if len(curve) <= 20 else "", **line)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.set_xlim(left=0)
    _style(axes)


def _style(axes: Axes) -> None:
    """Write few numbers on the vertical axis, thousands as 20k."""
    style_axes(axes, label_size=7.5)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    if max(map(abs, axes.get_ylim())) >= 1000:
        axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.tick_params(axis="x", colors=INK, length=0)
