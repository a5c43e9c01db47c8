"""The primitive of figures in the plane: predictions, points and keys of two-dimensional data with two classes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset
from idwbench.errors import ConfigError
from idwbench.figures.style import INK, PAPER, QUIET, class_colour, draw_frame, new_page, seeds_label, write
from idwbench.runs.kinds.models import ModelConfig
from idwbench.runs.kinds.prototypes import PrototypesConfig

__all__ = [
    "Extent",
    "PlanePicture",
    "accuracies_caption",
    "draw_boundary",
    "draw_empty",
    "draw_note",
    "draw_plane",
    "draw_plane_grid",
    "draw_regions",
    "legend_handles",
    "legend_mark",
    "plane_extent",
    "plane_picture",
]

GRID = 160  # points of the grid of predictions in each direction
_MARGIN = 0.35  # around the data, in its own units
_WIDTH, _TALLEST, _RIGHT = 10.0, 13.0, 0.1  # inches: of a figure, of its panels together, and right of them
_STRENGTH = 0.4  # of the colour of a class that is certain

# x minimum, x maximum, y minimum, y maximum
Extent = tuple[float, float, float, float]
Floats = NDArray[np.floating]
Panel = TypeVar("Panel")
RowLabel = tuple[str, str, str]  # words, lines below them, and their colour


@dataclass(frozen=True)
class PlanePicture:
    """The keys (prototypes, 2) of a model in the data's own units, their values (prototypes, 2), and its predictions.

    Attributes:
        probability: P(class 1) at the middles of the cells of a grid over the extent, first row lowest.
    """

    dataset: Dataset
    keys: Floats
    values: Floats
    probability: Floats


def plane_extent(dataset: Dataset) -> Extent:
    """Return the extent of pictures of a data set, in its own units.

    Raises:
        ConfigError: the data does not have two classes in two dimensions.
    """
    if dataset.n_features != 2 or len(dataset.class_names) != 2:
        sizes = f"{dataset.n_features} and {len(dataset.class_names)}"
        raise ConfigError(f"the figure needs 2 features and 2 classes, {dataset.config.name} has {sizes}")
    inputs = dataset.scaling.invert(np.concatenate([dataset.train.inputs, dataset.test.inputs]))
    low, high = inputs.min(0) - _MARGIN, inputs.max(0) + _MARGIN
    return float(low[0]), float(high[0]), float(low[1]), float(high[1])


def plane_picture(
    model: ModelConfig, arrays: Mapping[str, NDArray[np.float32]], dataset: Dataset, points: int = GRID
) -> PlanePicture:
    """Return the picture of a model with the arrays of its run, in scaled units; the grid is (points, points)."""
    import torch

    from idwbench.models.modules import PrototypeNetwork

    assert isinstance(model, PrototypesConfig)
    centres = _cell_centres(plane_extent(dataset), (points, points))
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*centres)], axis=1)
    network = PrototypeNetwork.of(model.method_record, model.parameters, arrays)
    logits = torch.from_numpy(network.outputs(dataset.scaling.apply(grid)))
    probability = np.asarray(logits.softmax(-1)[:, 1].reshape(points, points).numpy())
    return PlanePicture(dataset, dataset.scaling.invert(arrays["keys"]), arrays["values"], probability)


def draw_plane_grid(
    panels: Mapping[tuple[Any, Any], Panel],
    rows: Mapping[Any, RowLabel],
    columns: Mapping[Any, str],
    draw: Callable[[Axes, Panel], None],
    dataset: Dataset,
    caption: Sequence[str],
    legend: Sequence[Line2D] = (),
    *,
    widest: float,
    title: float,
) -> Figure:
    """Return a figure with a panel for each row and column; the units of axes are about equal.

    It is at most 10 inches wide, and its panels together are at most 13 inches high.

    Args:
        panels: What `draw` draws, by row and column; where there is none the panel says so.
        rows: Labels of the rows.
        columns: Labels of the columns.
        draw: A function that draws one.
        dataset: The data that all panels are about.
        caption: Sentences below the panels.
        legend: Marks of the legend, by default `legend_handles`.
        widest: The largest width of a panel, in inches.
        title: The height above each, for what `draw` writes there.
    """
    letters = [(len(words), max(map(len, below.split("\n")))) for words, below, _ in rows.values()]
    margin = 0.3 + max(max(0.1 * words, 0.072 * below) for words, below in letters)
    left, right, bottom, top = plane_extent(dataset)
    ratio = (top - bottom) / (right - left)
    tallest = (_TALLEST - 0.3) / len(rows) - title
    panel = min((_WIDTH - margin - _RIGHT) / len(columns), tallest / ratio, widest)
    height = len(rows) * (panel * ratio + title) + 0.3
    handles = legend or legend_handles(dataset.class_names)
    figure, body = new_page(margin + _RIGHT + len(columns) * panel, height, caption, handles)
    engine = figure.get_layout_engine()
    assert isinstance(engine, ConstrainedLayoutEngine)
    engine.set(h_pad=0.06)
    grid = body.subplots(len(rows), len(columns), squeeze=False)
    for row, places in zip(rows, grid, strict=True):
        for column, axes in zip(columns, places, strict=True):
            if (row, column) in panels:
                draw(axes, panels[row, column])
            else:
                draw_empty(axes)
        beside = {"ha": "right", "linespacing": 1.35, "multialignment": "right"}
        words, below, colour = rows[row]
        write(places[0], words, (0, 0.5), (-9, 0), fontsize=11, color=INK, weight="bold", va="bottom", **beside)
        write(places[0], below, (0, 0.5), (-9, -2), fontsize=8.5, color=colour, va="top", **beside)
    for text, axes in zip(columns.values(), grid[0], strict=True):
        write(axes, text, (0.5, 1), (0, 72 * title - 3), fontsize=11.5, color=INK, ha="center", weight="bold")
    return figure


def draw_plane(axes: Axes, picture: PlanePicture, *, test: bool = True, scale: float = 1.0) -> int:
    """Draw predictions, points and keys, and return the number of keys outside the extent.

    Training points are dots and test points crosses; keys are diamonds in the colour of the class of their value.

    Args:
        axes: The panel.
        picture: A model.
        test: Whether test points are drawn.
        scale: Of the areas of points and keys.
    """
    dataset, extent = picture.dataset, plane_extent(picture.dataset)
    draw_regions(axes, np.stack([1 - picture.probability, picture.probability], axis=2), extent)
    draw_boundary(axes, picture)
    dots: dict[str, Any] = {"s": 7 * scale, "alpha": 0.55, "linewidths": 0, "zorder": 2}
    crosses: dict[str, Any] = {"s": 20 * scale, "marker": "x", "linewidths": 1.1, "zorder": 3}
    splits = [(dataset.train, dots), *([(dataset.test, crosses)] if test else [])]
    for label in (0, 1):
        for split, marks in splits:
            here = dataset.scaling.invert(split.inputs[split.labels == label])
            axes.scatter(here[:, 0], here[:, 1], color=class_colour(label), **marks)
    draw_frame(axes)
    return _draw_keys(axes, picture, extent, 62 * scale)


def draw_regions(axes: Axes, probabilities: Floats, extent: Extent) -> None:
    """Draw the most probable class of (n, n, classes) probabilities in its colour, the stronger the surer."""
    n_classes = probabilities.shape[2]
    sureness = np.clip((n_classes * probabilities.max(2, keepdims=True) - 1) / (n_classes - 1), 0, 1)
    colours = np.array([to_rgb(class_colour(label)) for label in range(n_classes)])
    shades = 1 - _STRENGTH * sureness * (1 - colours[probabilities.argmax(2)])
    axes.imshow(shades, extent=extent, origin="lower", interpolation="bilinear", aspect="auto", zorder=0)
    axes.set(xlim=extent[:2], ylim=extent[2:])


def draw_boundary(axes: Axes, picture: PlanePicture, style: str = "solid") -> None:
    """Draw the line P(class 1) = ½, if there is one."""
    probability = picture.probability
    if probability.min() < 0.5 < probability.max():
        # Above the background and below the points.
        lines: dict[str, Any] = {"colors": [QUIET], "linewidths": 0.9, "linestyles": [style], "zorder": 1}
        rows, columns = probability.shape
        centres = _cell_centres(plane_extent(picture.dataset), (columns, rows))
        axes.contour(*centres, probability, levels=[0.5], **lines)


def _draw_keys(axes: Axes, picture: PlanePicture, extent: Extent, largest: float) -> int:
    left, right, bottom, top = extent
    x, y = picture.keys[:, 0], picture.keys[:, 1]
    inside = (x >= left) & (x <= right) & (y >= bottom) & (y <= top)
    colours = [class_colour(int(label)) for label in np.argmax(picture.values[inside], axis=1)]
    size = float(np.clip(largest * 6.8 / max(len(x), 1), 11, largest))
    width = 0.6 if size < 16 else 0.9
    axes.scatter(x[inside], y[inside], s=size, marker="D", c=colours, edgecolors=INK, linewidths=width, zorder=5)
    return int(np.count_nonzero(~inside))


def accuracies_caption(counts: Collection[int], what: str = "accuracies in %", which: str = "") -> str:
    """Return what the numbers of panels are, with the numbers of seeds that they and the pictures are of."""
    over = f", mean ± std over {which}{seeds_label(counts)}; pictures show the lowest of these seeds"
    return what + (over if max(counts, default=1) > 1 else "")


def draw_note(axes: Axes, text: str, *, size: float = 7.5) -> None:
    """Write `text`, unless it is empty, in the lower left corner, above everything."""
    if text:
        box: dict[str, Any] = {"boxstyle": "round,pad=0.25", "facecolor": PAPER, "edgecolor": "none", "alpha": 0.85}
        place: dict[str, Any] = {"transform": axes.transAxes, "ha": "left", "va": "bottom", "zorder": 6}
        axes.text(0.015, 0.03, text, fontsize=size, color=INK, bbox=box, **place)


def draw_empty(axes: Axes, text: str = "no run") -> None:
    """Draw a frame with `text` in its middle."""
    draw_frame(axes)
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", fontsize=9, color=QUIET)


def legend_mark(marker: str, size: float, label: str, **style: Any) -> Line2D:
    """Return a mark for a legend."""
    return Line2D([], [], linestyle="none", marker=marker, markersize=size, label=label, **style)


def legend_handles(class_names: Sequence[str], *, test: bool = True) -> list[Line2D]:
    """Return the marks of classes, points, keys and boundary."""
    handles = [
        *(
            legend_mark("s", 9, f"class {name}", color=class_colour(label), alpha=0.8, markeredgewidth=0)
            for label, name in enumerate(class_names)
        ),
        legend_mark("o", 4, "training point", color=QUIET, markeredgewidth=0),
        legend_mark("x", 5.5, "test point", color=QUIET, markeredgewidth=1.2),
        legend_mark("D", 6.5, "key, in the class of its value", color=PAPER, markeredgecolor=INK, markeredgewidth=1.0),
        Line2D([], [], color=QUIET, linewidth=0.9, label="P(class) = ½"),
    ]
    return handles if test else [handle for handle in handles if handle.get_label() != "test point"]


def _cell_centres(extent: Extent, counts: tuple[int, int]) -> list[NDArray[np.float64]]:
    """Return the middles of equal parts of both axes, where the pixels of an image of the extent are."""
    edges = ((*extent[:2], counts[0]), (*extent[2:], counts[1]))
    return [np.linspace(low, high, 2 * n + 1)[1::2] for low, high, n in edges]
