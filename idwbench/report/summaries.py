"""Summaries of stored runs: sections by data set and protocol, rows by model, statistics over seeds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from idwbench.report.availability import availability_notes, check_metric, has_metric, is_shown, kinds_with, lacking
from idwbench.report.comparisons import compare
from idwbench.report.counts import count_notes
from idwbench.report.intervals import interval_notes, with_intervals
from idwbench.report.labels import count_label, protocol_label
from idwbench.report.references import Reference, ReferenceSource, find_reference, reference_notes
from idwbench.report.replication import (
    Replication,
    data_seed,
    distinct_runs,
    group_alike,
    replication_notes,
    replication_of,
)
from idwbench.report.settings import dataset_words, method_order, ordered_parameters, sortable
from idwbench.report.statistics import Statistic, split_statistics
from idwbench.results.records import ReportedRun
from idwbench.runs.datasets import DATASETS, DatasetConfig, dataset_identity
from idwbench.runs.kinds.models import ModelConfig
from idwbench.runs.metrics import METRICS, headline_metric
from idwbench.runs.protocol import Protocol, default_protocol
from idwbench.runs.settings import Settings

__all__ = ["SOURCES", "Report", "Row", "Section", "summarise"]

# In the order of columns.
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
        dataset_config: The data set; the first of several that differ only in their seed.
        data_seeds: The seeds of those data sets, over which the statistics are; empty if they are over seeds of runs.
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
    data_seeds: tuple[int, ...] = ()

    def has_data(self, dataset: DatasetConfig) -> bool:
        """Return whether the statistics are about runs on this data set."""
        changes = {"seed": data_seed(dataset)} if self.data_seeds else {}
        return dataset_identity(self.dataset_config.model_copy(update=changes)) == dataset_identity(dataset)


@dataclass(frozen=True)
class Report:
    """All sections, sorted by data set, with its default protocol first."""

    sections: tuple[Section, ...]


def summarise(runs: Sequence[ReportedRun], metric: str | None = None, *, intervals: bool = False) -> Report:
    """Return the summary of `runs` in any state; a run that is given twice counts once.

    Data sets that differ only in their seed are one section if each setting has one run on each of them; the spread is
    then over the seeds of the data.

    Args:
        runs: Stored runs, such as those from `select_runs`.
        metric: The name of a metric, by default the headline metric of each task. Data sets without it are left out.
            A note says how many runs lack it.
        intervals: Whether to compute 95 % intervals of the means, see `idwbench.report.intervals`.

    Raises:
        ConfigError: no run has that metric.
    """
    groups: dict[str, list[ReportedRun]] = defaultdict(list)
    runs = distinct_runs(runs)
    replication = replication_of(runs)
    by_data = sorted(runs, key=lambda run: data_seed(run.setting.dataset)) if replication.pooled else runs
    for alike in group_alike(by_data):
        setting = alike[0].setting
        groups[f"{replication.data_key(setting.dataset)}{setting.protocol.identity()}"] += alike
    if metric is not None:
        check_metric(runs, metric)
    chosen = [group for group in groups.values() if metric is None or _can_show(group, metric)]
    chosen.sort(key=lambda group: _section_order(group[0]))
    titles = _section_titles([group[0] for group in chosen], replication)
    kinds = {name: kinds_with(runs, name) for name in {metric or _headline(group[0]) for group in chosen}}
    sections = [
        _section(title, group, metric, kinds, intervals, replication)
        for title, group in zip(titles, chosen, strict=True)
    ]
    if metric is not None and sections:
        others = [run for group in groups.values() if not _can_show(group, metric) for run in group]
        note = _left_out(others, metric, kinds[metric])
        sections[-1] = replace(sections[-1], notes=(*sections[-1].notes, *note))
    return Report(tuple(sections))


def _can_show(runs: list[ReportedRun], metric: str) -> bool:
    return metric == _headline(runs[0]) or any(has_metric(run, metric) for run in runs)


def _headline(run: ReportedRun) -> str:
    return headline_metric(run.setting.dataset.task).name


def _left_out(runs: list[ReportedRun], metric: str, kinds: set[str]) -> list[str]:
    """Return a note on runs of other sections that lack the metric, though their task may have it."""
    if metric not in METRICS:
        return []
    task = METRICS[metric].task
    n = sum(task in (None, run.setting.dataset.task) for run in lacking(runs, metric, kinds))
    return [f"{count_label(n, 'complete run')} of other tables without the metric '{metric}'; not shown."] if n else []


def _section(
    title: str,
    runs: list[ReportedRun],
    metric: str | None,
    kinds: Mapping[str, set[str]],
    intervals: bool,
    replication: Replication,
) -> Section:
    config = runs[0].setting
    name = _headline(runs[0]) if metric is None else metric
    alike = group_alike(run for run in runs if run.state in ("complete", "diverged"))
    groups = _by_model([group for group in alike if group[0].setting.model.kind in kinds[name]])
    shown = [group for group in groups if is_shown(group, name)]
    models = [_with_ordered_parameters(group[0].setting.model) for group in shown]
    order = _order_of_rows(models)
    models, shown = [models[place] for place in order], [shown[place] for place in order]
    completed = [[run for run in group if run.state == "complete"] for group in shown]
    found = [split_statistics(complete, name, replication.seed) for complete in completed]
    comparison = compare([*zip((model.prototypes for model in models), found, strict=True)], name)
    statistics = with_intervals(comparison.statistics) if intervals else comparison.statistics
    rows = [
        Row(
            model=model,
            n=len(complete),
            n_diverged=len(group) - len(complete),
            statistics=by_split,
            n_parameters=next((run.n_parameters for run in complete if run.n_parameters is not None), None),
            references=_references(config.dataset, model) if name == "accuracy" else {},
        )
        for model, group, complete, by_split in zip(models, shown, completed, statistics, strict=True)
    ]
    sources = {source for row in rows for source in row.references}
    return Section(
        title=title,
        dataset=runs[0].dataset,
        dataset_config=config.dataset,
        protocol=config.protocol,
        metric=name,
        rows=tuple(rows),
        is_tested=comparison.is_tested,
        notes=(
            *replication_notes([group[0] for group in shown], replication),
            *comparison.notes,
            *(interval_notes(statistics) if intervals else ()),
            *count_notes(rows, runs),
            *availability_notes(runs, name, kinds[name]),
            *reference_notes(config.dataset.name, config.protocol, sources),
        ),
        data_seeds=replication.data_seeds(config.dataset),
    )


def _by_model(groups: list[list[ReportedRun]]) -> list[list[ReportedRun]]:
    """Return groups with equal models as one; the identity of a model takes time, and few are needed."""
    models = [group[0].setting.model for group in groups]
    if len({(model.method, model.prototypes, frozenset(model.parameters.items())) for model in models}) == len(models):
        return groups
    found: dict[str, list[ReportedRun]] = defaultdict(list)
    for model, group in zip(models, groups, strict=True):
        found[model.identity()] += group
    return [*found.values()]


def _references(dataset: DatasetConfig, model: ModelConfig) -> dict[ReferenceSource, Reference]:
    found = {source: find_reference(source, dataset, model) for source in SOURCES}
    return {source: reference for source, reference in found.items() if reference is not None}


def _with_ordered_parameters(model: ModelConfig) -> ModelConfig:
    ordered = ordered_parameters(model)
    return model if [*ordered] == [*model.parameters] else model.replace_parameters(ordered)


def _order_of_rows(models: Sequence[ModelConfig]) -> list[int]:
    """Return the places of the models by prototypes, method, parameters, and their other settings."""
    keys = [(model.prototypes, method_order(model.method), sortable(model.parameters)) for model in models]
    others: Sequence[object] = ()
    if len(set(keys)) < len(keys):
        excluded = {"prototypes", "method", "parameters"}
        others = [sortable(model.model_dump(exclude=excluded)) for model in models]
    return sorted(range(len(keys)), key=[*zip(keys, others or keys, strict=True)].__getitem__)


def _section_order(run: ReportedRun) -> tuple[object, ...]:
    dataset, protocol = run.setting.dataset, run.setting.protocol
    own = protocol == default_protocol(dataset.name)
    place = list(DATASETS).index(dataset.name)
    return (place, run.dataset, _order(dataset), not own, _order(protocol))


def _order(settings: Settings) -> tuple[object, ...]:
    return sortable({name: value for name, value in settings if name != "path"})


def _section_titles(first_runs: list[ReportedRun], replication: Replication) -> list[str]:
    """Return titles with the settings of data sets that differ from the default or between sections."""
    pooled = [len(replication.data_seeds(run.setting.dataset)) for run in first_runs]
    datasets = [
        run.setting.dataset.model_copy(update={"seed": 0} if n else {})
        for run, n in zip(first_runs, pooled, strict=True)
    ]
    words = dataset_words([run.dataset for run in first_runs], datasets)
    words = [[*found, *([f"{n} seeds of the data"] if n else [])] for found, n in zip(words, pooled, strict=True)]
    protocols = (protocol_label(run.setting.protocol) for run in first_runs)
    return [" · ".join([*found, protocol]) for found, protocol in zip(words, protocols, strict=True)]
