"""Statements for many rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, TypeVar

from sqlalchemy import Connection, Table

__all__ = ["MOST_KEYS", "chunks", "insert_rows"]

_Key = TypeVar("_Key")
MOST_KEYS = 900  # SQLite may be limited to 999 parameters in one statement


def chunks(keys: Sequence[_Key], size: int = MOST_KEYS) -> Iterator[Sequence[_Key]]:
    """Yield `keys` in parts that are short enough for one statement."""
    for start in range(0, len(keys), size):
        yield keys[start : start + size]


def insert_rows(
    connection: Connection,
    table: Table,
    rows: Sequence[tuple[Any, ...]],
    columns: Sequence[str] = (),
    *,
    new_only: str = "",
) -> None:
    """Insert rows with a value for each of `columns`, by default of all in the order of the table, as the driver does.

    SQLAlchemy would convert each value, which takes longer than writing it. With `new_only`, a column or columns with
    a unique constraint, rows with a known value of these are left out.
    """
    names = columns or table.columns.keys()
    mark = "?" if connection.dialect.name == "sqlite" else "%s"
    row = f"({', '.join([mark] * len(names))})"
    unless = f" ON CONFLICT ({new_only}) DO NOTHING" if new_only else ""
    parts: dict[int, list[tuple[Any, ...]]] = {}  # of as many rows as one statement takes, and what is left
    for part in chunks(rows, MOST_KEYS // len(names)):
        parts.setdefault(len(part), []).append(tuple(chain.from_iterable(part)))
    for n_rows, values in parts.items():
        lists = ", ".join([row] * n_rows)
        connection.exec_driver_sql(f"INSERT INTO {table.name} ({', '.join(names)}) VALUES {lists}{unless}", values)
