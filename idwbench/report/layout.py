"""Reports, leaderboards and the table of the dual form as tables."""

from __future__ import annotations

from collections.abc import Sequence

from idwbench.report.by_dataset import ByDataset, by_dataset_tables
from idwbench.report.columns import (
    TWO_LINES,
    count_column,
    diverged_column,
    learned_column,
    reference_column,
    setting_column,
    split_columns,
    text_column,
)
from idwbench.report.comparisons import compared_splits
from idwbench.report.dual_form import DualForm
from idwbench.report.dual_form_layout import dual_form_tables
from idwbench.report.labels import metric_label
from idwbench.report.leaderboard import Leaderboard
from idwbench.report.statistics import present_splits
from idwbench.report.summaries import Report, Row, Section
from idwbench.report.tables import MISSING, Column, Table

__all__ = ["Printable", "board_table", "section_table", "tables_of"]

Printable = Report | ByDataset | Leaderboard | DualForm
# Left out by narrow terminals, in this order.
_REMOVABLE = (
    *("train spread", "learned", "train interval", "train", "authors", "paper"),
    *("validation interval", "validation", "holdout interval", "holdout"),
)
_ALL = "all"  # the training data, where no prototypes are learned


def tables_of(report: Printable) -> tuple[Table, ...]:
    """Return the tables of a report or leaderboard; none if there is nothing to show."""
    if isinstance(report, DualForm):
        return dual_form_tables(report)
    if isinstance(report, ByDataset):
        return by_dataset_tables(report)
    if isinstance(report, Report):
        return tuple(section_table(section) for section in report.sections)
    return (board_table(report),) if report.rows or report.notes else ()


def section_table(section: Section) -> Table:
    """Return the table of a section, without empty columns (references, diverged runs, …)."""
    rows, metric = section.rows, section.metric
    statistics = [row.statistics for row in rows]
    splits = present_splits(statistics) or ("test",)
    models = [row.model for row in rows]
    none = {"kernel_regression": _ALL}
    prototypes = (str(model.prototypes or none.get(model.kind, MISSING)) for model in models)
    columns = [
        text_column("method", "method", (model.method for model in models)),
        text_column("setting", "parameters", (model.parameters_label for model in models)),
        text_column("prototypes", "prototypes", prototypes, numeric=True, narrow=TWO_LINES["prototypes"]),
        count_column(row.n for row in rows),
        *split_columns(splits, metric, statistics),
        learned_column(row.n_parameters for row in rows),
        *_references(rows, metric),
        diverged_column(row.n_diverged for row in rows),
    ]
    return Table(
        title=section.title,
        columns=tuple(column for column in columns if not column.is_empty or column.name in ("method", "test")),
        groups=tuple(model.prototypes for model in models),
        metric=_metric_words(section),
        marked=_marked_words(section, " among equal numbers of prototypes"),
        notes=section.notes,
        removable=_removable(splits),
    )


def board_table(board: Leaderboard) -> Table:
    """Return the table of a leaderboard, without empty columns."""
    rows = board.rows
    statistics = [row.statistics for row in rows]
    found = present_splits(statistics)
    splits = (board.split, *(split for split in found if split != board.split))
    ranks = text_column("rank", "rank", (MISSING if row.rank is None else str(row.rank) for row in rows), numeric=True)
    columns = [
        *(setting_column(name, [row.settings.get(name, MISSING) for row in rows]) for name in board.settings),
        count_column(row.n for row in rows),
        diverged_column(row.n_diverged for row in rows),
        *split_columns(splits, board.metric, statistics),
        learned_column(row.n_parameters for row in rows),
    ]
    kept = {board.split, "n", *board.settings}
    return Table(
        title=board.title,
        columns=(ranks, *(column for column in columns if not column.is_empty or column.name in kept)),
        groups=(None,) * len(rows),
        metric=f"{_metric_words(board)}; sorted by {board.split}, {board.order} first",
        marked=_marked_words(board, " on the same data" if board.has_several_datasets else ""),
        notes=board.notes,
        removable=tuple(name for name in _removable(splits) if name.split()[0] != board.split),
    )


def _references(rows: Sequence[Row], metric: str) -> tuple[Column, ...]:
    paper = [row.references.get("paper") for row in rows]
    authors = [row.references.get("authors") for row in rows]
    return (
        reference_column("paper", "paper", metric, paper),
        reference_column("authors", "authors' code", metric, authors, "authors'\ncode"),
    )


def _removable(splits: Sequence[str]) -> tuple[str, ...]:
    compared = compared_splits(splits)
    return tuple(name for name in _REMOVABLE if not (name.startswith("train") and "train" in compared))


def _metric_words(shown: Section | Leaderboard) -> str:
    spread = any(one.std is not None for row in shown.rows for one in row.statistics.values())
    over = ", mean ± sample standard deviation over n seeds" if spread else ""
    return f"Metric: {metric_label(shown.metric)}{over}"


def _marked_words(shown: Section | Leaderboard, among: str) -> str:
    if not any(one.best for row in shown.rows for one in row.statistics.values()):
        return ""
    best = "best mean, or not distinguishable from it" if shown.is_tested else "best mean"
    return f"{best}{',' if shown.is_tested and among.startswith(' among') else ''}{among}"
