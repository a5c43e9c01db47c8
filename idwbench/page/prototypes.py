"""The keys of trained networks, as images or as points in the plane, with their nearest training images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from idwbench.attention.scores import METHODS
from idwbench.errors import IdwbenchError
from idwbench.figures.keys import key_order
from idwbench.figures.style import class_colour
from idwbench.models.neighbours import several_nearest
from idwbench.page.charts import plane_chart, round_number
from idwbench.page.chosen import RankedSetting
from idwbench.page.parts import Chart, Part, PrototypeGrid, sentences
from idwbench.page.pictures import image_picture, key_picture
from idwbench.report.labels import value_label
from idwbench.report.tables import Table, text_column
from idwbench.results.records import StoredRun
from idwbench.runs.kinds.models import MODELS
from idwbench.runs.metrics import headline_metric

if TYPE_CHECKING:
    from idwbench.data.dataset import Dataset
    from idwbench.results.store import Results

__all__ = ["prototypes_part"]

_NETWORKS, _KEYS, _NEAREST = 8, 64, 5
_PLANE_POINTS = 300
_SMALLEST_SIDE = 4  # of an image, where the data set is missing
_IMAGES = (
    "The keys of the best seed, sorted by the class of their value. Each key has its own scale: white is 0, black "
    "positive, blue negative."
)
_PLANE = "Training points and, as diamonds, the keys of the best seed in the colour of the class of their value."

Floats = NDArray[np.float64]


def prototypes_part(results: Results, ranked: Sequence[RankedSetting], data_dir: Path | None) -> Part | None:
    """Return the section of keys: the best setting of each method; None if no run has keys that can be drawn."""
    candidates = [setting for setting in ranked if _has_keys(setting.best)]
    best: dict[str, RankedSetting] = {}
    for setting in candidates:
        best.setdefault(setting.method, setting)
    # Those with nearest training images first.
    chosen = sorted([*best.values()][:_NETWORKS], key=lambda setting: not _are_points(setting.best))
    data = _DataSets(data_dir)
    grids, notes = [], []
    for setting in chosen:
        try:
            grid = _grid(results, setting.best, data)
        except IdwbenchError as error:
            notes.append(f"{setting.method}: {error.problem}")
            continue
        if grid is not None:
            grids.append(grid)
    if not grids:
        return None
    if left := len(candidates) - len(grids):
        notes.append(f"the best setting of each method is shown; not shown: {left:,} other settings")
    text = _PLANE if grids[0].chart is not None else _IMAGES
    return Part("prototypes", "Prototypes", text, sentences([*notes, *data.problems]), grids=tuple(grids))


class _DataSets:
    """The data sets of runs, each read once; those that cannot be read are missing."""

    def __init__(self, data_dir: Path | None) -> None:
        self._folder = data_dir
        self._found: dict[str, Dataset | None] = {}
        self.problems: list[str] = []

    def of(self, run: StoredRun) -> Dataset | None:
        """Return the data set of a run, or None."""
        from idwbench.data.loading import load_dataset

        config = run.setting.dataset
        key = config.identity()
        if key not in self._found:
            try:
                self._found[key] = load_dataset(config, self._folder)
            except IdwbenchError as error:
                self._found[key] = None
                self.problems.append(f"without training images, since {run.dataset} is not available: {error.problem}")
        return self._found[key]


def _has_keys(run: StoredRun) -> bool:
    kind = MODELS.get(run.setting.model.kind)
    return kind is not None and kind.array_names == ("keys", "values") and _is_classified(run)


def _is_classified(run: StoredRun) -> bool:
    return run.setting.dataset.task == "classification"


def _grid(results: Results, run: StoredRun, data: _DataSets) -> PrototypeGrid | None:
    arrays = results.load_arrays(run.run_key)
    keys, values = (np.asarray(arrays[name], np.float32) for name in ("keys", "values"))
    dataset = data.of(run)
    shape = _image_shape(keys, dataset)
    if shape is not None:
        return _image_grid(run, keys, values, shape, dataset)
    if dataset is not None and dataset.n_features == 2 and dataset.class_names:
        chosen = _in_view(run, keys, dataset)
        others = len(keys) - len(chosen)
        note = f"{len(chosen):,} of {len(keys):,} keys, those near the data." if others else ""
        chart = _plane(run, keys[chosen], values[chosen], chosen, dataset)
        return PrototypeGrid(_title(run), note, chart=chart, table=_table(keys, values, chosen, dataset))
    return None


def _image_shape(keys: NDArray[np.float32], dataset: Dataset | None) -> tuple[int, int] | None:
    """Return height and width of the images; without the data set, those of a square."""
    if dataset is not None:
        return dataset.image_shape if dataset.class_names else None
    side = round(float(np.sqrt(keys.shape[1])))
    return (side, side) if side >= _SMALLEST_SIDE and side * side == keys.shape[1] else None


def _image_grid(
    run: StoredRun,
    keys: NDArray[np.float32],
    values: NDArray[np.float32],
    shape: tuple[int, int],
    dataset: Dataset | None,
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
    images: dict[int, dict[str, Any]] = {}
    if points and dataset is not None:
        images = _add_nearest(tiles, keys[order], shape, dataset)
    notes = [f"The first {len(order)} of {len(keys):,} keys."] if len(order) < len(keys) else []
    notes += [] if points else ["Its keys are directions, not points: no training image is nearest."]
    content = {"classes": list(classes), "keys": tiles, "images": images}
    return PrototypeGrid(_title(run), " ".join(notes), content)


def _add_nearest(
    tiles: list[dict[str, Any]], keys: NDArray[np.float32], shape: tuple[int, int], dataset: Dataset
) -> dict[int, dict[str, Any]]:
    """Add the nearest training images to each tile, and return these images by row of the training data."""
    train = dataset.train
    rows, distances = several_nearest(keys, train.inputs, _NEAREST)
    for tile, found, away in zip(tiles, rows, distances, strict=True):
        tile["nearest"] = [
            {"row": int(row), "distance": round_number(float(distance), 3)}
            for row, distance in zip(found, away, strict=True)
        ]
    return {
        int(row): {
            "picture": image_picture(dataset.scaling.invert(train.inputs[row]).reshape(shape)),
            "label": int(train.labels[row]),
        }
        for row in np.unique(rows)
    }


def _are_points(run: StoredRun) -> bool:
    """Return whether the keys are points among the inputs; those of dot products are directions."""
    model = run.setting.model
    if model.kind != "prototypes":
        return True  # centres of k-means and training inputs
    return model.method in METHODS and METHODS[model.method].initialisation != "kaiming"


def _in_view(run: StoredRun, keys: NDArray[np.float32], dataset: Dataset) -> NDArray[np.intp]:
    """Return the first keys that are at most twice as far from 0 as the data; points count wherever they are."""
    largest = 2 * np.abs(dataset.train.inputs).max()
    near = np.ones(len(keys), bool) if _are_points(run) else np.abs(keys).max(axis=1) <= largest
    return np.flatnonzero(near)[:_KEYS]


def _plane(
    run: StoredRun,
    keys: NDArray[np.float32],
    values: NDArray[np.float32],
    numbers: NDArray[np.intp],
    dataset: Dataset,
) -> Chart:
    train, invert, names = dataset.train, dataset.scaling.invert, dataset.class_names
    spec = plane_chart(
        invert(train.inputs[:_PLANE_POINTS]),
        train.labels[:_PLANE_POINTS],
        invert(keys),
        values,
        numbers,
        names,
        [class_colour(label) for label in range(len(names))],
    )
    return Chart("", f"Keys among the training points: {_title(run)}", spec)


def _table(
    keys: NDArray[np.float32], values: NDArray[np.float32], numbers: NDArray[np.intp], dataset: Dataset
) -> Table:
    """Return the shown keys, in the data's own units, with their values."""
    own = dataset.scaling.invert(keys[numbers])
    columns = [text_column("key", "key", map(str, numbers), numeric=True)]
    for place, name in enumerate(("x", "y")):
        columns.append(text_column(name, name, (_number(number) for number in own[:, place]), numeric=True))
    classes = (dataset.class_names[label] for label in values[numbers].argmax(axis=1))
    columns.append(text_column("class", "class", classes))
    for place, name in enumerate(dataset.class_names):
        texts = (_number(number) for number in values[numbers, place])
        columns.append(text_column(f"value {name}", f"value of {name}", texts, numeric=True))
    return Table("", tuple(columns), (None,) * len(numbers), "", "", ())


def _number(number: float) -> str:
    return f"{number:.3f}".replace("-", "−")


def _title(run: StoredRun) -> str:
    metric = headline_metric(run.setting.dataset.task)
    value = run.metric(metric.name)
    measured = "" if value is None else f"test {metric.name} {value_label(metric.name, value)} %"
    return " · ".join(filter(None, (run.setting.model.label, f"seed {run.seed}", measured)))
