"""Summaries of stored runs: sections by data set and protocol, rows by model, statistics over seeds."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from idwbench.attention.methods import METHODS
from idwbench.errors import ConfigError, did_you_mean
from idwbench.report.comparisons import compare
from idwbench.report.labels import count_label, protocol_label, setting_label
from idwbench.report.references import Reference, ReferenceSource, find_reference, reference_notes
from idwbench.report.statistics import Statistic, statistic
from idwbench.results.records import StoredRun
from idwbench.runs.datasets import DATASETS, DatasetConfig, dataset_identity
from idwbench.runs.metrics import headline_metric
from idwbench.runs.models import ModelConfig
from idwbench.runs.protocol import Protocol, default_protocol
from idwbench.runs.settings import Settings

__all__ = ["SOURCES", "SPLITS", "Report", "Row", "Section", "summarise"]

# In the order of columns.
SPLITS = ("test", "holdout", "validation", "train")
SOURCES: tuple[ReferenceSource, ...] = ("paper", "authors")


@dataclass(frozen=True)
class Row:
    """One model with all its settings, over seeds.

    Attributes:
        model: The model, with parameters in the order of its method.
        n: Number of complete runs.
        n_diverged: Number of diverged runs, which are in no statistic.
        statistics: The metric of the section by split.
        n_parameters: Number of learned parameters; None if no run is complete.
        references: Published test accuracies of this model.
    """

    model: ModelConfig
    n: int
    n_diverged: int
    statistics: Mapping[str, Statistic]
    n_parameters: int | None
    references: Mapping[ReferenceSource, Reference] = field(default_factory=dict)


@dataclass(frozen=True)
class Section:
    """One data set under one protocol.

    Attributes:
        title: One line with data set and protocol.
        dataset: `RunConfig.dataset_label`.
        metric: The name of the metric.
        rows: Sorted by prototypes, method in the order of the registry, and parameters.
        is_tested: Whether marks are based on a paired test; otherwise only the best mean is marked.
        notes: Lines below the table.
    """

    title: str
    dataset: str
    dataset_config: DatasetConfig
    protocol: Protocol
    metric: str
    rows: tuple[Row, ...]
    is_tested: bool
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """All sections, sorted by data set, with its default protocol first."""

    sections: tuple[Section, ...]


def summarise(runs: Sequence[StoredRun], metric: str | None = None) -> Report:
    """Return the summary of `runs` in any state; a run that is given twice counts once.

    `metric` is the name of a metric, by default the headline metric of each task; data sets without it are left out.

    Raises:
        ConfigError: no run has that metric.
    """
    groups: dict[str, list[StoredRun]] = defaultdict(list)
    for run in {run.run_key: run for run in runs}.values():
        groups[f"{dataset_identity(run.config.dataset)}{run.config.protocol.model_dump_json()}"].append(run)
    if metric is not None:
        known = {name for group in groups.values() for name in _metric_names(group)}
        if metric not in known:
            problem = f"no run has a metric '{metric}'"
            raise ConfigError(problem, location=("metric",), hint=did_you_mean(metric, known))
    chosen = [group for group in groups.values() if metric is None or metric in _metric_names(group)]
    chosen.sort(key=lambda group: _section_order(group[0]))
    titles = _section_titles([group[0] for group in chosen])
    return Report(tuple(_section(title, group, metric) for title, group in zip(titles, chosen, strict=True)))


def _metric_names(runs: list[StoredRun]) -> set[str]:
    names = {name for run in runs for _, name in run.metrics}
    return names | {headline_metric(run.config.dataset.task).name for run in runs[:1]}


def _section(title: str, runs: list[StoredRun], metric: str | None) -> Section:
    config = runs[0].config
    name = headline_metric(config.dataset.task).name if metric is None else metric
    groups: dict[str, list[StoredRun]] = defaultdict(list)
    for run in runs:
        if run.state in ("complete", "diverged"):
            groups[json.dumps(run.config.model.model_dump(), sort_keys=True)].append(run)
    rows = sorted((_row(group, name) for group in groups.values()), key=_row_order)
    comparison = compare([(row.model.prototypes, row.statistics) for row in rows], name)
    rows = [replace(row, statistics=marked) for row, marked in zip(rows, comparison.statistics, strict=True)]
    sources = {source for row in rows for source in row.references}
    references = reference_notes(config.dataset.name, config.protocol, sources)
    return Section(
        title=title,
        dataset=runs[0].dataset,
        dataset_config=config.dataset,
        protocol=config.protocol,
        metric=name,
        rows=tuple(rows),
        is_tested=comparison.is_tested,
        notes=(*comparison.notes, *_count_notes(rows, runs), *references),
    )


def _row(runs: list[StoredRun], metric: str) -> Row:
    config = runs[0].config
    complete = [run for run in runs if run.state == "complete"]
    model = config.model.replace_parameters(_ordered(config.model))
    by_split = {split: statistic({run.config.seed: run.metric(metric, split) for run in complete}) for split in SPLITS}
    found = {source: find_reference(source, config.dataset, model) for source in SOURCES if metric == "accuracy"}
    return Row(
        model=model,
        n=len(complete),
        n_diverged=len(runs) - len(complete),
        statistics={split: found for split, found in by_split.items() if found is not None},
        n_parameters=next((run.n_parameters for run in complete if run.n_parameters is not None), None),
        references={source: reference for source, reference in found.items() if reference is not None},
    )


def _count_notes(rows: list[Row], runs: list[StoredRun]) -> list[str]:
    counts = (
        (sum(row.n_diverged for row in rows), "diverged; not in the means."),
        (sum(run.state == "failed" for run in runs), "failed; not shown."),
        (sum(run.state in ("planned", "running") for run in runs), "not finished; not shown."),
    )
    notes = ["n = 1: no spread."] if any(row.n == 1 for row in rows) else []
    return notes + [f"{count_label(n, 'run')} {text}" for n, text in counts if n]


def _ordered(model: ModelConfig) -> dict[str, float | str]:
    known = [parameter.name for parameter in METHODS[model.method].parameters] if model.method in METHODS else []
    names = [*(name for name in known if name in model.parameters), *sorted(model.parameters.keys() - set(known))]
    return {name: model.parameters[name] for name in names}


def _row_order(row: Row) -> tuple[object, ...]:
    model, methods = row.model, list(METHODS)
    place = methods.index(model.method) if model.method in METHODS else len(methods)
    others = model.model_dump(exclude={"prototypes", "method", "parameters"})
    return (model.prototypes, place, model.method, _sortable(model.parameters), _sortable(others))


def _section_order(run: StoredRun) -> tuple[object, ...]:
    dataset, protocol = run.config.dataset, run.config.protocol
    own = protocol == default_protocol(dataset.name)
    place = list(DATASETS).index(dataset.name)
    return (place, run.dataset, _order(dataset), not own, _order(protocol))


def _order(settings: Settings) -> tuple[object, ...]:
    return _sortable({name: value for name, value in settings if name != "path"})


def _sortable(values: Mapping[str, object]) -> tuple[object, ...]:
    """Return values of different types in a comparable form: None, then numbers, then words."""
    return tuple((value is not None, isinstance(value, str), value or 0) for value in values.values())


def _section_titles(first_runs: list[StoredRun]) -> list[str]:
    """Return titles with the settings of data sets that differ from the default or between sections."""
    seen: dict[tuple[str, str], set[object]] = defaultdict(set)
    for run in first_runs:
        for name, value in run.config.dataset:
            seen[run.dataset, name].add(value)
    titles = []
    for run in first_runs:
        defaults = type(run.config.dataset).model_fields
        words = [run.dataset]
        for name, value in run.config.dataset:
            varies = len(seen[run.dataset, name]) > 1
            if name == "sha256":  # only distinguishes files of the same name
                words += [f"sha256 {value[:8]}"] if varies and value else []
            elif name not in ("name", "path") and (varies or value != defaults[name].default):
                words.append(setting_label(name, value))
        titles.append(" · ".join([*words, protocol_label(run.config.protocol)]))
    return titles
