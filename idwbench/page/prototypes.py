"""The keys of trained networks, as images, points in the plane or rows of a table, with their nearest training rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from idwbench.attention.scores import METHODS
from idwbench.errors import IdwbenchError
from idwbench.figures.keys import key_order
from idwbench.models.neighbours import several_nearest
from idwbench.page.charts import plane_chart, round_number
from idwbench.page.groups import best_run
from idwbench.page.parts import Chart, Part, PrototypeGrid, image_picture, key_picture, sentences
from idwbench.report.frame import Row
from idwbench.report.labels import value_label
from idwbench.report.tables import Column, Table
from idwbench.results.records import StoredRun
from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import dataset_label
from idwbench.runs.kinds.models import MODELS
from idwbench.runs.metrics import HEADLINES

if TYPE_CHECKING:
    from idwbench.data.columns import Columns
    from idwbench.data.dataset import Dataset
    from idwbench.results.store import Results

__all__ = ["prototypes_part"]

_NETWORKS, _KEYS, _NEAREST = 8, 64, 5
_PLANE_POINTS = 300
_SMALLEST_SIDE = 4  # of an image, where the data set is missing
_MOST_COLUMNS = 30

Keys = NDArray[np.float32]


def prototypes_part(results: Results, ranked: Sequence[Row], data_dir: Path | None) -> Part | None:
    """Return the section of keys: the best setting of each method; None if no run has keys that can be drawn."""
    from idwbench.data.loading import load_dataset

    candidates = [setting for setting in ranked if _has_keys(setting.config)]
    best: dict[str, Row] = {}
    for setting in candidates:
        best.setdefault(setting.config.model.method, setting)
    grids, notes, problems, read = [], [], [], cache(load_dataset)
    # Those with nearest training images first.
    runs = [best_run(setting) for setting in [*best.values()][:_NETWORKS]]
    for run in sorted(runs, key=lambda run: not _are_points(run)):
        config, dataset = run.config.dataset, None
        try:
            dataset = read(config, data_dir)
        except IdwbenchError as error:
            name = dataset_label(config)
            problems.append(f"without training images, since {name} is not available: {error.problem}")
        try:
            grid = _grid(results, run, dataset)
        except IdwbenchError as error:
            notes.append(f"{run.config.model.method}: {error.problem}")
            continue
        if grid is not None:
            grids.append(grid)
    if not grids:
        return None
    if left := len(candidates) - len(grids):
        notes.append(f"the best setting of each method is shown; not shown: {left:,} other settings")
    form = "plane" if grids[0].chart is not None else "images" if grids[0].data is not None else "rows"
    return Part("prototypes", form, sentences([*notes, *problems]), grids=tuple(grids))


def _has_keys(config: RunConfig) -> bool:
    kind = MODELS.get(config.model.kind)
    return kind is not None and kind.array_names == ("keys", "values") and config.dataset.task == "classification"


def _grid(results: Results, run: StoredRun, dataset: Dataset | None) -> PrototypeGrid | None:
    arrays = results.load_arrays(run.run_key)
    keys, values = (np.asarray(arrays[name], np.float32) for name in ("keys", "values"))
    shape = _image_shape(keys, dataset)
    if shape is not None:
        return _image_grid(run, keys, values, shape, dataset)
    if dataset is None or not dataset.class_names:
        return None
    if dataset.columns is not None and dataset.n_features != 2:
        return _table_grid(run, keys, values, dataset, dataset.columns)
    if dataset.n_features != 2:
        return None
    chosen = _in_view(run, keys, dataset)
    note = f"{len(chosen):,} of {len(keys):,} keys, those near the data." if len(chosen) < len(keys) else ""
    own, names = dataset.scaling.invert(keys[chosen]), dataset.class_names
    spec = plane_chart(
        dataset.scaling.invert(dataset.train.inputs[:_PLANE_POINTS]),
        dataset.train.labels[:_PLANE_POINTS],
        own,
        values[chosen],
        chosen,
        names,
    )
    chart = Chart("", f"Keys among the training points: {_title(run)}", spec)
    return PrototypeGrid(_title(run), note, chart=chart, table=_table(own, values[chosen], chosen, names))


def _table_grid(run: StoredRun, keys: Keys, values: Keys, dataset: Dataset, columns: Columns) -> PrototypeGrid | None:
    """Return the prototypes as rows of a table; None if its keys are directions, which have no units."""
    if not _are_points(run):
        return None
    order, names = key_order(values)[:_KEYS], dataset.class_names
    rows, distances = several_nearest(keys[order], dataset.train.inputs, 1)
    texts = [columns.texts(key) for key in dataset.scaling.invert(keys[order])]
    shown = {"prototype": [*map(str, order)], "class": [names[label] for label in values[order].argmax(1)]}
    own = zip(columns.names[:_MOST_COLUMNS], zip(*texts, strict=True), strict=False)
    shown |= {f"column {name}" if name in shown else name: [*column] for name, column in own}
    shown |= {"nearest row": [f"{row} ({names[dataset.train.labels[row]]})" for row in rows[:, 0].tolist()]}
    shown |= {"distance": [f"{distance:.3f}" for distance in distances[:, 0]]}
    words = {"class", "nearest row", *(column.name for column in columns.columns if column.categories)}
    parts = (Column(name, name, column, numeric=name not in words) for name, column in shown.items())
    notes = [f"The first {len(order)} of {len(keys):,} keys."] if len(order) < len(keys) else []
    notes += [f"The first {_MOST_COLUMNS} of {len(columns)} columns."] if len(columns) > _MOST_COLUMNS else []
    return PrototypeGrid(_title(run), " ".join(notes), table=Table("", tuple(parts), (None,) * len(order)))


def _image_shape(keys: Keys, dataset: Dataset | None) -> tuple[int, int] | None:
    """Return height and width of the images; without the data set, those of a square."""
    if dataset is not None:
        return dataset.image_shape if dataset.class_names else None
    side = round(float(np.sqrt(keys.shape[1])))
    return (side, side) if side >= _SMALLEST_SIDE and side * side == keys.shape[1] else None


def _image_grid(
    run: StoredRun, keys: Keys, values: Keys, shape: tuple[int, int], dataset: Dataset | None
) -> PrototypeGrid:
    order = key_order(values)[:_KEYS]
    classes = dataset.class_names if dataset is not None else tuple(map(str, range(values.shape[1])))
    points = _are_points(run)
    shown = dataset.scaling.invert(keys) if points and dataset is not None else keys.astype(np.float64)
    tiles: list[dict[str, Any]] = [
        {
            "number": int(key),
            "label": int(values[key].argmax()),
            "picture": key_picture(shown[key].reshape(shape)),
            "values": [round_number(float(value), 3) or 0.0 for value in values[key]],
        }
        for key in order
    ]
    images = _add_nearest(tiles, keys[order], shape, dataset) if points and dataset is not None else {}
    notes = [f"The first {len(order)} of {len(keys):,} keys."] if len(order) < len(keys) else []
    notes += [] if points else ["Its keys are directions, not points: no training image is nearest."]
    return PrototypeGrid(_title(run), " ".join(notes), {"classes": list(classes), "keys": tiles, "images": images})


def _add_nearest(
    tiles: list[dict[str, Any]], keys: Keys, shape: tuple[int, int], dataset: Dataset
) -> dict[int, dict[str, Any]]:
    """Add the nearest training images to each tile, and return these images by row of the training data."""
    train = dataset.train
    rows, distances = several_nearest(keys, train.inputs, _NEAREST)
    for tile, found, away in zip(tiles, rows.tolist(), distances.tolist(), strict=True):
        pairs = zip(found, away, strict=True)
        tile["nearest"] = [{"row": row, "distance": round_number(distance, 3)} for row, distance in pairs]
    pictures = {int(row): dataset.scaling.invert(train.inputs[row]).reshape(shape) for row in np.unique(rows)}
    return {row: {"picture": image_picture(one), "label": int(train.labels[row])} for row, one in pictures.items()}


def _are_points(run: StoredRun) -> bool:
    """Return whether the keys are points among the inputs; those of dot products are directions."""
    model = run.config.model
    if model.kind != "prototypes":
        return True  # centres of k-means and training inputs
    return model.method in METHODS and METHODS[model.method].has_points


def _in_view(run: StoredRun, keys: Keys, dataset: Dataset) -> NDArray[np.intp]:
    """Return the first keys that are at most twice as far from 0 as the data; points count wherever they are."""
    largest = 2 * np.abs(dataset.train.inputs).max()
    near = np.ones(len(keys), bool) if _are_points(run) else np.abs(keys).max(axis=1) <= largest
    return np.flatnonzero(near)[:_KEYS]


def _table(keys: NDArray[np.floating], values: Keys, numbers: NDArray[np.intp], class_names: Sequence[str]) -> Table:
    """Return the shown keys, in the data's own units, with their values."""

    def texts(numbers: NDArray[np.floating]) -> list[str]:
        return [f"{number:.3f}".replace("-", "−") for number in numbers]

    columns = {"key": [*map(str, numbers)], "x": texts(keys[:, 0]), "y": texts(keys[:, 1])}
    columns["class"] = [class_names[label] for label in values.argmax(axis=1)]
    columns |= {f"value of {name}": texts(column) for name, column in zip(class_names, values.T, strict=True)}
    shown = (Column(name, name, column, numeric=name != "class") for name, column in columns.items())
    return Table("", tuple(shown), (None,) * len(numbers))


def _title(run: StoredRun) -> str:
    metric = HEADLINES[run.config.dataset.task]
    value = run.metric(metric.name)
    measured = "" if value is None else f"test {metric.name} {value_label(metric.name, value)} %"
    return " · ".join(filter(None, (run.config.model.label, f"seed {run.seed}", measured)))
