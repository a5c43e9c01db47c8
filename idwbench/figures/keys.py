"""Keys as images, sorted by the argmax of their values (the paper's Figure 4), and the training images nearest to them.

The keys of networks' heads are in feature space: they are shown as the training images nearest to them alone. Those of
a table are lines over its named columns, and points among its rows in the two columns that tell most. The slope of a
value is an image for each class: what around its key speaks for the class.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import ConstantInputWarning, f_oneway

from idwbench.attention.scores import METHODS
from idwbench.attention.slopes import SLOPE_ARRAYS
from idwbench.data.columns import Columns
from idwbench.data.dataset import Dataset
from idwbench.errors import ConfigError
from idwbench.figures.plane import legend_mark
from idwbench.figures.runs import Keys, Model, Selection, best_rows, first_run, key_order, measured_label
from idwbench.figures.style import INK, QUIET, RULE, class_colour, label_columns, new_page, style_axes, titled_parts
from idwbench.figures.tiles import SCALE_CAPTION, WRONG, Picture, Tile, TileGrid, Words, draw_tile_grids, scale_limit
from idwbench.models.neighbours import active_pixels, mean_neighbour_distance, nearest, several_nearest
from idwbench.report.frame import Row
from idwbench.report.labels import constants_title, setting_label, varying_settings
from idwbench.report.summaries import Section
from idwbench.runs.datasets import dataset_label
from idwbench.runs.kinds.network import NetworkConfig
from idwbench.runs.protocol import Protocol

__all__ = ["columns_figure", "draw_keys", "keys_figure", "keys_nearest_figure", "network_keys_figure", "slopes_figure"]

_IMAGES = 3  # for each key of a network
_PRODUCTS = ("fc_relu", "scaled_dot", "cosine")  # methods whose keys are directions
_FEW = 4  # classes that are named
_MANY = 3  # panels, of which more have small tiles, so that a page shows them all
_SHORT = 3  # longest name of a class that has a line with another
_NOTE = (
    "below each key its nearest training image, the class of the key's value → the label of the image, "
    "and their distance in scaled units; red: class and label differ"
)
_ACTIVE_NOTE = "the percentile is over the pixels that are not background in 5 % of the images"
_NETWORK_NOTE = (
    "a column for each key: the training images whose features are nearest to it, nearest first; red frame: label and "
    "class differ; below them the class of the key's value, and the distance of the first image, in mean distances of "
    "a training point to its nearest other one; of scaled_dot and cosine, whose keys are directions, the images with "
    "the largest product or cosine, and the cosine of the first"
)
_COLUMNS_NOTE = (
    "left: prototypes in the colour of the class of their value; numbers in standard deviations from the mean, of "
    "categories the share; right: training rows and prototypes (diamonds) in the two columns of numbers whose means "
    "differ most between the classes, relative to their spread within"
)
_SLOPES_NOTE = (
    "below each key, a row for each class, the slope of its value: pixels that speak for the class where they are "
    "above the key (black) or below it (blue); the mean over classes, which changes no probability, is taken out; "
    "below the column the class of the value at the key"
)
_SLOPES_SCALE = "the slopes of one key have one scale, and so does the key: full colour from the 95th percentile on"
_SLOPES = 10  # the most keys with slopes
_OF_SLOPES = ("slope_rank", "power", "epsilon")
_WIDTH, _LINES_WIDTH, _HEIGHT = 10.0, 6.3, 3.0  # inches: of the figure, of lines over columns, and height of a model
_MOST_MODELS, _MOST_COLUMNS = 4, 30

Indices = NDArray[np.int64]
# Title, keys (prototypes, features) in the data's own units, and values (prototypes, classes) of a model.
KeysOfModel = tuple[str, NDArray[np.floating], NDArray[np.floating]]


def keys_figure(selection: Selection) -> Figure:
    """The keys of each method for the lowest seed as images, sorted by class (the paper's Figure 4).

    Raises:
        ConfigError: no complete run, or the inputs are not images of classes.
    """
    section, dataset = _image_section(selection)
    panels = []
    for model in selection.models(section):
        keys = dataset.scaling.invert(model.keys) if model.has_points else model.keys
        panels.append((model.title(section.metric), keys, model.values))
    active = active_pixels(dataset.train.inputs)
    return draw_keys(panels, _image_shape(dataset), dataset.class_names, source=section.title, active=active)


def _image_section(selection: Selection) -> tuple[Section, Dataset]:
    """Return the first section of images, and its data set.

    It is of prototype networks, or without any of the baselines that have keys: k-means, class means, ….

    Raises:
        ConfigError: no complete run, or the inputs are not images of classes.
    """
    by_model = [(run, run.config.model) for run in selection.runs]
    chosen = [run for run, model in by_model if model.kind == "baseline" or model.method == "nearest_centroid"]
    has_networks = any(run.config.model.kind == "prototypes" for run in selection.runs)
    if has_networks or not any(run.state == "complete" for run in chosen):
        chosen = selection.of_kind()
    section = selection.first_section(chosen)
    dataset = selection.dataset(section.config.dataset)
    _image_shape(dataset)
    return section, dataset


def _image_shape(dataset: Dataset) -> tuple[int, int]:
    """Return the height and width of the inputs; raise `ConfigError` unless they are images of classes."""
    if not dataset.class_names or dataset.image_shape is None:
        raise ConfigError(f"the figure needs images of classes; {dataset_label(dataset.config)} has no such inputs")
    return dataset.image_shape


def draw_keys(
    panels: Sequence[KeysOfModel],
    image_shape: tuple[int, int],
    class_names: Sequence[str],
    *,
    source: str = "",
    active: NDArray[np.bool_] | None = None,
) -> Figure:
    """Return a figure with one grid of keys for each panel, one above the other.

    A tile for each key has a frame in the colour of its class, whose name stands below; below the title stand the
    classes that have no key. Each key has its own scale, symmetric about zero, by its numbers at the `active` pixels
    (features,), since those that are background in all images are as the initialisation left them. `source` is the
    last line of the caption: data set and protocol.
    """
    grids = []
    for title, keys, values in panels:
        labels = np.argmax(values, axis=1)
        # A few keys keep the size of tiles.
        columns = min(20 if len(panels) > _MANY or len(keys) > 60 else 10, max(len(keys), 5))
        longest, width = max(len(class_names[label]) for label in labels), 630 / columns  # letters; points of a tile
        size = float(np.clip(1.75 * width / longest, 4.0, min(10.0, 0.24 * width)))
        tiles = [
            Tile(
                (_key_picture(keys[key], image_shape, labels[key], active),),
                (Words(class_names[labels[key]], size=size),),
            )
            for key in key_order(values)
        ]
        grids.append(TileGrid(tiles, columns, 0.03 * max(10, columns), title, _missing_classes(labels, class_names)))
    return draw_tile_grids(grids, [SCALE_CAPTION, *([] if active is None else [_ACTIVE_NOTE]), source])


def _missing_classes(labels: Indices, class_names: Sequence[str]) -> str:
    """Return which classes have no key although there are enough keys; empty if none."""
    missing = [name for label, name in enumerate(class_names) if label not in labels]
    if not missing or len(labels) < len(class_names):
        return ""
    if len(missing) > _FEW:
        return f"{len(missing)} of the {len(class_names)} classes have no key"
    return f"classes without a key: {', '.join(missing)}"


def _key_picture(
    pixels: NDArray[np.floating], shape: tuple[int, int], label: int, active: NDArray[np.bool_] | None
) -> Picture:
    """Return a key in a frame of the colour of its class, in the scale of its `active` pixels."""
    own = np.asarray(pixels, np.float64)
    return Picture(own.reshape(shape), class_colour(label), limit=scale_limit(own if active is None else own[active]))


def keys_nearest_figure(selection: Selection) -> Figure:
    """The keys of each method whose keys are points, for the lowest seed, above their nearest training images.

    Raises:
        ConfigError: no complete run, the inputs are not images of classes, or no method has points as keys.
    """
    section, dataset = _image_section(selection)
    models = selection.point_models(section)
    has_space = len(models) <= _MANY or max(map(len, dataset.class_names)) > _SHORT
    grids = [_keys_grid(model, model.title(section.metric), dataset, 10 if has_space else 20) for model in models]
    return draw_tile_grids(grids, [_NOTE, SCALE_CAPTION, _ACTIVE_NOTE, section.title])


def _keys_grid(model: Model, title: str, dataset: Dataset, columns: int) -> TileGrid:
    """Return a tile for each key, sorted by class, in `columns`, with its nearest training image.

    Short names of classes stand in one line, others in two.
    """
    rows, distance = nearest(model.keys, dataset.train.inputs)
    keys, classes, names = dataset.scaling.invert(model.keys), model.values.argmax(1), dataset.class_names
    active, longest = active_pixels(dataset.train.inputs), max(map(len, names))
    size = 9.0 if longest <= _SHORT else min(7.5, 90 / (longest + 2))
    tiles = []
    for key in key_order(model.values):
        own, label = int(classes[key]), int(dataset.train.labels[rows[key]])
        picture = _key_picture(keys[key], _image_shape(dataset), own, active)
        words = [f"{names[own]} → {names[label]}"] if longest <= _SHORT else [f"{names[own]} →", names[label]]
        differs = own != label
        below = [Words(word, WRONG if differs else INK, size, differs) for word in words]
        below.append(Words(f"{distance[key]:#.3g}".rstrip("."), QUIET))
        tiles.append(Tile((picture, *_images(dataset, rows[[key]], own)), tuple(below)))
    subtitle = f"mean distance {distance.mean():.3g}, {_agreement(dataset, rows, classes)}"
    return TileGrid(tiles, columns, 0.021 * columns, title, subtitle, ("key", "nearest"))


def network_keys_figure(selection: Selection) -> Figure:
    """The keys of each network's head for the lowest seed, as the training images with the nearest features.

    Keys of dot products are directions: their images are those with the largest product or cosine. Settings of the
    protocol are those with the best mean metric on the validation split; without one, the first in the order of tables.

    Raises:
        ConfigError: no complete run of a network, the inputs are not images of classes, or no head has keys.
    """
    section, (complete,) = selection.on_first_data("network")
    dataset = selection.dataset(section.config.dataset)
    _image_shape(dataset)
    heads = {*_PRODUCTS, *(name for name, method in METHODS.items() if method.has_points)}
    shown = [row for row in complete if getattr(row.model, "head", "") in heads]
    others = ", ".join(dict.fromkeys(row.model.method for row in complete if row not in shown))
    if not shown:
        raise ConfigError(f"the heads of {others} have no keys that are points or directions")
    selection.leave_out(f"{others}, whose heads have no keys that are points or directions" if others else "")
    rows = best_rows(shown, section.metric, tuple(Protocol.model_fields))
    is_dense = len(rows) > _MANY and max(map(len, dataset.class_names)) <= _SHORT
    varying = varying_settings([row.settings for row in rows])
    grids = [_network_grid(selection, row, varying, section.metric, dataset, is_dense=is_dense) for row in rows]
    constants = constants_title([row.config for row in rows], varying)
    return draw_tile_grids(grids, [_NETWORK_NOTE, constants], 2 if is_dense else 1)


def _network_grid(
    selection: Selection, row: Row, varying: Sequence[str], metric: str, dataset: Dataset, *, is_dense: bool
) -> TileGrid:
    """Return a tile for each key, sorted by the class of its value: that class below its nearest training images."""
    from idwbench.models.networks import network_from_arrays

    run = first_run(row)
    assert isinstance(run.config.model, NetworkConfig)
    arrays = selection.store.load_arrays(run.run_key)
    keys, values = (arrays[f"head.{name}"].astype(np.float32) for name in ("keys", "values"))
    features = network_from_arrays(run.config.model, dataset, arrays).features(dataset.train.inputs)
    rows, near, nearness = _nearest_features(run.config.model.head, keys, features)
    classes, names = values.argmax(1), dataset.class_names
    size, small = (8.5 if max(map(len, names)) <= _SHORT else 5.0), 5.5 if is_dense else 7.0
    tiles = []
    for key in key_order(values):
        own = int(classes[key])
        words = Words(names[own], class_colour(own), size, True), Words(f"{near[key]:.2g}", QUIET, small)
        tiles.append(Tile(_images(dataset, rows[key], own), words))
    protocol = [setting_label(name, value) for name, value in row.config.protocol if name in varying]
    title = " · ".join([row.model.method, *protocol, measured_label(row, run, metric)])
    return TileGrid(tiles, 20, 0.45, title, f"{nearness}{_agreement(dataset, rows[:, 0], classes)}")


def _nearest_features(head: str, keys: Keys, features: Keys) -> tuple[Indices, NDArray[np.floating], str]:
    """Return the rows (keys, images) of training images, how near the first is to each key, and the mean of that."""
    if head not in _PRODUCTS:
        rows, distances = several_nearest(keys, features, _IMAGES)
        near = distances[:, 0] / (mean_neighbour_distance(features) or 1.0)
        return rows, near, f"mean distance {near.mean():.3g}, "
    products = keys.astype(np.float64) @ features.T.astype(np.float64)
    lengths = np.linalg.norm(keys, axis=1)[:, None] * np.linalg.norm(features, axis=1)
    cosines = products / np.where(lengths > 0, lengths, 1.0)
    rows = np.argsort(-(cosines if head == "cosine" else products), axis=1, kind="stable")[:, :_IMAGES]
    near = np.take_along_axis(cosines, rows, axis=1)[:, 0]
    return rows, near, f"mean cosine {near.mean():.3g}, "


def _images(dataset: Dataset, rows: Indices, own: int) -> tuple[Picture, ...]:
    """Return training images; the frames of those of another class than a key's own are red."""
    pixels, labels = dataset.scaling.invert(dataset.train.inputs[rows]), dataset.train.labels[rows]
    return tuple(
        Picture(image.reshape(_image_shape(dataset)), *((WRONG, 1.6) if label != own else (RULE, 0.6)))
        for image, label in zip(pixels, labels, strict=True)
    )


def _agreement(dataset: Dataset, rows: Indices, classes: Indices) -> str:
    """Return how many of the labels of training `rows` are the `classes` of their keys, and how many rows they are."""
    n_agree = (dataset.train.labels[rows] == classes).sum()
    return f"label agrees for {n_agree} of {len(rows)} keys; {len(np.unique(rows))} different images"


def columns_figure(selection: Selection) -> Figure:
    """The prototypes of each method for the lowest seed as lines over the columns of a table, and in two of them.

    Raises:
        ConfigError: no complete run, the data is no table of classes, or no method has points as keys.
    """
    section = selection.first_section(selection.of_kind())
    dataset = selection.dataset(section.config.dataset)
    if dataset.columns is None or not dataset.class_names:
        raise ConfigError(f"the figure needs a table of classes; {dataset_label(dataset.config)} is none")
    models = selection.first(selection.point_models(section), _MOST_MODELS, "other setting")
    columns, order = dataset.columns, _telling_features(dataset)
    shown = sorted(order[:_MOST_COLUMNS])
    pair = [place for place in order if not columns.is_category[place]][:2]
    legend = [legend_mark("s", 8, name, color=class_colour(n)) for n, name in enumerate(dataset.class_names)]
    figure, body = new_page(_WIDTH, len(models) * _HEIGHT, [_COLUMNS_NOTE, section.title], legend)
    parts = titled_parts(body, [model.title(section.metric) for model in models])
    for part, model in zip(parts, models, strict=True):
        left, right = part.subplots(1, 2, width_ratios=(_LINES_WIDTH, _WIDTH - _LINES_WIDTH))
        for key, label in zip(model.keys, model.values.argmax(1).tolist(), strict=True):
            left.plot(key[shown], color=class_colour(label), linewidth=1.0, marker=".", markersize=4, alpha=0.8)
        style_axes(left, label_size=7.5)
        label_columns(left, [columns.features[place] for place in shown])
        if len(pair) == 2:
            _draw_pair(right, model, dataset, pair, columns)
        else:
            right.set_axis_off()
    return figure


def _telling_features(dataset: Dataset) -> list[int]:
    """Return the features, those first whose means differ most between classes relative to the spread within."""
    train = dataset.train
    classes = [train.inputs[train.labels == label].astype(np.float64) for label in np.unique(train.labels)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantInputWarning)
        statistic = np.nan_to_num(f_oneway(*classes).statistic)
    return [int(place) for place in np.argsort(-statistic, kind="stable")]


def _draw_pair(axes: Axes, model: Model, dataset: Dataset, pair: Sequence[int], columns: Columns) -> None:
    rows, keys = (dataset.scaling.invert(part)[:, pair] for part in (dataset.train.inputs, model.keys))
    colours = [class_colour(label) for label in dataset.train.labels.tolist()]
    axes.scatter(rows[:, 0], rows[:, 1], s=7, c=colours, alpha=0.45, linewidths=0)
    own = [class_colour(label) for label in model.values.argmax(1).tolist()]
    axes.scatter(keys[:, 0], keys[:, 1], s=42, marker="D", c=own, edgecolors=INK, linewidths=0.9)
    style_axes(axes, label_size=7.5)
    for axis, place in zip((axes.xaxis, axes.yaxis), pair, strict=True):
        axis.set_label_text(columns.features[place], fontsize=8, color=QUIET)


def slopes_figure(selection: Selection) -> Figure:
    """The first keys of models whose values have a slope, for the lowest seed, above the slope for each class.

    Ranks, powers and settings of the protocol are those with the best mean metric on the validation split; without one,
    the first in the order of tables.

    Raises:
        ConfigError: no complete run, no values with a slope, or the inputs are not images of classes.
    """
    section, dataset = _image_section(selection)
    models = selection.models(section)
    sloped = [model for model in models if SLOPE_ARRAYS[0] in model.arrays]
    if not sloped:
        raise ConfigError("the values of no model have a slope")
    best = best_rows([model.row for model in sloped], section.metric, (*_OF_SLOPES, *Protocol.model_fields))
    shown = [model for model in sloped if any(model.row is row for row in best)]
    others = "models whose values have no slope" if len(sloped) < len(models) else ""
    selection.leave_out(others, "other ranks, powers and protocols" if len(shown) < len(sloped) else "")
    grids = [_slopes_grid(model, model.title(section.metric), dataset) for model in shown]
    return draw_tile_grids(grids, [_SLOPES_NOTE, _SLOPES_SCALE, section.title])


def _slopes_grid(model: Model, title: str, dataset: Dataset) -> TileGrid:
    """Return a tile for each of the first keys, sorted by class, with the slope for each class below it."""
    keys = dataset.scaling.invert(model.keys)
    slopes = np.einsum("rpf,rpo->pof", *(model.arrays[name] for name in SLOPE_ARRAYS))
    slopes -= slopes.mean(1, keepdims=True)
    active, shape, tiles = active_pixels(dataset.train.inputs), _image_shape(dataset), []
    for key in key_order(model.values)[:_SLOPES]:
        own, label = slopes[key], int(model.values[key].argmax())
        limit, picture = scale_limit(own[:, active].ravel()), _key_picture(keys[key], shape, label, active)
        rows = (Picture(row.reshape(shape), width=0.6, limit=limit) for row in own)
        tiles.append(Tile((picture, *rows), (Words(dataset.class_names[label], class_colour(label), 8.5, True),)))
    subtitle = f"the first {_SLOPES} of {len(keys)} keys" if len(keys) > _SLOPES else ""
    return TileGrid(tiles, _SLOPES, 0.25, title, subtitle, ("key", *dataset.class_names))
