"""Keys of stored runs and their nearest training images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from idwbench.data.dataset import Dataset
from idwbench.errors import ConfigError
from idwbench.figures.collected.keys import image_models, keys_are_points, model_title
from idwbench.figures.keys_nearest import NearestPanel, draw_keys_nearest
from idwbench.figures.registry import figure_of_runs
from idwbench.figures.runs import Model
from idwbench.figures.style import Drawing
from idwbench.models.neighbours import nearest
from idwbench.report.summaries import Section
from idwbench.results.records import StoredRun

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["keys_nearest_figure"]


@figure_of_runs("keys_nearest")
def keys_nearest_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """The keys of each method whose keys are points, for the lowest seed, above their nearest training images.

    Raises:
        ConfigError: no complete run, the inputs are not images of classes, or no method has points as keys.
    """
    section, dataset, models, left_out = image_models(store, runs, data_dir)
    chosen = [model for model in models if keys_are_points(model)]
    others = ", ".join(dict.fromkeys(model.row.model.method for model in models if model not in chosen))
    if not chosen:
        raise ConfigError(f"the keys of {others} are directions, not points", location=("figure",))
    if others:
        left_out = (*left_out, f"not drawn: {others}, whose keys are directions, not points")
    assert dataset.image_shape is not None
    panels = [_panel(section, model, dataset) for model in chosen]
    figure = draw_keys_nearest(panels, dataset.image_shape, dataset.class_names, source=section.title)
    return Drawing(figure, left_out)


def _panel(section: Section, model: Model, dataset: Dataset) -> NearestPanel:
    rows, distance = nearest(model.keys, dataset.train.inputs)
    invert = dataset.scaling.invert
    return NearestPanel(
        title=model_title(section, model),
        keys=invert(model.keys),
        values=model.values,
        nearest=invert(dataset.train.inputs[rows]),
        labels=dataset.train.labels[rows],
        distance=distance,
    )
