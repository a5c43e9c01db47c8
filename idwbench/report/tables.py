"""A table as data: title, columns of text, notes for readers, and records with full precision for programs.

`idwbench.report.render.render` makes text, Markdown, LaTeX, CSV and JSON of it. A column that all tables of rows have
is one entry of `ROW_COLUMNS`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from idwbench.report.frame import Row
from idwbench.report.labels import cell_label, metric_label, plain_value, value_label
from idwbench.report.statistics import SPLITS, Statistic, present_splits
from idwbench.runs.metrics import METRICS

__all__ = [
    "DIVERGED",
    "MARKED",
    "MISSING",
    "MODEL_COLUMNS",
    "N_RUNS",
    "REMOVABLE",
    "ROW_COLUMNS",
    "Column",
    "Line",
    "RowColumn",
    "Table",
    "line_records",
    "line_table",
    "nonempty",
    "row_columns",
    "row_record",
    "row_table",
    "setting_columns",
    "statistic_columns",
    "statistic_values",
]

MISSING = "–"
MARKED = "; bold: "  # text without bold has a star

_HEADERS = {
    "model": "kind",
    "plugin_sha256": "plugin",
    "setting": "parameters",
    "dataset_seed": "data seed",
    "dataset_sha256": "sha256",
    "authors": "authors' code",
}
_ALL = {"kernel_regression": "all"}  # the training data, where no prototypes are learned
_TEXTS = ("method", "setting")
_DIGEST = 8
# Left out by narrow terminals, in this order, but for the first split.
REMOVABLE = (
    *("train spread", "learned_parameters", "train interval", "train", "authors", "paper"),
    *("validation interval", "validation", "holdout interval", "holdout"),
)


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        texts: One for each row.
        numeric: Whether texts are aligned to the right.
        best: Whether each text is marked as one of the best; empty if rows are not compared.
        colours: Of each text in a terminal; empty for none.
        share: The part of a line that long texts take in LaTeX; 0 for short texts.
        not_in: Formats without the column.
        is_below: Whether a terminal shows the texts below the table.
    """

    name: str
    header: str
    texts: Sequence[str]
    numeric: bool = False
    best: Sequence[bool] = ()
    colours: Sequence[str] = ()
    share: float = 0.0
    not_in: tuple[str, ...] = ()
    is_below: bool = False


@dataclass(frozen=True)
class Table:
    """One table.

    Attributes:
        groups: The group of each row; rows of different groups are set apart.
        caption: What the numbers are and, after `MARKED`, what marked texts are; empty without numbers.
        notes: Lines below the table.
        removable: Names of columns that a narrow terminal leaves out, in this order; ``train spread`` stands for the
            spread of the cells of ``train``.
        records: Returns a mapping for each row with full precision.
        flat: Returns the values of a record for CSV.
    """

    title: str
    columns: tuple[Column, ...]
    groups: tuple[Hashable, ...]
    caption: str = ""
    notes: tuple[str, ...] = ()
    removable: tuple[str, ...] = ()
    records: Callable[[], Sequence[Mapping[str, Any]]] = tuple
    flat: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict


def nonempty(columns: Iterable[Column]) -> tuple[Column, ...]:
    """Return the columns in which some cell has content."""
    return tuple(column for column in columns if any(text not in ("", MISSING) for text in column.texts))


def setting_columns(names: Iterable[str], rows: Sequence[Row]) -> Iterator[Column]:
    """Yield the values of settings by rows, which are named as in `Results.to_frame`."""
    for name in names:
        values = [row.settings.get(name, MISSING) for row in rows]
        header = _HEADERS.get(name, name.removeprefix("dataset_").replace("_", " "))
        numbers = (isinstance(value, int | float) and not isinstance(value, bool) for value in values)
        numeric = all(is_number or value in (None, MISSING) for is_number, value in zip(numbers, values, strict=True))
        texts = [plain_value(value)[: _DIGEST if name.endswith("sha256") else None] for value in values]
        yield Column(name, header, texts, numeric)


def statistic_columns(
    metric: str | None,
    known: Mapping[str, Sequence[Statistic | None]],
    compared: Collection[str] = (),
    headers: Mapping[str, str] | None = None,
) -> Iterator[Column]:
    """Yield a column of means with their spread for each name, and after it their intervals if there are any.

    Args:
        metric: That of the statistics; None if the columns are named by their metrics.
        known: The statistics of the rows by the name of the column, such as a split.
        compared: Names of columns in which the best are marked.
        headers: The headers of columns that differ from their names.
    """
    for name, statistics in known.items():
        of = metric or name
        texts = [MISSING if one is None else value_label(of, one.mean, one.std) for one in statistics]
        best = [one is not None and one.best for one in statistics] if name in compared else ()
        yield Column(name, (headers or {}).get(name, name), texts, numeric=True, best=best)
        intervals = [one and one.interval for one in statistics]
        if any(intervals):
            texts = [value_label(of, one.low, one.high, " to ") if one else MISSING for one in intervals]
            yield Column(f"{name} interval", f"{name} 95 % interval", texts, numeric=True)


# Facts of rows: the name in CSV and JSON, the fact, and what tables show of it.
RowColumn = tuple[str, Callable[[Row], Any], Callable[[Any], str]]
MODEL_COLUMNS: tuple[RowColumn, ...] = (
    ("method", lambda row: row.model.method, str),
    ("setting", lambda row: row.parameters_label, str),
    ("prototypes", lambda row: row.model.prototypes or _ALL.get(row.model.kind, MISSING), str),
)
N_RUNS: RowColumn = ("n", lambda row: row.n, str)
DIVERGED: RowColumn = ("diverged", lambda row: row.n_diverged, lambda n: str(n or ""))
ROW_COLUMNS: list[RowColumn] = [
    ("learned_parameters", lambda row: row.n_parameters, lambda n: MISSING if n is None else f"{n:,}"),
]


