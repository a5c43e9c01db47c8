"""Figures 3 and 6 of the paper from stored patch studies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError, ResultsError
from idwbench.figures.collected.plane import PlaneData, class_probability, plane_data
from idwbench.figures.patches import PatchPanel, PatchPicture, draw_patches
from idwbench.figures.registry import figure_of_runs
from idwbench.figures.style import Drawing
from idwbench.report.statistics import Statistic, statistic
from idwbench.report.summaries import summarise
from idwbench.results.records import StoredRun
from idwbench.runs.datasets import dataset_identity

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["KIND", "patch_panels", "patches_figure", "trained_network"]

KIND = "patch_study"
_EXACT = 0  # the place of the exact η among the criteria of a study

Arrays = Mapping[str, NDArray[np.generic]]
Study = tuple[StoredRun, Arrays]


@figure_of_runs("patches")
def patches_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """The special cases before and after their patch, with train and test accuracy (the paper's Figures 3 and 6).

    Raises:
        ConfigError: no complete patch study, or its data does not have two classes in two dimensions.
    """
    panels, data, source, left_out = patch_panels(store, runs, data_dir)
    figure = draw_patches(panels, data.train, data.test, data.extent, data.dataset.class_names, source=source)
    return Drawing(figure, left_out)


def patch_panels(
    store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None
) -> tuple[list[PatchPanel], PlaneData, str, tuple[str, ...]]:
    """Return the panels of the figure, their data, the model with data set and protocol, and what is left out.

    Raises:
        ConfigError: no complete patch study, or its data does not have two classes in two dimensions.
    """
    studies, source, left_out = _first_setting(runs)
    data = plane_data(load_dataset(studies[0].config.dataset, data_dir))
    by_prototypes: dict[int, list[Study]] = defaultdict(list)
    for run in studies:
        by_prototypes[run.config.model.prototypes].append((run, store.load_arrays(run.run_key)))
    panels = [
        _panel(store, by_prototypes[prototypes], case, data)
        for case in range(len(next(iter(by_prototypes.values()))[0][1]["labels"]))
        for prototypes in sorted(by_prototypes)
    ]
    return panels, data, source, left_out


def trained_network(study: StoredRun) -> str:
    """Return the run key of the network that a study patches: the same data, protocol, seed and network settings."""
    required = study.config.required
    return "" if required is None else required.run_key


def _first_setting(runs: Sequence[StoredRun]) -> tuple[list[StoredRun], str, tuple[str, ...]]:
    """Return the complete studies of the first data set, protocol and parameters, by seed, and what is left out."""
    complete = [run for run in runs if run.config.model.kind == KIND and run.state == "complete"]
    studies = [run for run in complete if getattr(run.config.model, "cases", "") == "special"]
    if not studies:
        problem = f"no complete run of kind '{KIND}' with cases 'special'"
        raise ConfigError(problem, location=("figure",), hint="run the sweep paper_patches_two_moons")
    groups: dict[tuple[str, str, str], list[StoredRun]] = defaultdict(list)
    for run in studies:
        config, model = run.config, run.config.model
        data = f"{dataset_identity(config.dataset)}{config.protocol.model_dump_json()}"
        groups[data, model.method, model.parameters_label].append(run)
    (_, method, setting), chosen = next(iter(groups.items()))
    chosen.sort(key=lambda run: run.config.seed)
    title = summarise(chosen[:1]).sections[0].title
    source = " · ".join(word for word in (method, setting, title) if word)
    left_out = len(complete) - len(chosen)
    words = (f"not drawn: {left_out} other patch studies (drawn: {source})",) if left_out else ()
    return chosen, source, words


def _panel(store: Results, studies: Sequence[Study], case: int, data: PlaneData) -> PatchPanel:
    first = studies[0][1]
    patched = [(run, arrays) for run, arrays in studies if np.isfinite(_floats(arrays, "eta")[_EXACT, case])]
    chosen = patched or studies
    shown = chosen[0]
    point = data.dataset.scaling.invert(_floats(first, "inputs")[case])
    return PatchPanel(
        point=(round(float(point[0]), 6), round(float(point[1]), 6)),
        label=int(np.asarray(first["labels"], np.int64)[case]),
        prototypes=shown[0].config.model.prototypes,
        n=len(studies),
        n_patched=len(patched),
        train=_accuracies(chosen, "train", case),
        test=_accuracies(chosen, "test", case),
        picture=_picture(store, shown, case, data),
    )


def _accuracies(studies: Sequence[Study], split: str, case: int) -> tuple[Statistic, Statistic]:
    """Return the accuracy before and after over the seeds of `studies`."""
    after = statistic({run.config.seed: float(_floats(a, f"accuracy_{split}")[_EXACT, case]) for run, a in studies})
    before = statistic({run.config.seed: run.metric("accuracy_before", split) for run, _ in studies})
    return before or Statistic(np.nan, None, {}), after or Statistic(np.nan, None, {})


def _picture(store: Results, study: Study, case: int, data: PlaneData) -> PatchPicture | None:
    run, arrays = study
    try:
        trained = store.load_arrays(trained_network(run))
        keys, values = _floats(trained, "keys"), _floats(trained, "values")
    except (ResultsError, KeyError):
        return None
    before = class_probability(run.config.model, keys, values, data)
    eta, after = float(_floats(arrays, "eta")[_EXACT, case]), None
    if np.isfinite(eta):
        value = np.zeros((1, values.shape[1]), np.float32)
        value[0, int(np.asarray(arrays["labels"], np.int64)[case])] = eta
        patched = (
            np.concatenate([keys, _floats(arrays, "inputs")[case : case + 1]]),
            np.concatenate([values, value]),
        )
        after = class_probability(run.config.model, *patched, data)
    return PatchPicture(run.config.seed, data.dataset.scaling.invert(keys), values, before, after)


def _floats(arrays: Arrays, name: str) -> NDArray[np.float32]:
    return np.asarray(arrays[name], np.float32)
