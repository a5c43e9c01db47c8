"""Stored runs by data set and protocol: a section for each, rows by model, statistics over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pandas

from idwbench.report.frame import Row, Runs, data_seed, metric_names, replication_notes, rows, run_table
from idwbench.report.labels import count_label, protocol_label
from idwbench.report.notes import availability_notes, check_metric, count_notes, headlines, kinds_with, lacking, shown
from idwbench.report.references import SOURCES, Reference, ReferenceSource, find_reference, reference_notes
from idwbench.report.settings import dataset_words, method_order, sortable
from idwbench.report.statistics import compare, present_splits, with_intervals
from idwbench.report.tables import (
    MISSING,
    ROW_COLUMNS,
    Table,
    caption_words,
    model_columns,
    nonempty,
    removable,
    row_column,
    row_record,
    split_columns,
    text_column,
)
from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import DATASETS, DatasetConfig, dataset_identity
from idwbench.runs.kinds.prototypes import PrototypesConfig
from idwbench.runs.metrics import METRICS
from idwbench.runs.protocol import Protocol, default_protocol
from idwbench.runs.settings import Settings

__all__ = ["Section", "section_tables", "summarise"]

# The first columns of CSV; other kinds of models may add some.
_SETTINGS = (
    *("section", "dataset", "dataset_config", "model"),
    *Protocol.model_fields,
    *(name for name in PrototypesConfig.model_fields if name != "kind"),
)
_HEADERS: dict[ReferenceSource, tuple[str, str]] = {
    "paper": ("paper", ""),
    "authors": ("authors' code", "authors'\ncode"),
}
_ALL = {"kernel_regression": "all"}  # the training data, where no prototypes are learned


@dataclass(frozen=True)
class Section:
    """One data set under one protocol.

    Attributes:
        title: One line with data set and protocol.
        config: The settings of the first run; of several data sets that differ only in their seed, with the first.
        metric: The name of the metric.
        rows: Sorted by prototypes, method in the order of the registry, and parameters.
        notes: Lines below the table, in order: on the spread, on tests and intervals, on runs, on references.
        notes_on_runs: Those on the spread and on runs.
        data_seeds: The seeds of those data sets, over which the statistics are; empty if they are over seeds of runs.
    """

    title: str
    config: RunConfig
    metric: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    notes_on_runs: tuple[str, ...]
    data_seeds: tuple[int, ...]

    @property
    def dataset(self) -> str:
        """The label of the data set."""
        return self.config.dataset_label

    @property
    def dataset_config(self) -> DatasetConfig:
        """The data set."""
        return self.config.dataset

    @property
    def protocol(self) -> Protocol:
        """The protocol."""
        return self.config.protocol

    @property
    def is_tested(self) -> bool:
        """Whether marks are based on a paired test; otherwise only the best mean is marked."""
        return any(one.p_value is not None for row in self.rows for one in row.statistics.values())

    def has_data(self, dataset: DatasetConfig) -> bool:
        """Return whether the statistics are about runs on this data set."""
        changes = {"seed": data_seed(dataset)} if self.data_seeds else {}
        return dataset_identity(self.dataset_config.model_copy(update=changes)) == dataset_identity(dataset)

    def reference(self, source: ReferenceSource, row: Row) -> Reference | None:
        """Return the published test accuracy of a model, or None."""
        return find_reference(source, self.dataset_config, row.model) if self.metric == "accuracy" else None


def summarise(runs: Runs, metric: str | None = None, *, intervals: bool = False) -> tuple[Section, ...]:
    """Return the sections of `runs` in any state, sorted by data set, with its default protocol first.

    Data sets that differ only in their seed are one section if each setting has one run on each of them; the spread is
    then over the seeds of the data.

    Args:
        runs: Stored runs, such as those from `select_runs`; a run that is given twice counts once.
        metric: The name of a metric, by default the headline metric of each task. Data sets without it are left out.
            A note says how many runs lack it.
        intervals: Whether to compute 95 % intervals of the means, see `idwbench.report.statistics.mean_interval`.

    Raises:
        ConfigError: no run has that metric.
    """
    table = run_table(runs).sort_values("data_seed", kind="stable")
    if metric is not None:
        check_metric(table, metric)
    groups = [group for _, group in table.groupby(["data", "protocol"], sort=False)]
    chosen = [group for group in groups if metric in (None, *headlines(group), *metric_names(group))]
    chosen.sort(key=lambda group: _order(group.config.iloc[0]))
    names = [metric or headlines(group)[0] for group in chosen]
    kinds = {name: kinds_with(table, name) for name in {*names}}
    sections = [
        _section(title, group, name, kinds[name], intervals)
        for title, group, name in zip(_titles(chosen), chosen, names, strict=True)
    ]
    others = table[~table.index.isin([index for group in chosen for index in group.index])]
    if metric in METRICS and sections and len(others):
        notes = _left_out(others, metric, kinds[metric])
        sections[-1] = replace(sections[-1], notes=(*sections[-1].notes, *notes))
    return tuple(sections)


def _left_out(table: pandas.DataFrame, metric: str, kinds: set[str]) -> list[str]:
    """Return a note on runs of other sections that lack the metric, though their task may have it."""
    task = METRICS[metric].task
    n = sum(task in (None, config.dataset.task) for config in lacking(table, metric, kinds).config)
    return [f"{count_label(n, 'complete run')} of other tables without the metric '{metric}'; not shown."] if n else []


def _section(title: str, table: pandas.DataFrame, metric: str, kinds: set[str], intervals: bool) -> Section:
    config: RunConfig = table.config.iloc[0]
    found = shown(table[table.state.isin(("complete", "diverged"))], metric, kinds)
    ordered = sorted(rows(found, metric), key=_row_order)
    statistics, tests = compare([(row.model.prototypes, row.statistics) for row in ordered], metric)
    if intervals:
        statistics, more = with_intervals(statistics)
        tests += more
    ordered = [replace(row, statistics=by_split) for row, by_split in zip(ordered, statistics, strict=True)]
    spread = (*replication_notes(found),)
    states = (*count_notes(ordered, table), *availability_notes(table, metric, kinds))
    section = Section(title, config, metric, tuple(ordered), (), (*spread, *states), table.data_seeds.iloc[0])
    sources = [source for source in SOURCES if any(section.reference(source, row) for row in ordered)]
    references = reference_notes(config.dataset.name, config.protocol, sources)
    return replace(section, notes=(*spread, *tests, *states, *references))


def _row_order(row: Row) -> tuple[object, ...]:
    """Return a key that sorts rows by prototypes, method, parameters, and their other settings."""
    model = row.model
    others = {name: value for name, value in model if name not in ("prototypes", "method", "parameters")}
    return (model.prototypes, method_order(model.method), sortable(model.parameters), sortable(others))


def _order(config: RunConfig) -> tuple[object, ...]:
    dataset, protocol = config.dataset, config.protocol
    own = protocol == default_protocol(dataset.name)
    return ([*DATASETS].index(dataset.name), config.dataset_label, _sortable(dataset), not own, _sortable(protocol))


def _sortable(settings: Settings) -> tuple[object, ...]:
    return sortable({name: value for name, value in settings if name != "path"})


def _titles(tables: Sequence[pandas.DataFrame]) -> list[str]:
    """Return titles with the settings of data sets that differ from the default or between sections."""
    first = [(table.config.iloc[0], len(table.data_seeds.iloc[0])) for table in tables]
    words = dataset_words([config.dataset.model_copy(update={"seed": 0} if n else {}) for config, n in first])
    return [
        " · ".join([*found, *([f"{n} seeds of the data"] if n else []), protocol_label(config.protocol)])
        for found, (config, n) in zip(words, first, strict=True)
    ]


def section_tables(sections: Sequence[Section]) -> tuple[Table, ...]:
    """Return the table of each section, without empty columns (references, diverged runs, …).

    Their records repeat the data set, protocol and metric of the section.
    """
    parameters = {name: None for section in sections for row in section.rows for name in row.model.parameters}
    return tuple(_table(section, [*parameters]) for section in sections)


def _table(section: Section, parameters: Iterable[str]) -> Table:
    found, metric = section.rows, section.metric
    splits = present_splits(row.statistics for row in found) or ("test",)
    n, diverged, *facts = (row_column(column, found) for column in ROW_COLUMNS)
    references = []
    for source, (header, narrow) in _HEADERS.items():
        published = (section.reference(source, row) for row in found)
        texts = (one.label if one else "" for one in published)
        references.append(text_column(source, header, texts, numeric=True, narrow=narrow))
    counts = (str(row.model.prototypes or _ALL.get(row.model.kind, MISSING)) for row in found)
    columns = [*model_columns(found, counts), n, *split_columns(splits, metric, found), *facts, *references, diverged]
    words, marked = caption_words(metric, found, " among equal numbers of prototypes")
    return Table(
        title=section.title,
        columns=nonempty(columns, ("method", "test")),
        groups=tuple(row.model.prototypes for row in found),
        metric=words,
        marked=marked,
        notes=section.notes,
        removable=removable(splits),
        records=lambda: [_record(section, row) for row in found],
        flat=partial(_flat, parameters),
    )


def _record(section: Section, row: Row) -> dict[str, Any]:
    data = section.dataset_config.model_dump(mode="json")
    record = {
        **dict.fromkeys(_SETTINGS),
        "section": section.title,
        "dataset": section.dataset,
        "dataset_config": {**data, "seed": list(section.data_seeds)} if section.data_seeds else data,
        "model": row.model.kind,
        **dict(section.protocol),  # unlike JSON, with settings at their default
        "parameters": row.model.parameters,
        **{name: value for name, value in row.model if name != "kind"},
        **row_record(row, section.metric),
    }
    for source in SOURCES:
        reference = section.reference(source, row)
        record |= {f"{source}_test": reference and reference.test_accuracy, f"{source}_n": reference and reference.n}
    return record


def _flat(parameters: Iterable[str], record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with a column for each parameter in place of the mapping of all."""
    flat: dict[str, Any] = {}
    for field, value in record.items():
        if field == "parameters":
            flat |= {name: value.get(name) for name in parameters if name not in record}
        else:
            flat[field] = value
    return flat
