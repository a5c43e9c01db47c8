"""Tables as lines without colour, as Rich lays them out: Rich takes a millisecond for each row."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.segment import Segment

from idwbench.report.tables import Cell, Column

__all__ = ["NARROW", "Lines", "column_width", "plain_lines", "shown_cell", "shown_header"]

# Characters of usual tables, which are one cell wide.
NARROW = frozenset(map(chr, range(ord(" "), ord("~") + 1))) | frozenset("±–·×√²εσ")


class Lines:
    """A Rich renderable of lines that fit, so that Rich need not measure them."""

    fits = True

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        """Yield the lines."""
        yield Segment("\n".join(self.lines) + "\n")


def plain_lines(columns: Sequence[Column], groups: Sequence[Hashable], width: int) -> list[str] | None:
    """Return the lines of a table, with a star at the best; None if it must be wrapped, or has control characters.

    It is that of `rich.table.Table` with the box ``SIMPLE_HEAD``, collapsed padding, and no padding of edges.
    """
    shown = [_aligned(column) for column in columns]
    if not all(shown) or not columns:
        return None
    heads, cells = zip(*(found for found in shown if found is not None), strict=True)
    total = sum(cell_len(column[0][-1]) for column in zip(heads, strict=True)) + 2 * len(columns)
    if total > width:
        return None
    height = max(map(len, heads))
    blank, rule = " " * total, f" {'─' * (total - 2)} "
    lines = [blank]
    padded = [[" " * cell_len(head[-1])] * (height - len(head)) + head for head in heads]
    lines += [f" {'  '.join(parts)} " for parts in zip(*padded, strict=True)]
    lines.append(rule)
    last = groups[0]
    for group, *parts in zip(groups, *cells, strict=True):
        if group != last:
            lines.append(blank)
            last = group
        lines.append(f" {'  '.join(parts)} ")
    lines.append(blank)
    return lines


def _aligned(column: Column) -> tuple[list[str], list[str]] | None:
    """Return the lines of the header and the cells, all of one width; None if they cannot be shown as they are."""
    head = shown_header(column).split("\n")
    texts = [*head, *(shown_cell(cell, column, True) for cell in column.cells)]
    measure = _measure(texts)
    width = max(map(measure, texts))
    if not width or not "".join(texts).isprintable():
        return None
    if column.numeric:
        texts = [text.rstrip() for text in texts]  # as Rich does
        texts = [" " * (width - measure(text)) + text for text in texts]
    else:
        texts = [text + " " * (width - measure(text)) for text in texts]
    return texts[: len(head)], texts[len(head) :]


def column_width(column: Column, star: bool) -> int:
    """Return the width of a column without wrapping."""
    cells = (shown_header(column), *(shown_cell(cell, column, star) for cell in column.cells))
    lines = "\n".join(cells).split("\n")
    return max(map(_measure(lines), lines))


def _measure(texts: Sequence[str]) -> Callable[[str], int]:
    """Return the function that measures the width of one of `texts`: `len` if all their characters are narrow."""
    return len if NARROW.issuperset("".join(texts)) else cell_len


def shown_header(column: Column) -> str:
    """Return the header for terminals."""
    return column.narrow_header or column.header


def shown_cell(cell: Cell, column: Column, star: bool) -> str:
    """Return the text of a cell; a star marks the best."""
    return cell.text + ("*" if cell.best else " ") if star and column.compared else cell.text
