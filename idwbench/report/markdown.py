"""Tables as GitHub-flavoured Markdown with aligned columns."""

from __future__ import annotations

import re
from collections.abc import Sequence

from idwbench.report.tables import Cell, Column, Table

__all__ = ["escape_markdown", "render_markdown"]

# On GitHub an underscore within a word (`fc_relu`) needs no escape.
_SPECIAL = re.compile(r"[\\`*\[\]<>|]|(?<!\w)_|_(?!\w)")


def render_markdown(tables: Sequence[Table]) -> str:
    """Return a heading, a table and its notes for each table."""
    if not tables:
        return "No runs to report.\n"
    return "\n".join(_table(table) for table in tables)


def _table(table: Table) -> str:
    if not table.groups:
        return "\n".join(
            [f"### {escape_markdown(table.title)}", "", *(f"- {escape_markdown(note)}" for note in table.notes), ""]
        )
    columns = table.columns
    cells = [[escape_markdown(column.header), *(_cell(cell) for cell in column.cells)] for column in columns]
    widths = [max(3, *map(len, column)) for column in cells]
    header, *rows = zip(*cells, strict=True)
    rule = ["-" * (width - 1) + (":" if c.numeric else "-") for c, width in zip(columns, widths, strict=True)]
    lines = [_line(line, columns, widths) for line in (header, rule, *rows)]
    notes = [f"- {escape_markdown(note)}" for note in (table.caption(), *table.notes)]
    return "\n".join([f"### {escape_markdown(table.title)}", "", *lines, "", *notes, ""])


def _line(cells: Sequence[str], columns: tuple[Column, ...], widths: list[int]) -> str:
    padded = [
        cell.rjust(width) if column.numeric else cell.ljust(width)
        for cell, column, width in zip(cells, columns, widths, strict=True)
    ]
    return f"| {' | '.join(padded)} |"


def _cell(cell: Cell) -> str:
    return f"**{escape_markdown(cell.text)}**" if cell.best else escape_markdown(cell.text)


def escape_markdown(text: str) -> str:
    """Return `text` on one line with Markdown's special characters escaped."""
    return _SPECIAL.sub(lambda found: "\\" + found.group(), " ".join(text.split()))
