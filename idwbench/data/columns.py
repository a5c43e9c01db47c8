"""The columns of a table: names, categories as one number each, and what stands for missing values, as plain data.

A column of numbers is one feature. A column of categories is one feature for each category: 1 for the category of the
row, 0 for the others. These features are not standardised: two rows with different categories are then as far apart as
two random rows are in a standardised column of numbers, where the mean of (x − y)² is 2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.errors import DatasetError, did_you_mean

__all__ = ["Column", "Columns", "named_values"]

_LISTED = 6
_SHARE_SHOWN = 0.005  # the least difference from a single category that a text shows
_MISSING = ("", "NA", "NaN", "nan", "None", "null")

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        name: Its name in the header.
        categories: The texts of its categories; empty for a column of numbers.
        fill: What stands for a missing value: the median of the training rows, or the most frequent category.
        missing: Number of training rows without a value.
    """

    name: str
    categories: tuple[str, ...] = ()
    fill: float | str = 0.0
    missing: int = 0

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.categories) or 1

    def code(self, value: Any) -> float:
        """Return a number as it is, a category as its position, and NaN for a missing value.

        Raises:
            DatasetError: no finite number, or not one of the categories; the location is the column.
        """
        text = str(value).strip()
        if value is None or text in _MISSING:
            return float("nan")
        if self.categories:
            if text not in self.categories:
                problem = f"{text!r} is not one of its categories"
                raise DatasetError(problem, location=(self.name,), hint=did_you_mean(text, self.categories))
            return float(self.categories.index(text))
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise DatasetError(f"{text!r} is not a number", location=(self.name,)) from None
        if not np.isfinite(number):
            raise DatasetError(f"expected a finite number, got {text}", location=(self.name,))
        return number

    def text(self, part: NDArray[np.floating]) -> str:
        """Return the features (width,) of one row in own units as ``39.1``, ``Biscoe``, or ``Biscoe 0.83``."""
        if not self.categories:
            return f"{float(part[0]):.4g}"
        largest = int(part.argmax())
        is_one = np.abs(part - (np.arange(len(part)) == largest)).max() < _SHARE_SHOWN
        share = "" if is_one else f" {part[largest]:.2g}"
        return f"{self.categories[largest]}{share}"

    def plain(self) -> dict[str, Any]:
        """Return the column as values for JSON."""
        kind = {"categories": list(self.categories)} if self.categories else {}
        return {"name": self.name, **kind, "missing_is": self.fill, "missing": self.missing}


