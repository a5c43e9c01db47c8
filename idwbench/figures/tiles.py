"""The primitive of figures of images: tiles in rows and columns, with words above and below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from idwbench.figures.style import INK, PAPER, RULE, diverging

__all__ = [
    "KEY_COLOURS",
    "SCALE_CAPTION",
    "WRONG",
    "Picture",
    "Tile",
    "Words",
    "draw_tiles",
    "grid_height",
    "scale_limit",
    "tile_height",
    "tile_places",
]

WRONG = "#A50026"  # the colour of a label that is not the class
# Upper end of the colour scale of a key: border pixels may have much larger values than the rest.
_QUANTILE = 0.95
SCALE_CAPTION = (
    "each key in its own scale: white is 0, black positive, blue negative; "
    f"full colour from the {100 * _QUANTILE:g}th percentile of its absolute values on"
)
# Positive numbers are dark, negative ones blue.
KEY_COLOURS: LinearSegmentedColormap = diverging("idwbench_keys", "#2B7BBA", PAPER, "#111418")
_GAP, _BETWEEN = 0.1, 0.05  # in tiles: between columns, and between the pictures of a tile
_MOST_NUMBERS = 6


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
    """Pictures below each other, with words above and below them."""

    pictures: tuple[Picture, ...]
    below: tuple[Words, ...] = ()
    above: tuple[Words, ...] = ()


def scale_limit(image: NDArray[np.float64]) -> float:
    """Return the upper end of the colour scale of a key, above 0; the scale is symmetric about zero."""
    size = np.abs(image)
    return float(np.quantile(size, _QUANTILE)) or float(size.max()) or 1.0


def tile_height(tile: Tile, aspect: float, line: float) -> float:
    """Return the height of a tile with the gap below it, in widths of a tile.

    Args:
        tile: As all of its grid.
        aspect: The height of a picture.
        line: The height of a line of words.
    """
    n = len(tile.pictures)
    return n * aspect + (n - 1) * _BETWEEN + line * (len(tile.above) + len(tile.below)) + _GAP


def grid_height(n: int, columns: int, height: float) -> float:
    """Return the height of a grid of `n` tiles, in units of its width, for the height of a tile."""
    return -(-n // columns) * height / (columns * (1 + _GAP) - _GAP)


def tile_places(n: int, columns: int, height: float) -> list[tuple[float, float]]:
    """Return the upper left corner of each tile, in widths of a tile; y grows downwards."""
    return [(column * (1 + _GAP), row * height) for row, column in (divmod(place, columns) for place in range(n))]


def draw_tiles(axes: Axes, tiles: Sequence[Tile], columns: int, aspect: float, line: float = 0.2) -> None:
    """Draw tiles in rows of `columns`; the units of the axes are widths of a tile, see `tile_height`."""
    height = max((tile_height(tile, aspect, line) for tile in tiles), default=aspect)
    for tile, (left, top) in zip(tiles, tile_places(len(tiles), columns, height), strict=True):
        for words in tile.above:
            _write(axes, words, left, top + line / 2)
            top += line
        for picture in tile.pictures:
            _draw_picture(axes, picture, left, top, aspect)
            top += aspect + _BETWEEN
        for number, words in enumerate(tile.below):
            _write(axes, words, left, top - _BETWEEN + line * (number + 0.6))
    axes.set(xlim=(-0.02, columns * (1 + _GAP) - _GAP + 0.02), ylim=(-(-len(tiles) // columns) * height, -0.02))
    axes.set_aspect("equal", anchor="NW")
    axes.set(xticks=[], yticks=[])
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
