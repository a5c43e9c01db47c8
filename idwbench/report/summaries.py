"""Stored runs by data set and protocol: a section for each, rows by model, statistics over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pandas

from idwbench.report.frame import Row, data_seed, replication_notes, rows, run_table
from idwbench.report.labels import count_label, protocol_label
from idwbench.report.notes import availability_notes, check_metric, count_notes, headline, kinds_with, lacking, shown
from idwbench.report.references import SOURCES, Reference, ReferenceSource, find_reference, reference_notes
from idwbench.report.settings import dataset_words, method_order, sortable
from idwbench.report.statistics import compare, interval_notes, present_splits, with_intervals
from idwbench.report.tables import (
    MISSING,
    ROW_COLUMNS,
    Column,
    Table,
    marked_words,
    metric_words,
    nonempty,
    removable,
    row_fields,
    row_record,
    setting_column,
    split_columns,
    text_column,
)
from idwbench.results.records import StoredRun
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
        dataset: `RunConfig.dataset_label`.
        dataset_config: The data set; the first of several that differ only in their seed.
        data_seeds: The seeds of those data sets, over which the statistics are; empty if they are over seeds of runs.
        metric: The name of the metric.
        rows: Sorted by prototypes, method in the order of the registry, and parameters.
        is_tested: Whether marks are based on a paired test; otherwise only the best mean is marked.
        notes: Lines below the table, in order: on the spread, on tests and intervals, on runs, on references.
        notes_on_runs: Those on the spread and on runs.
    """

    title: str
    dataset: str
    dataset_config: DatasetConfig
    protocol: Protocol
    metric: str
    rows: tuple[Row, ...]
    is_tested: bool
    notes: tuple[str, ...]
    notes_on_runs: tuple[str, ...]
    data_seeds: tuple[int, ...] = ()

    def has_data(self, dataset: DatasetConfig) -> bool:
        """Return whether the statistics are about runs on this data set."""
        changes = {"seed": data_seed(dataset)} if self.data_seeds else {}
        return dataset_identity(self.dataset_config.model_copy(update=changes)) == dataset_identity(dataset)

    def reference(self, source: ReferenceSource, row: Row) -> Reference | None:
        """Return the published test accuracy of a model, or None."""
        return find_reference(source, self.dataset_config, row.model) if self.metric == "accuracy" else None


def summarise(runs: Sequence[StoredRun], metric: str | None = None, *, intervals: bool = False) -> tuple[Section, ...]:
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
    can_show = [metric in (None, headline(group)) or _has_any(group, metric) for group in groups]
    chosen = sorted((group for group, is_shown in zip(groups, can_show, strict=True) if is_shown), key=_order)
    names = [metric or headline(group) for group in chosen]
    kinds = {name: kinds_with(table, name) for name in {*names}}
    sections = [
        _section(title, group, name, kinds[name], intervals)
        for title, group, name in zip(_titles(chosen), chosen, names, strict=True)
    ]
    others = [group for group, is_shown in zip(groups, can_show, strict=True) if not is_shown]
    if metric in METRICS and sections and others:
        notes = _left_out(pandas.concat(others), metric, kinds[metric])
        sections[-1] = replace(sections[-1], notes=(*sections[-1].notes, *notes))
    return tuple(sections)


def _has_any(table: pandas.DataFrame, metric: str | None) -> bool:
    return any(name == metric for run in table.run for _, name in run.metrics)


def _left_out(table: pandas.DataFrame, metric: str, kinds: set[str]) -> list[str]:
    """Return a note on runs of other sections that lack the metric, though their task may have it."""
    task = METRICS[metric].task
    n = sum(task in (None, run.setting.dataset.task) for run in lacking(table, metric, kinds).run)
    return [f"{count_label(n, 'complete run')} of other tables without the metric '{metric}'; not shown."] if n else []


def _section(title: str, table: pandas.DataFrame, metric: str, kinds: set[str], intervals: bool) -> Section:
    first: StoredRun = table.run.iloc[0]
    dataset, protocol = first.setting.dataset, first.setting.protocol
    found = shown(table[table.state.isin(("complete", "diverged"))], metric, kinds)
    ordered = _ordered(rows(found, metric))
    comparison = compare([(row.model.prototypes, row.statistics) for row in ordered], metric)
    statistics = with_intervals(comparison.statistics) if intervals else comparison.statistics
    ordered = [replace(row, statistics=by_split) for row, by_split in zip(ordered, statistics, strict=True)]
    spread = replication_notes(found)
    states = (*count_notes(ordered, table), *availability_notes(table, metric, kinds))
    tests = (*comparison.notes, *(interval_notes(statistics) if intervals else ()))
    section = Section(
        *(title, first.dataset, dataset, protocol, metric, tuple(ordered), comparison.is_tested),
        notes=(),
        notes_on_runs=(*spread, *states),
        data_seeds=table.data_seeds.iloc[0],
    )
    sources = [source for source in SOURCES if any(section.reference(source, row) for row in ordered)]
    return replace(section, notes=(*spread, *tests, *states, *reference_notes(dataset.name, protocol, sources)))