@dataclass(frozen=True)
class Columns:
    """The columns of a table, in order; *codes* are numbers (n, columns), *features* what a model has as inputs."""

    columns: tuple[Column, ...]

    @classmethod
    def of_numbers(cls, names: Sequence[str]) -> Columns:
        """Return columns of numbers."""
        return cls(tuple(Column(str(name)) for name in names))

    @classmethod
    def parse(cls, content: Sequence[Mapping[str, Any]]) -> Columns:
        """Return the columns of `plain`; raises `ValueError` for another content."""
        try:
            return cls(
                tuple(
                    Column(
                        str(one["name"]), tuple(map(str, one.get("categories", ()))), one["missing_is"], one["missing"]
                    )
                    for one in content
                )
            )
        except (KeyError, TypeError, AttributeError):
            raise ValueError("columns: expected name, categories, missing_is and missing of each column") from None

    def __len__(self) -> int:
        return len(self.columns)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return sum(column.width for column in self.columns)

    @cached_property
    def features(self) -> tuple[str, ...]:
        """The names of the features: ``bill_length_mm``, ``island=Biscoe``."""
        return tuple(
            name
            for column in self.columns
            for name in ([f"{column.name}={one}" for one in column.categories] or [column.name])
        )

    @cached_property
    def is_category(self) -> NDArray[np.bool_]:
        """Which features (features,) belong to a column of categories."""
        return np.repeat([bool(column.categories) for column in self.columns], [one.width for one in self.columns])

    @cached_property
    def slices(self) -> dict[str, slice]:
        """The features of each column."""
        ends = np.cumsum([column.width for column in self.columns]).tolist()
        pairs = zip(self.columns, ends, strict=True)
        return {column.name: slice(end - column.width, end) for column, end in pairs}

    def fitted(self, codes: NDArray[np.generic]) -> Columns:
        """Return the columns with what stands for the missing values of training rows, codes (n, columns).

        Raises:
            DatasetError: a column has no value at all.
        """
        fitted = []
        for column, values in zip(self.columns, np.asarray(codes, np.float64).T, strict=True):
            known = values[~np.isnan(values)]
            if not len(known):
                raise DatasetError(f"column {column.name!r} has no value in the training rows", hint="drop the column")
            fill: float | str = float(np.median(known))
            if column.categories:
                fill = column.categories[int(np.bincount(known.astype(np.int64)).argmax())]
            fitted.append(replace(column, fill=fill, missing=len(values) - len(known)))
        return Columns(tuple(fitted))

    def encode(self, codes: NDArray[np.generic]) -> Floats:
        """Return the features (n, features) for codes (n, columns), in which NaN is a missing value."""
        parts = []
        for column, values in zip(self.columns, np.asarray(codes, np.float64).T, strict=True):
            filled = np.where(np.isnan(values), column.code(column.fill), values)
            one_hot = filled[:, None] == np.arange(len(column.categories))
            parts.append(one_hot.astype(np.float64) if column.categories else filled[:, None])
        return np.ascontiguousarray(np.concatenate(parts, axis=1))

    def row(self, x: Any) -> Floats:
        """Return the features (features,) of one row.

        Args:
            x: A mapping of columns to values, of which those left out are missing; a row of a data frame; or the values
                of all columns in their order; or the features themselves.

        Raises:
            DatasetError: an unknown column, a value of another type, or another number of values.
        """
        values = self._values(x)
        if values is None:
            return np.array(x, np.float64).reshape(-1)
        codes = np.array([[column.code(value) for column, value in zip(self.columns, values, strict=True)]])
        features: Floats = self.encode(codes)[0]
        return features

    def missing(self, x: Any) -> tuple[str, ...]:
        """Return the columns that one row, as for `row`, has no value of."""
        pairs = zip(self.columns, self._values(x) or (), strict=False)  # features have no missing values
        return tuple(column.name for column, value in pairs if np.isnan(column.code(value)))

    def _values(self, x: Any) -> list[Any] | None:
        """Return the value of each column in one row, None where it is missing; or None if `x` is the features."""
        if hasattr(x, "to_dict"):  # of pandas: a series, or a data frame of one row
            x = (x.iloc[0] if getattr(x, "ndim", 1) == 2 else x).to_dict()
        if isinstance(x, Mapping):
            unknown = next((str(name) for name in x if name not in self.names), None)
            if unknown is not None:
                raise DatasetError(f"no column is called '{unknown}'", hint=did_you_mean(unknown, self.names))
            return [x.get(name) for name in self.names]
        values: list[Any] = np.asarray(x, object).reshape(-1).tolist()
        if len(values) == self.n_features != len(self):
            return None
        if len(values) != len(self):
            expected = f"{len(self)} numbers"
            if self.is_category.any():
                expected = f"{len(self)} values ({', '.join(self.names[:_LISTED])}{', …' * (len(self) > _LISTED)})"
            raise DatasetError(f"expected {expected}, got {len(values)}")
        return values

    def texts(self, features: NDArray[np.floating]) -> list[str]:
        """Return each column of one row, features (features,) in own units, as a text."""
        return [column.text(features[self.slices[column.name]]) for column in self.columns]

    def plain(self) -> list[dict[str, Any]]:
        """Return the columns as values for JSON."""
        return [column.plain() for column in self.columns]

    def notes(self) -> list[str]:
        """Return which columns are categories, and what stands for missing values, a line each; none if neither."""
        categories = [f"{column.name} ({len(column.categories)})" for column in self.columns if column.categories]
        filled = [column for column in self.columns if column.missing]
        notes = [f"categories: {_listed(categories)}"] if categories else []
        if filled:
            values = [f"{one.name} {one.fill if isinstance(one.fill, str) else f'{one.fill:.4g}'}" for one in filled]
            n_missing = sum(column.missing for column in filled)
            kinds = "the median or the most frequent category"
            notes.append(f"{n_missing} missing values of the training rows became {kinds}: {_listed(values)}")
        return notes


def _listed(texts: Sequence[str]) -> str:
    more = f", and {len(texts) - _LISTED} more" if len(texts) > _LISTED else ""
    return ", ".join(texts[:_LISTED]) + more


def named_values(text: str, columns: Columns) -> dict[str, str]:
    """Return the values of ``bill_length_mm=39.1,island=Biscoe`` by column; names and values may hold commas.

    Raises:
        DatasetError: a part is not the name of a column with a value, or a column is given twice.
    """
    names = "|".join(re.escape(name) for name in sorted(columns.names, key=len, reverse=True))
    found = list(re.finditer(rf"(?:^|,)\s*({names})\s*=", text))
    ends = [*(match.start() for match in found[1:]), len(text)][: len(found)]
    values: dict[str, str] = {}
    before = text[: found[0].start()] if found else text
    for match, end in zip(found, ends, strict=True):
        value = text[match.end() : end]
        if match[1] in values:
            raise DatasetError(f"'{match[1]}' is given twice")
        values[match[1]] = value.strip()
        before = before or next((part for part in value.split(",")[1:] if "=" in part), "")
    if before:
        unknown = before.split("=")[0].strip()
        raise DatasetError(f"no column is called '{unknown}'", hint=did_you_mean(unknown, columns.names))
    return values
