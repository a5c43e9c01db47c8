"""Stored runs, data sets and checks that the tests of figures share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.text import Text
from stored_runs import stored_run

from idwbench.data.dataset import Dataset, Scaling, Split
from idwbench.errors import ResultsError
from idwbench.figures.stored import stored_drawing
from idwbench.runs.config import run_config

SCALING = Scaling(np.asarray(10.0), np.asarray(2.0))
ARRAYS = {"keys": np.arange(6, dtype=np.float32).reshape(3, 2) / 5, "values": np.eye(2, dtype=np.float32)[[0, 1, 1]]}


@dataclass
class Store:
    """What drawing needs of a store: arrays and curves by run key."""

    arrays: Mapping[str, Any] = field(default_factory=dict)
    curves: Mapping[str, Any] = field(default_factory=dict)
    default: Any = field(default_factory=lambda: ARRAYS)

    def load_arrays(self, run_key):
        if (arrays := self.arrays.get(run_key, self.default)) is None:
            raise ResultsError(f"no run has the key '{run_key}'")
        return arrays

    def load_curve(self, run_key):
        return self.curves.get(run_key, [])


def draw(name, runs, store=None, **facts):
    """Draw a figure, whose words must not overlap; `facts` are those of a `Store`."""
    drawing = stored_drawing(name, store or Store(**facts), runs)  # type: ignore[arg-type]
    assert_no_words_overlap(drawing.figure)
    return drawing


def draw_pairs(name, *pairs):
    """Draw a figure of runs with their arrays."""
    return draw(name, [run for run, _ in pairs], arrays={run.run_key: arrays for run, arrays in pairs})


def made_run(config, test=0.9, **metrics):
    """A complete run; `metrics` are those of the training data."""
    given = {("train", name): value for name, value in metrics.items()}
    return stored_run(test, config=config, train=1.0, metrics=given)


def made_dataset(features=2, image_shape=None, class_names=("upper", "lower")):
    inputs = np.random.default_rng(0).normal(size=(8, features)).astype(np.float32)
    split = Split(inputs, np.arange(8) % 2)
    config = run_config("two_moons").dataset
    facts: dict[str, Any] = {"image_shape": image_shape, "class_names": class_names, "sha256": "0" * 64}
    return Dataset(config=config, train=split, test=split, holdout=None, scaling=SCALING, **facts)


def use_dataset(monkeypatch, dataset=None):
    """Let all figures load this data set, by default images of 1 × 2 pixels that are also points in the plane."""
    used = dataset or made_dataset(image_shape=(1, 2))
    monkeypatch.setattr("idwbench.figures.runs.load_dataset", lambda config, data_dir: used)
    return used


def words(figure):
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]  # type: ignore[attr-defined]


def caption(figure):
    return " ".join(words(figure)).replace("\n", " ")


def bars(axes):
    """Return the points (n, 2) with error bars by label."""
    return {str(one.get_label()): one[0].get_xydata() for one in axes.containers}


def assert_no_words_overlap(figure):
    """Assert that no visible word leaves the figure or overlaps another."""
    figure.draw_without_rendering()
    renderer = figure._get_renderer()  # type: ignore[attr-defined]
    # Axes without ticks, and ticks beyond the limits of an axis, have labels that are not drawn.
    axes = [axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)]
    drawn = {tick for axis in axes if axis.axes.axison for tick in axis._update_ticks()}  # type: ignore[attr-defined]
    others = {tick for axis in axes for tick in axis.get_major_ticks()} - drawn
    beyond = {label for tick in others for label in (tick.label1, tick.label2)}
    found = set(figure.findobj(Text)) - beyond  # type: ignore[arg-type]
    texts = [text for text in found if text.get_text() and text.get_visible()]  # type: ignore[attr-defined]
    boxes = [text.get_window_extent(renderer) for text in texts]
    for place, box in enumerate(boxes):
        name = texts[place].get_text()
        assert box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0 and box.y1 <= figure.bbox.y1, name
        for other, text in zip(boxes[place + 1 :], texts[place + 1 :], strict=True):
            across = min(box.x1, other.x1) - max(box.x0, other.x0)
            up = min(box.y1, other.y1) - max(box.y0, other.y0)
            assert across <= 1 or up <= 1, (name, text.get_text())