def row_columns(rows: Sequence[Row], *facts: RowColumn) -> tuple[Column, ...]:
    """Return the columns of facts of rows, but those without content."""
    columns = []
    for name, fact, text in facts:
        header, texts = _HEADERS.get(name, name.replace("_", " ")), [text(fact(row)) for row in rows]
        columns.append(Column(name, header, texts, numeric=name not in _TEXTS))
    return nonempty(columns)


def row_table(
    rows: Sequence[Row],
    metric: str,
    columns: Iterable[Column],
    facts: Iterable[RowColumn],
    among: str,
    *,
    split: str | None = None,
    order: str = "",
    **others: Any,
) -> Table:
    """Return the table of a metric of rows, which says what the numbers, their spread and the marked texts are.

    Args:
        rows: Those of the table.
        metric: The name of the metric.
        columns: Those before the metric.
        facts: Those after the metric and `ROW_COLUMNS`.
        among: The rows among which the best are marked.
        split: The split of the first column of the metric.
        order: That of the rows.
        others: What else the table has.
    """
    found = [split] if split else []
    splits = dict.fromkeys([*found, *present_splits(row.statistics for row in rows)]) or ("test",)
    known = {one: [row.statistics.get(one) for row in rows] for one in splits}
    statistics = [one for row in rows for one in row.statistics.values()]
    words = f"Metric: {metric_label(metric)}"
    words += ", mean ± sample standard deviation over n seeds" * any(one.std is not None for one in statistics) + order
    if any(one.p_value is not None for one in statistics):
        marked = f"{MARKED}best mean, or not distinguishable from it{',' * among.startswith(' among')}{among}"
    else:
        marked = f"{MARKED}best mean{among}"
    return Table(
        columns=(
            *columns,
            *statistic_columns(metric, known, {*known} - {"train"} or known),
            *row_columns(rows, *ROW_COLUMNS, *facts),
        ),
        caption=words + (marked if any(one.best for one in statistics) else "") + ".",
        removable=tuple(name for name in REMOVABLE if name.split()[0] != next(iter(splits))),
        **others,
    )


class Line(NamedTuple):
    """A line of the table of a study.

    Attributes:
        row: Its runs; a row may have several lines.
        facts: What tells the line from others of the row, by name.
        statistics: By name: that of their metric, with the number of a layer left out, or any.
        published: Texts of published values by the name of the statistic.
    """

    row: Row
    facts: Mapping[str, Any]
    statistics: Mapping[str, Statistic | None]
    published: Mapping[str, str] = {}


def line_table(
    title: str,
    lines: Sequence[Line],
    settings: Iterable[str],
    labels: Mapping[str, str],
    *,
    metric: str | None = None,
    facts: Iterable[RowColumn] = (),
    **others: Any,
) -> Table:
    """Return a table of settings, facts, numbers of runs, and statistics beside published values.

    Args:
        title: Of the table.
        lines: Those of the table; there may be none.
        settings: Names of settings of rows.
        labels: The headers of columns that differ from their names, and the texts of facts that differ from these.
        metric: That of all statistics.
        facts: Of rows, in the last columns.
        others: What else the table has; by default the lines of a row are a group, and each is a record.
    """
    rows, first = [line.row for line in lines], lines[0] if lines else None
    columns = [*setting_columns(settings, rows)]
    for name in first.facts if first else ():
        values = [line.facts[name] for line in lines]
        texts = [labels.get(value, cell_label(value)) for value in values]
        columns.append(Column(name, labels.get(name, name), texts, isinstance(values[0], int)))
    columns += row_columns(rows, N_RUNS)
    for name in first.statistics if first else ():
        of = metric or (name if name in METRICS else f"{name}_0")
        columns += statistic_columns(of, {name: [line.statistics[name] for line in lines]}, headers=labels)
        published = [line.published.get(name, "") for line in lines]
        columns.append(Column(f"paper {name}", "paper", published, numeric=True))
    columns += row_columns(rows, *facts)
    own = {"groups": tuple(row.number for row in rows), "records": partial(line_records, lines)}
    return Table(title, nonempty(columns), **{**own, **others})


def line_records(lines: Iterable[Line]) -> list[dict[str, Any]]:
    """Return for each line the settings of its row, the facts, and the statistics with full precision."""
    return [{**line.row.settings, "n": line.row.n, **line.facts, **statistic_values(line.statistics)} for line in lines]


def statistic_values(statistics: Mapping[str, Statistic | None]) -> dict[str, Any]:
    """Return means and standard deviations with full precision as ``NAME_mean`` and ``NAME_std``."""
    values: dict[str, Any] = {}
    for name, one in statistics.items():
        values |= {f"{name}_mean": one and one.mean, f"{name}_std": one and one.std}
    return values


def row_record(row: Row, metric: str) -> dict[str, Any]:
    """Return the facts and statistics of a row with full precision, in the order of columns."""
    record = {name: fact(row) for name, fact, _ in (N_RUNS, DIVERGED, *ROW_COLUMNS)} | {"metric": metric}
    splits = {**dict.fromkeys(SPLITS), **row.statistics}
    with_intervals = any(known.interval is not None for known in row.statistics.values())
    for split, known in splits.items():
        record |= {f"{split}_mean": known and known.mean, f"{split}_std": known and known.std}
        if with_intervals:
            interval = known and known.interval
            record |= {f"{split}_low": interval and interval.low, f"{split}_high": interval and interval.high}
            record[f"{split}_interval"] = interval and interval.method
    for split, known in splits.items():
        record |= {f"best_{split}": known is not None and known.best, f"p_value_{split}": known and known.p_value}
    return record
