"""Reports as GitHub-flavoured Markdown with aligned columns."""

from __future__ import annotations

import re

from idwbench.report.columns import Cell, Column, caption, section_columns
from idwbench.report.summaries import Report, Section

__all__ = ["render_markdown"]

# On GitHub an underscore within a word (`fc_relu`) needs no escape.
_SPECIAL = re.compile(r"[\\`*\[\]<>|]|(?<!\w)_|_(?!\w)")


def render_markdown(report: Report) -> str:
    """Return a heading, a table and its notes for each section."""
    if not report.sections:
        return "No runs to report.\n"
    return "\n".join(_section(section) for section in report.sections)


def _section(section: Section) -> str:
    if not section.rows:
        return "\n".join([f"### {_escape(section.title)}", "", *(f"- {_escape(note)}" for note in section.notes), ""])
    columns = section_columns(section)
    table = [[_escape(column.header) for column in columns]]
    table += [[_cell(column.cell(row)) for column in columns] for row in section.rows]
    widths = [max(3, *(len(line[place]) for line in table)) for place in range(len(columns))]
    rule = ["-" * (width - 1) + (":" if c.numeric else "-") for c, width in zip(columns, widths, strict=True)]
    lines = [_line(cells, columns, widths) for cells in (table[0], rule, *table[1:])]
    notes = [f"- {_escape(note)}" for note in (caption(section), *section.notes)]
    return "\n".join([f"### {_escape(section.title)}", "", *lines, "", *notes, ""])


def _line(cells: list[str], columns: tuple[Column, ...], widths: list[int]) -> str:
    padded = [
        cell.rjust(width) if column.numeric else cell.ljust(width)
        for cell, column, width in zip(cells, columns, widths, strict=True)
    ]
    return f"| {' | '.join(padded)} |"


def _cell(cell: Cell) -> str:
    return f"**{_escape(cell.text)}**" if cell.best else _escape(cell.text)


def _escape(text: str) -> str:
    return _SPECIAL.sub(lambda found: "\\" + found.group(), " ".join(text.split()))
