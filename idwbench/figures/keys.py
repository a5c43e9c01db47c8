"""The paper's Figure 4: keys as images, sorted by the argmax of their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset
from idwbench.errors import ConfigError
from idwbench.figures.runs import Model, Selection
from idwbench.figures.style import class_colour
from idwbench.figures.tiles import SCALE_CAPTION, Picture, Tile, TileGrid, Words, draw_tile_grids
from idwbench.report.summaries import Section
from idwbench.results.records import StoredRun
from idwbench.runs.datasets import dataset_label

__all__ = ["KeysPanel", "check_images", "draw_keys", "image_models", "key_order", "keys_figure"]


@dataclass(frozen=True)
class KeysPanel:
    """The `keys` (prototypes, features), in the data's own units, and `values` (prototypes, classes) of one model."""

    title: str
    keys: NDArray[np.floating]
    values: NDArray[np.floating]


def keys_figure(selection: Selection) -> Figure:
    """The keys of each method for the lowest seed as images, sorted by class (the paper's Figure 4).

    Raises:
        ConfigError: no complete run, or the inputs are not images of classes.
    """
    section, dataset, models = image_models(selection)
    panels = []
    for model in models:
        keys = dataset.scaling.invert(model.keys) if model.has_points else model.keys
        panels.append(KeysPanel(model.title(section.metric), keys, model.values))
    return draw_keys(panels, check_images(dataset), dataset.class_names, source=section.title)


def image_models(selection: Selection) -> tuple[Section, Dataset, list[Model]]:
    """Return the first section, its data set, and its models.

    They are prototype networks, or without any the baselines that have keys: k-means, class means, ….

    Raises:
        ConfigError: no complete run, or the inputs are not images of classes.
    """
    chosen = [run for run in selection.runs if _is_baseline(run)]
    has_networks = any(run.config.model.kind == "prototypes" for run in selection.runs)
    if has_networks or not any(run.state == "complete" for run in chosen):
        chosen = selection.of_kind()
    section = selection.first_section(chosen)
    models, dataset = selection.models(section), selection.dataset(section.config.dataset)
    check_images(dataset)
    return section, dataset, models


def _is_baseline(run: StoredRun) -> bool:
    model = run.config.model
    return model.kind == "baseline" or (model.kind == "scikit_learn" and model.method == "nearest_centroid")


def check_images(dataset: Dataset) -> tuple[int, int]:
    """Return the height and width of the inputs; raise `ConfigError` unless they are images of classes."""
    if not dataset.class_names or dataset.image_shape is None:
        problem = f"the figure needs images of classes; {dataset_label(dataset.config)} has no such inputs"
        raise ConfigError(problem, location=("figure",))
    return dataset.image_shape


def key_order(values: NDArray[np.floating]) -> NDArray[np.intp]:
    """Return the indices of prototypes sorted by the argmax of their values (stable)."""
    return np.argsort(np.argmax(values, axis=1), kind="stable")


def draw_keys(
    panels: Sequence[KeysPanel], image_shape: tuple[int, int], class_names: Sequence[str], *, source: str = ""
) -> Figure:
    """Return a figure with one grid of keys for each panel, one above the other.

    A tile for each key has its class below, and the groups of a class have a band in its colour. Each key has its own
    scale, symmetric about zero. `source` is the last line of the caption: data set and protocol.
    """
    grids = []
    for panel in panels:
        columns = _n_columns(len(panel.keys))
        labels = np.argmax(panel.values, axis=1)
        longest = max(len(class_names[label]) for label in labels)
        width = 630 / columns  # points of a tile
        size = float(np.clip(1.75 * width / longest, 4.0, min(10.0, 0.24 * width)))
        tiles = []
        for key in key_order(panel.values):
            picture = Picture(panel.keys[key].reshape(image_shape), width=0.6)
            name = Words(class_names[labels[key]], size=size)
            tiles.append(Tile((picture,), (name,), band=class_colour(int(labels[key]))))
        grids.append(TileGrid(panel.title, tiles, columns))
    return draw_tile_grids(grids, image_shape[0] / image_shape[1], 0.3, [SCALE_CAPTION, source])


def _n_columns(n_tiles: int) -> int:
    """Return the number of columns with the fewest empty places."""
    if n_tiles <= 10:
        return max(n_tiles, 5)  # a few keys keep the size of tiles
    choices = range(8, 13) if n_tiles <= 60 else range(14, 21)
    return min(choices, key=lambda columns: (-n_tiles % columns, -columns))
