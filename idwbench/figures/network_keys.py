"""Keys in feature space of networks' heads, as the training images whose features are nearest to them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from idwbench.attention.scores import METHODS
from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError
from idwbench.figures.keys import check_images, key_order, model_title, nearest_label
from idwbench.figures.runs import Model, first_run, first_section, runs_of_kind
from idwbench.figures.style import QUIET, RULE, Drawing, class_colour
from idwbench.figures.tiles import WRONG, Picture, Tile, TileGrid, Words, draw_tile_grids
from idwbench.report.frame import Row
from idwbench.report.summaries import Section
from idwbench.results.records import StoredRun
from idwbench.runs.kinds.network import NetworkConfig

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["network_keys_figure"]

_IMAGES, _COLUMNS = 3, 20  # for each key, and keys in a row
_NOTE = (
    "above each column the class of the key's value; below it the training images whose features are nearest to "
    "the key, nearest first; red frame: label and class differ; number: distance of the first image, in mean "
    "distances of a training point to its nearest other one"
)


def network_keys_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """The keys of each network's head for the lowest seed, as their nearest training images in feature space.

    Raises:
        ConfigError: no complete run of a network, the inputs are not images of classes, or no head has points as keys.
    """
    section, left_out = first_section(runs, runs_of_kind(runs, "network"))
    dataset = load_dataset(section.dataset_config, data_dir)
    height, width = check_images(dataset)
    complete = [row for row in section.rows if row.n]
    rows = [row for row in complete if _has_points(row)]
    others = ", ".join(dict.fromkeys(row.model.method for row in complete if row not in rows))
    if not rows:
        raise ConfigError(f"the heads of {others} have no keys that are points", location=("figure",))
    if others:
        left_out.append(f"not drawn: {others}, whose heads have no keys that are points")
    grids = [_grid(store, section, row, dataset) for row in rows]
    return Drawing(draw_tile_grids(grids, height / width, 0.45, [_NOTE, section.title]), tuple(left_out))


def _has_points(row: Row) -> bool:
    """Return whether the keys of a head are points in feature space; those of dot products are directions."""
    model = row.model
    assert isinstance(model, NetworkConfig)
    return model.head in METHODS and METHODS[model.head].initialisation != "kaiming"


def _grid(store: Results, section: Section, row: Row, dataset: Dataset) -> TileGrid:
    """Return a tile for each key, sorted by the class of its value: that class above its nearest training images."""
    from idwbench.models.neighbours import mean_neighbour_distance, several_nearest
    from idwbench.models.networks import network_from_arrays

    run = first_run(row)
    assert isinstance(run.config.model, NetworkConfig)
    arrays = store.load_arrays(run.run_key)
    keys, values = (arrays[f"head.{name}"].astype(np.float32) for name in ("keys", "values"))
    features = network_from_arrays(run.config.model, dataset, arrays).features(dataset.train.inputs)
    rows, distances = several_nearest(keys, features, _IMAGES)
    distance = distances[:, 0] / (mean_neighbour_distance(features) or 1.0)
    classes, labels, names = values.argmax(1), dataset.train.labels[rows], dataset.class_names
    size, tiles = 8.5 if max(map(len, names)) <= 3 else 5.0, []
    for key in key_order(values):
        own = int(classes[key])
        images = dataset.scaling.invert(dataset.train.inputs[rows[key]])
        pictures = tuple(
            Picture(image.reshape(check_images(dataset)), *((WRONG, 1.6) if label != own else (RULE, 0.6)))
            for image, label in zip(images, labels[key], strict=True)
        )
        above, below = Words(names[own], class_colour(own), size, True), Words(f"{distance[key]:.2g}", QUIET, 7)
        tiles.append(Tile(pictures, (below,), (above,)))
    title = model_title(section, Model(row, run, keys, values))
    words = nearest_label(distance, labels[:, 0] == classes, rows[:, 0])
    return TileGrid(title, tiles, _COLUMNS, f"{words} are nearest")
