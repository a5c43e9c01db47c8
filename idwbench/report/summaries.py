"""Stored runs by data set and protocol: a section for each, rows by model, statistics over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas

from idwbench.report.frame import (
    Row,
    Runs,
    check_metric,
    headlines,
    replication_notes,
    rows,
    run_notes,
    run_table,
    with_metric,
)
from idwbench.report.labels import (
    count_label,
    dataset_words,
    method_order,
    ordered_parameters,
    protocol_label,
    sortable,
)
from idwbench.report.references import SOURCES, Reference, ReferenceSource, find_reference, reference_notes
from idwbench.report.statistics import compare, present_splits, with_intervals
from idwbench.report.tables import (
    MISSING,
    Column,
    Table,
    caption,
    model_columns,
    nonempty,
    removable,
    row_columns,
    row_record,
    split_columns,
)
from idwbench.runs.config import RunConfig
from idwbench.runs.dataset_base import DatasetConfig
from idwbench.runs.datasets import DATASETS, dataset_identity, dataset_label
from idwbench.runs.kinds.prototypes import PrototypesConfig
from idwbench.runs.metrics import METRICS
from idwbench.runs.protocol import DEFAULT_PROTOCOLS, Protocol

__all__ = ["Section", "section_tables", "summarise"]

# The first columns of CSV; other kinds of models may add some.
_SETTINGS = (
    *("section", "dataset", "dataset_config", "model"),
    *Protocol.model_fields,
    *(name for name in PrototypesConfig.model_fields if name != "kind"),
)
_HEADERS: dict[ReferenceSource, str] = {"paper": "paper", "authors": "authors' code"}
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
    def is_tested(self) -> bool:
        """Whether marks are based on a paired test; otherwise only the best mean is marked."""
        return any(one.p_value is not None for row in self.rows for one in row.statistics.values())

    def has_data(self, dataset: DatasetConfig) -> bool:
        """Return whether the statistics are about runs on this data set."""
        changes = {"seed": dataset.seed} if self.data_seeds else {}
        return dataset_identity(self.config.dataset.model_copy(update=changes)) == dataset_identity(dataset)

    def reference(self, source: ReferenceSource, row: Row) -> Reference | None:
        """Return the published test accuracy of a model, or None."""
        return find_reference(source, self.config.dataset, row.model) if self.metric == "accuracy" else None


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
    groups: list[tuple[str, pandas.DataFrame]] = []
    lacking: list[pandas.DataFrame] = []
    for name in [metric] if metric else headlines(table):
        for _, group in with_metric(table, name).groupby(["data", "protocol"], sort=False):
            is_chosen = headlines(group) == [name] or (metric is not None and not group.lacks_metric.all())
            if is_chosen:
                groups.append((name, group))
            elif metric in METRICS:
                lacking.append(group[(group.state == "complete") & ~group.kind_lacks_metric])
    groups.sort(key=lambda pair: _order(pair[1].config.iloc[0]))
    titles = _titles([group for _, group in groups])
    sections = [_section(title, name, group, intervals) for title, (name, group) in zip(titles, groups, strict=True)]
    tasks = [config.dataset.task for group in lacking for config in group.config]
    # Those of a task that may have the metric.
    if metric and sections and (n := sum(METRICS[metric].task in (None, task) for task in tasks)):
        note = f"{count_label(n, 'complete run')} of other tables without the metric '{metric}'; not shown."
        sections[-1] = replace(sections[-1], notes=(*sections[-1].notes, note))
    return tuple(sections)


def _section(title: str, metric: str, table: pandas.DataFrame, intervals: bool) -> Section:
    config: RunConfig = table.config.iloc[0]
    shown = table[table.is_shown]
    ordered = sorted(rows(shown, metric), key=_row_order)
    statistics, tests = compare([(row.model.prototypes, row.statistics) for row in ordered], metric)
    if intervals:
        statistics, more = with_intervals(statistics)
        tests += more
    ordered = [replace(row, statistics=by_split) for row, by_split in zip(ordered, statistics, strict=True)]
    spread, states = [*replication_notes(shown)], [*run_notes(ordered, table, metric, seeds=False)]
    section = Section(title, config, metric, tuple(ordered), (), (*spread, *states), table.data_seeds.iloc[0])
    sources = [source for source in SOURCES if any(section.reference(source, row) for row in ordered)]
    references = reference_notes(config.dataset.name, config.protocol, sources)
    return replace(section, notes=(*spread, *tests, *states, *references))


def _row_order(row: Row) -> tuple[object, ...]:
    """Return a key that sorts rows by prototypes, method, parameters, and their other settings."""
    model = row.model
    others = {name: value for name, value in model if name not in ("prototypes", "method", "parameters")}
    return (model.prototypes, method_order(model.method), sortable(ordered_parameters(model)), sortable(others))


def _order(config: RunConfig) -> tuple[object, ...]:
    """Return a key that sorts sections by data set, the default protocol first."""
    dataset, protocol = config.dataset, config.protocol
    own = protocol == DEFAULT_PROTOCOLS[dataset.name]
    settings = sortable({name: value for name, value in dataset if name != "path"})
    return ([*DATASETS].index(dataset.name), dataset_label(dataset), settings, not own, sortable(dict(protocol)))


def _titles(tables: Sequence[pandas.DataFrame]) -> list[str]:
    """Return titles with the settings of data sets that differ from the default or between sections."""
    first = [(table.config.iloc[0], len(table.data_seeds.iloc[0])) for table in tables]
    words = dataset_words([config.dataset.model_copy(update={"seed": 0} if n else {}) for config, n in first])
    return [
        " · ".join([*own, *([f"{n} seeds of the data"] if n else []), protocol_label(config.protocol)])
        for own, (config, n) in zip(words, first, strict=True)
    ]


def section_tables(sections: Sequence[Section]) -> tuple[Table, ...]:
    """Return the table of each section, without empty columns (references, diverged runs, …).

    Their records repeat the data set, protocol and metric of the section.
    """
    return tuple(map(_table, sections))


def _table(section: Section) -> Table:
    rows, metric = section.rows, section.metric
    splits = present_splits(row.statistics for row in rows) or ("test",)
    n, diverged, *facts = row_columns(rows)
    references = []
    for source, header in _HEADERS.items():
        published = (section.reference(source, row) for row in rows)
        references.append(Column(source, header, [one.label if one else "" for one in published], numeric=True))
    counts = [str(row.model.prototypes or _ALL.get(row.model.kind, MISSING)) for row in rows]
    columns = [*model_columns(rows, counts), n, *split_columns(splits, metric, rows), *facts, *references, diverged]
    return Table(
        title=section.title,
        columns=nonempty(columns, ("method", "test")),
        groups=tuple(row.model.prototypes for row in rows),
        caption=caption(metric, rows, " among equal numbers of prototypes"),
        notes=section.notes,
        removable=removable(splits),
        records=lambda: [_record(section, row) for row in rows],
    )


def _record(section: Section, row: Row) -> dict[str, Any]:
    config = section.config
    data = config.dataset.model_dump(mode="json")
    record = {
        **dict.fromkeys(_SETTINGS),
        "section": section.title,
        "dataset": config.dataset_label,
        "dataset_config": {**data, "seed": list(section.data_seeds)} if section.data_seeds else data,
        "model": row.model.kind,
        **dict(config.protocol),  # unlike JSON, with settings at their default
        "parameters": {},
        **{name: value for name, value in row.model if name != "kind"},
        **row_record(row, section.metric),
    }
    record["parameters"] = ordered_parameters(row.model)
    for source in SOURCES:
        reference = section.reference(source, row)
        record |= {f"{source}_test": reference and reference.test_accuracy, f"{source}_n": reference and reference.n}
    return record
