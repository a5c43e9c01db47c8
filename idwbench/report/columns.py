"""The columns of tables for humans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from idwbench.report.labels import metric_label, value_label
from idwbench.report.references import ReferenceSource
from idwbench.report.summaries import SPLITS, Row, Section

__all__ = ["MISSING", "Cell", "Column", "caption", "section_columns", "without_spread"]

MISSING = "–"


@dataclass(frozen=True)
class Cell:
    """Text of one cell, and whether it is marked as best."""

    text: str
    best: bool = False


@dataclass(frozen=True)
class Column:
    """One column; `numeric` cells are aligned to the right, and `cell` returns the cell of a row."""

    name: str
    header: str
    numeric: bool
    cell: Callable[[Row], Cell]


def section_columns(section: Section) -> tuple[Column, ...]:
    """Return the columns of a section, without empty ones (holdout, references, …)."""
    rows, metric = section.rows, section.metric
    splits = [split for split in SPLITS if split == "test" or any(split in row.statistics for row in rows)]
    columns = [
        Column("method", "method", False, lambda row: Cell(row.model.method)),
        Column("setting", "parameters", False, lambda row: Cell(row.model.parameters_label)),
        Column("prototypes", "prototypes", True, lambda row: Cell(str(row.model.prototypes))),
        Column("n", "n", True, lambda row: Cell(str(row.n))),
        *(_split_column(split, metric) for split in splits),
        Column("learned", "learned parameters", True, lambda row: Cell(_count(row.n_parameters))),
        _reference_column("paper", "paper", metric),
        _reference_column("authors", "authors' code", metric),
        Column("diverged", "diverged", True, lambda row: Cell(str(row.n_diverged) if row.n_diverged else "")),
    ]
    return tuple(
        column
        for column in columns
        if column.name in ("method", "test") or any(column.cell(row).text not in ("", MISSING) for row in rows)
    )


def caption(section: Section, mark: str = "bold") -> str:
    """Return a line that explains the numbers of a section and the meaning of `mark`."""
    spread = any(statistic.std is not None for row in section.rows for statistic in row.statistics.values())
    over = ", mean ± sample standard deviation over n seeds" if spread else ""
    line = f"Metric: {metric_label(section.metric)}{over}"
    if not any(statistic.best for row in section.rows for statistic in row.statistics.values()):
        return f"{line}."
    best = "best mean, or not distinguishable from it," if section.is_tested else "best mean"
    return f"{line}; {mark}: {best} among equal numbers of prototypes."


def without_spread(column: Column, section: Section) -> Column:
    """Return the column of a split with means only."""
    return _split_column(column.name, section.metric, spread=False)


def _split_column(split: str, metric: str, *, spread: bool = True) -> Column:
    def cell(row: Row) -> Cell:
        found = row.statistics.get(split)
        if found is None:
            return Cell(MISSING)
        return Cell(value_label(metric, found.mean, found.std if spread else None), found.best)

    return Column(split, split, True, cell)


def _reference_column(source: ReferenceSource, header: str, metric: str) -> Column:
    def cell(row: Row) -> Cell:
        found = row.references.get(source)
        if found is None:
            return Cell("")
        return Cell(value_label(metric, found.test_accuracy) + (f" (n={found.n})" if found.n else ""))

    return Column(source, header, True, cell)


def _count(number: int | None) -> str:
    return MISSING if number is None else f"{number:,}"
