"""Keys in feature space of networks' heads, as the training images whose features are nearest to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.attention.scores import METHODS
from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError
from idwbench.figures.keys import check_images, key_order, model_title
from idwbench.figures.keys_nearest import draw_titles
from idwbench.figures.registry import figure_of_runs
from idwbench.figures.runs import Model, runs_of_row, select_runs_of_kind
from idwbench.figures.style import QUIET, RULE, Drawing, class_colour, new_page
from idwbench.figures.tiles import WRONG, Picture, Tile, Words, draw_tiles, grid_height, tile_height
from idwbench.report.frame import Row
from idwbench.report.summaries import Section
from idwbench.results.records import StoredRun
from idwbench.runs.kinds.network import NetworkConfig

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["FeaturePanel", "collect_network_keys", "draw_network_keys", "network_keys_figure"]

_IMAGES = 3  # for each key
_WIDTH, _COLUMNS, _LINE = 10.0, 20, 0.45  # inches, keys in a row, and the height of a line in tiles


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


@figure_of_runs("network_keys")
def network_keys_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """The keys of each network's head for the lowest seed, as their nearest training images in feature space.

    Raises:
        ConfigError: no complete run of a network, the inputs are not images of classes, or no head has points as keys.
    """
    panels, dataset, source, left_out = collect_network_keys(store, runs, data_dir)
    assert dataset.image_shape is not None
    return Drawing(draw_network_keys(panels, dataset.image_shape, dataset.class_names, source=source), left_out)


def collect_network_keys(
    store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None
) -> tuple[list[FeaturePanel], Dataset, str, tuple[str, ...]]:
    """Return a panel for each network, their data set, its name with the protocol, and what is left out.

    It raises as the figure does.
    """
    selection = select_runs_of_kind(runs, "network")
    section, left_out = selection.first()
    dataset = load_dataset(section.dataset_config, data_dir)
    check_images(dataset, section)
    complete = [row for row in section.rows if row.n]
    rows = [row for row in complete if _has_points(row)]
    others = ", ".join(dict.fromkeys(row.model.method for row in complete if row not in rows))
    if not rows:
        raise ConfigError(f"the heads of {others} have no keys that are points", location=("figure",))
    if others:
        left_out = (*left_out, f"not drawn: {others}, whose heads have no keys that are points")
    panels = []
    for row in rows:
        run = min(runs_of_row(selection.runs, section, row), key=lambda run: run.config.seed)
        panels.append(_panel(store, section, row, run, dataset))
    return panels, dataset, section.title, left_out


def _has_points(row: Row) -> bool:
    """Return whether the keys of a head are points in feature space; those of dot products are directions."""
    model = row.model
    assert isinstance(model, NetworkConfig)
    return model.head in METHODS and METHODS[model.head].initialisation != "kaiming"


def _panel(store: Results, section: Section, row: Row, run: StoredRun, dataset: Dataset) -> FeaturePanel:
    from idwbench.models.neighbours import mean_neighbour_distance, several_nearest
    from idwbench.models.networks import network_from_arrays

    model = run.config.model
    assert isinstance(model, NetworkConfig)
    arrays = store.load_arrays(run.run_key)
    keys, values = (arrays[f"head.{name}"].astype(np.float32) for name in ("keys", "values"))
    features = network_from_arrays(model, dataset, arrays).features(dataset.train.inputs)
    rows, distances = several_nearest(keys, features, _IMAGES)
    unit = mean_neighbour_distance(features) or 1.0
    title = model_title(section, Model(row, run, keys, values))
    images = dataset.scaling.invert(dataset.train.inputs[rows])
    return FeaturePanel(title, values, images, dataset.train.labels[rows], distances[:, 0] / unit)


def draw_network_keys(
    panels: Sequence[FeaturePanel], image_shape: tuple[int, int], class_names: Sequence[str], *, source: str = ""
) -> Figure:
    """Return a figure with a block for each panel, and in it a column of nearest training images for each key.

    Keys are sorted by the class of their value, which is written above; a red frame marks an image of another class.
    """
    aspect = image_shape[0] / image_shape[1]
    grids = [_tiles(panel, image_shape, class_names) for panel in panels]
    heights = [
        (_WIDTH - 0.3) * grid_height(len(tiles), _COLUMNS, tile_height(tiles[0], aspect, _LINE)) + 0.5
        for tiles in grids
    ]
    note = (
        "above each column the class of the key's value; below it the training images whose features are nearest to "
        "the key, nearest first; red frame: label and class differ; number: distance of the first image, in mean "
        "distances of a training point to its nearest other one"
    )
    figure, body = new_page(_WIDTH, sum(heights), [note, source])
    grid = body.subplots(len(panels), 1, squeeze=False, height_ratios=heights)
    for axes, panel, tiles in zip(grid[:, 0], panels, grids, strict=True):
        draw_tiles(axes, tiles, _COLUMNS, aspect, _LINE)
        agree = int(np.sum(panel.labels[:, 0] == panel.values.argmax(1)))
        images = f"{len(np.unique(panel.nearest[:, 0], axis=0))} different images are nearest"
        draw_titles(axes, panel.title, panel.distance, f"{agree} of {len(panel.values)} keys; {images}", size=9.5)
    return figure


def _tiles(panel: FeaturePanel, image_shape: tuple[int, int], names: Sequence[str]) -> list[Tile]:
    classes, size = panel.values.argmax(1), 8.5 if max(map(len, names)) <= 3 else 5.0
    tiles = []
    for key in key_order(panel.values):
        own = int(classes[key])
        pictures = tuple(
            Picture(image.reshape(image_shape), *((WRONG, 1.6) if label != own else (RULE, 0.6)))
            for image, label in zip(panel.nearest[key], panel.labels[key], strict=True)
        )
        above, below = Words(names[own], class_colour(own), size, True), Words(f"{panel.distance[key]:.2g}", QUIET, 7)
        tiles.append(Tile(pictures, (below,), (above,)))
    return tiles
