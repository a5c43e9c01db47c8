"""The slopes of values as images: for each key, what around it speaks for each class."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from idwbench.attention.slopes import SLOPE_ARRAYS
from idwbench.data.dataset import Dataset
from idwbench.errors import ConfigError
from idwbench.figures.keys import key_order
from idwbench.figures.runs import Keys, Model, Selection, best_rows
from idwbench.figures.style import class_colour
from idwbench.figures.tiles import Picture, Tile, TileGrid, Words, draw_tile_grids, scale_limit
from idwbench.models.neighbours import active_pixels
from idwbench.runs.datasets import dataset_label
from idwbench.runs.protocol import Protocol

__all__ = ["slopes_figure"]

_COLUMNS = 10
_CHOSEN = ("slope_rank", "power", "epsilon")
_NOTE = (
    "below each key, a row for each class, the slope of its value: pixels that speak for the class where they are "
    "above the key (black) or below it (blue); the mean over classes, which changes no probability, is taken out; "
    "below the column the class of the value at the key"
)
_SCALE = "the slopes of one key have one scale, and so does the key: full colour from the 95th percentile on"


def slopes_figure(selection: Selection) -> Figure:
    """The first keys of models whose values have a slope, for the lowest seed, above the slope for each class.

    Ranks, powers and settings of the protocol are those with the best mean metric on the validation split; without one,
    the first in the order of tables.

    Raises:
        ConfigError: no complete run, no values with a slope, or the inputs are not images of classes.
    """
    section = selection.first_section(selection.of_kind())
    dataset = selection.dataset(section.config.dataset)
    if not dataset.class_names or dataset.image_shape is None:
        raise ConfigError(f"the figure needs images of classes; {dataset_label(dataset.config)} has no such inputs")
    models = selection.models(section)
    sloped = [model for model in models if SLOPE_ARRAYS[0] in model.arrays]
    if not sloped:
        raise ConfigError("the values of no model have a slope")
    best = best_rows([model.row for model in sloped], section.metric, (*_CHOSEN, *Protocol.model_fields))
    shown = [model for model in sloped if any(model.row is row for row in best)]
    others = "models whose values have no slope" if len(sloped) < len(models) else ""
    selection.leave_out(others, "other ranks, powers and protocols" if len(shown) < len(sloped) else "")
    grids = [_slopes_grid(model, model.title(section.metric), dataset, dataset.image_shape) for model in shown]
    return draw_tile_grids(grids, [_NOTE, _SCALE, section.title])


def _slopes_grid(model: Model, title: str, dataset: Dataset, shape: tuple[int, int]) -> TileGrid:
    """Return a tile for each of the first keys, sorted by class, with the slope for each class below it."""
    keys, slopes = dataset.scaling.invert(model.keys), _slopes(model.arrays)
    active = active_pixels(dataset.train.inputs)
    tiles = []
    for key in key_order(model.values)[:_COLUMNS]:
        own, label = slopes[key], int(model.values[key].argmax())
        limit = scale_limit(own[:, active].ravel())
        picture = Picture(keys[key].reshape(shape), class_colour(label), limit=scale_limit(keys[key][active]))
        rows = (Picture(row.reshape(shape), width=0.6, limit=limit) for row in own)
        tiles.append(Tile((picture, *rows), (Words(dataset.class_names[label], class_colour(label), 8.5, True),)))
    subtitle = f"the first {_COLUMNS} of {len(keys)} keys" if len(keys) > _COLUMNS else ""
    return TileGrid(tiles, _COLUMNS, shape[0] / shape[1], 0.25, title, subtitle, ("key", *dataset.class_names))


def _slopes(arrays: Mapping[str, Keys]) -> Keys:
    """Return A (prototypes, classes, features) with a mean of 0 over classes."""
    inputs, outputs = (arrays[name] for name in SLOPE_ARRAYS)
    slopes = np.einsum("rpo,rpf->pof", outputs, inputs)
    return np.asarray(slopes - slopes.mean(1, keepdims=True), np.float32)
