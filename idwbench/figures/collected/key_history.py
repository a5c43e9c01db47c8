"""The training samples that moved the keys of a stored run, beside those that a recorded network attends to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset
from idwbench.figures.collected.keys import keys_are_points
from idwbench.figures.collected.moved_keys import MovedKeys, collect_moved_keys, percent
from idwbench.figures.key_history import KeyRow, Picture, PictureGroup, SharesByEpoch, draw_key_history
from idwbench.figures.key_history_plane import PlanePanel, draw_key_history_plane
from idwbench.figures.registry import figure_of_runs
from idwbench.figures.style import Drawing
from idwbench.results.records import StoredRun

if TYPE_CHECKING:
    from idwbench.dual.key_history import KeyHistory
    from idwbench.results.store import Results

__all__ = ["key_history_figure"]

_MOST_KEYS = {True: 10, False: 5}  # of pictures, and of points in the plane
_TOWARDS, _AGAINST, _ATTENDED = 4, 3, 4
_MEMORY_CAPTION = (
    "attention: Σ (x_t·x + 1) over the visits of a training sample, for the layer's input x of the test sample nearest "
    "to the key"
)
_PLANE_CAPTION = (
    "arrow: from the initial to the learned key; size of a point: its share, or the attention to it, relative to the "
    "largest of the panel; rings are negative"
)


@figure_of_runs("key_history")
def key_history_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """The keys of one method for the lowest seed, and the training samples that moved them most.

    The method is ``idw`` if it is among the runs. The training is repeated, which takes several times as long as the
    training itself. Beside them are the training samples that a recorded multilayer perceptron attends to.

    Raises:
        ConfigError: no complete run, no key moved, or the inputs are neither images nor points of classes.
        TrainingError: the repeated training does not arrive at the stored keys.
    """
    moved = collect_moved_keys(store, runs, data_dir, _MOST_KEYS, _MEMORY_CAPTION)
    figure = _plane(moved) if moved.dataset.image_shape is None else _pictures(moved)
    return Drawing(figure, moved.left_out)


def _plane(moved: MovedKeys) -> Figure:
    """Return the figure of points in the plane: a column for each key, a row for shares and one for each layer."""
    history, invert = moved.history, moved.dataset.scaling.invert
    names = moved.dataset.class_names
    of_keys = [
        PlanePanel(
            f"key {key}: {names[history.classes[key]]}, own class {percent(float(own))}",
            history.shares[:, key],
            invert(history.keys[key]),
            invert(history.initial[key]),
        )
        for key, own in ((key, history.own_class_shares()[0][:, key].sum()) for key in moved.chosen)
    ]
    rows = [("what moved the key", of_keys)]
    for name in _first_and_last(moved):
        attention = moved.attention[name]
        panels = [
            PlanePanel(
                f"test point of class {names[moved.dataset.test.labels[row]]}",
                attention[query],
                invert(moved.dataset.test.inputs[row]),
            )
            for query, row in enumerate(moved.typical)
        ]
        rows.append((f"attention of {name}", panels))
    train = moved.dataset.train
    captions = (_PLANE_CAPTION, *moved.captions)
    return draw_key_history_plane(rows, invert(train.inputs), train.labels, moved.title, captions)


def _pictures(moved: MovedKeys) -> Figure:
    rows = [
        KeyRow((*_moved(moved, key), _typical(moved.dataset, int(moved.typical[place])), *_attended(moved, place)))
        for place, key in enumerate(moved.chosen)
    ]
    assert moved.dataset.image_shape is not None
    captions = ("the colour of a frame is the class", *moved.captions)
    return draw_key_history(rows, moved.dataset.image_shape, moved.title, captions=captions)


def _first_and_last(moved: MovedKeys) -> list[str]:
    names = [*moved.attention]
    return [names[0], names[-1]] if names else []


def _moved(moved: MovedKeys, key: int) -> tuple[PictureGroup | SharesByEpoch, ...]:
    history, dataset = moved.history, moved.dataset
    own = int(history.classes[key])
    invert = dataset.scaling.invert if keys_are_points(moved.model) else np.asarray
    pictures = (
        Picture(invert(history.initial[key]), own, "initial"),
        Picture(invert(history.keys[key]), own, f"{dataset.class_names[own]}\n{history.distance[key]:.3g}"),
    )
    towards = [_sample(history, dataset, key, row) for row in history.top(key, _TOWARDS)]
    against = [_sample(history, dataset, key, row) for row in history.top(key, _AGAINST, against=True)]
    of_own, of_others = (shares[:, key].cumsum() for shares in history.own_class_shares())
    return (
        PictureGroup("key: class of its\nvalue, distance", pictures),
        PictureGroup("moved it most towards its place:\nlabel and share", tuple(towards)),
        PictureGroup("moved it most the other way:\nlabel and share", tuple(against)),
        SharesByEpoch("sum by epoch: own\nclass, others (dashed)", of_own, of_others, own),
    )


def _sample(history: KeyHistory, dataset: Dataset, key: int, row: np.intp) -> Picture:
    label = int(dataset.train.labels[row])
    text = f"{dataset.class_names[label]}\n{percent(float(history.shares[row, key]))}"
    return Picture(dataset.scaling.invert(dataset.train.inputs[row]), label, text)


def _typical(dataset: Dataset, row: int) -> PictureGroup:
    label = int(dataset.test.labels[row])
    picture = Picture(dataset.scaling.invert(dataset.test.inputs[row]), label, dataset.class_names[label])
    return PictureGroup("nearest\ntest image", (picture,))


def _attended(moved: MovedKeys, place: int) -> list[PictureGroup]:
    """Return the training images that the first and last layer attend to most, for one test image."""
    groups = []
    for name in _first_and_last(moved):
        attention = moved.attention[name][place]
        largest = np.argsort(-attention, kind="stable")[:_ATTENDED]
        assert moved.network is not None
        pictures = tuple(_attended_sample(moved.network.dataset, attention, row) for row in largest)
        groups.append(PictureGroup(f"{name} of the mlp attends most to:\nlabel and attention", pictures))
    return groups


def _attended_sample(dataset: Dataset, attention: NDArray[np.floating], row: np.intp) -> Picture:
    label = int(dataset.train.labels[row])
    text = f"{dataset.class_names[label]}\n{attention[row]:,.0f}".replace("-", "−")
    return Picture(dataset.scaling.invert(dataset.train.inputs[row]), label, text)
