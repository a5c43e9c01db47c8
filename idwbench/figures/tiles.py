"""The primitive of figures of images: tiles in rows and columns, with words below."""

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

from idwbench.figures.style import INK, PAPER, QUIET, RULE, new_page, write

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
_NUMBERS, _MOST_NUMBERS = 0.8, 6  # the height of the first numbers of an input in tiles, and how many they are
_WIDTH, _TITLE = 10.0, 1100.0  # inches of a figure, and the letters of a title times their size that fit


@dataclass(frozen=True)
class Picture:
    """An image (height, width), or the first numbers of an input (features,), with its frame.

    The colour scale of an image ends at `limit`, by default that of `scale_limit`.
    """

    pixels: NDArray[np.floating]
    frame: str = RULE
    width: float = 1.4
    limit: float | None = None


@dataclass(frozen=True)
class Words:
    """A line of text, `size` in points."""

    text: str
    colour: str = INK
    size: float = 8.0
    bold: bool = False


@dataclass(frozen=True)
class Tile:
    """Pictures below each other, with words below them."""

    pictures: tuple[Picture, ...]
    below: tuple[Words, ...] = ()


@dataclass(frozen=True)
class TileGrid:
    """Tiles in rows of `columns`, all with the same numbers of pictures and words; sizes are in widths of a tile.

    Attributes:
        line: The height of a line of words.
        subtitle: Words below the title.
        beside: Words left of each row, one for each picture of a tile.
    """

    tiles: Sequence[Tile]
    columns: int
    line: float = 0.2
    title: str = ""
    subtitle: str = ""
    beside: tuple[str, ...] = ()

    @property
    def aspect(self) -> float:
        """The height of a picture."""
        shape = next((picture.pixels.shape for tile in self.tiles for picture in tile.pictures), ())
        return shape[0] / shape[1] if len(shape) == 2 else _NUMBERS

    @property
    def row_height(self) -> float:
        """The height of a row with the gap below it."""
        pictures = max((len(tile.pictures) for tile in self.tiles), default=1)
        words = max((len(tile.below) for tile in self.tiles), default=0)
        return pictures * self.aspect + (pictures - 1) * _BETWEEN + self.line * words + _GAP

    @property
    def size(self) -> tuple[float, float]:
        """Width and height."""
        return self.columns * (1 + _GAP) - _GAP, -(-len(self.tiles) // self.columns) * self.row_height


def scale_limit(image: NDArray[np.float64]) -> float:
    """Return the upper end of the colour scale of a key, above 0; the scale is symmetric about zero."""
    size = np.abs(image)
    return float(np.quantile(size, _QUANTILE)) or float(size.max()) or 1.0


def draw_tile_grids(grids: Sequence[TileGrid], caption: Sequence[str], columns: int = 1) -> Figure:
    """Return a figure with grids, at least one, in rows of `columns`, and sentences below."""
    width = (_WIDTH - (0.5 if any(one.beside for one in grids) else 0.0)) / columns
    rows = [grids[start : start + columns] for start in range(0, len(grids), columns)]
    heights = [max(width * one.size[1] / one.size[0] + (0.65 if one.subtitle else 0.45) for one in row) for row in rows]
    figure, body = new_page(_WIDTH, sum(heights), caption)
    places = body.subplots(len(rows), columns, squeeze=False, height_ratios=heights).flat
    for axes, one in zip(places, grids, strict=False):
        draw_tiles(axes, one)
        title: dict[str, Any] = {"fontsize": min(12, _TITLE / columns / len(one.title)), "weight": "bold", "color": INK}
        axes.set_title(one.title, loc="left", pad=20 if one.subtitle else None, **title)
        write(axes, one.subtitle, (0, 1), (0, 7), fontsize=9.0 if columns == 1 else 7.5, color=QUIET)
    for axes in [*places][len(grids) :]:
        axes.set_axis_off()
    return figure


def draw_tiles(axes: Axes, grid: TileGrid) -> None:
    """Draw tiles without their title; the units of the axes are widths of a tile and y grows downwards."""
    for place, tile in enumerate(grid.tiles):
        left, top = place % grid.columns * (1 + _GAP), place // grid.columns * grid.row_height
        for number, word in enumerate(grid.beside if left == 0 else ()):
            y = top + number * (grid.aspect + _BETWEEN) + 0.5 * grid.aspect
            axes.text(-0.08, y, word, ha="right", va="center", fontsize=8.5, color=QUIET)
        for picture in tile.pictures:
            _draw_picture(axes, picture, left, top, grid.aspect)
            top += grid.aspect + _BETWEEN
        for number, words in enumerate(tile.below):
            style: dict[str, Any] = {"fontsize": words.size, "color": words.colour, "ha": "center", "va": "center"}
            y = top - _BETWEEN + grid.line * (number + 0.6)
            axes.text(left + 0.5, y, words.text, weight="bold" if words.bold else "normal", **style)
    width, height = grid.size
    axes.set(xlim=(-0.02, width + 0.02), ylim=(height, -0.02))
    axes.set_aspect("equal", anchor="NW")
    axes.set_axis_off()


def _draw_picture(axes: Axes, picture: Picture, left: float, top: float, aspect: float) -> None:
    if picture.pixels.ndim == 1:
        numbers = [f"{number:.4g}" for number in picture.pixels[:_MOST_NUMBERS]]
        text = "\n".join([*numbers, *(["…"] * (len(picture.pixels) > _MOST_NUMBERS))])
        axes.text(left + 0.5, top + aspect / 2, text, ha="center", va="center", fontsize=7, color=INK)
    else:
        limit = picture.limit or scale_limit(np.asarray(picture.pixels, np.float64))
        style: dict[str, Any] = {"cmap": KEY_COLOURS, "norm": Normalize(-limit, limit), "interpolation": "nearest"}
        axes.imshow(picture.pixels, extent=(left, left + 1, top + aspect, top), **style)
    frame = Rectangle((left, top), 1, aspect, fill=False, clip_on=False, zorder=3)
    frame.set(edgecolor=picture.frame, linewidth=picture.width)
    axes.add_patch(frame)
