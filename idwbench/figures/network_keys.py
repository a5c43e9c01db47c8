"""Keys in feature space as the training images whose features are nearest to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.errors import ConfigError
from idwbench.figures.keys import draw_tile, key_order
from idwbench.figures.style import INK, PAPER, QUIET, RULE, class_colour, draw_caption, wrapped_lines

__all__ = ["FeaturePanel", "draw_network_keys"]

_WIDTH, _COLUMNS = 10.0, 20  # inches; keys in a row
_SIDE, _HEADER = 0.62, 0.62  # inches: left margin with the names of the rows, title of a panel
_GAP, _BETWEEN, _NAME, _NUMBER = 0.16, 0.06, 0.42, 0.5  # in tiles: gaps, and the strips above and below a column
_DIFFERS = "#A50026"


@dataclass(frozen=True)
class FeaturePanel:
    """The keys of one network's head and the training images whose features are nearest to each.

    Attributes:
        values: (prototypes, classes).
        nearest: (prototypes, images, pixels), in the data's own units, nearest first.
        labels: (prototypes, images), those of the images.
        distance: (prototypes,), of the first image, divided by the mean distance of a training point to its nearest
            other one; both in feature space.
    """

    title: str
    values: NDArray[np.floating]
    nearest: NDArray[np.floating]
    labels: NDArray[np.integer]
    distance: NDArray[np.floating]


def draw_network_keys(
    panels: Sequence[FeaturePanel], image_shape: tuple[int, int], class_names: Sequence[str], *, source: str = ""
) -> Figure:
    """Return a figure with a block for each panel, and in it a column of nearest training images for each key.

    Keys are sorted by the class of their value, which is written above; a red frame marks an image of another class.

    Raises:
        ConfigError: no panels, or arrays of different lengths.
    """
    if not panels:
        raise ConfigError("the figure needs at least one network with a head of prototypes whose keys are points")
    for panel in panels:
        if not len(panel.values) == len(panel.nearest) == len(panel.labels) == len(panel.distance):
            raise ConfigError(f"arrays of '{panel.title}' have different lengths")
    tile = (_WIDTH - _SIDE - 0.1) / (_COLUMNS * (1 + _GAP) - _GAP)
    steps = [_step(panel, image_shape) * tile for panel in panels]
    blocks = [_HEADER + -(-len(panel.values) // _COLUMNS) * step for panel, step in zip(panels, steps, strict=True)]
    note = (
        "above each column the class of the key's value; below it the training images whose features are nearest to "
        "the key, nearest first; red frame: label and class differ; number: distance of the first image, in mean "
        "distances of a training point to its nearest other one"
    )
    lines = wrapped_lines([note, source], _WIDTH)
    total = sum(blocks) + 0.15 + 0.165 * len(lines)
    figure = Figure(figsize=(_WIDTH, total), facecolor=PAPER)
    top = total
    for panel, height in zip(panels, blocks, strict=True):
        _draw_title(figure, panel, top / total)
        grid = height - _HEADER
        axes = figure.add_axes((_SIDE / _WIDTH, (top - height) / total, 1 - (_SIDE + 0.1) / _WIDTH, grid / total))
        _draw_block(axes, panel, image_shape, class_names)
        top -= height
    draw_caption(figure, lines)
    return figure


def _step(panel: FeaturePanel, image_shape: tuple[int, int]) -> float:
    """Return the height of one row of columns, in tiles."""
    aspect = image_shape[0] / image_shape[1]
    return float(_NAME + panel.nearest.shape[1] * (aspect + _BETWEEN) + _NUMBER)


def _draw_title(figure: Figure, panel: FeaturePanel, top: float) -> None:
    agree = int(np.sum(panel.labels[:, 0] == panel.values.argmax(1)))
    summary = (
        f"mean distance {panel.distance.mean():.3g}, label agrees for {agree} of {len(panel.values)} keys; "
        f"{len(np.unique(panel.nearest[:, 0], axis=0))} different images are nearest"
    )
    up = 1 / figure.get_figheight()
    figure.text(0.012, top - 0.2 * up, panel.title, fontsize=9.5, weight="bold", color=INK, va="center")
    figure.text(0.012, top - 0.42 * up, summary, fontsize=8.5, color=QUIET, va="center")


def _draw_block(axes: Axes, panel: FeaturePanel, image_shape: tuple[int, int], class_names: Sequence[str]) -> None:
    aspect, step = image_shape[0] / image_shape[1], _step(panel, image_shape)
    classes = panel.values.argmax(1)
    size = 8.5 if max(map(len, class_names)) <= 3 else 5.0
    for place, key in enumerate(key_order(panel.values)):
        row, column = divmod(place, _COLUMNS)
        left, top = column * (1 + _GAP), row * step
        axes.text(
            left + 0.5,
            top + 0.6 * _NAME,
            class_names[classes[key]],
            ha="center",
            va="center",
            fontsize=size,
            weight="bold",
            color=class_colour(int(classes[key])),
        )
        for image, label in enumerate(panel.labels[key]):
            differs = label != classes[key]
            below = top + _NAME + image * (aspect + _BETWEEN)
            frame, width = (_DIFFERS, 1.6) if differs else (RULE, 0.6)
            draw_tile(axes, panel.nearest[key, image].reshape(image_shape), left, below, frame, width)
        bottom = top + step - 0.6 * _NUMBER
        axes.text(left + 0.5, bottom, f"{panel.distance[key]:.2g}", ha="center", va="center", fontsize=7, color=QUIET)
    rows = -(-len(panel.values) // _COLUMNS)
    axes.set_xlim(0, _COLUMNS * (1 + _GAP) - _GAP)
    axes.set_ylim(rows * step, 0)
    axes.set_axis_off()
