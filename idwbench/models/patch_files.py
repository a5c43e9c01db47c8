"""Files of patches: CSV with a column ``x``, and ``label`` or ``target``."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from idwbench.data.files import column_separator
from idwbench.errors import PatchError
from idwbench.files import read_file

__all__ = ["PatchLine", "read_patch_file"]


@dataclass(frozen=True)
class PatchLine:
    """The cells of a row by column, and the line of the file, from 1, where it is."""

    cells: dict[str, str]
    line: int

    def __getitem__(self, column: str) -> str:
        return self.cells[column]


def read_patch_file(path: Path, columns: tuple[str, ...] = ("x", "label")) -> list[PatchLine]:
    """Return the rows of a CSV file with a header and the given columns in any order.

    Numbers in ``x`` must be quoted, since they are separated by commas: ``"0.0,1.0",upper``; not so in a file whose
    columns are separated by semicolons or tabs. Empty lines are ignored.

    Raises:
        PatchError: no such file, not CSV, or a wrong header or row; the message has the line.
    """
    try:
        text = read_file(path, PatchError).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise PatchError("not a text file in UTF-8", file=path) from None
    rows = _rows(text, path)
    if not rows:
        raise PatchError(f"is empty, expected {_named(columns)}", file=path)
    line, header = rows[0]
    if sorted(header) != sorted(columns):
        problem = f"expected {_named(columns)}, got {', '.join(header)}"
        raise PatchError(problem, file=path, position=(line,))
    if len(rows) == 1:
        raise PatchError("has a header but no rows", file=path)
    return [_patch_line(row, header, line, path) for line, row in rows[1:]]


def _named(columns: tuple[str, ...]) -> str:
    return f"the column{'s' if len(columns) > 1 else ''} {' and '.join(columns)}"


def _rows(text: str, path: Path) -> list[tuple[int, list[str]]]:
    """Return the line and the cells of each row that is not empty."""
    stream = io.StringIO(text, newline="")
    reader = csv.reader(stream, delimiter=column_separator(text), strict=True, skipinitialspace=True)
    rows, line = [], 1
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells):
                rows.append((line, cells))
            line = reader.line_num + 1
    except csv.Error as error:
        raise PatchError(f"not comma-separated values ({error})", file=path, position=(line,)) from None
    return rows


def _patch_line(row: list[str], header: list[str], line: int, path: Path) -> PatchLine:
    if len(row) != len(header):
        hint = 'numbers need quotes: "0.0,1.0",label' if len(row) > len(header) else ""
        expected = f"{len(header)} column{'s' if len(header) > 1 else ''}"
        raise PatchError(f"expected {expected}, got {len(row)}", file=path, position=(line,), hint=hint)
    cells = dict(zip(header, row, strict=True))
    for name, cell in cells.items():
        if not cell:
            raise PatchError(f"{name} is missing", file=path, position=(line,))
    return PatchLine(cells, line)
