"""The paper's Figure 4: keys as images, sorted by the argmax of their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.attention.scores import get_method
from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError
from idwbench.figures.runs import Model, first_section, runs_of_kind, stored_models
from idwbench.figures.style import Drawing, class_colour
from idwbench.figures.tiles import SCALE_CAPTION, Picture, Tile, TileGrid, Words, draw_tile_grids
from idwbench.report.labels import count_label, value_label
from idwbench.report.summaries import Section
from idwbench.results.records import StoredRun
from idwbench.runs.datasets import dataset_label

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = [
    "KeysPanel",
    "check_images",
    "draw_keys",
    "image_models",
    "key_order",
    "keys_are_points",
    "keys_figure",
    "model_title",
    "nearest_label",
]


@dataclass(frozen=True)
class KeysPanel:
    """The `keys` (prototypes, features), in the data's own units, and `values` (prototypes, classes) of one model."""

    title: str
    keys: NDArray[np.floating]
    values: NDArray[np.floating]


def keys_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """The keys of each method for the lowest seed as images, sorted by class (the paper's Figure 4).

    Raises:
        ConfigError: no complete run, or the inputs are not images of classes.
    """
    section, dataset, models, left_out = image_models(store, runs, data_dir)
    panels = []
    for model in models:
        keys = dataset.scaling.invert(model.keys) if keys_are_points(model) else model.keys
        panels.append(KeysPanel(model_title(section, model), keys, model.values))
    figure = draw_keys(panels, check_images(dataset), dataset.class_names, source=section.title)
    return Drawing(figure, tuple(left_out))


def image_models(
    store: Results, runs: Sequence[StoredRun], data_dir: Path | None
) -> tuple[Section, Dataset, list[Model], list[str]]:
    """Return the first section, its data set, its models, and what is left out.

    They are prototype networks, or without any the baselines that have keys: k-means, class means, ….

    Raises:
        ConfigError: no complete run, or the inputs are not images of classes.
    """
    baselines = [run for run in runs if run.config.model.kind == "baseline" or _has_class_means(run)]
    is_of_networks = any(run.config.model.kind == "prototypes" for run in runs)
    if is_of_networks or not any(run.state == "complete" for run in baselines):
        baselines = runs_of_kind(runs)
    section, left_out = first_section(runs, baselines)
    models, unusable = stored_models(store, section)
    dataset = load_dataset(section.dataset_config, data_dir)
    check_images(dataset)
    return section, dataset, models, [*left_out, *unusable]


def _has_class_means(run: StoredRun) -> bool:
    return run.config.model.kind == "scikit_learn" and run.config.model.method == "nearest_centroid"


def check_images(dataset: Dataset) -> tuple[int, int]:
    """Return the height and width of the inputs; raise `ConfigError` unless they are images of classes."""
    if not dataset.class_names or dataset.image_shape is None:
        problem = f"the figure needs images of classes; {dataset_label(dataset.config)} has no such inputs"
        raise ConfigError(problem, location=("figure",))
    return dataset.image_shape


def keys_are_points(model: Model) -> bool:
    """Return whether the keys are points among the inputs; those of dot products are directions, without units."""
    if model.row.model.kind in ("baseline", "scikit_learn"):
        return True
    return get_method(model.row.model.method).initialisation != "kaiming"


def model_title(section: Section, model: Model) -> str:
    """Return method, parameters, seed and the test metric over seeds: ``idw · p=2, ε=0.001 · seed 0 · …``."""
    config, test = model.row.model, model.row.statistics.get("test")
    prototypes = count_label(config.prototypes or len(model.keys), "prototype")
    parameters = "" if config.kind == "baseline" else config.parameters_label  # all say "nearest key"
    words = [config.method, parameters, prototypes, f"seed {model.run.config.seed}"]
    own = value_label(section.metric, model.run.metric(section.metric) or 0.0)
    over = f" ({value_label(section.metric, test.mean, test.std)}, n={test.n})" if test and test.n > 1 else ""
    return " · ".join(word for word in [*words, f"test accuracy {own} %{over}"] if word)


def key_order(values: NDArray[np.floating]) -> NDArray[np.intp]:
    """Return the indices of prototypes sorted by the argmax of their values (stable)."""
    return np.argsort(np.argmax(values, axis=1), kind="stable")


def nearest_label(distance: NDArray[np.floating], agrees: NDArray[np.bool_], rows: NDArray[np.integer]) -> str:
    """Return the mean distance of keys to their nearest training `rows`, and how many of the labels agree."""
    images = f"{len(np.unique(rows))} different images"
    return f"mean distance {distance.mean():.3g}, label agrees for {agrees.sum()} of {len(rows)} keys; {images}"


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
