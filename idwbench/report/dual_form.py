"""Table 1 of arXiv 2202.05798: is the class that a layer attends to most the target, or the answer?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from idwbench.errors import ConfigError
from idwbench.report.counts import count_notes, seed_notes
from idwbench.report.dual_form_references import SHARES, published_accuracies, published_shares
from idwbench.report.replication import Replication, distinct_runs, replication_notes, replication_of
from idwbench.report.settings import SettingRuns, constants_title, group_by_setting, varying_settings
from idwbench.report.statistics import Statistic, statistic
from idwbench.results.records import ReportedRun
from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import DATASETS, PartsConfig
from idwbench.runs.kinds.mlp import MlpConfig

__all__ = ["DualForm", "DualFormRow", "LayerShares", "TaskAccuracy", "dual_form", "has_only_perceptrons"]


@dataclass(frozen=True)
class TaskAccuracy:
    """The test accuracy on one data set, or on one part of a joint or sequence data set.

    Attributes:
        task: The name of the data set or part.
        accuracy: After the training.
        before: In a sequence, that on the first part before the second was trained on; otherwise None.
        published: Published accuracies after the training and before the second part, as fractions; None if there are
            none.
    """

    task: str
    accuracy: Statistic | None
    before: Statistic | None
    published: tuple[float | None, float | None]


@dataclass(frozen=True)
class LayerShares:
    """How often the class with the largest total attention in a layer agrees with the target or the output.

    Attributes:
        layer: The name of the layer.
        shares: ``target_if_wrong``, ``output_if_wrong`` and ``output_if_right`` on the test data, as fractions.
        published: The same, as published; empty if nothing is.
    """

    layer: str
    shares: Mapping[str, Statistic | None]
    published: Mapping[str, float]


@dataclass(frozen=True)
class DualFormRow:
    """Runs that differ only in the seed.

    Attributes:
        settings: All settings but the seed by name, as the columns of `Results.to_frame`.
        n: Number of complete runs.
        n_diverged: Number of diverged runs, which are in no statistic.
        wrong_inputs: Number of wrong answers on the test data, over which the shares are.
        tasks: Accuracies, one for each part of the data.
        layers: From inputs to logits.
    """

    settings: Mapping[str, Any]
    config: RunConfig
    n: int
    n_diverged: int
    accuracy: Statistic | None
    wrong_inputs: Statistic | None
    tasks: tuple[TaskAccuracy, ...]
    layers: tuple[LayerShares, ...]


@dataclass(frozen=True)
class DualForm:
    """The accuracies of multilayer perceptrons, and the classes that their layers attend to.

    Attributes:
        title: The settings that all runs share.
        settings: The names of the settings that vary, without the data set.
        rows: Sorted by data set, in the order of the first run of each setting.
        notes: Lines below the tables.
    """

    title: str
    settings: tuple[str, ...]
    rows: tuple[DualFormRow, ...]
    notes: tuple[str, ...]


def has_only_perceptrons(runs: Iterable[ReportedRun]) -> bool:
    """Return whether all runs are of kind ``mlp``."""
    return all(run.setting.model.kind == "mlp" for run in runs)


def dual_form(runs: Sequence[ReportedRun]) -> DualForm:
    """Return the table of stored runs of kind ``mlp``, without other runs; a run that is given twice counts once.

    Raises:
        ConfigError: no run of kind ``mlp`` is complete or diverged.
    """
    runs = [run for run in distinct_runs(runs) if run.setting.model.kind == "mlp"]
    replication = replication_of(runs)
    ended = [run for run in runs if run.state in ("complete", "diverged")]
    if not ended:
        raise ConfigError("no run of kind mlp is complete", location=("table",), hint="run the sweep dual_form")
    groups = group_by_setting(ended, replication)
    groups.sort(key=lambda group: list(DATASETS).index(group.runs[0].setting.dataset.name))
    rows = tuple(_row(group, replication) for group in groups)
    varying = [name for name in varying_settings([group.settings for group in groups]) if name != "dataset"]
    return DualForm(
        title=constants_title([group.runs[0] for group in groups], ("dataset_seed", *varying)),
        settings=tuple(varying),
        rows=rows,
        notes=(*replication_notes(ended, replication), *seed_notes(rows), *count_notes(rows, runs)),
    )


def _row(group: SettingRuns, replication: Replication) -> DualFormRow:
    config, complete = group.runs[0].config, group.complete

    def found(metric: str) -> Statistic | None:
        return statistic({replication.seed(run): run.metric(metric) for run in complete})

    model = config.model
    assert isinstance(model, MlpConfig)
    published = published_shares(config)
    return DualFormRow(
        settings=group.settings,
        config=config,
        n=len(complete),
        n_diverged=len(group.runs) - len(complete),
        accuracy=found("accuracy"),
        wrong_inputs=found("wrong_inputs"),
        tasks=tuple(
            TaskAccuracy(task, found(metric), found(f"{metric}_before"), accuracies)
            for (task, metric), accuracies in zip(_tasks(config), published_accuracies(config), strict=True)
        ),
        layers=tuple(
            LayerShares(name, {share: found(f"{share}_{layer}") for share in SHARES}, published.get(layer, {}))
            for layer, name in enumerate(model.layer_names)
        ),
    )


def _tasks(config: RunConfig) -> list[tuple[str, str]]:
    """Return the name of each part of the data, and that of its metric."""
    dataset = config.dataset
    if isinstance(dataset, PartsConfig):
        return [(part, f"accuracy_{number}") for number, part in enumerate(dataset.of, 1)]
    return [(config.dataset_label, "accuracy")]
