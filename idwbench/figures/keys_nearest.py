"""Keys as images beside their nearest training images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.errors import ConfigError
from idwbench.figures.keys import SCALE_CAPTION, draw_tile, key_order
from idwbench.figures.style import INK, PAPER, QUIET, RULE, class_colour, draw_caption, wrapped_lines

__all__ = ["NearestPanel", "draw_keys_nearest"]

_WIDTH, _COLUMNS = 10.0, 10  # inches; pairs in a row
_GAP, _BETWEEN = 0.10, 0.05  # in tiles: between pairs, within a pair
_SIDE, _HEADER = 0.62, 0.75  # inches: left margin with the names of the rows, title of a panel
_SHORT = 3  # longest name of a class that has a line with another
_DIFFERS = "#A50026"


@dataclass(frozen=True)
class NearestPanel:
    """The keys of one model and the training image that is nearest to each.

    Attributes:
        keys: (prototypes, features), in the data's own units.
        values: (prototypes, classes).
        nearest: (prototypes, features), in the data's own units.
        labels: (prototypes,), those of the nearest images.
        distance: (prototypes,), in the model's scaled units.
    """

    title: str
    keys: NDArray[np.floating]
    values: NDArray[np.floating]
    nearest: NDArray[np.floating]
    labels: NDArray[np.integer]
    distance: NDArray[np.floating]


@dataclass(frozen=True)
class _Labels:
    """The text below a pair: in one line for short names of classes, otherwise in two."""

    names: Sequence[str]
    lines: int
    font: float

    @classmethod
    def fit(cls, names: Sequence[str]) -> _Labels:
        longest = max(map(len, names))
        return cls(names, 1, 9.0) if longest <= _SHORT else cls(names, 2, min(7.5, 90 / (longest + 2)))

    @property
    def height(self) -> float:
        """Height of the strip, in tiles."""
        return 0.46 if self.lines == 1 else 0.62

    def text(self, key: int, image: int) -> str:
        return (" → " if self.lines == 1 else " →\n").join((self.names[key], self.names[image]))


def draw_keys_nearest(
    panels: Sequence[NearestPanel], image_shape: tuple[int, int], class_names: Sequence[str], *, source: str = ""
) -> Figure:
    """Return a figure with a block for each panel: keys, sorted by class, and the nearest training image of each below.

    A red frame and label mark an image of another class than that of the key's value.

    Raises:
        ConfigError: no panels, or arrays of different lengths.
    """
    if not panels:
        raise ConfigError("the figure of keys and nearest images needs at least one model whose keys are points")
    for panel in panels:
        if not len(panel.keys) == len(panel.values) == len(panel.nearest) == len(panel.labels) == len(panel.distance):
            raise ConfigError(f"arrays of '{panel.title}' have different lengths")
    tile = (_WIDTH - _SIDE - 0.1) / (_COLUMNS * (1 + _GAP) - _GAP)
    labels = _Labels.fit(class_names)
    step = (2 * image_shape[0] / image_shape[1] + _BETWEEN + labels.height) * tile
    blocks = [_HEADER + -(-len(panel.keys) // _COLUMNS) * step for panel in panels]
    note = (
        "below each key its nearest training image, the class of the key's value → the label of the image, "
        "and their distance in scaled units; red: class and label differ"
    )
    lines = wrapped_lines([note, SCALE_CAPTION, source], _WIDTH)
    total = sum(blocks) + 0.15 + 0.165 * len(lines)
    figure = Figure(figsize=(_WIDTH, total), facecolor=PAPER)
    top = total
    for panel, height in zip(panels, blocks, strict=True):
        _draw_title(figure, panel, top / total)
        grid = height - _HEADER
        axes = figure.add_axes((_SIDE / _WIDTH, (top - height) / total, 1 - (_SIDE + 0.1) / _WIDTH, grid / total))
        _draw_block(axes, panel, image_shape, labels)
        top -= height
    draw_caption(figure, lines)
    return figure


def _draw_title(figure: Figure, panel: NearestPanel, top: float) -> None:
    agree = int(np.sum(panel.labels == np.argmax(panel.values, axis=1)))
    summary = (
        f"mean distance {panel.distance.mean():.3g}, label agrees for {agree} of {len(panel.keys)} keys; "
        f"{len(np.unique(panel.nearest, axis=0))} different images"
    )
    up = 1 / figure.get_figheight()
    figure.text(0.012, top - 0.28 * up, panel.title, fontsize=12.5, weight="bold", color=INK, va="center")
    figure.text(0.012, top - 0.52 * up, summary, fontsize=9.5, color=QUIET, va="center")


def _draw_block(axes: Axes, panel: NearestPanel, image_shape: tuple[int, int], labels: _Labels) -> None:
    aspect = image_shape[0] / image_shape[1]
    step = 2 * aspect + _BETWEEN + labels.height
    classes = np.argmax(panel.values, axis=1)
    for place, key in enumerate(key_order(panel.values)):
        row, column = divmod(place, _COLUMNS)
        left, top = column * (1 + _GAP), row * step
        draw_tile(axes, panel.keys[key].reshape(image_shape), left, top, class_colour(int(classes[key])))
        differs = panel.labels[key] != classes[key]
        below = top + aspect + _BETWEEN
        frame = _DIFFERS if differs else RULE
        draw_tile(axes, panel.nearest[key].reshape(image_shape), left, below, frame, width=1.8 if differs else 0.8)
        words = labels.text(classes[key], panel.labels[key])
        colour, weight = (_DIFFERS, "bold") if differs else (INK, "normal")
        middle, bottom = left + 0.5, below + aspect
        style: dict[str, Any] = {"ha": "center", "va": "center"}
        axes.text(
            middle,
            bottom + 0.03 + 0.09 * labels.lines,
            words,
            fontsize=labels.font,
            color=colour,
            weight=weight,
            **style,
        )
        distance = f"{panel.distance[key]:#.3g}".rstrip(".")
        axes.text(middle, bottom + labels.height - 0.16, distance, fontsize=8, color=QUIET, **style)
    rows = -(-len(panel.keys) // _COLUMNS)
    for row in range(rows):
        for word, middle in (("key", 0.5 * aspect), ("nearest", 1.5 * aspect + _BETWEEN)):
            axes.text(
                -0.08, row * step + middle, word, ha="right", va="center", fontsize=8.5, color=QUIET, clip_on=False
            )
    axes.set_xlim(0, _COLUMNS * (1 + _GAP) - _GAP)
    axes.set_ylim(rows * step, 0)
    axes.set_axis_off()
