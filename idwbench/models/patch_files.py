"""Files of patches: CSV with the columns ``x`` and ``label``."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from idwbench.data.files import column_separator
from idwbench.errors import PatchError
from idwbench.files import read_file

__all__ = ["PatchLine", "read_patch_file"]

_COLUMNS = ("x", "label")


@dataclass(frozen=True)
class PatchLine:
    """An input and a label as text, and the line of the file, from 1, where they are."""

    x: str
    label: str
    line: int


def read_patch_file(path: Path) -> list[PatchLine]:
    """Return the rows of a CSV file with a header and the columns ``x`` and ``label`` in any order.

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
        raise PatchError("is empty, expected the columns x and label", file=path)
    line, header = rows[0]
    if sorted(header) != sorted(_COLUMNS):
        raise PatchError(f"expected the columns x and label, got {', '.join(header)}", file=path, position=(line,))
    if len(rows) == 1:
        raise PatchError("has a header but no rows", file=path)
    return [_patch_line(row, header, line, path) for line, row in rows[1:]]


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
        raise PatchError(f"expected 2 columns, got {len(row)}", file=path, position=(line,), hint=hint)
    cells = dict(zip(header, row, strict=True))
    for name in _COLUMNS:
        if not cells[name]:
            raise PatchError(f"{name} is missing", file=path, position=(line,))
    return PatchLine(cells["x"], cells["label"], line)
