"""Keys beside the training images that are nearest to them: as images themselves, and in feature space of networks."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.attention.scores import METHODS
from idwbench.data.dataset import Dataset
from idwbench.errors import ConfigError
from idwbench.figures.keys import check_images, image_models, key_order
from idwbench.figures.runs import Model, Selection, first_run
from idwbench.figures.style import INK, QUIET, RULE, class_colour
from idwbench.figures.tiles import SCALE_CAPTION, WRONG, Picture, Tile, TileGrid, Words, draw_tile_grids
from idwbench.models.neighbours import mean_neighbour_distance, nearest, several_nearest
from idwbench.report.frame import Row
from idwbench.runs.kinds.network import NetworkConfig

__all__ = ["keys_nearest_figure", "network_keys_figure"]

_IMAGES = 3  # for each key of a network
_SHORT = 3  # longest name of a class that has a line with another
_NOTE = (
    "below each key its nearest training image, the class of the key's value → the label of the image, "
    "and their distance in scaled units; red: class and label differ"
)
_NETWORK_NOTE = (
    "above each column the class of the key's value; below it the training images whose features are nearest to "
    "the key, nearest first; red frame: label and class differ; number: distance of the first image, in mean "
    "distances of a training point to its nearest other one"
)

Indices = NDArray[np.int64]


def keys_nearest_figure(selection: Selection) -> Figure:
    """The keys of each method whose keys are points, for the lowest seed, above their nearest training images.

    Raises:
        ConfigError: no complete run, the inputs are not images of classes, or no method has points as keys.
    """
    section, dataset, models = image_models(selection)
    chosen = [model for model in models if model.has_points]
    others = ", ".join(dict.fromkeys(model.row.model.method for model in models if not model.has_points))
    if not chosen:
        raise ConfigError(f"the keys of {others} are directions, not points", location=("figure",))
    selection.leave_out(f"{others}, whose keys are directions, not points" if others else "")
    grids = [_keys_grid(model, model.title(section.metric), dataset) for model in chosen]
    height, width = check_images(dataset)
    return draw_tile_grids(grids, height / width, 0.21, [_NOTE, SCALE_CAPTION, section.title])


def _keys_grid(model: Model, title: str, dataset: Dataset) -> TileGrid:
    """Return a tile for each key, sorted by class, with its nearest training image.

    Short names of classes stand in one line, others in two.
    """
    rows, distance = nearest(model.keys, dataset.train.inputs)
    keys, classes, names = dataset.scaling.invert(model.keys), model.values.argmax(1), dataset.class_names
    longest = max(map(len, names))
    size = 9.0 if longest <= _SHORT else min(7.5, 90 / (longest + 2))
    tiles = []
    for key in key_order(model.values):
        own, label = int(classes[key]), int(dataset.train.labels[rows[key]])
        picture = Picture(keys[key].reshape(check_images(dataset)), class_colour(own))
        words = [f"{names[own]} → {names[label]}"] if longest <= _SHORT else [f"{names[own]} →", names[label]]
        differs = own != label
        below = [Words(word, WRONG if differs else INK, size, differs) for word in words]
        below.append(Words(f"{distance[key]:#.3g}".rstrip("."), QUIET))
        tiles.append(Tile((picture, *_images(dataset, rows[[key]], own)), tuple(below)))
    return TileGrid(title, tiles, 10, _nearest_label(dataset, rows, distance, classes), ("key", "nearest"))


def network_keys_figure(selection: Selection) -> Figure:
    """The keys of each network's head for the lowest seed, as their nearest training images in feature space.

    Raises:
        ConfigError: no complete run of a network, the inputs are not images of classes, or no head has points as keys.
    """
    section = selection.first_section(selection.of_kind("network"))
    dataset = selection.dataset(section.config.dataset)
    height, width = check_images(dataset)
    complete = [row for row in section.rows if row.n]
    rows = [row for row in complete if _has_points(row)]
    others = ", ".join(dict.fromkeys(row.model.method for row in complete if row not in rows))
    if not rows:
        raise ConfigError(f"the heads of {others} have no keys that are points", location=("figure",))
    selection.leave_out(f"{others}, whose heads have no keys that are points" if others else "")
    grids = [_network_grid(selection, row, section.metric, dataset) for row in rows]
    return draw_tile_grids(grids, height / width, 0.45, [_NETWORK_NOTE, section.title])


def _has_points(row: Row) -> bool:
    """Return whether the keys of a head are points in feature space; those of dot products are directions."""
    model = row.model
    assert isinstance(model, NetworkConfig)
    return model.head in METHODS and METHODS[model.head].initialisation != "kaiming"


def _network_grid(selection: Selection, row: Row, metric: str, dataset: Dataset) -> TileGrid:
    """Return a tile for each key, sorted by the class of its value: that class above its nearest training images."""
    from idwbench.models.networks import network_from_arrays

    run = first_run(row)
    assert isinstance(run.config.model, NetworkConfig)
    arrays = selection.store.load_arrays(run.run_key)
    keys, values = (arrays[f"head.{name}"].astype(np.float32) for name in ("keys", "values"))
    features = network_from_arrays(run.config.model, dataset, arrays).features(dataset.train.inputs)
    rows, distances = several_nearest(keys, features, _IMAGES)
    distance = distances[:, 0] / (mean_neighbour_distance(features) or 1.0)
    classes, names = values.argmax(1), dataset.class_names
    size, tiles = 8.5 if max(map(len, names)) <= _SHORT else 5.0, []
    for key in key_order(values):
        own = int(classes[key])
        above, below = Words(names[own], class_colour(own), size, True), Words(f"{distance[key]:.2g}", QUIET, 7)
        tiles.append(Tile(_images(dataset, rows[key], own), (below,), (above,)))
    words = f"{_nearest_label(dataset, rows[:, 0], distance, classes)} are nearest"
    return TileGrid(Model(row, run, keys, values).title(metric), tiles, 20, words)


def _images(dataset: Dataset, rows: Indices, own: int) -> tuple[Picture, ...]:
    """Return training images; the frames of those of another class than a key's own are red."""
    pixels, labels = dataset.scaling.invert(dataset.train.inputs[rows]), dataset.train.labels[rows]
    return tuple(
        Picture(image.reshape(check_images(dataset)), *((WRONG, 1.6) if label != own else (RULE, 0.6)))
        for image, label in zip(pixels, labels, strict=True)
    )


def _nearest_label(dataset: Dataset, rows: Indices, distance: NDArray[np.floating], classes: Indices) -> str:
    """Return the mean distance of keys to their nearest training `rows`, and how many of the labels agree."""
    n_agree = (dataset.train.labels[rows] == classes).sum()
    images = f"{len(np.unique(rows))} different images"
    return f"mean distance {distance.mean():.3g}, label agrees for {n_agree} of {len(rows)} keys; {images}"
