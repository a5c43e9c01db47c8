"""Figures of stored runs: functions ``(store, runs, data_dir) -> Figure``, registered in `FIGURES`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.attention.methods import METHODS, get_method
from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError, did_you_mean
from idwbench.figures.keys import KeysPanel, draw_keys
from idwbench.figures.moons import MoonsPanel, Points, draw_moons
from idwbench.models.prototypes import PrototypeNetwork
from idwbench.report.labels import value_label
from idwbench.report.summaries import Row, Section, summarise
from idwbench.results.records import StoredRun
from idwbench.runs.datasets import dataset_identity

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["FIGURES", "draw_stored", "keys_figure", "moons_figure"]

GRID = 160  # points of the grid of predictions in each direction
MARGIN = 0.35  # around the data, in its own units

Panel = tuple[Row, StoredRun, NDArray[np.float32], NDArray[np.float32]]


def draw_stored(name: str, store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Figure:
    """Return the figure of that name, see `FIGURES`.

    Raises:
        ConfigError: unknown figure, no complete run, or the figure does not support this data set.
    """
    if name not in FIGURES:
        raise ConfigError(f"unknown figure '{name}'", location=("figure",), hint=did_you_mean(name, FIGURES))
    return FIGURES[name](store, runs, data_dir)


def moons_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Figure:
    """Return the paper's Figure 2: data, predictions and keys for the lowest seed, and mean accuracies over all seeds.

    Raises:
        ConfigError: no complete run, or the data does not have two classes in two dimensions.
    """
    section, dataset, panels = _panels(store, runs, data_dir)
    if dataset.n_features != 2 or len(dataset.class_names) != 2:
        raise ConfigError(
            f"the figure needs 2 features and 2 classes, {section.dataset} has "
            f"{dataset.n_features} and {len(dataset.class_names)}",
            location=("figure",),
        )
    train, test = (
        Points(dataset.scaling.invert(split.inputs), split.labels) for split in (dataset.train, dataset.test)
    )
    extent = _extent(np.concatenate([train.inputs, test.inputs]))
    drawn = [_moons_panel(panel, dataset, extent) for panel in panels]
    return draw_moons(drawn, train, test, dataset.class_names, is_tested=section.is_tested)


def keys_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Figure:
    """Return the paper's Figure 4: the keys of each method for the lowest seed as images.

    Raises:
        ConfigError: no complete run, or the inputs are not images of classes.
    """
    section, dataset, panels = _panels(store, runs, data_dir)
    if not dataset.class_names or dataset.image_shape is None:
        problem = f"the figure needs images of classes; {section.dataset} has no such inputs"
        raise ConfigError(problem, location=("figure",))
    drawn = []
    for row, run, keys, values in panels:
        accuracy = value_label(section.metric, run.metric(section.metric) or 0.0)
        words = (row.model.method, row.model.parameters_label, f"seed {run.config.seed}", f"test accuracy {accuracy} %")
        # Keys of dot products are directions, without units.
        is_point = get_method(row.model.method).initialisation != "kaiming"
        title = " · ".join(word for word in words if word)
        drawn.append(KeysPanel(title, dataset.scaling.invert(keys) if is_point else keys, values))
    return draw_keys(drawn, dataset.image_shape, dataset.class_names)


FIGURES: dict[str, Callable[[Results, Sequence[StoredRun], Path | None], Figure]] = {
    "keys": keys_figure,
    "moons": moons_figure,
}


def _panels(store: Results, runs: Sequence[StoredRun], data_dir: Path | None) -> tuple[Section, Dataset, list[Panel]]:
    """Return the first section of the report, its data set, and for each row one run with its arrays."""
    complete = [run for run in runs if run.state == "complete"]
    if not complete:
        raise ConfigError("no run to draw is complete")
    section = summarise(complete).sections[0]
    panels: list[Panel] = []
    for row in _drawable(section):
        run = min((run for run in complete if _belongs(run, section, row)), key=lambda run: run.config.seed)
        arrays = store.load_arrays(run.run_key)
        panels.append((row, run, arrays["keys"].astype(np.float32), arrays["values"].astype(np.float32)))
    return section, load_dataset(section.dataset_config, data_dir), panels


def _drawable(section: Section) -> list[Row]:
    """Return the rows that were trained with the registered version of their method.

    Raises:
        ConfigError: a plugin is missing, or only other versions were used.
    """
    for row in section.rows:
        if row.model.method not in METHODS:
            problem = f"method '{row.model.method}' is not registered"
            raise ConfigError(problem, location=("plugin",), hint="load the plugin that defines it")
    rows = [row for row in section.rows if get_method(row.model.method).sha256 == row.model.plugin_sha256]
    if not rows:
        names = ", ".join(sorted({row.model.method for row in section.rows}))
        problem = f"'{names}' was trained with another version of its plugin"
        raise ConfigError(problem, location=("plugin",), hint="load that version")
    return rows


def _belongs(run: StoredRun, section: Section, row: Row) -> bool:
    config = run.config
    same_data = dataset_identity(config.dataset) == dataset_identity(section.dataset_config)
    return config.model == row.model and same_data and config.protocol == section.protocol


def _extent(inputs: NDArray[np.float64]) -> tuple[float, float, float, float]:
    low, high = inputs.min(0) - MARGIN, inputs.max(0) + MARGIN
    return float(low[0]), float(high[0]), float(low[1]), float(high[1])


def _moons_panel(panel: Panel, dataset: Dataset, extent: tuple[float, float, float, float]) -> MoonsPanel:
    row, run, keys, values = panel
    model = run.config.model
    xs, ys = np.linspace(*extent[:2], GRID), np.linspace(*extent[2:], GRID)
    grid = np.stack([axis.ravel() for axis in np.meshgrid(xs, ys)], axis=1)
    network = PrototypeNetwork(
        get_method(model.method), model.parameters, torch.from_numpy(keys), torch.from_numpy(values)
    )
    with torch.no_grad():
        probability = network(torch.from_numpy(dataset.scaling.apply(grid))).softmax(-1)[:, 1]
    train, test = row.statistics.get("train"), row.statistics.get("test")
    return MoonsPanel(
        method=model.method,
        setting=model.parameters_label,
        prototypes=model.prototypes,
        train_accuracy=train.mean if train else 0.0,
        test_accuracy=test.mean if test else 0.0,
        n=row.n,
        keys=dataset.scaling.invert(keys),
        values=values,
        grid_probability=probability.reshape(GRID, GRID).numpy(),
        extent=extent,
        best=test is not None and test.best,
    )
