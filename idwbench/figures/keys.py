"""The paper's Figure 4: keys as images, sorted by the argmax of their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from idwbench.errors import ConfigError
from idwbench.figures.style import INK, PAPER, RULE, class_colour, diverging, draw_caption, wrapped_lines

__all__ = [
    "KEY_COLOURS",
    "SCALE_CAPTION",
    "KeysPanel",
    "draw_key_grid",
    "draw_keys",
    "draw_tile",
    "key_order",
    "scale_limit",
]

_WIDTH = 10.0  # inches
_GAP = 0.08  # between tiles, in tiles
_LABEL = 0.30  # height of the strip under a tile, in tiles
_HEADER, _FOOTER = 0.55, 0.4  # inches above each grid, and below the last
# Upper end of the colour scale of a key: border pixels may have much larger values than the rest.
_QUANTILE = 0.95
SCALE_CAPTION = (
    "each key in its own scale: white is 0, black positive, blue negative; "
    f"full colour from the {100 * _QUANTILE:g}th percentile of its absolute values on"
)
# Positive numbers are dark, negative ones blue.
KEY_COLOURS: LinearSegmentedColormap = diverging("idwbench_keys", "#2B7BBA", PAPER, "#111418")


@dataclass(frozen=True)
class KeysPanel:
    """The `keys` (prototypes, features), in the data's own units, and `values` (prototypes, classes) of one model."""

    title: str
    keys: NDArray[np.floating]
    values: NDArray[np.floating]


def key_order(values: NDArray[np.floating]) -> NDArray[np.intp]:
    """Return the indices of prototypes sorted by the argmax of their values (stable)."""
    return np.argsort(np.argmax(values, axis=1), kind="stable")


def draw_keys(
    panels: Sequence[KeysPanel],
    image_shape: tuple[int, int] | None,
    class_names: Sequence[str],
    *,
    source: str = "",
) -> Figure:
    """Return a figure with one grid of keys for each panel, one above the other.

    `source` is the last line of the caption: data set and protocol.

    Raises:
        ConfigError: no panels, inputs that are not images, or arrays that do not fit.
    """
    if not panels:
        raise ConfigError("the figure of keys needs at least one model")
    shape = _checked(panels, image_shape, class_names)
    heights = [_grid_height(len(panel.keys), shape) * _WIDTH * 0.97 + _HEADER for panel in panels]
    lines = wrapped_lines([SCALE_CAPTION, source], _WIDTH)
    total = sum(heights) + _FOOTER + 0.165 * (len(lines) - 1)
    figure = Figure(figsize=(_WIDTH, total), facecolor=PAPER)
    top = total
    for panel, height in zip(panels, heights, strict=True):
        grid = (height - _HEADER) / total
        axes = figure.add_axes((0.015, (top - height) / total, 0.97, grid))
        draw_key_grid(axes, panel, shape, class_names)
        title_y = (top - 0.62 * _HEADER) / total
        figure.text(0.015, title_y, panel.title, fontsize=13, weight="bold", color=INK, va="center")
        top -= height
    draw_caption(figure, lines)
    return figure


