"""Tables for the terminal: Rich tables that fit the available width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from idwbench.report.layout import Printable, tables_of
from idwbench.report.tables import Cell, Column, Table

__all__ = ["TerminalReport", "natural_width"]


class TerminalReport:
    """A Rich renderable: ``Console().print(TerminalReport(report))``."""

    def __init__(self, report: Printable) -> None:
        self.tables = tables_of(report)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        if not self.tables:
            yield Text("No runs to report.")
        # Without bold, in a pipe or on a dumb terminal, a star marks the best.
        star = not options.is_terminal or console.is_dumb_terminal
        for place, table in enumerate(self.tables):
            if place:
                yield Text()
            yield from _parts(table, options, star)


def _parts(table: Table, options: ConsoleOptions, star: bool) -> Iterator[RenderableType]:
    columns, left_out = _fitting(table, options.max_width, star)
    yield Text(table.title, style="bold")
    if not table.groups:
        yield from (Text(f" {note}", style="dim") for note in table.notes)
        return
    yield _rich_table(table, columns, star)
    # No notes on the origin of references that are not shown.
    notes = [note for note in table.notes if not note.startswith(tuple(f"{header}:" for header in left_out))]
    if left_out:
        notes.append(f"Not shown in {options.max_width} columns: {', '.join(left_out)}.")
    for note in (table.caption("*" if star else "bold"), *notes):
        yield Padding(Text(note, style="dim"), (0, 0, 0, 1))


def _fitting(table: Table, width: int, star: bool) -> tuple[tuple[Column, ...], list[str]]:
    """Return the columns that fit, and the headers of those left out."""
    columns, left_out = table.columns, []
    for name in table.removable:
        if natural_width(columns, star) <= width:
            break
        if name == "train spread":
            columns = tuple(replace(c, cells=c.short_cells) if c.name == "train" else c for c in columns)
        else:
            left_out += [column.header for column in columns if column.name == name]
            columns = tuple(column for column in columns if column.name != name)
    return columns, left_out


def natural_width(columns: Sequence[Column], star: bool) -> int:
    """Return the width of the table without wrapping: that of Rich, which would lay the table out to measure it."""
    width = 0
    for column in columns:
        cells = [_header(column), *(_plain(cell, column, star) for cell in column.cells)]
        width += max(cell_len(line) for cell in cells for line in cell.split("\n")) + 2
    return width


def _header(column: Column) -> str:
    return column.narrow_header or column.header


def _rich_table(table: Table, columns: Sequence[Column], star: bool) -> RichTable:
    shown = RichTable(box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False, header_style="bold", padding=(0, 1))
    for column in columns:
        # Text, since Rich searches strings for markup and emoji.
        shown.add_column(Text(_header(column)), justify="right" if column.numeric else "left", vertical="bottom")
    for place, group in enumerate(table.groups):
        last = place + 1 == len(table.groups) or table.groups[place + 1] != group
        shown.add_row(*(_text(column.cells[place], column, star) for column in columns), end_section=last)
    return shown


def _text(cell: Cell, column: Column, star: bool) -> Text:
    return Text(_plain(cell, column, star), style="bold" if cell.best else "")


def _plain(cell: Cell, column: Column, star: bool) -> str:
    return cell.text + ("*" if cell.best else " ") if star and column.compared else cell.text
