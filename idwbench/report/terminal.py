"""Reports for the terminal: Rich tables that fit the available width."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from idwbench.report.columns import Cell, Column, caption, section_columns, without_spread
from idwbench.report.comparisons import COMPARED_SPLITS
from idwbench.report.summaries import Report, Section

__all__ = ["TerminalReport", "natural_width", "render_plain"]

# Removed in this order until the table fits.
_SHORTER = ("train spread", "learned", "train", "authors", "paper", "validation", "holdout")
# Headers that would be wider than their cells.
_TWO_LINES = {
    "prototypes": "proto-\ntypes",
    "learned": "learned\nparams",
    "authors": "authors'\ncode",
    "diverged": "di-\nverged",
}


class TerminalReport:
    """A Rich renderable: ``Console().print(TerminalReport(report))``."""

    def __init__(self, report: Report) -> None:
        self.report = report

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        if not self.report.sections:
            yield Text("No runs to report.")
        # Without bold, in a pipe or on a dumb terminal, a star marks the best.
        star = not options.is_terminal or console.is_dumb_terminal
        for place, section in enumerate(self.report.sections):
            if place:
                yield Text()
            yield from _section(section, options, star)


def render_plain(report: Report, width: int = 100) -> str:
    """Return the report as shown on a terminal of `width` columns, without colour."""
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=False, color_system=None, highlight=False)
    console.print(TerminalReport(report))
    lines = (line.rstrip() for line in stream.getvalue().splitlines())
    return "\n".join(lines) + "\n"


def _section(section: Section, options: ConsoleOptions, star: bool) -> Iterator[RenderableType]:
    columns = section_columns(section)
    left_out = []
    for name in _SHORTER:
        if natural_width(section, columns, star) <= options.max_width:
            break
        if name == "train spread":
            columns = tuple(without_spread(column, section) if column.name == "train" else column for column in columns)
        else:
            left_out += [column.header for column in columns if column.name == name]
            columns = tuple(column for column in columns if column.name != name)
    yield Text(section.title, style="bold")
    if not section.rows:
        yield from (Text(f" {note}", style="dim") for note in section.notes)
        return
    yield _table(section, columns, star)
    notes = [caption(section, "*" if star else "bold"), *section.notes]
    # No notes on the origin of references that are not shown.
    notes = [note for note in notes if not note.startswith(tuple(f"{header}:" for header in left_out))]
    if left_out:
        notes.append(f"Not shown in {options.max_width} columns: {', '.join(left_out)}.")
    for note in notes:
        yield Padding(Text(note, style="dim"), (0, 0, 0, 1))


def natural_width(section: Section, columns: Sequence[Column], star: bool) -> int:
    """Return the width of the table without wrapping: that of Rich, which would lay the table out to measure it."""
    width = 0
    for column in columns:
        cells = [_header(column), *(_plain(column.cell(row), column, star) for row in section.rows)]
        width += max(cell_len(line) for cell in cells for line in cell.split("\n")) + 2
    return width


def _header(column: Column) -> str:
    return _TWO_LINES.get(column.name, column.header)


def _table(section: Section, columns: tuple[Column, ...], star: bool) -> Table:
    table = Table(box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False, header_style="bold", padding=(0, 1))
    for column in columns:
        # Text, since Rich searches strings for markup and emoji.
        table.add_column(Text(_header(column)), justify="right" if column.numeric else "left", vertical="bottom")
    for place, row in enumerate(section.rows):
        last = place + 1 == len(section.rows) or section.rows[place + 1].model.prototypes != row.model.prototypes
        table.add_row(*(_text(column.cell(row), column, star) for column in columns), end_section=last)
    return table


def _text(cell: Cell, column: Column, star: bool) -> Text:
    return Text(_plain(cell, column, star), style="bold" if cell.best else "")


def _plain(cell: Cell, column: Column, star: bool) -> str:
    if not star or column.name not in COMPARED_SPLITS:
        return cell.text
    return cell.text + ("*" if cell.best else " ")
