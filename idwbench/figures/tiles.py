"""The primitive of figures of images: tiles in rows and columns, with words above and below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from idwbench.figures.style import INK, PAPER, QUIET, RULE, new_page

__all__ = [
    "KEY_COLOURS",
    "SCALE_CAPTION",
    "WRONG",
    "Picture",
    "Tile",
    "TileGrid",
    "Words",
    "draw_tile_grids",
    "draw_tiles",
    "grid_height",
    "scale_limit",
]

WRONG = "#A50026"  # the colour of a label that is not the class
# Upper end of the colour scale of a key: border pixels may have much larger values than the rest.
_QUANTILE = 0.95
SCALE_CAPTION = (
    "each key in its own scale: white is 0, black positive, blue negative; "
    f"full colour from the {100 * _QUANTILE:g}th percentile of its absolute values on"
)
# Positive numbers are dark, negative ones blue.
KEY_COLOURS = LinearSegmentedColormap.from_list("idwbench_keys", ["#2B7BBA", PAPER, "#111418"])
_GAP, _BETWEEN = 0.1, 0.05  # in tiles: between columns, and between the pictures of a tile
_MOST_NUMBERS = 6
_WIDTH = 10.0  # inches of a figure


@dataclass(frozen=True)
class Picture:
    """An image (height, width), or the first numbers of an input (features,), with its frame."""

    pixels: NDArray[np.floating]
    frame: str = RULE
    width: float = 1.4


@dataclass(frozen=True)
class Words:
    """A line of text, `size` in points."""

    text: str
    colour: str = INK
    size: float = 8.0
    bold: bool = False


@dataclass(frozen=True)
class Tile:
    """Pictures below each other, with words above and below them, and a band in a colour under the pictures."""

    pictures: tuple[Picture, ...]
    below: tuple[Words, ...] = ()
    above: tuple[Words, ...] = ()
    band: str = ""


@dataclass(frozen=True)
class TileGrid:
    """Tiles in rows of `columns` with a title, and a subtitle or none.

    Attributes:
        beside: Words left of each row, one for each picture of a tile.
    """

    title: str
    tiles: Sequence[Tile]
    columns: int
    subtitle: str = ""
    beside: tuple[str, ...] = ()


def scale_limit(image: NDArray[np.float64]) -> float:
    """Return the upper end of the colour scale of a key, above 0; the scale is symmetric about zero."""
    size = np.abs(image)
    return float(np.quantile(size, _QUANTILE)) or float(size.max()) or 1.0


def grid_height(tiles: Sequence[Tile], columns: int, aspect: float, line: float = 0.2) -> float:
    """Return the height of tiles in rows of `columns`, in units of their width, see `draw_tiles`."""
    return -(-len(tiles) // columns) * _tile_height(tiles, aspect, line) / (columns * (1 + _GAP) - _GAP)


def _tile_height(tiles: Sequence[Tile], aspect: float, line: float) -> float:
    """Return the height of the highest tile with the gap below it, in widths of a tile."""
    pictures = max((len(tile.pictures) for tile in tiles), default=1)
    words = max((len(tile.above) + len(tile.below) for tile in tiles), default=0)
    return pictures * aspect + (pictures - 1) * _BETWEEN + line * words + _GAP


def draw_tile_grids(grids: Sequence[TileGrid], aspect: float, line: float, caption: Sequence[str]) -> Figure:
    """Return a figure with one grid above the other.

    Args:
        grids: At least one.
        aspect: The height of a picture, in widths of a tile.
        line: The height of a line of words, in widths of a tile.
        caption: Sentences below.
    """
    margin = 0.5 if any(one.beside for one in grids) else 0.0
    heights = [
        (_WIDTH - margin) * grid_height(one.tiles, one.columns, aspect, line) + (0.65 if one.subtitle else 0.45)
        for one in grids
    ]
    figure, body = new_page(_WIDTH, sum(heights), caption)
    for axes, one in zip(body.subplots(len(grids), 1, squeeze=False, height_ratios=heights)[:, 0], grids, strict=True):
        draw_tiles(axes, one.tiles, one.columns, aspect, line)
        height = _tile_height(one.tiles, aspect, line)
        for row in range(-(-len(one.tiles) // one.columns)):
            for number, word in enumerate(one.beside):
                place = (-0.08, row * height + (number + 0.5) * aspect)
                axes.text(*place, word, ha="right", va="center", fontsize=8.5, color=QUIET)
        axes.set_title(one.title, loc="left", fontsize=12, weight="bold", color=INK, pad=20 if one.subtitle else None)
        below: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "fontsize": 9.0}
        axes.annotate(one.subtitle, (0, 1), (0, 7), color=QUIET, **below)
    return figure


def draw_tiles(axes: Axes, tiles: Sequence[Tile], columns: int, aspect: float, line: float = 0.2) -> None:
    """Draw tiles in rows of `columns`; the units of the axes are widths of a tile and y grows downwards.

    Bands of one colour that stand beside each other are joined.

    Args:
        axes: The panel.
        tiles: All with the same numbers of pictures and words.
        columns: Number of tiles in a row.
        aspect: The height of a picture.
        line: The height of a line of words.
    """
    height = _tile_height(tiles, aspect, line)
    for place, tile in enumerate(tiles):
        left, top = place % columns * (1 + _GAP), place // columns * height
        for words in tile.above:
            _write(axes, words, left, top + line / 2)
            top += line
        for picture in tile.pictures:
            _draw_picture(axes, picture, left, top, aspect)
            top += aspect + _BETWEEN
        if tile.band:
            is_joined = (place + 1) % columns and [tile.band] == [other.band for other in tiles[place + 1 : place + 2]]
            width = 1 + _GAP if is_joined else 1
            axes.add_patch(Rectangle((left, top - 0.02), width, 0.035, color=tile.band, linewidth=0))
        for number, words in enumerate(tile.below):
            _write(axes, words, left, top - _BETWEEN + line * (number + 0.6))
    axes.set(xlim=(-0.02, columns * (1 + _GAP) - _GAP + 0.02), ylim=(-(-len(tiles) // columns) * height, -0.02))
    axes.set_aspect("equal", anchor="NW")
    axes.set_axis_off()


def _write(axes: Axes, words: Words, left: float, y: float) -> None:
    weight = "bold" if words.bold else "normal"
    axes.text(
        left + 0.5, y, words.text, ha="center", va="center", fontsize=words.size, color=words.colour, weight=weight
    )


def _draw_picture(axes: Axes, picture: Picture, left: float, top: float, aspect: float) -> None:
    if picture.pixels.ndim == 1:
        numbers = [f"{number:.4g}" for number in picture.pixels[:_MOST_NUMBERS]]
        text = "\n".join([*numbers, *(["…"] * (len(picture.pixels) > _MOST_NUMBERS))])
        axes.text(left + 0.5, top + aspect / 2, text, ha="center", va="center", fontsize=7, color=INK)
    else:
        limit = scale_limit(np.asarray(picture.pixels, np.float64))
        style: dict[str, Any] = {"cmap": KEY_COLOURS, "norm": Normalize(-limit, limit), "interpolation": "nearest"}
        axes.imshow(picture.pixels, extent=(left, left + 1, top + aspect, top), **style)
    frame = Rectangle((left, top), 1, aspect, fill=False, clip_on=False, zorder=3)
    frame.set(edgecolor=picture.frame, linewidth=picture.width)
    axes.add_patch(frame)
