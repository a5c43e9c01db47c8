"""The inputs to patch as a user gives them; files of them are CSV with a column ``x``, and ``label`` or ``target``."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from numpy.typing import ArrayLike

from idwbench.data.files import column_separator
from idwbench.errors import IdwbenchError, PatchError
from idwbench.files import read_file

__all__ = ["PatchLine", "read_patch_file"]


@dataclass(frozen=True)
class PatchLine:
    """An input and what is wanted of it, as a user gives them.

    Attributes:
        x: A text, see `idwbench.models.inputs.find_input`, or numbers in the data's own units.
        label: The name or number of the wanted class.
        target: The wanted outputs of a regression in the targets' own units, or their text with commas.
        file: The file that it is in, or None.
        row: Its line in the file, from 1, or its row among several inputs, from 0; None of a single input.
    """

    x: str | ArrayLike
    label: str | int | None = None
    target: str | ArrayLike | None = None
    file: Path | None = None
    row: int | None = None

    @property
    def name(self) -> str:
        """What messages call its input."""
        return "this input" if self.row is None else f"{'input' if self.file is None else 'line'} {self.row}"

    def located(self, error: IdwbenchError) -> IdwbenchError:
        """Return the error with the place of the line."""
        if self.row is None:
            return error
        return (
            error.at(self.row) if self.file is None else type(error)(str(error), file=self.file, position=(self.row,))
        )


def read_patch_file(path: Path, columns: tuple[str, ...] = ("x", "label")) -> list[PatchLine]:
    """Return the rows of a CSV file with a header and the given columns in any order.

    Numbers in ``x`` must be quoted, since they are separated by commas: ``"0.0,1.0",upper``; not so in a file whose
    columns are separated by semicolons or tabs. Empty lines are ignored.

    Raises:
        PatchError: no such file, not CSV, or a wrong header or row; the message has the line.
    """
    expected = f"the column{'s' if len(columns) > 1 else ''} {' and '.join(columns)}"
    header: list[str] = []
    rows = []
    for line, cells in _rows(path):
        if not header:
            header = cells
            if sorted(header) != sorted(columns):
                raise PatchError(f"expected {expected}, got {', '.join(header)}", file=path, position=(line,))
            continue
        if len(cells) != len(header):
            hint = 'numbers need quotes: "0.0,1.0",label' if len(cells) > len(header) else ""
            problem = f"expected {len(header)} column{'s' if len(header) > 1 else ''}, got {len(cells)}"
            raise PatchError(problem, file=path, position=(line,), hint=hint)
        if missing := [name for name, cell in zip(header, cells, strict=True) if not cell]:
            raise PatchError(f"{missing[0]} is missing", file=path, position=(line,))
        rows.append(PatchLine(**dict(zip(header, cells, strict=True)), file=path, row=line))
    if not rows:
        raise PatchError("has a header but no rows" if header else f"is empty, expected {expected}", file=path)
    return rows


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    """Return the line and the cells of each row that is not empty."""
    rows, line = [], 1
    try:
        text = read_file(path, PatchError).decode("utf-8-sig")
        stream = io.StringIO(text, newline="")
        reader = csv.reader(stream, delimiter=column_separator(text), strict=True, skipinitialspace=True)
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells):
                rows.append((line, cells))
            line = reader.line_num + 1
    except UnicodeDecodeError:
        raise PatchError("not a text file in UTF-8", file=path) from None
    except csv.Error as error:
        raise PatchError(f"not comma-separated values ({error})", file=path, position=(line,)) from None
    return rows
