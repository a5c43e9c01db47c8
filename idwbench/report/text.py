"""Tables as lines of text that fit a width: no word or number is broken."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

from rich.cells import cell_len

from idwbench.errors import printable
from idwbench.report.tables import Column, Table

__all__ = ["Style", "render_text"]

# Of a text, and of how to show it: bold, dim, or a colour.
Style = Callable[[str, str], str]

_GAP = 2  # between columns, and at both edges of the table
_MOST_REPEATED = 4  # columns of each block


def render_text(tables: Sequence[Table], width: int = 100, style: Style | None = None) -> str:
    """Return tables as text; without `style`, as in a file, a star marks the best.

    Columns that do not fit are left out as `Table.removable` says, texts are wrapped between words, and if that is not
    enough, the last columns stand below the others.
    """
    shown = ("\n".join(_lines(table, width, style)) for table in tables)
    return "\n\n".join(shown) + "\n" if tables else "No runs to report.\n"


def _lines(table: Table, width: int, style: Style | None) -> Iterator[str]:
    show = style or (lambda text, how: text)
    kept = [column for column in table.columns if "rich" not in column.not_in]
    columns, left_out = _fitting(table, [column for column in kept if not column.is_below], width, style is None)
    yield from (show(line, "bold") for line in _wrapped(table.title, width) if table.title)
    if table.groups:
        for block in _blocks(columns, width, style is None):
            yield from _block(block, table, style)
    for column in kept:
        if column.is_below:
            texts = zip(kept[0].cells, column.cells, strict=True)
            shown = (f"{key.text}: {cell.text}" for key, cell in texts if cell.text)
            yield from (f" {line}" for text in shown for line in _wrapped(text, width - 1))
    # No notes on the origin of references that are not shown.
    notes = [note for note in table.notes if not note.startswith(tuple(f"{header}:" for header in left_out))]
    notes += [f"Not shown in {width} columns: {', '.join(left_out)}."] if left_out else []
    caption = [table.caption("*" if style is None else "bold")] if table.groups and table.metric else []
    yield from (show(f" {line}", "dim") for note in (*caption, *notes) for line in _wrapped(note, width - 1))


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(printable(text), width, break_long_words=False, break_on_hyphens=False) or [""]


def _fitting(table: Table, columns: list[Column], width: int, star: bool) -> tuple[list[Column], list[str]]:
    """Return the columns that fit, and the headers of those left out."""
    left_out: list[str] = []
    widths = {column.name: _width(column, star) + _GAP for column in columns}
    for name in table.removable:
        if sum(widths.values()) <= width:
            break
        if name == "train spread":
            columns = [replace(c, cells=c.short_cells) if c.name == "train" else c for c in columns]
            widths |= {column.name: _width(column, star) + _GAP for column in columns if column.name == "train"}
        else:
            left_out += [column.header for column in columns if column.name == name]
            columns = [column for column in columns if column.name != name]
            widths.pop(name, None)
    return columns, left_out


def _texts(column: Column, star: bool) -> tuple[list[str], list[str]]:
    """Return the lines of the header, and the cells."""
    mark = star and column.compared
    cells = [f"{cell.text}{'*' if cell.best else ' '}" if mark else cell.text for cell in column.cells]
    header = (column.narrow_header or column.header).split("\n")
    return [printable(line) for line in header], [printable(text) for text in cells]


def _width(column: Column, star: bool) -> int:
    header, cells = _texts(column, star)
    return max(map(cell_len, header + cells))


def _narrowest(column: Column, star: bool) -> int:
    """Return the width that breaks no word of a text, or no number."""
    header, cells = _texts(column, star)
    words = header if column.numeric else [word for text in header + cells for word in text.split()]
    return _width(column, star) if column.numeric else max(map(cell_len, words), default=0)


def _blocks(columns: Sequence[Column], width: int, star: bool) -> Iterator[list[tuple[Column, int]]]:
    """Yield columns that stand side by side with their widths; each block repeats the first texts."""
    widths, least = ([measure(column, star) for column in columns] for measure in (_width, _narrowest))
    narrow = [*widths]
    while sum(narrow) + _GAP * len(narrow) > width:
        wider = [place for place in range(len(columns)) if narrow[place] > least[place]]
        if not wider:
            break
        narrow[max(wider, key=narrow.__getitem__)] -= 1
    else:
        yield [*zip(columns, narrow, strict=True)]
        return
    widths = [max(low, min(natural, width // 4)) for low, natural in zip(least, widths, strict=True)]
    sized = [*zip(columns, widths, strict=True)]
    n = _n_repeated(columns)
    block = sized[:n]
    for column, size in sized[n:]:
        if len(block) > n and sum(w + _GAP for _, w in block) + size + _GAP > width:
            yield block
            block = sized[:n]
        block.append((column, size))
    yield block


def _n_repeated(columns: Sequence[Column]) -> int:
    """Return the number of columns that name a row: a rank, the first texts, and what tells equal ones apart."""
    kinds = [column.numeric for column in columns]
    n = kinds.index(False) if False in kinds[:2] else 0
    n += len([*takewhile(lambda numeric: not numeric, kinds[n:])]) or 1
    while n < len(columns) - 1 and n < _MOST_REPEATED:
        rows = [*zip(*(column.cells for column in columns[:n]), strict=True)]
        if len({*rows}) == len(rows):
            break
        n += 1
    return n


def _block(block: Sequence[tuple[Column, int]], table: Table, style: Style | None) -> Iterator[str]:
    """Yield the lines of some columns: headers at the bottom, a rule, rows, and an empty line between groups."""
    show = style or (lambda text, how: text)
    headers, texts = zip(*(_texts(column, style is None) for column, _ in block), strict=True)
    height = max(map(len, headers))
    yield ""
    for line in zip(*([""] * (height - len(header)) + header for header in headers), strict=True):
        words = (show(_padded(text, *sized), "bold") for sized, text in zip(block, line, strict=True))
        yield f" {'  '.join(words)}".rstrip()
    yield f" {'─' * (sum(width + _GAP for _, width in block) - _GAP)}"
    for place, (group, *cells) in enumerate(zip(table.groups, *texts, strict=True)):
        if place and group != table.groups[place - 1]:
            yield ""
        yield from _row(block, cells, place, show)
    yield ""


def _row(block: Sequence[tuple[Column, int]], texts: Sequence[str], place: int, show: Style) -> Iterator[str]:
    """Yield the lines of a row: several if a text is wrapped."""
    sized = zip(texts, block, strict=True)
    wrapped = [[text] if cell_len(text) <= width else _wrapped(text, width) for text, (_, width) in sized]
    for number in range(max(map(len, wrapped))):
        line = []
        for lines, (column, width) in zip(wrapped, block, strict=True):
            cell = column.cells[place]
            text = _padded(lines[number] if number < len(lines) else "", column, width)
            how = "bold" if cell.best else cell.colour
            line.append(show(text, how) if how else text)
        yield f" {'  '.join(line)}".rstrip()


def _padded(text: str, column: Column, width: int) -> str:
    space = " " * (width - cell_len(text))
    return space + text if column.numeric else text + space
