"""Keys beside the training images that moved them, and beside those that a recorded network attends to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.errors import ConfigError
from idwbench.figures.keys import SCALE_CAPTION, draw_tile
from idwbench.figures.style import INK, PAPER, QUIET, RULE, class_colour, draw_caption, style_axes, wrapped_lines

__all__ = ["KeyRow", "Picture", "PictureGroup", "SharesByEpoch", "draw_key_history"]

_TILE, _SIDE = 0.57, 0.15  # inches: width of a picture, left and right margin
_TITLES = 1.05  # inches: title of the figure and names of the groups
_GAP, _BETWEEN = 0.12, 0.45  # in tiles: within a group, and between groups
_STRIP = 0.42  # inches: two lines of text below a picture, and the distance to the next row
_CURVE, _LABELS = 2.7, 0.6  # in tiles: width of the shares by epoch, and that of the labels of their axis
_FONT, _LONG_FONT, _LONG = 8.0, 6.0, 9  # points, and those of rows with longer words


@dataclass(frozen=True)
class Picture:
    """A picture with its class and a text below.

    Attributes:
        pixels: (features,), in the data's own units.
        label: The class, which is the colour of its frame.
        text: The text below.
    """

    pixels: NDArray[np.floating]
    label: int
    text: str


@dataclass(frozen=True)
class PictureGroup:
    """Pictures under one heading, the same in every row.

    Attributes:
        heading: What they are.
        pictures: At least one.
    """

    heading: str
    pictures: tuple[Picture, ...]


@dataclass(frozen=True)
class SharesByEpoch:
    """A panel with the sum of shares up to each epoch.

    Attributes:
        heading: What it is.
        own: Of the samples of the key's own class, (epochs,).
        others: Of all others, (epochs,).
        label: The class, which is the colour of its line.
    """

    heading: str
    own: NDArray[np.floating]
    others: NDArray[np.floating]
    label: int


@dataclass(frozen=True)
class KeyRow:
    """A row of the figure: a key, what moved it, and what a recorded network attends to.

    Attributes:
        groups: From left to right; they have the same headings and sizes in each row.
    """

    groups: tuple[PictureGroup | SharesByEpoch, ...]


def draw_key_history(
    rows: Sequence[KeyRow], image_shape: tuple[int, int], title: str, *, captions: Sequence[str] = ()
) -> Figure:
    """Return a figure with a row for each key.

    Args:
        rows: Their groups have the same headings and sizes.
        image_shape: (height, width) of a picture.
        title: The model.
        captions: Sentences below the figure.

    Raises:
        ConfigError: no rows, or rows of different groups.
    """
    if not rows:
        raise ConfigError("the figure of the history of keys needs at least one key")
    sizes = [[(group.heading, _size(group)) for group in row.groups] for row in rows]
    if any(other != sizes[0] for other in sizes):
        raise ConfigError("the rows have different groups of pictures")
    starts, columns = _starts([size for _, size in sizes[0]])
    aspect = image_shape[0] / image_shape[1]
    step = aspect + _STRIP / _TILE
    width = columns * _TILE + 2 * _SIDE
    lines = wrapped_lines([*captions, SCALE_CAPTION], width)
    below = 0.15 + 0.165 * len(lines)
    total = _TITLES + len(rows) * step * _TILE + below
    figure = Figure(figsize=(width, total), facecolor=PAPER)
    place = (_SIDE / width, below / total, 1 - 2 * _SIDE / width, len(rows) * step * _TILE / total)
    axes = figure.add_axes(place)
    font = _font(rows)
    limit = _curve_limit(rows)
    for number, row in enumerate(rows):
        for start, group in zip(starts, row.groups, strict=True):
            top = number * step
            if isinstance(group, SharesByEpoch):
                inset = axes.inset_axes((start + _LABELS, top, _CURVE - _LABELS, aspect), transform=axes.transData)
                _draw_curve(inset, group, limit)
                continue
            for column, picture in enumerate(group.pictures):
                left = start + column * (1 + _GAP)
                draw_tile(axes, picture.pixels.reshape(image_shape), left, top, class_colour(picture.label))
                below_tile = (left + 0.5, top + aspect + 0.06)
                axes.text(*below_tile, picture.text, ha="center", va="top", fontsize=font, color=INK)
    axes.set_xlim(0, columns)
    axes.set_ylim(len(rows) * step, 0)
    axes.set_axis_off()
    _draw_headings(axes, starts, sizes[0])
    figure.text(_SIDE / width, 1 - 0.3 / total, title, fontsize=12.5, weight="bold", color=INK, va="center")
    draw_caption(figure, lines)
    return figure


def _size(group: PictureGroup | SharesByEpoch) -> float:
    """Return the width of a group, in tiles."""
    if isinstance(group, SharesByEpoch):
        return _CURVE
    return len(group.pictures) * (1 + _GAP) - _GAP


def _font(rows: Sequence[KeyRow]) -> float:
    groups = [group for row in rows for group in row.groups if isinstance(group, PictureGroup)]
    words = [word for group in groups for picture in group.pictures for word in picture.text.split("\n")]
    return _FONT if max(map(len, words)) < _LONG else _LONG_FONT


def _curve_limit(rows: Sequence[KeyRow]) -> float:
    """Return the limit of the axis of shares, the same in every row."""
    curves = [group for row in rows for group in row.groups if isinstance(group, SharesByEpoch)]
    return max((float(np.abs([curve.own, curve.others]).max()) for curve in curves), default=1.0)


def _draw_curve(axes: Axes, curve: SharesByEpoch, limit: float) -> None:
    """Draw both lines; shares are linear up to 100 %, and logarithmic beyond."""
    epochs = np.arange(1, len(curve.own) + 1)
    axes.axhline(0, color=RULE, linewidth=0.7)
    marker = "o" if len(epochs) == 1 else ""
    dashes = (0, (3, 1.5))
    axes.plot(epochs, curve.others, color=QUIET, linewidth=1.2, linestyle=dashes, marker=marker, markersize=2.5)
    axes.plot(epochs, curve.own, color=class_colour(curve.label), linewidth=1.6, marker=marker, markersize=2.5)
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=1.0)
    powers = [10.0**power for power in range(1 + max(0, int(np.floor(np.log10(max(limit, 1.0))))))]
    ticks = sorted({-powers[-1], -1.0, 0.0, 1.0, powers[-1]})
    axes.set_yticks(ticks, [f"{100 * tick:.0f} %".replace("-", "−") for tick in ticks])
    axes.set_ylim(-1.25 * max(limit, 1.0), 1.25 * max(limit, 1.0))
    ends = sorted({1, len(epochs)})
    axes.set_xticks(ends, [str(end) for end in ends])
    axes.minorticks_off()
    style_axes(axes, label_size=6.0, has_grid=False)
    axes.tick_params(length=2, pad=1.5)


def _starts(sizes: Sequence[float]) -> tuple[list[float], float]:
    """Return where each group begins, and where the last ends, in tiles."""
    starts, left = [], 0.0
    for size in sizes:
        starts.append(left)
        left += size + _BETWEEN
    return starts, left - _BETWEEN


def _draw_headings(axes: Axes, starts: Sequence[float], sizes: Sequence[tuple[str, float]]) -> None:
    for start, (heading, size) in zip(starts, sizes, strict=True):
        axes.plot([start, start + size], [-0.1, -0.1], color=RULE, linewidth=1.0, clip_on=False)
        axes.text(start, -0.16, heading, ha="left", va="bottom", fontsize=9, color=QUIET, linespacing=1.3)
