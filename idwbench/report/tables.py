"""A table as data: title, columns of text, notes for readers, and records with full precision for programs.

`idwbench.report.render.render` makes text, Markdown, LaTeX, CSV and JSON of it. A column that all tables of rows have
is one entry of `ROW_COLUMNS`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from idwbench.report.frame import Row
from idwbench.report.labels import interval_label, metric_label, plain_value, value_label
from idwbench.report.statistics import SPLITS, Statistic, compared_splits, present_splits

__all__ = [
    "MISSING",
    "ROW_COLUMNS",
    "Cell",
    "Column",
    "RowColumn",
    "Table",
    "marked_words",
    "metric_words",
    "nonempty",
    "removable",
    "row_fields",
    "row_record",
    "setting_column",
    "split_columns",
    "statistic_column",
    "text_column",
]

MISSING = "–"

_TWO_LINES = {"prototypes": "proto-\ntypes", "initialisation": "initial-\nisation"}
_HEADERS = {"model": "kind", "plugin_sha256": "plugin", "dataset_seed": "data seed", "dataset_sha256": "sha256"}
_DIGEST = 8
# Left out by narrow terminals, in this order.
_REMOVABLE = (
    *("train spread", "learned_parameters", "train interval", "train", "authors", "paper"),
    *("validation interval", "validation", "holdout interval", "holdout"),
)


@dataclass(frozen=True)
class Cell:
    """Text of one cell, whether it is marked as best, and its colour in a terminal."""

    text: str
    best: bool = False
    colour: str = ""


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        numeric: Whether cells are aligned to the right.
        cells: One for each row.
        compared: Whether the best cells are marked.
        narrow_header: A header of two lines for terminals; empty if `header` fits.
        short_cells: Cells without spread, for narrow terminals; empty if there are none.
        share: The part of a line that long texts take in LaTeX; 0 for short texts.
        not_in: Formats without the column.
        is_below: Whether a terminal shows the texts below the table.
    """

    name: str
    header: str
    numeric: bool
    cells: tuple[Cell, ...]
    compared: bool = False
    narrow_header: str = ""
    short_cells: tuple[Cell, ...] = ()
    share: float = 0.0
    not_in: tuple[str, ...] = ()
    is_below: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether no cell has content."""
        return all(cell.text in ("", MISSING) for cell in self.cells)


@dataclass(frozen=True)
class Table:
    """One table.

    Attributes:
        groups: The group of each row; rows of different groups are set apart.
        metric: What the numbers are.
        marked: What marked cells are; empty if none is marked.
        notes: Lines below the table.
        removable: Names of columns that a narrow terminal leaves out, in this order; ``train spread`` stands for the
            short cells of ``train``.
        fields: The header of CSV.
        records: Returns a mapping for each row with full precision: nested for JSON, or with `fields` for CSV.
    """

    title: str
    columns: tuple[Column, ...]
    groups: tuple[Hashable, ...]
    metric: str = ""
    marked: str = ""
    notes: tuple[str, ...] = ()
    removable: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    records: Callable[[bool], Sequence[Mapping[str, Any]]] = lambda nested: ()

    def caption(self, mark: str = "bold") -> str:
        """Return a line that explains the numbers and the meaning of `mark`; empty without numbers."""
        return f"{self.metric}; {mark}: {self.marked}." if self.marked else f"{self.metric}." if self.metric else ""


def text_column(name: str, header: str, texts: Iterable[str], *, numeric: bool = False, narrow: str = "") -> Column:
    """Return a column of texts."""
    return Column(name, header, numeric, tuple(map(Cell, texts)), narrow_header=narrow)


def nonempty(columns: Iterable[Column], kept: Collection[str] = ()) -> tuple[Column, ...]:
    """Return the columns with content, and those with names in `kept`."""
    return tuple(column for column in columns if not column.is_empty or column.name in kept)


def setting_column(name: str, values: Sequence[object]) -> Column:
    """Return the values of a setting, named as in `Results.to_frame`."""
    header = _HEADERS.get(name, name.removeprefix("dataset_").replace("_", " "))
    numbers = (isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    numeric = all(is_number or value in (None, MISSING) for is_number, value in zip(numbers, values, strict=True))
    texts = [plain_value(value)[: _DIGEST if name.endswith("sha256") else None] for value in values]
    return text_column(name, header, texts, numeric=numeric, narrow=_TWO_LINES.get(name, header.replace(" ", "\n", 1)))


def split_columns(splits: Iterable[str], metric: str, rows: Sequence[Row]) -> list[Column]:
    """Return the metric on each split, followed by its interval if it has any."""
    splits = tuple(splits)
    columns = []
    for split in splits:
        found = [row.statistics.get(split) for row in rows]
        columns.append(statistic_column(split, split, metric, found, compared=split in compared_splits(splits)))
        if any(one is not None and one.interval is not None for one in found):
            intervals = (one and one.interval for one in found)
            texts = (interval_label(metric, one.low, one.high) if one else MISSING for one in intervals)
            header, narrow = f"{split} 95 % interval", f"{split}\n95 % interval"
            columns.append(text_column(f"{split} interval", header, texts, numeric=True, narrow=narrow))
    return columns


def statistic_column(
    name: str, header: str, metric: str, found: Iterable[Statistic | None], *, compared: bool = False, narrow: str = ""
) -> Column:
    """Return means with their spread; that of ``train`` a narrow terminal leaves out."""
    found = tuple(found)
    cells, short = (
        tuple(
            Cell(MISSING) if one is None else Cell(value_label(metric, one.mean, one.std if spread else None), one.best)
            for one in found
        )
        for spread in (True, False)
    )
    return Column(name, header, True, cells, compared, narrow, short if name == "train" else ())


@dataclass(frozen=True)
class RowColumn:
    """A column of a fact of rows.

    Attributes:
        name: In CSV and JSON.
        value: The fact.
        text: What tables show.
    """

    name: str
    header: str
    value: Callable[[Row], Any]
    text: Callable[[Any], str] = str
    narrow: str = ""

    def column(self, rows: Iterable[Row]) -> Column:
        """Return the column of some rows."""
        texts = (self.text(self.value(row)) for row in rows)
        return text_column(self.name, self.header, texts, numeric=True, narrow=self.narrow)


ROW_COLUMNS = [
    RowColumn("n", "n", lambda row: row.n),
    RowColumn("diverged", "diverged", lambda row: row.n_diverged, lambda n: str(n or ""), "di-\nverged"),
    RowColumn(
        "learned_parameters",
        "learned parameters",
        lambda row: row.n_parameters,
        lambda n: MISSING if n is None else f"{n:,}",
        "learned\nparams",
    ),
]


def row_fields(rows: Sequence[Mapping[str, Statistic]]) -> list[str]:
    """Return the keys of `row_record`, in the order of columns."""
    splits = (*SPLITS, *(split for split in present_splits(rows) if split not in SPLITS))
    intervals = any(one.interval is not None for row in rows for one in row.values())
    spread = ("mean", "std", "low", "high", "interval") if intervals else ("mean", "std")
    first = [f"{split}_{field}" for split in splits for field in spread]
    marks = [f"{field}_{split}" for split in splits for field in ("best", "p_value")]
    return [*(column.name for column in ROW_COLUMNS), "metric", *first, *marks]


def row_record(row: Row, metric: str) -> dict[str, Any]:
    """Return the facts and statistics of a row with full precision, accuracies as fractions."""
    record: dict[str, Any] = {column.name: column.value(row) for column in ROW_COLUMNS}
    record |= {"metric": metric, **{f"best_{split}": False for split in SPLITS}}
    for split, found in row.statistics.items():
        record |= {f"{split}_mean": found.mean, f"{split}_std": found.std}
        record |= {f"best_{split}": found.best, f"p_value_{split}": found.p_value}
        if (interval := found.interval) is not None:
            record |= {f"{split}_low": interval.low, f"{split}_high": interval.high}
            record[f"{split}_interval"] = interval.method
    return record


def removable(splits: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that a narrow terminal leaves out."""
    compared = compared_splits(splits)
    return tuple(name for name in _REMOVABLE if not (name.startswith("train") and "train" in compared))


def metric_words(metric: str, rows: Iterable[Row]) -> str:
    """Return the name of a metric, and what the spread is."""
    spread = any(one.std is not None for row in rows for one in row.statistics.values())
    over = ", mean ± sample standard deviation over n seeds" if spread else ""
    return f"Metric: {metric_label(metric)}{over}"


def marked_words(rows: Iterable[Row], is_tested: bool, among: str) -> str:
    """Return what marked cells are; empty if none is."""
    if not any(one.best for row in rows for one in row.statistics.values()):
        return ""
    best = "best mean, or not distinguishable from it" if is_tested else "best mean"
    return f"{best}{',' if is_tested and among.startswith(' among') else ''}{among}"
