"""A report with one row for each model and one column for each data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from idwbench.errors import ConfigError, did_you_mean
from idwbench.report.columns import text_column
from idwbench.report.comparisons import compare, higher_is_better, rounded
from idwbench.report.labels import count_label, metric_label, protocol_label, value_label
from idwbench.report.statistics import Statistic, present_splits
from idwbench.report.summaries import Report, Row, Section
from idwbench.report.tables import MISSING, Cell, Column, Table

__all__ = ["ByDataset", "by_dataset", "by_dataset_tables"]

_COLUMNS_OF_A_TABLE = 4


@dataclass(frozen=True)
class ByDataset:
    """The sections of a report side by side, with their metric on one split."""

    report: Report
    split: str


def by_dataset(report: Report, split: str | None = None) -> ByDataset:
    """Return the sections of a report as columns.

    Args:
        report: Sections with the same metric.
        split: The split to show: by default ``test``, or the first that has the metric.

    Raises:
        ConfigError: the sections have different metrics, or no run has the metric on the split.
    """
    metrics = list(dict.fromkeys(section.metric for section in report.sections))
    if len(metrics) > 1:
        problem = "the tasks of these runs have different metrics; give one"
        raise ConfigError(problem, location=("metric",), hint=f"one of: {', '.join(metrics)}")
    found = present_splits(row.statistics for section in report.sections for row in section.rows)
    if split is not None and found and split not in found:
        problem = f"no run has {metrics[0]} on a split '{split}'"
        raise ConfigError(problem, location=("split",), hint=did_you_mean(split, found))
    return ByDataset(report, split or (found[0] if found else "test"))


def by_dataset_tables(shown: ByDataset) -> tuple[Table, ...]:
    """Return tables of four data sets each; the last has the mean rank over all data sets."""
    sections = shown.report.sections
    if not sections:
        return ()
    rows = list({row.model.identity(): row for section in sections for row in section.rows}.values())
    columns = [_column(section, _name(section, sections), rows, shown.split) for section in sections]
    ranks = _mean_ranks([_found(section, rows, shown.split) for section in sections], sections[0].metric)
    parts = [columns[start : start + _COLUMNS_OF_A_TABLE] for start in range(0, len(columns), _COLUMNS_OF_A_TABLE)]
    if len(sections) > 1:
        parts[-1] = [*parts[-1], text_column("rank", "mean rank", ranks, numeric=True, narrow="mean\nrank")]
    tables = []
    for place, part in enumerate(parts):
        is_last = place == len(parts) - 1
        tables.append(
            Table(
                title=_title(sections),
                columns=(*_models(rows), *part),
                groups=tuple(row.model.prototypes > 0 for row in rows),
                metric=_metric(sections, shown.split),
                marked="best mean of the data set" if any(c.best for column in part for c in column.cells) else "",
                notes=_notes(sections) if is_last else (),
            )
        )
    return tuple(tables)


def _models(rows: Sequence[Row]) -> tuple[Column, ...]:
    models = [row.model for row in rows]
    prototypes = (str(model.prototypes or MISSING) for model in models)
    columns = (
        text_column("method", "method", (model.method for model in models)),
        text_column("setting", "parameters", (model.parameters_label for model in models)),
        text_column("prototypes", "prototypes", prototypes, numeric=True, narrow="proto-\ntypes"),
    )
    return tuple(column for column in columns if not column.is_empty)


def _name(section: Section, sections: Sequence[Section]) -> str:
    """Return the label of the data set, or the title of a section that shares it with another."""
    labels = [other.dataset for other in sections]
    return section.dataset if labels.count(section.dataset) == 1 else section.title


def _found(section: Section, rows: Sequence[Row], split: str) -> list[Statistic | None]:
    """Return the statistic of each row in a section, None where there is none."""
    statistics: Mapping[str, Mapping[str, Statistic]] = {row.model.identity(): row.statistics for row in section.rows}
    return [statistics.get(row.model.identity(), {}).get(split) for row in rows]


def _column(section: Section, name: str, rows: Sequence[Row], split: str) -> Column:
    found = _found(section, rows, split)
    compared = compare([("", {} if one is None else {split: one}) for one in found], section.metric).statistics
    cells = [
        Cell(MISSING) if one is None else Cell(value_label(section.metric, one.mean, one.std), marks[split].best)
        for one, marks in zip(found, compared, strict=True)
    ]
    return Column(name, name, True, tuple(cells), compared=True, narrow_header=name.replace("_", "_\n", 1))


def _mean_ranks(columns: Sequence[Sequence[Statistic | None]], metric: str) -> list[str]:
    """Return the mean over data sets of the rank of each row; equal means share the mean of their ranks."""
    sign = -1 if higher_is_better(metric) else 1
    ranks: list[list[float]] = [[] for _ in columns[0]]
    for column in columns:
        values = [None if one is None else sign * rounded(one.mean) for one in column]
        known = [value for value in values if value is not None]
        for place, value in enumerate(values):
            if value is not None:
                ranks[place].append(sum(other < value for other in known) + (known.count(value) + 1) / 2)
    return [f"{sum(row) / len(row):.1f}" if len(row) == len(columns) else MISSING for row in ranks]


def _title(sections: Sequence[Section]) -> str:
    protocols = list(dict.fromkeys(protocol_label(section.protocol) for section in sections))
    return " · ".join([count_label(len(sections), "data set"), *(protocols if len(protocols) == 1 else [])])


def _metric(sections: Sequence[Section], split: str) -> str:
    counts = sorted({row.n for section in sections for row in section.rows if row.n})
    over = "" if not counts or counts[-1] == 1 else f", mean ± sample standard deviation over {_range(counts)} seeds"
    return f"Metric: {metric_label(sections[0].metric)} on the split {split}{over}"


def _range(counts: Sequence[int]) -> str:
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _notes(sections: Sequence[Section]) -> tuple[str, ...]:
    """Return the settings of data sets that differ from the default, and the notes of all sections."""
    settings = []
    for section in sections:
        words = section.title.removesuffix(f" · {protocol_label(section.protocol)}")
        words = words.removesuffix(f" · {len(section.data_seeds)} seeds of the data")
        if words != section.dataset == _name(section, sections):
            settings.append(f"{words}.")
    return (*settings, *dict.fromkeys(note for section in sections for note in section.notes))
