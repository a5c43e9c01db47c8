"""The paper's Figure 4: keys as images, sorted by the argmax of their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from idwbench.attention.scores import get_method
from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError
from idwbench.figures.registry import figure_of_runs
from idwbench.figures.runs import Model, select_runs_with_keys, stored_models
from idwbench.figures.style import INK, Drawing, class_colour, new_page
from idwbench.figures.tiles import (
    SCALE_CAPTION,
    Picture,
    Tile,
    Words,
    draw_tiles,
    grid_height,
    tile_height,
    tile_places,
)
from idwbench.report.labels import count_label, value_label
from idwbench.report.summaries import Section
from idwbench.results.records import StoredRun

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = [
    "KeysPanel",
    "check_images",
    "collect_keys",
    "draw_keys",
    "image_models",
    "key_order",
    "keys_are_points",
    "keys_figure",
    "model_title",
]

_WIDTH = 10.0  # inches
_LINE = 0.3  # height of the strip under a tile, in tiles


@dataclass(frozen=True)
class KeysPanel:
    """The `keys` (prototypes, features), in the data's own units, and `values` (prototypes, classes) of one model."""

    title: str
    keys: NDArray[np.floating]
    values: NDArray[np.floating]


@figure_of_runs("keys")
def keys_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """The keys of each method for the lowest seed as images, sorted by class (the paper's Figure 4).

    Raises:
        ConfigError: no complete run, or the inputs are not images of classes.
    """
    panels, dataset, source, left_out = collect_keys(store, runs, data_dir)
    assert dataset.image_shape is not None
    return Drawing(draw_keys(panels, dataset.image_shape, dataset.class_names, source=source), left_out)


def collect_keys(
    store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None
) -> tuple[list[KeysPanel], Dataset, str, tuple[str, ...]]:
    """Return a panel for each model, their data set, its name with the protocol, and what is left out.

    Raises:
        ConfigError: no complete run, or the inputs are not images of classes.
    """
    section, dataset, models, left_out = image_models(store, runs, data_dir)
    panels = []
    for model in models:
        keys = dataset.scaling.invert(model.keys) if keys_are_points(model) else model.keys
        panels.append(KeysPanel(model_title(section, model), keys, model.values))
    return panels, dataset, section.title, left_out


def image_models(
    store: Results, runs: Sequence[StoredRun], data_dir: Path | None
) -> tuple[Section, Dataset, list[Model], tuple[str, ...]]:
    """Return the first section, its data set, its models, and what is left out.

    Raises:
        ConfigError: no complete run, or the inputs are not images of classes.
    """
    selection = select_runs_with_keys(runs)
    section, left_out = selection.first()
    models, unusable = stored_models(store, selection, section)
    dataset = load_dataset(section.dataset_config, data_dir)
    check_images(dataset, section)
    return section, dataset, models, (*left_out, *unusable)


def check_images(dataset: Dataset, section: Section) -> tuple[int, int]:
    """Return the height and width of the inputs; raise `ConfigError` unless they are images of classes."""
    if not dataset.class_names or dataset.image_shape is None:
        problem = f"the figure needs images of classes; {section.dataset} has no such inputs"
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


def draw_keys(
    panels: Sequence[KeysPanel], image_shape: tuple[int, int], class_names: Sequence[str], *, source: str = ""
) -> Figure:
    """Return a figure with one grid of keys for each panel, one above the other.

    A tile for each key has its class below, and the groups of a class have a band in its colour. Each key has its own
    scale, symmetric about zero. `source` is the last line of the caption: data set and protocol.
    """
    aspect = image_shape[0] / image_shape[1]
    height = tile_height(Tile((Picture(np.zeros(1)),), (Words(""),)), aspect, _LINE)
    heights = [_WIDTH * grid_height(len(panel.keys), _n_columns(len(panel.keys)), height) + 0.45 for panel in panels]
    figure, body = new_page(_WIDTH, sum(heights), [SCALE_CAPTION, source])
    grid = body.subplots(len(panels), 1, squeeze=False, height_ratios=heights)
    for axes, panel in zip(grid[:, 0], panels, strict=True):
        _draw_grid(axes, panel, image_shape, class_names)
        axes.set_title(panel.title, loc="left", fontsize=13, weight="bold", color=INK)
    return figure


def _draw_grid(axes: Axes, panel: KeysPanel, image_shape: tuple[int, int], class_names: Sequence[str]) -> None:
    order = key_order(panel.values)
    labels = np.argmax(panel.values, axis=1)[order]
    columns, aspect = _n_columns(len(order)), image_shape[0] / image_shape[1]
    size = _label_size(columns, [class_names[label] for label in labels])
    tiles = [
        Tile((Picture(panel.keys[key].reshape(image_shape), width=0.6),), (Words(class_names[label], size=size),))
        for key, label in zip(order, labels, strict=True)
    ]
    draw_tiles(axes, tiles, columns, aspect, _LINE)
    places = tile_places(len(tiles), columns, tile_height(tiles[0], aspect, _LINE))
    for place, (left, top) in enumerate(places):
        following = places[place + 1] if place + 1 < len(places) and labels[place + 1] == labels[place] else (0.0, -1.0)
        width = following[0] - left + 0.005 if following[1] == top else 1.0
        colour = class_colour(int(labels[place]))
        axes.add_patch(Rectangle((left, top + aspect + 0.03), width, 0.035, color=colour, linewidth=0))


def _n_columns(n_tiles: int) -> int:
    """Return the number of columns with the fewest empty places."""
    if n_tiles <= 10:
        return max(n_tiles, 5)  # a few keys keep the size of tiles
    choices = range(8, 13) if n_tiles <= 60 else range(14, 21)
    return min(choices, key=lambda columns: (-n_tiles % columns, abs(columns - choices[len(choices) // 2]), -columns))


def _label_size(columns: int, words: list[str]) -> float:
    """Return the font size, in points, at which the longest word fits below its tile."""
    tile = 72 * 0.97 * _WIDTH / (1.1 * columns)
    return float(np.clip(1.05 * tile / (0.6 * max(map(len, words))), 4.0, min(10.0, 0.24 * tile)))
