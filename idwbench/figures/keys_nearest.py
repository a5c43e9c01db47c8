"""Keys as images beside their nearest training images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset
from idwbench.errors import ConfigError
from idwbench.figures.keys import image_models, key_order, keys_are_points, model_title
from idwbench.figures.registry import figure_of_runs
from idwbench.figures.runs import Model
from idwbench.figures.style import INK, QUIET, RULE, Drawing, class_colour, new_page
from idwbench.figures.tiles import SCALE_CAPTION, WRONG, Picture, Tile, Words, draw_tiles, grid_height, tile_height
from idwbench.models.neighbours import nearest
from idwbench.report.summaries import Section
from idwbench.results.records import StoredRun

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["NearestPanel", "collect_keys_nearest", "draw_keys_nearest", "draw_titles", "keys_nearest_figure"]

_WIDTH, _COLUMNS, _LINE = 10.0, 10, 0.21  # inches, pairs in a row, and the height of a line in tiles
_SHORT = 3  # longest name of a class that has a line with another


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


@figure_of_runs("keys_nearest")
def keys_nearest_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """The keys of each method whose keys are points, for the lowest seed, above their nearest training images.

    Raises:
        ConfigError: no complete run, the inputs are not images of classes, or no method has points as keys.
    """
    panels, dataset, source, left_out = collect_keys_nearest(store, runs, data_dir)
    assert dataset.image_shape is not None
    return Drawing(draw_keys_nearest(panels, dataset.image_shape, dataset.class_names, source=source), left_out)


def collect_keys_nearest(
    store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None
) -> tuple[list[NearestPanel], Dataset, str, tuple[str, ...]]:
    """Return a panel for each model, their data set, its name with the protocol, and what is left out.

    It raises as the figure does.
    """
    section, dataset, models, left_out = image_models(store, runs, data_dir)
    chosen = [model for model in models if keys_are_points(model)]
    others = ", ".join(dict.fromkeys(model.row.model.method for model in models if model not in chosen))
    if not chosen:
        raise ConfigError(f"the keys of {others} are directions, not points", location=("figure",))
    if others:
        left_out = (*left_out, f"not drawn: {others}, whose keys are directions, not points")
    return [_panel(section, model, dataset) for model in chosen], dataset, section.title, left_out


def _panel(section: Section, model: Model, dataset: Dataset) -> NearestPanel:
    rows, distance = nearest(model.keys, dataset.train.inputs)
    invert = dataset.scaling.invert
    images = invert(dataset.train.inputs[rows])
    labels = dataset.train.labels[rows]
    return NearestPanel(model_title(section, model), invert(model.keys), model.values, images, labels, distance)


def draw_keys_nearest(
    panels: Sequence[NearestPanel], image_shape: tuple[int, int], class_names: Sequence[str], *, source: str = ""
) -> Figure:
    """Return a figure with a block for each panel: keys, sorted by class, and the nearest training image of each below.

    A red frame and label mark an image of another class than that of the key's value.
    """
    aspect = image_shape[0] / image_shape[1]
    grids = [_tiles(panel, image_shape, class_names) for panel in panels]
    height = tile_height(grids[0][0], aspect, _LINE)
    heights = [(_WIDTH - 0.7) * grid_height(len(tiles), _COLUMNS, height) + 0.65 for tiles in grids]
    note = (
        "below each key its nearest training image, the class of the key's value → the label of the image, "
        "and their distance in scaled units; red: class and label differ"
    )
    figure, body = new_page(_WIDTH, sum(heights), [note, SCALE_CAPTION, source])
    grid = body.subplots(len(panels), 1, squeeze=False, height_ratios=heights)
    for axes, panel, tiles in zip(grid[:, 0], panels, grids, strict=True):
        draw_tiles(axes, tiles, _COLUMNS, aspect, _LINE)
        for row in range(-(-len(tiles) // _COLUMNS)):
            for word, middle in (("key", 0.5 * aspect), ("nearest", 1.5 * aspect)):
                place = {"ha": "right", "va": "center", "fontsize": 8.5}
                axes.text(-0.08, row * height + middle, word, color=QUIET, **place)
        agree = int(np.sum(panel.labels == np.argmax(panel.values, axis=1)))
        images = f"{len(np.unique(panel.nearest, axis=0))} different images"
        draw_titles(axes, panel.title, panel.distance, f"{agree} of {len(panel.keys)} keys; {images}")
    return figure


def draw_titles(axes: Axes, title: str, distance: NDArray[np.floating], agreement: str, size: float = 12.5) -> None:
    """Write the title of a grid, and below it the mean distance and how many labels agree."""
    axes.set_title(title, loc="left", fontsize=size, weight="bold", color=INK, pad=20)
    words = f"mean distance {distance.mean():.3g}, label agrees for {agreement}"
    place: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "fontsize": 9.0}
    axes.annotate(words, (0, 1), (0, 7), color=QUIET, **place)


def _tiles(panel: NearestPanel, image_shape: tuple[int, int], names: Sequence[str]) -> list[Tile]:
    """Return a tile for each key; short names of classes stand in one line, others in two."""
    classes, tiles = np.argmax(panel.values, axis=1), []
    longest = max(map(len, names))
    size = 9.0 if longest <= _SHORT else min(7.5, 90 / (longest + 2))
    for key in key_order(panel.values):
        own, label = int(classes[key]), int(panel.labels[key])
        differs = own != label
        pictures = (
            Picture(panel.keys[key].reshape(image_shape), class_colour(own)),
            Picture(panel.nearest[key].reshape(image_shape), *((WRONG, 1.8) if differs else (RULE, 0.8))),
        )
        words = [f"{names[own]} → {names[label]}"] if longest <= _SHORT else [f"{names[own]} →", names[label]]
        below = [Words(word, WRONG if differs else INK, size, differs) for word in words]
        distance = f"{panel.distance[key]:#.3g}".rstrip(".")
        tiles.append(Tile(pictures, (*below, Words(distance, QUIET))))
    return tiles