def _ordered(found: list[Row]) -> list[Row]:
    """Return the rows by prototypes, method, parameters, and their other settings."""

    def order(row: Row) -> tuple[object, ...]:
        model = row.model
        others = model.model_dump(exclude={"prototypes", "method", "parameters"})
        return (model.prototypes, method_order(model.method), sortable(model.parameters), sortable(others))

    return sorted(found, key=order)


def _order(table: pandas.DataFrame) -> tuple[object, ...]:
    run: StoredRun = table.run.iloc[0]
    dataset, protocol = run.setting.dataset, run.setting.protocol
    own = protocol == default_protocol(dataset.name)
    return (list(DATASETS).index(dataset.name), run.dataset, _sortable(dataset), not own, _sortable(protocol))


def _sortable(settings: Settings) -> tuple[object, ...]:
    return sortable({name: value for name, value in settings if name != "path"})


def _titles(tables: Sequence[pandas.DataFrame]) -> list[str]:
    """Return titles with the settings of data sets that differ from the default or between sections."""
    first = [table.run.iloc[0] for table in tables]
    pooled = [len(table.data_seeds.iloc[0]) for table in tables]
    datasets = [
        run.setting.dataset.model_copy(update={"seed": 0} if n else {}) for run, n in zip(first, pooled, strict=True)
    ]
    words = dataset_words([run.dataset for run in first], datasets)
    return [
        " · ".join([*found, *([f"{n} seeds of the data"] if n else []), protocol_label(run.setting.protocol)])
        for found, n, run in zip(words, pooled, first, strict=True)
    ]


def section_tables(sections: Sequence[Section]) -> tuple[Table, ...]:
    """Return the table of each section, without empty columns (references, diverged runs, …).

    Their records repeat the data set, protocol and metric of the section.
    """
    every = [row for section in sections for row in section.rows]
    settings = (*_SETTINGS, *(name for row in every for name, _ in row.model if name != "kind"))
    references = (f"{source}_{field}" for source in SOURCES for field in ("test", "n"))
    fields = list(dict.fromkeys((*settings, *row_fields([row.statistics for row in every]), *references)))
    parameters = list(dict.fromkeys(name for row in every for name in row.model.parameters))
    flat = [column for name in fields for column in (parameters if name == "parameters" else [name])]

    def records(section: Section, nested: bool) -> list[dict[str, Any]]:
        found = [_record(section, row) for row in section.rows]
        if nested:
            return [{name: record.get(name) for name in fields} for record in found]
        return [{name: {**record["parameters"], **record}.get(name) for name in flat} for record in found]

    tables = [*map(_table, sections)]
    return tuple(
        replace(table, fields=tuple(flat), records=partial(records, section))
        for table, section in zip(tables, sections, strict=True)
    )


def _table(section: Section) -> Table:
    found, metric = section.rows, section.metric
    splits = present_splits(row.statistics for row in found) or ("test",)
    models = [row.model for row in found]
    facts = [column.column(found) for column in ROW_COLUMNS]
    last = [column for column in facts if column.name == "diverged"]
    counts = [str(model.prototypes or _ALL.get(model.kind, MISSING)) for model in models]
    columns = [
        text_column("method", "method", (model.method for model in models)),
        text_column("setting", "parameters", (model.parameters_label for model in models)),
        replace(setting_column("prototypes", counts), numeric=True),
        facts[0],
        *split_columns(splits, metric, found),
        *(column for column in facts[1:] if column not in last),
        *(_reference_column(section, source) for source in SOURCES),
        *last,
    ]
    return Table(
        title=section.title,
        columns=nonempty(columns, ("method", "test")),
        groups=tuple(model.prototypes for model in models),
        metric=metric_words(metric, found),
        marked=marked_words(found, section.is_tested, " among equal numbers of prototypes"),
        notes=section.notes,
        removable=removable(splits),
    )


def _reference_column(section: Section, source: ReferenceSource) -> Column:
    header, narrow = _HEADERS[source]
    found = (section.reference(source, row) for row in section.rows)
    return text_column(source, header, (one.label if one else "" for one in found), numeric=True, narrow=narrow)


def _record(section: Section, row: Row) -> dict[str, Any]:
    data = section.dataset_config.model_dump(mode="json")
    record = {
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
