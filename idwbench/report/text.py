"""Tables as lines of text that fit a width: no word or number is broken."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest

from rich.cells import cell_len

from idwbench.errors import printable
from idwbench.report.tables import MARKED, Column, Table

__all__ = ["Style", "render_text"]

# Of a text, and of how to show it: bold, dim, or a colour.
Style = Callable[[str, str], str]

_GAP = 2  # between columns, and at both edges of the table
_MOST_REPEATED = 4  # columns of each block
_wrapped = partial(textwrap.wrap, break_long_words=False, break_on_hyphens=False)
# Words of headers above narrower cells.
_NARROW = {
    **{"prototypes": "proto- types", "initialisation": "initial- isation", "diverged": "di- verged"},
    "parameters": "params",
}


@dataclass(frozen=True)
class _Shown:
    """A column as it is shown: the header and the texts, the width in which they are wrapped, and how each is shown."""

    column: Column
    texts: Sequence[str]
    width: int
    hows: Sequence[str]


def render_text(tables: Sequence[Table], width: int | None = 100, style: Style | None = None) -> str:
    """Return tables as text; without `style`, as in a file, a star marks the best.

    Columns that do not fit are left out as `Table.removable` says, texts are wrapped between words, and if that is not
    enough, the last columns stand below the others. Without a width, for programs, the heading and the rows are alone.
    """
    shown = ("\n".join(_lines(table, width, style) if width else _plain(table)) for table in tables)
    return "\n\n".join(shown) + "\n" if tables else "No runs to report.\n"


def _plain(table: Table) -> Iterator[str]:
    """Yield the header and the rows, each on one line of any length."""
    columns = []
    for column in table.columns:
        texts = [text if text.isprintable() else " ".join(printable(text).split()) for text in column.texts]
        sizes = {text: cell_len(text) for text in {column.header, *texts}}  # long columns repeat most of theirs
        side, width = str.rjust if column.numeric else str.ljust, max(sizes.values())
        # The methods count characters, of which some take two columns.
        padded = {text: side(text, width + len(text) - size) for text, size in sizes.items()}
        columns.append([padded[text] for text in (column.header, *texts)])
    for place, row in enumerate(zip(*columns, strict=True)):
        if place > 1 and table.groups[place - 1] != table.groups[place - 2]:
            yield ""
        yield "  ".join(row).rstrip()


def _lines(table: Table, width: int, style: Style | None) -> Iterator[str]:
    kept = [column for column in table.columns if "rich" not in column.not_in]
    shown = {column.name: _shown(column, star=style is None) for column in kept if not column.is_below}
    left_out = list[str]()
    for name in table.removable:
        if sum(one.width + _GAP for one in shown.values()) <= width:
            break
        if name == "train spread" and "train" in shown:
            train = shown["train"].column
            means = [text.partition(" ± ")[0] for text in train.texts]
            shown["train"] = _shown(replace(train, texts=means), star=style is None)
            left_out += ["spread of train"] if means != [*train.texts] else []
        elif name in shown:
            left_out.append(shown.pop(name).column.header)
    if "train" not in shown:
        left_out = [name for name in left_out if name != "spread of train"]
    # No notes on the origin of references that are not shown.
    notes = [note for note in table.notes if not note.startswith(tuple(f"{header}:" for header in left_out))]
    notes += [f"Not shown in {width} columns: {', '.join(left_out)}."] if left_out else []
    caption = table.caption if style else table.caption.replace(MARKED, "; *: ")
    texts = (table.title, caption if table.groups else "", *notes)
    title, *notes = [text if text.isprintable() else printable(text) for text in texts]
    yield from (style(line, "bold") if style else line for line in _wrapped(title, width))
    columns = [*shown.values()]
    fits = sum(one.width + _GAP for one in columns) <= width
    for block in ([columns] if fits else _blocks(columns, width)) if table.groups else ():
        yield from _block(block, table.groups, style)
    for column in (column for column in kept if column.is_below):
        below = (f"{key}: {text}" for key, text in zip(kept[0].texts, column.texts, strict=True) if text)
        yield from (f" {line}" for text in below for line in _wrapped(printable(text), width - 1))
    for line in (f" {line}" for note in notes for line in _wrapped(note, width - 1)):
        yield style(line, "dim") if style else line


def _shown(column: Column, *, star: bool) -> _Shown:
    """Return a column with the least width that breaks no word of its header and no text."""
    texts = [text if text.isprintable() else printable(text) for text in (column.header, *column.texts)]
    header, texts = texts[0], texts[1:]
    if star and column.best:
        texts = [text + (" ", "*")[best] for text, best in zip(texts, column.best, strict=True)]
    width = max(map(cell_len, {*texts}), default=0)
    words = [_NARROW.get(word, word) if len(word) > width else word for word in header.split()]
    hows = column.colours or ["bold" if best else "" for best in column.best] or [""] * len(texts)
    header = " ".join(words)
    return _Shown(column, [header, *texts], max(width, *map(cell_len, header.split() or [""])), ["bold", *hows])


def _blocks(columns: Sequence[_Shown], width: int) -> Iterator[list[_Shown]]:
    """Yield columns that would not fit side by side, in less width; each block repeats the first texts."""
    widths = [one.width for one in columns]
    # The widths that break no word of a text, and no number.
    least = [
        one.width
        if one.column.numeric
        else max((cell_len(word) for text in {*one.texts} for word in text.split()), default=one.width)
        for one in columns
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


def _block(block: Sequence[_Shown], groups: Sequence[Hashable], style: Style | None) -> Iterator[str]:
    """Yield the lines of some columns: headers, a rule, rows, and an empty line between groups."""
    blanks = [" " * one.width for one in block]
    rows: list[list[list[str]]] = [[] for _ in block[0].texts]
    for one in block:
        side, lines_of = str.rjust if one.column.numeric else str.ljust, {}
        for text in {*one.texts}:  # long columns repeat most of theirs
            fits = cell_len(text) <= one.width and text.isprintable()
            own = [text] if fits else _wrapped(text, one.width) or [""]
            # The methods count characters, of which some take two columns.
            lines_of[text] = [side(line, one.width + len(line) - cell_len(line)) for line in own]
        for row, text in zip(rows, one.texts, strict=True):
            row.append(lines_of[text])
    hows = zip(*(one.hows for one in block), strict=True)
    yield ""
    for place, (row, of_row) in enumerate(zip(rows, hows, strict=True)):
        if place == 1:
            yield f" {'─' * (sum(map(len, blanks)) + _GAP * (len(block) - 1))}"
        elif place and groups[place - 1] != groups[place - 2]:
            yield ""
        lines = [*zip_longest(*row)] if place else [*zip_longest(*(lines[::-1] for lines in row))][::-1]
        for line in lines:
            texts = [text or blank for text, blank in zip(line, blanks, strict=True)]
            if style:
                styled = zip(texts, of_row, strict=True)
                texts = [style(text, how) if how and text.strip() else text for text, how in styled]
            yield f" {'  '.join(texts)}".rstrip()
    yield ""
