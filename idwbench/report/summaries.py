"""Stored runs by data set and protocol: a section for each, rows by model, statistics over seeds.

Each section has a table; another has one row for each model and one column for each data set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pandas

from idwbench.attention.scores import METHODS
from idwbench.report import frame, labels, references, tables
from idwbench.report.frame import Row, Runs, rows
from idwbench.report.statistics import Statistic, compare, rounded, with_intervals
from idwbench.report.tables import Column, RowColumn, Table
from idwbench.runs.config import RunConfig
from idwbench.runs.dataset_base import DatasetConfig
from idwbench.runs.datasets import DATASETS
from idwbench.runs.kinds.prototypes import PrototypesConfig
from idwbench.runs.metrics import METRICS, UNKNOWN_METRIC
from idwbench.runs.protocol import DEFAULT_PROTOCOLS, Protocol

__all__ = ["Section", "by_dataset", "find_reference", "section_headers", "section_tables", "summarise"]

# The first columns of CSV; other kinds of models may add some.
_SETTINGS = (
    *("section", "dataset", "dataset_config", "model"),
    *Protocol.model_fields,
    *(name for name in PrototypesConfig.model_fields if name != "kind"),
)
_COLUMNS_BY_DATASET = 4  # data sets of a table side by side


def find_reference(source: references.ReferenceSource, row: Row) -> references.Reference | None:
    """Return the reference for exactly the model and the data set of a row, or None."""
    dataset, model = row.config.dataset, row.model
    known = references.REFERENCES.get((source, dataset.name, model.prototypes, model.method))
    fields = {name: one for name, one in type(dataset).model_fields.items() if name not in references.FREE_SETTINGS}
    if known is None or any(getattr(dataset, name) != field.default for name, field in fields.items()):
        return None
    parameters = {one.name: one.default for one in METHODS[model.method].parameters}
    parameters |= references.PAPER_PARAMETERS.get(model.method, {})
    theirs = PrototypesConfig.model_construct(method=model.method, parameters=parameters, prototypes=model.prototypes)
    return known if model == theirs else None


# Published accuracies, of tables of accuracies.
_PUBLISHED: list[RowColumn] = [
    (
        source,
        partial(find_reference, source),
        lambda one: labels.value_label("accuracy", one[0]) + (f" (n={one.n})" if one.n else "") if one else "",
    )
    for source in references.SOURCES
]


@dataclass(frozen=True)
class Section:
    """One data set under one protocol.

    Attributes:
        title: One line with data set and protocol.
        data: The label of the data set, and its settings that tell it from others.
        protocol: The settings of the protocol that have no default or differ from it.
        config: The settings of the first run; of several data sets that differ only in their seed, with the first.
        metric: The name of the metric.
        rows: Sorted by prototypes, method in the order of the registry, and parameters.
        notes: Lines below the table, in order: on the spread and on runs, on tests and intervals, on references.
        notes_on_runs: Those on the spread and on runs.
        data_seeds: The seeds of those data sets, over which the statistics are; empty if they are over seeds of runs.
    """

    title: str
    data: str
    protocol: str
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
        without = ("path", "seed") if self.data_seeds else ("path",)
        return self.config.dataset.identity(*without) == dataset.identity(*without)


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
    table = frame.run_table(runs)
    if metric is not None:
        frame.check_metric(table, metric)
    first = table.drop_duplicates("setting")
    order = map(_order, first.config, first.dataset, first.data_seeds)
    ordered = [setting for _, setting in sorted(zip(order, first.setting, strict=True))]
    table = table.iloc[pandas.Categorical(table.setting, ordered).codes.argsort(kind="stable")]
    measured = {name: frame.with_metric(table, name) for name in ([metric] if metric else table.headline.unique())}
    groups: list[tuple[str, pandas.DataFrame]] = []
    n_lacking = 0
    for _, group in table.groupby(["data", "protocol"], sort=False):
        headline, task = group.headline.iloc[0], group.config.iloc[0].dataset.task
        group = measured[metric or headline].loc[group.index]
        if metric in (None, headline) or not group.lacks_metric.all():
            groups.append((metric or headline, group))
        elif metric in METRICS and METRICS[metric].task in (None, task):  # of a task that may have the metric
            n_lacking += int(((group.state == "complete") & ~group.kind_lacks_metric).sum())
    firsts = [group.iloc[0] for _, group in groups]
    datasets = [run.config.dataset.model_copy(update={"seed": 0} if run.data_seeds else {}) for run in firsts]
    words = labels.dataset_words([run.dataset for run in firsts], datasets)
    sections = [
        _section(" · ".join(own), *group, intervals=intervals) for own, group in zip(words, groups, strict=True)
    ]
    if sections and n_lacking:
        lacking = labels.count_label(n_lacking, "complete run")
        note = f"{lacking} of other tables without the metric '{metric}'; not shown."
        sections[-1] = replace(sections[-1], notes=(*sections[-1].notes, note))
    return tuple(sections)


def _section(data: str, metric: str, table: pandas.DataFrame, *, intervals: bool) -> Section:
    """Return the section of some runs on one data set."""
    config: RunConfig = table.config[table.data_seed.idxmin()]
    protocol = " · ".join(labels.setting_labels(config.protocol).values())
    ordered = rows(table[table.is_shown], metric)
    statistics, tests = compare([(row.model.prototypes, row.statistics) for row in ordered], metric)
    if intervals:
        statistics, more = with_intervals(statistics)
        tests += more
    ordered = [replace(row, statistics=by_split) for row, by_split in zip(ordered, statistics, strict=True)]
    runs = tuple(frame.run_notes(ordered, table, metric, seeds=False))
    sources = [name for name, fact, _ in _PUBLISHED if metric == "accuracy" and any(map(fact, ordered))]
    about = [references.SOURCE_NOTES[config.dataset.name, source] for source in sources]
    if sources and config.protocol != (theirs := DEFAULT_PROTOCOLS[config.dataset.name]):
        words = " · ".join(labels.setting_labels(theirs).values())
        about.append(f"The references used the paper's protocol ({words}); these runs did not.")
    seeds = table.data_seeds.iloc[0]
    title = " · ".join(filter(None, (data, f"{len(seeds)} seeds of the data" if seeds else "", protocol)))
    return Section(title, data, protocol, config, metric, tuple(ordered), (*runs, *tests, *about), runs, seeds)


def _order(config: RunConfig, label: str, data_seeds: Sequence[int]) -> tuple[object, ...]:
    """Return a key that sorts by data set, protocol (the default first), prototypes, method, and other settings.

    Data sets that differ only in their seed are together where these are replicates.
    """
    dataset, protocol, model = config.dataset, config.protocol, config.model
    own = protocol == DEFAULT_PROTOCOLS[dataset.name]
    settings = {name: value for name, value in dataset if name != "path"}
    settings |= {"seed": min(data_seeds)} if data_seeds else {}
    first = {"prototypes": model.prototypes, "method": model.method, **labels.ordered_parameters(model)}
    others = {name: value for name, value in model if name not in first and name != "parameters"}
    return (
        *([*DATASETS].index(dataset.name), label, labels.sortable(settings), not own),
        *(labels.sortable(dict(protocol)), labels.sortable(first), labels.sortable(others), dataset.seed),
    )


def section_tables(sections: Sequence[Section]) -> tuple[Table, ...]:
    """Return the table of each section, without empty columns (references, diverged runs, …).

    Their records repeat the data set, protocol and metric of the section.
    """
    return tuple(
        tables.row_table(
            section.rows,
            section.metric,
            tables.row_columns(section.rows, *tables.MODEL_COLUMNS, tables.N_RUNS),
            (*(_PUBLISHED if section.metric == "accuracy" else ()), tables.DIVERGED),
            " among equal numbers of prototypes",
            title=section.title,
            groups=tuple(row.model.prototypes for row in section.rows),
            notes=section.notes,
            records=partial(_records, section),
        )
        for section in sections
    )


def _records(section: Section) -> list[dict[str, Any]]:
    config, data = section.config, section.config.dataset.model_dump(mode="json")
    records = []
    for row in section.rows:
        record = {
            **dict.fromkeys(_SETTINGS),
            "section": section.title,
            "dataset": config.dataset_label,
            "dataset_config": {**data, "seed": list(section.data_seeds)} if section.data_seeds else data,
            "model": row.model.kind,
            **dict(config.protocol),  # unlike JSON, with settings at their default
            "parameters": {},
            **{name: value for name, value in row.model if name != "kind"},
            **tables.row_record(row, section.metric),
        }
        record["parameters"] = labels.ordered_parameters(row.model)
        for source, fact, _ in _PUBLISHED:
            reference = fact(row) if section.metric == "accuracy" else None
            record[f"{source}_test"], record[f"{source}_n"] = reference or (None, None)
        records.append(record)
    return records


def by_dataset(sections: Sequence[Section], split: str | None = None) -> tuple[Table, ...]:
    """Return tables of four data sets each; the last has the mean rank over all data sets, and the notes.

    The first has the records of all sections.

    Args:
        sections: Sections with the same metric.
        split: The split to show: by default ``test``, or the first that has the metric.

    Raises:
        ConfigError: the sections have different metrics, or no run has the metric on the split.
    """
    if not sections:
        return ()
    metric = frame.one_metric(section.metric for section in sections)
    every = [row for section in sections for row in section.rows]
    has_test = any("test" in row.statistics for row in every)
    split = frame.chosen_split(every, metric, split or ("test" if has_test else None))
    models = {row.model.identity(): row for row in every}
    headers = section_headers(sections)
    by_model: dict[str, dict[str, Statistic]] = {identity: {} for identity in models}
    for header, section in zip(headers, sections, strict=True):
        for row in section.rows:
            if split in row.statistics:
                by_model[row.model.identity()][header] = row.statistics[split]
    compared, tests = compare([(None, by_header) for by_header in by_model.values()], metric)
    measured = {header: [by_header.get(header) for by_header in compared] for header in headers}
    columns = [*tables.statistic_columns(metric, measured, headers)]
    parts = [columns[start : start + _COLUMNS_BY_DATASET] for start in range(0, len(columns), _COLUMNS_BY_DATASET)]
    if len(sections) > 1:
        parts[-1].append(Column("rank", "mean rank", _ranks([*measured.values()], metric), numeric=True))
    shown = [*models.values()]
    protocols = {section.protocol for section in sections}
    title = " · ".join([labels.count_label(len(sections), "data set"), *(protocols if len(protocols) == 1 else [])])
    seeds = {row.n for row in every if row.n}
    has_spread = max(seeds, default=1) > 1
    over = f", mean ± sample standard deviation over {labels.range_label(seeds)} seeds" if has_spread else ""
    made, first = [], tables.row_columns(shown, *tables.MODEL_COLUMNS)
    for part in parts:
        marks = f"{tables.MARKED}best mean of the data set" if any(any(column.best) for column in part) else ""
        about = f"Metric: {labels.metric_label(metric)} on the split {split}{over}{marks}."
        groups = tuple(row.model.prototypes > 0 for row in shown)
        made.append(Table(title, (*first, *part), groups, about))
    made[-1] = replace(made[-1], notes=_notes_by_dataset(sections, headers, tests))
    records = [table.records for table in section_tables(sections)]
    made[0] = replace(made[0], records=lambda: [one for read in records for one in read()])
    return tuple(made)


def section_headers(sections: Sequence[Section]) -> list[str]:
    """Return the label of each data set, and what tells a section from others that share it."""
    words = [section.title.split(" · ") for section in sections]
    headers = []
    for own in words:
        alike = [of for of in words if of[0] == own[0]]
        telling = [word for word in own[1:] if not all(word in of for of in alike)]
        headers.append(" · ".join([own[0], *telling]))
    return headers


def _ranks(columns: Sequence[Sequence[Statistic | None]], metric: str) -> list[str]:
    """Return the mean over data sets of the rank of each row; equal means share the mean of their ranks."""
    means = pandas.DataFrame([[one and rounded(one.mean) for one in column] for column in columns], dtype=float)
    ranks = means.rank(axis=1, ascending=not METRICS.get(metric, UNKNOWN_METRIC).higher_is_better)
    return [tables.MISSING if rank != rank else f"{rank:.1f}" for rank in ranks.mean(skipna=False)]


def _notes_by_dataset(sections: Sequence[Section], headers: Sequence[str], tests: Sequence[str]) -> tuple[str, ...]:
    """Return the settings that differ from the default or tell columns apart, and notes on what is shown."""
    settings = []
    for section, header in zip(sections, headers, strict=True):
        if header != section.config.dataset_label:
            settings.append(f"{header}: {section.title}.")
        elif section.data != section.config.dataset_label:
            settings.append(f"{section.data}.")
    return (*settings, *dict.fromkeys([*(note for section in sections for note in section.notes_on_runs), *tests]))