def draw_key_grid(axes: Axes, panel: KeysPanel, image_shape: tuple[int, int], class_names: Sequence[str]) -> None:
    """Draw one grid: a tile for each key with its class, and a band of the class colour for each group.

    Each key has its own scale, symmetric about zero, up to the 95th percentile of its absolute values.
    """
    order = key_order(panel.values)
    labels = np.argmax(panel.values, axis=1)[order]
    columns = _n_columns(len(order))
    aspect = image_shape[0] / image_shape[1]
    step = aspect + _LABEL + _GAP
    font = _label_size(axes, columns, [class_names[label] for label in labels])
    for place, (key, label) in enumerate(zip(order, labels, strict=True)):
        row, column = divmod(place, columns)
        left, top = column * (1 + _GAP), row * step
        image = np.asarray(panel.keys[key], dtype=np.float64).reshape(image_shape)
        extent = (left, left + 1, top + aspect, top)
        limit = scale_limit(image)
        axes.imshow(
            image,
            cmap=KEY_COLOURS,
            norm=Normalize(-limit, limit),
            extent=extent,
            interpolation="nearest",
            aspect="equal",
        )
        axes.add_patch(Rectangle((left, top), 1, aspect, fill=False, edgecolor=RULE, linewidth=0.6))
        joins = column + 1 < columns and place + 1 < len(order) and labels[place + 1] == label
        band = 1 + (_GAP + 0.005 if joins else 0.0)
        colour = class_colour(int(label))
        axes.add_patch(Rectangle((left, top + aspect + 0.03), band, 0.035, color=colour, linewidth=0))
        text = (left + 0.5, top + aspect + 0.06 + (_LABEL - 0.05) / 2)
        axes.text(*text, class_names[label], ha="center", va="center", fontsize=font, color=INK)
    rows = -(-len(order) // columns)
    axes.set_xlim(-0.01, columns * (1 + _GAP) - _GAP + 0.01)
    axes.set_ylim(rows * step, -0.02)
    axes.set_axis_off()


def scale_limit(image: NDArray[np.float64]) -> float:
    """Return the upper end of the colour scale of a key, above 0."""
    size = np.abs(image)
    return float(np.quantile(size, _QUANTILE)) or float(size.max()) or 1.0


def _checked(
    panels: Sequence[KeysPanel], image_shape: tuple[int, int] | None, class_names: Sequence[str]
) -> tuple[int, int]:
    if image_shape is None:
        raise ConfigError("the inputs of this data set are not images")
    for panel in panels:
        expected = (len(panel.keys), image_shape[0] * image_shape[1])
        if panel.keys.shape != expected or not len(panel.keys):
            raise ConfigError(f"keys of '{panel.title}': expected shape {expected}, got {panel.keys.shape}")
        if panel.values.shape != (len(panel.keys), len(class_names)):
            expected = (len(panel.keys), len(class_names))
            raise ConfigError(f"values of '{panel.title}': expected shape {expected}, got {panel.values.shape}")
    return image_shape


def _n_columns(n_tiles: int) -> int:
    """Return the number of columns with the fewest empty places."""
    if n_tiles <= 10:
        return max(n_tiles, 5)  # a few keys keep the size of tiles
    choices = range(8, 13) if n_tiles <= 60 else range(14, 21)
    return min(choices, key=lambda columns: (-n_tiles % columns, abs(columns - choices[len(choices) // 2]), -columns))


def _grid_height(n_tiles: int, image_shape: tuple[int, int]) -> float:
    """Return the height of a grid in units of its width."""
    columns = _n_columns(n_tiles)
    rows = -(-n_tiles // columns)
    step = image_shape[0] / image_shape[1] + _LABEL + _GAP
    return (rows * step + 0.02) / (columns * (1 + _GAP) - _GAP + 0.02)


def _label_size(axes: Axes, columns: int, words: list[str]) -> float:
    """Return the font size, in points, at which the longest word fits in its tile."""
    figure = axes.get_figure(root=True)
    width = figure.get_figwidth() * axes.get_position().width if figure else _WIDTH
    tile = 72 * width / (columns * (1 + _GAP))
    return float(np.clip(1.05 * tile / (0.6 * max(map(len, words))), 4.0, min(10.0, 0.24 * tile)))


def draw_tile(axes: Axes, image: NDArray[np.floating], left: float, top: float, frame: str, width: float = 1.4) -> None:
    """Draw an image of width 1 with a frame; its upper left corner is (left, top), and y grows downwards."""
    height = image.shape[0] / image.shape[1]
    limit = scale_limit(np.asarray(image, dtype=np.float64))
    extent = (left, left + 1, top + height, top)
    axes.imshow(image, cmap=KEY_COLOURS, norm=Normalize(-limit, limit), extent=extent, interpolation="nearest")
    axes.add_patch(
        Rectangle((left, top), 1, height, fill=False, edgecolor=frame, linewidth=width, clip_on=False, zorder=3)
    )
