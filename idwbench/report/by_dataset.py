"""A table with one row for each model and one column for each data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas

from idwbench.errors import ConfigError
from idwbench.report.labels import count_label, metric_label, range_label
from idwbench.report.leaderboard import chosen_split
from idwbench.report.statistics import Statistic, compare, higher_is_better, rounded
from idwbench.report.summaries import Section, section_tables
from idwbench.report.tables import (
    MARKED,
    MISSING,
    MODEL_COLUMNS,
    Column,
    Table,
    nonempty,
    row_columns,
    statistic_columns,
)

__all__ = ["by_dataset", "section_headers"]

_COLUMNS_OF_A_TABLE = 4


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
    metrics = list(dict.fromkeys(section.metric for section in sections))
    if len(metrics) > 1:
        problem = "the tasks of these runs have different metrics; give one"
        raise ConfigError(problem, location=("metric",), hint=f"one of: {', '.join(metrics)}")
    metric = metrics[0]
    split = chosen_split((row for section in sections for row in section.rows), metric, split)
    models = list({row.model.identity(): row for section in sections for row in section.rows}.values())
    headers = section_headers(sections)
    by_model: dict[str, dict[str, Statistic]] = {row.model.identity(): {} for row in models}
    for header, section in zip(headers, sections, strict=True):
        for row in section.rows:
            if split in row.statistics:
                by_model[row.model.identity()][header] = replace(row.statistics[split], interval=None)
    compared, tests = compare([(None, by_header) for by_header in by_model.values()], metric)
    measured = {header: [by_header.get(header) for by_header in compared] for header in headers}
    columns = [*statistic_columns(metric, measured, headers)]
    parts = [columns[start : start + _COLUMNS_OF_A_TABLE] for start in range(0, len(columns), _COLUMNS_OF_A_TABLE)]
    if len(sections) > 1:
        parts[-1].append(Column("rank", "mean rank", _ranks([*measured.values()], metric), numeric=True))
    counts = Column("prototypes", "prototypes", [str(row.model.prototypes or MISSING) for row in models], numeric=True)
    first = nonempty([*row_columns(models, *MODEL_COLUMNS[:2]), counts])
    tables = [
        Table(
            title=_title(sections),
            columns=(*first, *part),
            groups=tuple(row.model.prototypes > 0 for row in models),
            caption=_caption(sections, split, is_marked=any(any(column.best) for column in part)),
        )
        for part in parts
    ]
    tables[-1] = replace(tables[-1], notes=_notes(sections, headers, tests))
    records = [table.records for table in section_tables(sections)]
    tables[0] = replace(tables[0], records=lambda: [one for read in records for one in read()])
    return tuple(tables)


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
    ranks = means.rank(axis=1, ascending=not higher_is_better(metric))
    return [MISSING if rank != rank else f"{rank:.1f}" for rank in ranks.mean(skipna=False)]


def _title(sections: Sequence[Section]) -> str:
    protocols = list(dict.fromkeys(section.protocol for section in sections))
    return " · ".join([count_label(len(sections), "data set"), *(protocols if len(protocols) == 1 else [])])


def _caption(sections: Sequence[Section], split: str, *, is_marked: bool) -> str:
    counts = {row.n for section in sections for row in section.rows if row.n}
    has_spread = max(counts, default=1) > 1
    over = f", mean ± sample standard deviation over {range_label(counts)} seeds" if has_spread else ""
    marks = f"{MARKED}best mean of the data set" if is_marked else ""
    return f"Metric: {metric_label(sections[0].metric)} on the split {split}{over}{marks}."


def _notes(sections: Sequence[Section], headers: Sequence[str], tests: Sequence[str]) -> tuple[str, ...]:
    """Return the settings that differ from the default or tell columns apart, and notes on what is shown."""
    settings = []
    for section, header in zip(sections, headers, strict=True):
        words = section.title.removesuffix(f" · {section.protocol}")
        words = words.removesuffix(f" · {len(section.data_seeds)} seeds of the data")
        if header != section.config.dataset_label:
            settings.append(f"{header}: {section.title}.")
        elif words != section.config.dataset_label:
            settings.append(f"{words}.")
    return (*settings, *dict.fromkeys([*(note for section in sections for note in section.notes_on_runs), *tests]))
