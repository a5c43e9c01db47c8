"""The figure of the number of learned prototypes that replace all training data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from idwbench.errors import ConfigError
from idwbench.figures.collected.selection import select_runs_of_kind
from idwbench.figures.curves import DASHES
from idwbench.figures.prototypes_needed import PrototypesBand, PrototypesLine, draw_prototypes_needed
from idwbench.figures.registry import figure_of_runs
from idwbench.figures.style import Drawing, method_colour, seeds_label
from idwbench.report.labels import metric_label
from idwbench.report.replication import Replication, distinct_runs, replication_of
from idwbench.report.settings import SettingRuns, constants_title, group_by_setting, method_order, varying_settings
from idwbench.report.statistics import Statistic, split_statistics
from idwbench.report.validation import best_by_validation
from idwbench.results.records import StoredRun
from idwbench.runs.datasets import DatasetConfig
from idwbench.runs.kinds.models import ModelConfig
from idwbench.runs.metrics import headline_metric
from idwbench.runs.protocol import Protocol

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["prototypes_needed_figure"]

_MEMORY = "kernel_regression"
_OF_KERNELS = ("method", "bandwidth", "power", "epsilon")
_SWEEP = "run the sweep kernel_regression"


@figure_of_runs("prototypes_needed")
def prototypes_needed_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """The headline metric against the number of learned prototypes, beside kernel regression on all training data.

    Settings of the protocol, and the kernel with its parameters, are those with the best mean metric on the validation
    split; without one, the first in the order of tables. The metric is that of the holdout if there is one.

    Raises:
        ConfigError: no complete run of prototypes, or none of kernel regression on the same data.
    """
    runs = distinct_runs(runs)
    section, *others = select_runs_of_kind(runs).sections
    left_out = sorted({other.dataset for other in others if not section.has_data(other.dataset_config)})
    runs = [run for run in runs if section.has_data(run.config.dataset) and run.state == "complete"]
    replication = replication_of(runs)
    metric = headline_metric(section.dataset_config.task)
    memories, networks = (
        group_by_setting([run for run in runs if run.config.model.kind == kind], replication)
        for kind in (_MEMORY, "prototypes")
    )
    if not memories:
        raise ConfigError("no run of kernel regression on the same data", location=("figure",), hint=_SWEEP)
    split = "holdout" if all(run.metric(metric.name, "holdout") is not None for run in runs) else "test"

    def value(group: SettingRuns) -> Statistic:
        return split_statistics(group.runs, metric.name, replication.seed)[split]

    memory = _chosen(memories, metric.name, (*_OF_KERNELS, *Protocol.model_fields))[0]
    band = PrototypesBand(f"all data: {_name(memory)}", value(memory))
    lines = _lines([(group, value(group)) for group in _chosen(networks, metric.name, tuple(Protocol.model_fields))])
    captions = (
        _answer(lines, band, metric.higher_is_better),
        _spread(lines, replication, section.dataset_config),
        constants_title([group.runs[0] for group in networks], (*_varying(networks), "prototypes", "dataset_seed")),
    )
    label = f"{split} {metric_label(metric.name)}"
    figure = draw_prototypes_needed(lines, band, label, percent=metric.percent, captions=captions)
    return Drawing(figure, (f"not drawn: other data sets ({', '.join(left_out)})",) if left_out else ())


def _varying(groups: Sequence[SettingRuns]) -> tuple[str, ...]:
    return varying_settings([group.settings for group in groups])


def _chosen(groups: list[SettingRuns], metric: str, axes: Sequence[str]) -> list[SettingRuns]:
    """Return the values of `axes` with the best validation metric, or without one the first."""
    varying = _varying(groups)
    axes = [axis for axis in axes if axis in varying]
    if not axes:
        return groups
    if all(run.metric(metric, "validation") is not None for group in groups for run in group.runs):
        return list(best_by_validation(groups, varying, axes, metric).groups)
    first: dict[tuple[object, ...], SettingRuns] = {}
    for group in groups:
        first.setdefault(tuple(group.settings.get(name) for name in varying if name not in axes), group)
    return list(first.values())


def _name(group: SettingRuns) -> str:
    model = group.runs[0].config.model
    method = model.method.replace("_kernel", " kernel")
    return ", ".join(filter(None, (method, model.parameters_label.split(", initialisation")[0])))


def _lines(found: Sequence[tuple[SettingRuns, Statistic]]) -> list[PrototypesLine]:
    """Return a line for each method with its parameters; those of one method differ in their dashes."""
    lines: dict[str, dict[int, Statistic]] = defaultdict(dict)
    methods: dict[str, str] = {}
    for group, one in found:
        model = group.runs[0].config.model
        label = " ".join((model.method, *_telling_parts(model, [other.runs[0].config.model for other, _ in found])))
        lines[label][model.prototypes] = one
        methods[label] = model.method
    labels = sorted(lines, key=lambda label: (method_order(methods[label]), label))
    places = {label: [other for other in labels if methods[other] == methods[label]].index(label) for label in labels}
    return [
        PrototypesLine(
            label,
            method_colour(methods[label]),
            DASHES[places[label] % len(DASHES)],
            dict(sorted(lines[label].items())),
        )
        for label in labels
    ]


def _telling_parts(model: ModelConfig, models: Sequence[ModelConfig]) -> list[str]:
    """Return the parts of the label of parameters that differ among `models`; the caption has the others."""
    values: dict[str, set[str]] = defaultdict(set)
    for part in {part for other in models for part in other.parameters_label.split(", ")}:
        values[part.partition("=")[0] if "=" in part else part.partition(" ")[0]].add(part)
    telling = {part for parts in values.values() if len(parts) > 1 for part in parts}
    return [part for part in model.parameters_label.split(", ") if part in telling]


def _answer(lines: Sequence[PrototypesLine], band: PrototypesBand, higher_is_better: bool) -> str:
    """Return the smallest number of prototypes of each line whose mean is at least as good as that of the band."""
    words = []
    for line in lines:
        enough = [
            count
            for count, one in line.statistics.items()
            if (one.mean >= band.statistic.mean if higher_is_better else one.mean <= band.statistic.mean)
        ]
        words.append(f"{line.label}: {min(enough) if enough else 'none of these'}")
    return "Fewest prototypes whose mean is at least as good as with all data: " + "; ".join(words)


def _spread(lines: Sequence[PrototypesLine], replication: Replication, dataset: DatasetConfig) -> str:
    counts = {one.n for line in lines for one in line.statistics.values()}
    over = " of the data" if replication.data_seeds(dataset) else ""
    return f"Mean ± sample standard deviation over {seeds_label(counts)}{over}"
