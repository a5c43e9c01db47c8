"""Tables for the terminal: Rich tables that fit the available width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from idwbench.errors import printable
from idwbench.report.layout import Printable, tables_of
from idwbench.report.plain_table import Lines, column_width, plain_lines, shown_cell, shown_header
from idwbench.report.tables import Cell, Column, Table

__all__ = ["TerminalReport"]

_GAP = 2  # between columns, and at both edges of the table


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
            yield from _parts(table, console, options, star)


def _parts(table: Table, console: Console, options: ConsoleOptions, star: bool) -> Iterator[RenderableType]:
    columns, left_out = _fitting(table, options.max_width, star)
    yield Text(printable(table.title), style="bold")
    if not table.groups:
        yield from (Text(printable(f" {note}"), style="dim") for note in table.notes)
        return
    plain = star and console.color_system is None and not options.ascii_only and not options.legacy_windows
    lines = plain_lines(columns, table.groups, options.max_width) if plain else None
    yield _rich_table(table, columns, star) if lines is None else Lines(lines)
    # No notes on the origin of references that are not shown.
    notes = [note for note in table.notes if not note.startswith(tuple(f"{header}:" for header in left_out))]
    if left_out:
        notes.append(f"Not shown in {options.max_width} columns: {', '.join(left_out)}.")
    for note in (table.caption("*" if star else "bold"), *notes):
        yield Padding(Text(printable(note), style="dim"), (0, 0, 0, 1))


def _fitting(table: Table, width: int, star: bool) -> tuple[tuple[Column, ...], list[str]]:
    """Return the columns that fit, and the headers of those left out."""
    columns, left_out = table.columns, []
    widths = {column.name: column_width(column, star) + _GAP for column in columns}
    for name in table.removable:
        if sum(widths.values()) <= width:
            break
        if name == "train spread":
            columns = tuple(replace(c, cells=c.short_cells) if c.name == "train" else c for c in columns)
            widths |= {column.name: column_width(column, star) + _GAP for column in columns if column.name == "train"}
        else:
            left_out += [column.header for column in columns if column.name == name]
            columns = tuple(column for column in columns if column.name != name)
            widths.pop(name, None)
    return columns, left_out


def _rich_table(table: Table, columns: Sequence[Column], star: bool) -> RichTable:
    shown = RichTable(box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False, header_style="bold", padding=(0, 1))
    for column in columns:
        # Text, since Rich searches strings for markup and emoji.
        shown.add_column(
            Text(printable(shown_header(column))), justify="right" if column.numeric else "left", vertical="bottom"
        )
    for place, group in enumerate(table.groups):
        last = place + 1 == len(table.groups) or table.groups[place + 1] != group
        shown.add_row(*(_text(column.cells[place], column, star) for column in columns), end_section=last)
    return shown


def _text(cell: Cell, column: Column, star: bool) -> Text:
    return Text(printable(shown_cell(cell, column, star)), style="bold" if cell.best else "")
