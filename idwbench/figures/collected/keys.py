"""Figure 4 of the paper from stored runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from idwbench.attention.scores import get_method
from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError
from idwbench.figures.keys import KeysPanel, draw_keys
from idwbench.figures.registry import figure_of_runs
from idwbench.figures.runs import Model, select_runs_with_keys, stored_models
from idwbench.figures.style import Drawing
from idwbench.report.labels import count_label, value_label
from idwbench.report.summaries import Section
from idwbench.results.records import StoredRun

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["image_models", "keys_are_points", "keys_figure", "model_title"]


@figure_of_runs("keys")
def keys_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """The keys of each method for the lowest seed as images, sorted by class (the paper's Figure 4).

    Raises:
        ConfigError: no complete run, or the inputs are not images of classes.
    """
    section, dataset, models, left_out = image_models(store, runs, data_dir)
    panels = []
    for model in models:
        keys = dataset.scaling.invert(model.keys) if keys_are_points(model) else model.keys
        panels.append(KeysPanel(model_title(section, model), keys, model.values))
    return Drawing(draw_keys(panels, dataset.image_shape, dataset.class_names, source=section.title), left_out)


def image_models(
    store: Results, runs: Sequence[StoredRun], data_dir: Path | None
) -> tuple[Section, Dataset, list[Model], tuple[str, ...]]:
    """Return the first section, its data set, its models, and what is left out.

    Raises:
        ConfigError: no complete run, or the inputs are not images of classes.
    """
    selection = select_runs_with_keys(runs)
    section, left_out = selection.first()
    models, unusable = stored_models(store, selection, section)
    dataset = load_dataset(section.dataset_config, data_dir)
    if not dataset.class_names or dataset.image_shape is None:
        problem = f"the figure needs images of classes; {section.dataset} has no such inputs"
        raise ConfigError(problem, location=("figure",))
    return section, dataset, models, (*left_out, *unusable)


def keys_are_points(model: Model) -> bool:
    """Return whether the keys are points among the inputs; those of dot products are directions, without units."""
    if model.row.model.kind in ("baseline", "scikit_learn"):
        return True
    return get_method(model.row.model.method).initialisation != "kaiming"


def model_title(section: Section, model: Model) -> str:
    """Return method, parameters, seed and the test metric over seeds: ``idw · p=2, ε=0.001 · seed 0 · …``."""
    config, test = model.row.model, model.row.statistics.get("test")
    prototypes = count_label(config.prototypes or len(model.keys), "prototype")
    parameters = "" if config.kind == "baseline" else config.parameters_label  # all say "nearest key"
    words = [config.method, parameters, prototypes, f"seed {model.run.config.seed}"]
    own = value_label(section.metric, model.run.metric(section.metric) or 0.0)
    over = f" ({value_label(section.metric, test.mean, test.std)}, n={test.n})" if test and test.n > 1 else ""
    return " · ".join(word for word in [*words, f"test accuracy {own} %{over}"] if word)
