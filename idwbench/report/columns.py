"""What a table for humans shows of a section: its columns, and one cell of text for each row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from idwbench.report.labels import parameters_label, percent_label, spread_label
from idwbench.report.summaries import Row, Section, Statistic

__all__ = ["MISSING", "TRAIN_MEAN", "Cell", "Column", "caption", "section_columns", "setting_label"]

MISSING = "–"


@dataclass(frozen=True)
class Cell:
    """Text of one cell, and whether it is the best of its kind."""

    text: str
    best: bool = False


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        name: A short word for code: ``test``, ``learned``.
        header: One line.
        numeric: Numbers stand to the right, words to the left.
        cell: What a row shows here.
    """

    name: str
    header: str
    numeric: bool
    cell: Callable[[Row], Cell]


def section_columns(section: Section) -> tuple[Column, ...]:
    """Return the columns of a section; those without any content (holdout, references, ...) are left out."""
    rows = section.rows
    shown = {
        "setting": any(setting_label(row) for row in rows),
        "holdout": any(row.holdout is not None for row in rows),
        "learned": any(row.n_learned is not None for row in rows),
        "paper": any(row.paper is not None for row in rows),
        "authors": any(row.authors is not None for row in rows),
        "diverged": any(row.n_diverged for row in rows),
    }
    return tuple(column for column in _COLUMNS if shown.get(column.name, True))


def caption(section: Section) -> str:
    """Return the line that explains the numbers of a section."""
    spread = any(row.test is not None and row.test.std is not None for row in section.rows)
    over = ", mean ± sample standard deviation over n seeds" if spread else ""
    return f"Accuracy in %{over}; bold: best mean of its number of prototypes."


def setting_label(row: Row) -> str:
    """Return ``p=2, ε=0.001`` and, for a method from a plugin, the beginning of the plugin's checksum."""
    words = [parameters_label(row.parameters)] if row.parameters else []
    if row.plugin_sha256 is not None:
        words.append(f"plugin {row.plugin_sha256[:8]}")
    return ", ".join(words)


def _spread(statistic: Statistic | None, best: bool = False) -> Cell:
    return Cell(MISSING) if statistic is None else Cell(spread_label(statistic.mean, statistic.std), best)


def _percent(fraction: float | None) -> Cell:
    return Cell("" if fraction is None else percent_label(fraction))


# For narrow places.
TRAIN_MEAN = Column("train", "train", True, lambda row: _percent(row.train.mean if row.train else None))

_COLUMNS = (
    Column("method", "method", False, lambda row: Cell(row.method)),
    Column("setting", "parameters", False, lambda row: Cell(setting_label(row))),
    Column("prototypes", "prototypes", True, lambda row: Cell(str(row.prototypes))),
    Column("n", "n", True, lambda row: Cell(str(row.n))),
    Column("test", "test", True, lambda row: _spread(row.test, row.best_test)),
    Column("holdout", "holdout", True, lambda row: _spread(row.holdout, row.best_holdout)),
    Column("train", "train", True, lambda row: _spread(row.train)),
    Column(
        "learned",
        "learned parameters",
        True,
        lambda row: Cell(MISSING if row.n_learned is None else f"{row.n_learned:,}"),
    ),
    Column("paper", "paper", True, lambda row: _percent(row.paper)),
    Column("authors", "authors' code", True, lambda row: _percent(row.authors)),
    Column("diverged", "diverged", True, lambda row: Cell(str(row.n_diverged) if row.n_diverged else "")),
)
