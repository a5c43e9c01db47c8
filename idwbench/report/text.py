"""Tables as lines of text that fit a width: no word or number is broken."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from rich.cells import cell_len

from idwbench.errors import printable
from idwbench.report.tables import Column, Table

__all__ = ["Style", "render_text"]

# Of a text, and of how to show it: bold, dim, or a colour.
Style = Callable[[str, str], str]

_GAP = 2  # between columns, and at both edges of the table
_MOST_REPEATED = 4  # columns of each block
# Words of headers above narrower cells.
_NARROW = {
    **{"prototypes": "proto- types", "initialisation": "initial- isation", "diverged": "di- verged"},
    "parameters": "params",
}


@dataclass(frozen=True)
class _Shown:
    """A column with the lines of its header and its cells as they are shown, and its width."""

    column: Column
    header: list[str]
    texts: list[str]
    width: int

    @classmethod
    def of(cls, column: Column, *, star: bool, spread: bool = True, wrap: bool = True) -> _Shown:
        texts = [cell.text for cell in column.cells]
        if not "".join(texts).isprintable():
            texts = [printable(text) if wrap else " ".join(printable(text).split()) for text in texts]
        texts = texts if spread else [text.partition(" ± ")[0] for text in texts]
        if star and column.compared:
            texts = [text + (" ", "*")[cell.best] for text, cell in zip(texts, column.cells, strict=True)]
        header, width = [printable(column.header)], _widest(texts)
        if wrap:  # if cells are narrower
            words = [_NARROW.get(word, word) if len(word) > width else word for word in header[0].split()]
            header = _wrapped(" ".join(words), max(width, *map(cell_len, " ".join(words).split())))
        return cls(column, header, texts, max(width, *map(cell_len, header)))

    def padded(self, texts: Sequence[str]) -> Iterable[str]:
        """Return texts in the width of the column; long columns repeat most of theirs."""
        side, width = str.rjust if self.column.numeric else str.ljust, self.width
        # The methods count characters, of which some take two columns.
        lengths = ((text, width if text.isascii() else width + len(text) - cell_len(text)) for text in {*texts})
        shown = {text: side(text, length) for text, length in lengths}
        return map(shown.__getitem__, texts)

    @property
    def cells(self) -> Iterator[tuple[str, ...]]:
        """The lines of each cell, in the width of the column."""
        if _widest(self.texts) <= self.width and "".join(self.texts).isprintable():
            return zip(self.padded(self.texts), strict=True)
        return (tuple(self.padded(_wrapped(text, self.width))) for text in self.texts)


def render_text(tables: Sequence[Table], width: int | None = 100, style: Style | None = None) -> str:
    """Return tables as text; without `style`, as in a file, a star marks the best.

    Columns that do not fit are left out as `Table.removable` says, texts are wrapped between words, and if that is not
    enough, the last columns stand below the others. Without a width, for programs, the heading and the rows are alone.
    """
    shown = ("\n".join(_lines(table, width, style) if width else _plain(table)) for table in tables)
    return "\n\n".join(shown) + "\n" if tables else "No runs to report.\n"


def _plain(table: Table) -> Iterator[str]:
    block = [_Shown.of(column, star=False, wrap=False) for column in table.columns]
    rows = zip(*(one.padded(one.header + one.texts) for one in block), strict=True)
    return ("  ".join(row).rstrip() for row in rows)


def _lines(table: Table, width: int, style: Style | None) -> Iterator[str]:
    kept = [column for column in table.columns if "rich" not in column.not_in]
    shown = {column.name: _Shown.of(column, star=style is None) for column in kept if not column.is_below}
    left_out = []
    for name in table.removable:
        if sum(one.width + _GAP for one in shown.values()) <= width:
            break
        if name == "train spread" and "train" in shown:
            shown["train"] = _Shown.of(shown["train"].column, star=style is None, spread=False)
        elif name in shown:
            left_out.append(shown.pop(name).column.header)
    yield from (style(line, "bold") if style else line for line in _wrapped(table.title, width) if line)
    for block in _blocks([*shown.values()], width) if table.groups else ():
        yield from _block(block, table, style)
    for column in (column for column in kept if column.is_below):
        texts = zip(kept[0].cells, column.cells, strict=True)
        below = (f"{key.text}: {cell.text}" for key, cell in texts if cell.text)
        yield from (f" {line}" for text in below for line in _wrapped(text, width - 1))
    # No notes on the origin of references that are not shown.
    notes = [note for note in table.notes if not note.startswith(tuple(f"{header}:" for header in left_out))]
    notes += [f"Not shown in {width} columns: {', '.join(left_out)}."] if left_out else []
    caption = [table.caption("bold" if style else "*")] if table.groups and table.metric else []
    for line in (f" {line}" for note in (*caption, *notes) for line in _wrapped(note, width - 1)):
        yield style(line, "dim") if style else line


def _widest(texts: Iterable[str]) -> int:
    texts = {*texts}
    return max(map(len if "".join(texts).isascii() else cell_len, texts), default=0)


def _wrapped(text: str, width: int) -> list[str]:
    if cell_len(text) <= width and text.isprintable():
        return [text]
    return textwrap.wrap(printable(text), width, break_long_words=False, break_on_hyphens=False) or [""]


def _blocks(columns: Sequence[_Shown], width: int) -> Iterator[list[_Shown]]:
    """Yield columns that stand side by side with their widths; each block repeats the first texts."""
    widths = [one.width for one in columns]
    if sum(widths) + _GAP * len(widths) <= width:
        yield [*columns]
        return
    # The widths that break no word of a text, and no number.
    words = [[word for text in one.header + one.texts for word in text.split()] for one in columns]
    least = [
        _widest(own) if own and not one.column.numeric else one.width for one, own in zip(columns, words, strict=True)
    ]
    while (too_wide := sum(widths) + _GAP * len(widths) > width) and widths != least:
        widest = max(range(len(columns)), key=lambda place: (widths[place] > least[place], widths[place]))
        widths[widest] -= 1
    if not too_wide:
        yield [replace(one, width=size) for one, size in zip(columns, widths, strict=True)]
        return
    sizes = [max(low, min(one.width, width // 4)) for low, one in zip(least, columns, strict=True)]
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
    n = 1 + ([one.column.numeric for one in columns[:2]] == [True, False])
    while n < len(columns) and not columns[n].column.numeric:
        n += 1
    while n < min(len(columns) - 1, _MOST_REPEATED):
        rows = [*zip(*(one.texts for one in columns[:n]), strict=True)]
        if len({*rows}) == len(rows):
            break
        n += 1
    return n


def _block(block: Sequence[_Shown], table: Table, style: Style | None) -> Iterator[str]:
    """Yield the lines of some columns: headers, a rule, rows, and an empty line between groups."""
    height = max(len(one.header) for one in block)
    heads = [one.padded([""] * (height - len(one.header)) + one.header) for one in block]
    yield ""
    for line in zip(*heads, strict=True):
        yield f" {'  '.join(style(text, 'bold') if style else text for text in line)}".rstrip()
    yield f" {'─' * (sum(one.width + _GAP for one in block) - _GAP)}"
    rows = zip(*(one.cells for one in block), strict=True)
    for place, (group, row) in enumerate(zip(table.groups, rows, strict=True)):
        if place and group != table.groups[place - 1]:
            yield ""
        for line in zip_longest(*row):
            texts = [text or " " * one.width for one, text in zip(block, line, strict=True)]
            if style:
                cells = [one.column.cells[place] for one in block]
                hows = ["bold" if cell.best else cell.colour for cell in cells]
                texts = [
                    style(text, how) if how and text.strip() else text for text, how in zip(texts, hows, strict=True)
                ]
            yield f" {'  '.join(texts)}".rstrip()
    yield ""
