"""Tables for humans: titles, columns of text, captions and notes, which all formats share."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

__all__ = ["MISSING", "Cell", "Column", "Table"]

MISSING = "–"


@dataclass(frozen=True)
class Cell:
    """Text of one cell, and whether it is marked as best."""

    text: str
    best: bool = False


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        numeric: Whether cells are aligned to the right.
        cells: One for each row.
        compared: Whether the best cells are marked.
        narrow_header: A header of two lines for terminals; empty if `header` fits.
        short_cells: Cells without spread, for narrow terminals; empty if there are none.
    """

    name: str
    header: str
    numeric: bool
    cells: tuple[Cell, ...]
    compared: bool = False
    narrow_header: str = ""
    short_cells: tuple[Cell, ...] = ()

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
    """

    title: str
    columns: tuple[Column, ...]
    groups: tuple[Hashable, ...]
    metric: str
    marked: str
    notes: tuple[str, ...]
    removable: tuple[str, ...] = ()

    def caption(self, mark: str = "bold") -> str:
        """Return a line that explains the numbers and the meaning of `mark`."""
        return f"{self.metric}; {mark}: {self.marked}." if self.marked else f"{self.metric}."
