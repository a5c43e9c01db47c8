"""The paper's figures from stored runs: Figure 2 (Two Moons) and Figure 4 (keys), drawn by `report`.

Here the stored prototypes become networks again, since a picture of decisions needs a forward pass; `report` itself
draws arrays and knows no tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.config import dataset_identity
from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError
from idwbench.methods import Method, get_method
from idwbench.model import PrototypeNetwork
from idwbench.report.key_figures import KeysPanel, draw_keys
from idwbench.report.labels import parameters_label, spread_label
from idwbench.report.moon_figures import MoonsPanel, Points, draw_moons
from idwbench.report.summaries import Row, Section, summarise
from idwbench.results.records import StoredRun
from idwbench.results.store import ResultsStore

__all__ = ["FIGURES", "keys_figure", "moons_figure"]

# Points on each side of the grid on which decisions are drawn, and the room left around the data.
GRID = 160
MARGIN = 0.35

Panel = tuple[Row, StoredRun, NDArray[np.float32], NDArray[np.float32]]


def moons_figure(store: ResultsStore, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Figure:
    """Return the paper's Figure 2: data, predictions, keys and accuracies; methods by prototypes.

    Of several seeds the lowest is drawn; the accuracies are means over all.

    Raises:
        ConfigError: nothing complete to draw, or data that is not two classes in two dimensions.
    """
    dataset, panels = _panels(store, runs, data_dir)
    if dataset.n_features != 2 or dataset.n_classes != 2:
        raise ConfigError(
            f"--figure moons: needs 2 features and 2 classes, {panels[0][1].dataset} has "
            f"{dataset.n_features} and {dataset.n_classes}; try --figure keys"
        )
    train, test = (
        Points(dataset.scaling.invert(split.inputs), split.labels) for split in (dataset.train, dataset.test)
    )
    extent = _extent(np.concatenate([train.inputs, test.inputs]))
    return draw_moons([_moons_panel(panel, dataset, extent) for panel in panels], train, test)


def keys_figure(store: ResultsStore, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Figure:
    """Return the paper's Figure 4: the keys of each method as images, sorted by the argmax of their values.

    Of several seeds the lowest is drawn.

    Raises:
        ConfigError: nothing complete to draw, or inputs that are no images.
    """
    dataset, panels = _panels(store, runs, data_dir)
    drawn = []
    for row, run, keys, values in panels:
        title = " · ".join(
            part
            for part in (
                row.method,
                parameters_label(row.parameters),
                f"seed {run.config.seed}",
                f"test accuracy {spread_label(run.test_accuracy or 0.0, None)} %",
            )
            if part
        )
        # Keys that meet inputs in a product are directions, not points: only points have units to go back to.
        is_point = get_method(run.config.method).initialisation == "data"
        drawn.append(KeysPanel(title, dataset.scaling.invert(keys) if is_point else keys, values))
    return draw_keys(drawn, dataset.image_shape, dataset.class_names)


FIGURES = {"keys": keys_figure, "moons": moons_figure}


def _panels(store: ResultsStore, runs: Sequence[StoredRun], data_dir: Path | None) -> tuple[Dataset, list[Panel]]:
    """Return the data set and one run with its tensors for each row of one table.

    A figure holds one table: that of the data set's own protocol, else the first.
    """
    complete = [run for run in runs if run.state == "complete"]
    if not complete:
        raise ConfigError("no complete run to draw")
    section = summarise(complete).sections[0]
    panels: list[Panel] = []
    for row in _drawable(section):
        same = [run for run in complete if _belongs(run, section, row)]
        run = min(same, key=lambda run: run.config.seed)
        tensors = store.load_tensors(run.run_key)
        panels.append((row, run, tensors["keys"].astype(np.float32), tensors["values"].astype(np.float32)))
    return load_dataset(section.dataset_config, data_dir), panels


def _drawable(section: Section) -> list[Row]:
    """Return the rows whose method is registered as it was when they were trained.

    Raises:
        ConfigError: a plugin is missing, or is another version than any that trained here.
    """
    rows = [row for row in section.rows if _method_of(row).sha256 == row.plugin_sha256]
    if not rows:
        names = ", ".join(sorted({row.method for row in section.rows}))
        raise ConfigError(f"'{names}' was trained with another version of its plugin; give that one as --plugin")
    return rows


def _method_of(row: Row) -> Method:
    try:
        return get_method(row.method)
    except ConfigError:
        raise ConfigError(f"method '{row.method}' is not registered; give its --plugin") from None


def _belongs(run: StoredRun, section: Section, row: Row) -> bool:
    config = run.config
    is_row = (config.method, config.plugin_sha256, config.prototypes, config.parameters) == (
        *(row.method, row.plugin_sha256, row.prototypes),
        dict(row.parameters),
    )
    same_data = dataset_identity(config.dataset) == dataset_identity(section.dataset_config)
    return is_row and same_data and config.protocol == section.protocol


def _extent(inputs: NDArray[np.float64]) -> tuple[float, float, float, float]:
    low, high = inputs.min(0) - MARGIN, inputs.max(0) + MARGIN
    return float(low[0]), float(high[0]), float(low[1]), float(high[1])


def _moons_panel(panel: Panel, dataset: Dataset, extent: tuple[float, float, float, float]) -> MoonsPanel:
    row, run, keys, values = panel
    xs, ys = np.linspace(*extent[:2], GRID), np.linspace(*extent[2:], GRID)
    grid = np.stack([axis.ravel() for axis in np.meshgrid(xs, ys)], axis=1)
    network = PrototypeNetwork(
        get_method(run.config.method), run.config.parameters, torch.from_numpy(keys), torch.from_numpy(values)
    )
    with torch.no_grad():
        probability = network(torch.from_numpy(dataset.scaling.apply(grid))).softmax(-1)[:, 1]
    return MoonsPanel(
        method=row.method,
        parameters=row.parameters,
        prototypes=row.prototypes,
        train_accuracy=row.train.mean if row.train else 0.0,
        test_accuracy=row.test.mean if row.test else 0.0,
        n=row.n,
        keys=dataset.scaling.invert(keys),
        values=values,
        grid_probability=probability.reshape(GRID, GRID).numpy(),
        extent=extent,
    )
