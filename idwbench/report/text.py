"""Tables as lines of text that fit a width: no word or number is broken."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, takewhile, zip_longest

from rich.cells import cell_len

from idwbench.errors import printable
from idwbench.report.tables import Cell, Column, Table

__all__ = ["Style", "render_text"]

# Of a text, and of how to show it: bold, dim, or a colour.
Style = Callable[[str, str], str]

_GAP = 2  # between columns, and at both edges of the table
_MOST_REPEATED = 4  # columns of each block


@dataclass(frozen=True)
class _Shown:
    """A column with the lines of its header and its cells as they are shown, and its width."""

    column: Column
    header: list[str]
    texts: list[str]
    width: int

    @property
    def narrowest(self) -> int:
        """The width that breaks no word of a text, or no number."""
        words = () if self.column.numeric else (word for text in self.header + self.texts for word in text.split())
        return max(map(cell_len, words), default=self.width)

    def cells(self, style: Style | None) -> list[str]:
        """Return the padded cells; one that is wider than the column has several lines."""
        pairs = [*zip(self.texts, self.column.cells, strict=True)]
        shown = {pair: "\n".join(self._lines(*pair, style)) for pair in {*pairs}}
        return [shown[pair] for pair in pairs]

    def _lines(self, text: str, cell: Cell, style: Style | None) -> Iterator[str]:
        for line in [text] if cell_len(text) <= self.width else _wrapped(text, self.width):
            yield _styled(self._padded(line), "bold" if cell.best else cell.colour, style)

    def _padded(self, text: str) -> str:
        width = self.width if text.isascii() else self.width - cell_len(text) + len(text)
        return text.rjust(width) if self.column.numeric else text.ljust(width)

    def heading(self, height: int) -> list[str]:
        """Return the padded lines of the header, at the bottom of `height` lines."""
        return [*map(self._padded, [""] * (height - len(self.header)) + self.header)]


def render_text(tables: Sequence[Table], width: int | None = 100, style: Style | None = None) -> str:
    """Return tables as text; without `style`, as in a file, a star marks the best.

    Columns that do not fit are left out as `Table.removable` says, texts are wrapped between words, and if that is not
    enough, the last columns stand below the others. Without a width, for programs, the heading and the rows are alone.
    """
    shown = ("\n".join(_lines(table, width, style) if width else _plain(table)) for table in tables)
    return "\n\n".join(shown) + "\n" if tables else "No runs to report.\n"


def _plain(table: Table) -> Iterator[str]:
    block = [_shown(replace(column, narrow_header=column.header), star=False) for column in table.columns]
    return (line[1:] for line in _block(block, table, None) if line and not line.startswith(" ─"))


def _lines(table: Table, width: int, style: Style | None) -> Iterator[str]:
    kept = [column for column in table.columns if "rich" not in column.not_in]
    columns, left_out = _fitting(table, [column for column in kept if not column.is_below], width, style is None)
    yield from (_styled(line, "bold", style) for line in _wrapped(table.title, width) if table.title)
    if table.groups:
        for block in _blocks(columns, width):
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
    yield from (_styled(f" {line}", "dim", style) for note in (*caption, *notes) for line in _wrapped(note, width - 1))


def _styled(text: str, how: str, style: Style | None) -> str:
    return style(text, how) if style is not None and how else text


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(printable(text), width, break_long_words=False, break_on_hyphens=False) or [""]


def _shown(column: Column, star: bool) -> _Shown:
    cells = [cell.text for cell in column.cells]
    if star and column.compared:
        cells = [f"{text}{'*' if cell.best else ' '}" for text, cell in zip(cells, column.cells, strict=True)]
    header = [*map(printable, (column.narrow_header or column.header).split("\n"))]
    texts = [*map(printable, cells)]
    lengths = map(len if all(map(str.isascii, texts)) else cell_len, texts)
    return _Shown(column, header, texts, max(chain(map(cell_len, header), lengths)))


def _fitting(table: Table, columns: list[Column], width: int, star: bool) -> tuple[list[_Shown], list[str]]:
    """Return the columns that fit, and the headers of those left out."""
    left_out: list[str] = []
    shown = {column.name: _shown(column, star) for column in columns}
    for name in table.removable:
        if sum(one.width + _GAP for one in shown.values()) <= width:
            break
        if name == "train spread" and "train" in shown:
            column = shown["train"].column
            shown["train"] = _shown(replace(column, cells=column.short_cells), star)
        elif name in shown:
            left_out.append(shown.pop(name).column.header)
    return [*shown.values()], left_out


def _blocks(columns: Sequence[_Shown], width: int) -> Iterator[list[_Shown]]:
    """Yield columns that stand side by side with their widths; each block repeats the first texts."""
    widths, least = [one.width for one in columns], [one.narrowest for one in columns]
    narrow = [*widths]
    while sum(narrow) + _GAP * len(narrow) > width:
        wider = [place for place in range(len(columns)) if narrow[place] > least[place]]
        if not wider:
            break
        narrow[max(wider, key=narrow.__getitem__)] -= 1
    else:
        yield [replace(one, width=size) for one, size in zip(columns, narrow, strict=True)]
        return
    sizes = [max(low, min(natural, width // 4)) for low, natural in zip(least, widths, strict=True)]
    sized = [replace(one, width=size) for one, size in zip(columns, sizes, strict=True)]
    n = _n_repeated(columns)
    block = sized[:n]
    for one in sized[n:]:
        if len(block) > n and sum(other.width + _GAP for other in (*block, one)) > width:
            yield block
            block = sized[:n]
        block.append(one)
    yield block


def _n_repeated(columns: Sequence[_Shown]) -> int:
    """Return the number of columns that name a row: a rank, the first texts, and what tells equal ones apart."""
    kinds = [one.column.numeric for one in columns]
    n = kinds.index(False) if False in kinds[:2] else 0
    n += len([*takewhile(lambda numeric: not numeric, kinds[n:])]) or 1
    while n < len(columns) - 1 and n < _MOST_REPEATED:
        rows = [*zip(*(one.texts for one in columns[:n]), strict=True)]
        if len({*rows}) == len(rows):
            break
        n += 1
    return n


def _block(block: Sequence[_Shown], table: Table, style: Style | None) -> Iterator[str]:
    """Yield the lines of some columns: headers, a rule, rows, and an empty line between groups."""
    height = max(len(one.header) for one in block)
    yield ""
    for line in zip(*(one.heading(height) for one in block), strict=True):
        yield f" {'  '.join(_styled(text, 'bold', style) for text in line)}".rstrip()
    yield f" {'─' * (sum(one.width + _GAP for one in block) - _GAP)}"
    before = table.groups[:1]
    for group, cells in zip(table.groups, zip(*(one.cells(style) for one in block), strict=True), strict=True):
        if before != (group,):
            yield ""
        before = (group,)
        row = "  ".join(cells)
        if "\n" not in row:
            yield f" {row}".rstrip()
            continue
        for line in zip_longest(*(cell.split("\n") for cell in cells)):
            texts = (" " * one.width if text is None else text for text, one in zip(line, block, strict=True))
            yield f" {'  '.join(texts)}".rstrip()
    yield ""
