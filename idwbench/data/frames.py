"""Data frames as tables of numbers and categories: which columns are what, and their rows as codes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.data.columns import Column, Columns
from idwbench.errors import DatasetError

__all__ = ["coded_frame", "first_unusable", "numbers_of_frame"]

# A column of texts with more different ones holds names or remarks, no categories.
MOST_CATEGORIES = 100
DECIMAL_COMMA = re.compile(" *[-+]?[0-9]+,[0-9]+ *")
_LARGEST = float(np.finfo(np.float32).max)


def coded_frame(frame: Any) -> tuple[Columns, NDArray[np.float64]]:
    """Return the columns of a table, and its rows (n, columns) as numbers: positions of categories, NaN if missing.

    Texts are categories in the order of the alphabet, unless most are numbers: then one that is none is refused.
    """
    columns, codes = [], []
    for name, column in frame.items():
        if _is_numeric(column) or _are_mostly_numbers(column):
            columns.append(Column(str(name)))
            codes.append(numbers_of_frame(frame[[name]], missing=True)[:, 0])
            continue
        texts = column.astype(str).str.strip().where(column.notna())
        categories = sorted(texts.dropna().unique())
        _check_categories(str(name), texts, categories)
        columns.append(Column(str(name), tuple(categories)))
        places = {category: float(place) for place, category in enumerate(categories)}
        codes.append(texts.map(places).to_numpy(np.float64))
    return Columns(tuple(columns)), np.ascontiguousarray(np.stack(codes, axis=1))


def _is_numeric(column: Any) -> bool:
    import pandas as pd

    return bool(pd.api.types.is_numeric_dtype(column)) and column.dtype.kind != "c"


def _are_mostly_numbers(column: Any) -> bool:
    """Return whether at least half of the texts are numbers, or would be with decimal points."""
    import pandas as pd

    texts = column.dropna().astype(str)
    with_points = texts.where(~texts.str.fullmatch(DECIMAL_COMMA), texts.str.replace(",", "."))
    return bool(pd.to_numeric(with_points, errors="coerce").notna().mean() >= 0.5)


def _check_categories(name: str, texts: Any, categories: Sequence[str]) -> None:
    """Raise `DatasetError` for dates, and for texts that differ in too many rows."""
    import pandas as pd

    dates = pd.to_datetime(texts.dropna(), errors="coerce", format="ISO8601")
    leave_out = f"leave it out with drop: {name}"
    if len(dates) and dates.notna().mean() >= 0.5:
        row = int((texts.notna()).to_numpy().argmax())
        problem = f"row {row + 1}, column {name!r}: {texts.iloc[row]!r} is a date, which is no number and no category"
        raise DatasetError(problem, hint=f"{leave_out}, or write what matters of it, such as the month, as a number")
    if len(categories) > MOST_CATEGORIES or (len(categories) > 10 and 2 * len(categories) > len(texts)):
        problem = (
            f"column {name!r} holds {len(categories)} different texts in {len(texts)} rows, too many for categories"
        )
        raise DatasetError(problem, hint=leave_out)


def numbers_of_frame(columns: Any, *, missing: bool = False) -> NDArray[np.float64]:
    """Return the numbers of columns, in which some may be `missing`: NaN."""
    import pandas as pd

    numeric = {}
    for name, column in columns.items():
        numbers = column if _is_numeric(column) else pd.to_numeric(column, errors="coerce")
        wrong = (numbers.isna() & column.notna()).to_numpy()
        if wrong.any():
            row = int(wrong.argmax())
            text = column.iloc[row]
            is_decimal = isinstance(text, str) and DECIMAL_COMMA.fullmatch(text) is not None
            hint = "write decimal points, not commas" if is_decimal else ""
            raise DatasetError(f"row {row + 1}, column {name!r}: {text!r} is not a number", hint=hint)
        numeric[name] = numbers.to_numpy(np.float64, na_value=np.nan)
    values = np.stack([*numeric.values()], axis=1)
    unusable = first_unusable(np.where(np.isnan(values), 0.0, values) if missing else values)
    if unusable is not None:
        (row, position), value = unusable
        problem = "the value is missing" if np.isnan(value) else f"{value:g} is not a number that float32 can hold"
        raise DatasetError(f"row {row + 1}, column {columns.columns[position]!r}: {problem}")
    return np.ascontiguousarray(values)


def first_unusable(values: NDArray[np.float64]) -> tuple[tuple[int, ...], float] | None:
    """Return index and value of the first number that is not finite or beyond float32, or None."""
    unusable = ~(np.abs(values) <= _LARGEST)
    if not unusable.any():
        return None
    index = tuple(int(i) for i in np.unravel_index(int(unusable.argmax()), values.shape))
    return index, float(values[index])
