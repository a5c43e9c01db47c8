"""Keys of the heads of stored networks, and the training images nearest to them in feature space."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from idwbench.attention.scores import METHODS
from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError
from idwbench.figures.collected.keys import model_title
from idwbench.figures.network_keys import FeaturePanel, draw_network_keys
from idwbench.figures.registry import figure_of_runs
from idwbench.figures.runs import Model, runs_of_row, select_runs_of_kind
from idwbench.figures.style import Drawing
from idwbench.report.frame import Row
from idwbench.report.summaries import Section
from idwbench.results.records import StoredRun
from idwbench.runs.kinds.network import NetworkConfig

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["network_keys_figure"]

_IMAGES = 3  # for each key


@figure_of_runs("network_keys")
def network_keys_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """The keys of each network's head for the lowest seed, as their nearest training images in feature space.

    Raises:
        ConfigError: no complete run of a network, the inputs are not images of classes, or no head has points as keys.
    """
    selection = select_runs_of_kind(runs, "network")
    section, left_out = selection.first()
    dataset = load_dataset(section.dataset_config, data_dir)
    if not dataset.class_names or dataset.image_shape is None:
        problem = f"the figure needs images of classes; {section.dataset} has no such inputs"
        raise ConfigError(problem, location=("figure",))
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
    return Drawing(draw_network_keys(panels, dataset.image_shape, dataset.class_names, source=section.title), left_out)


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
    return FeaturePanel(
        title=model_title(section, Model(row, run, keys, values)),
        values=values,
        nearest=dataset.scaling.invert(dataset.train.inputs[rows]),
        labels=dataset.train.labels[rows],
        distance=distances[:, 0] / unit,
    )
