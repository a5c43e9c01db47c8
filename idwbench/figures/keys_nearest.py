"""Keys as images beside their nearest training images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from idwbench.data.dataset import Dataset
from idwbench.errors import ConfigError
from idwbench.figures.keys import check_images, image_models, key_order, keys_are_points, model_title, nearest_label
from idwbench.figures.runs import Model
from idwbench.figures.style import INK, QUIET, RULE, Drawing, class_colour
from idwbench.figures.tiles import SCALE_CAPTION, WRONG, Picture, Tile, TileGrid, Words, draw_tile_grids
from idwbench.models.neighbours import nearest
from idwbench.results.records import StoredRun

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["keys_nearest_figure"]

_SHORT = 3  # longest name of a class that has a line with another
_NOTE = (
    "below each key its nearest training image, the class of the key's value → the label of the image, "
    "and their distance in scaled units; red: class and label differ"
)


def keys_nearest_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """The keys of each method whose keys are points, for the lowest seed, above their nearest training images.

    Raises:
        ConfigError: no complete run, the inputs are not images of classes, or no method has points as keys.
    """
    section, dataset, models, left_out = image_models(store, runs, data_dir)
    chosen = [model for model in models if keys_are_points(model)]
    others = ", ".join(dict.fromkeys(model.row.model.method for model in models if model not in chosen))
    if not chosen:
        raise ConfigError(f"the keys of {others} are directions, not points", location=("figure",))
    if others:
        left_out.append(f"not drawn: {others}, whose keys are directions, not points")
    grids = [_grid(model_title(section, model), model, dataset) for model in chosen]
    height, width = check_images(dataset)
    return Drawing(draw_tile_grids(grids, height / width, 0.21, [_NOTE, SCALE_CAPTION, section.title]), tuple(left_out))


def _grid(title: str, model: Model, dataset: Dataset) -> TileGrid:
    """Return a tile for each key, sorted by class, with its nearest training image; those of another class are red.

    Short names of classes stand in one line, others in two.
    """
    rows, distance = nearest(model.keys, dataset.train.inputs)
    keys, images = (dataset.scaling.invert(pixels) for pixels in (model.keys, dataset.train.inputs[rows]))
    classes, labels = np.argmax(model.values, axis=1), dataset.train.labels[rows]
    names, shape = dataset.class_names, check_images(dataset)
    longest = max(map(len, names))
    size = 9.0 if longest <= _SHORT else min(7.5, 90 / (longest + 2))
    tiles = []
    for key in key_order(model.values):
        own, label = int(classes[key]), int(labels[key])
        differs = own != label
        pictures = (
            Picture(keys[key].reshape(shape), class_colour(own)),
            Picture(images[key].reshape(shape), *((WRONG, 1.8) if differs else (RULE, 0.8))),
        )
        words = [f"{names[own]} → {names[label]}"] if longest <= _SHORT else [f"{names[own]} →", names[label]]
        below = [Words(word, WRONG if differs else INK, size, differs) for word in words]
        tiles.append(Tile(pictures, (*below, Words(f"{distance[key]:#.3g}".rstrip("."), QUIET))))
    return TileGrid(title, tiles, 10, nearest_label(distance, labels == classes, rows), ("key", "nearest"))
