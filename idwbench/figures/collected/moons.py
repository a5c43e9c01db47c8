"""Figure 2 of the paper from stored runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from idwbench.data.loading import load_dataset
from idwbench.figures.collected.plane import PlaneData, class_probability, plane_data
from idwbench.figures.moons import MoonsPanel, draw_moons
from idwbench.figures.registry import figure_of_runs
from idwbench.figures.runs import Model, select_runs_of_kind, stored_models
from idwbench.figures.style import Drawing
from idwbench.results.records import StoredRun

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["moons_figure"]


@figure_of_runs("moons")
def moons_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """Data, predictions and keys for the lowest seed, and mean accuracies over all seeds (the paper's Figure 2).

    Raises:
        ConfigError: no complete run, or the data does not have two classes in two dimensions.
    """
    selection = select_runs_of_kind(runs)
    section, left_out = selection.first()
    models, unusable = stored_models(store, selection, section)
    data = plane_data(load_dataset(section.dataset_config, data_dir))
    panels = [_panel(model, data) for model in models]
    names = data.dataset.class_names
    figure = draw_moons(panels, data.train, data.test, names, is_tested=section.is_tested, source=section.title)
    return Drawing(figure, (*left_out, *unusable))


def _panel(model: Model, data: PlaneData) -> MoonsPanel:
    row, config = model.row, model.row.model
    train, test = row.statistics.get("train"), row.statistics.get("test")
    return MoonsPanel(
        method=config.method,
        setting=config.parameters_label,
        prototypes=config.prototypes,
        train_accuracy=train.mean if train else 0.0,
        test_accuracy=test.mean if test else 0.0,
        n=row.n,
        keys=data.dataset.scaling.invert(model.keys),
        values=model.values,
        grid_probability=class_probability(config, model.keys, model.values, data),
        extent=data.extent,
        train_std=train.std if train else None,
        test_std=test.std if test else None,
        best=test is not None and test.best,
    )
