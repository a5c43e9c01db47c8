"""Statements for many rows by the driver: SQLAlchemy's build and convert for longer than SQLite takes to write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from sqlalchemy import Column, Connection, Dialect, Table

__all__ = ["MOST_KEYS", "chunks", "converted", "insert_rows", "insert_values", "parameter_mark", "update_rows"]

_Key = TypeVar("_Key")
MOST_KEYS = 900  # SQLite may be limited to 999 parameters in one statement
# In one statement, each with two parameters; SQLite may be limited to 999 of them.
_MOST_VALUES = 400


def chunks(keys: Sequence[_Key]) -> Iterator[Sequence[_Key]]:
    """Yield `keys` in parts that are short enough for one statement."""
    for start in range(0, len(keys), MOST_KEYS):
        yield keys[start : start + MOST_KEYS]


def insert_rows(
    connection: Connection,
    table: Table,
    rows: list[tuple[Any, ...]],
    columns: Sequence[str] = (),
    *,
    new_only: str = "",
) -> None:
    """Insert rows with a value for each of `columns`, by default of all in the order of the table.

    With `new_only`, a column or columns with a unique constraint, rows with a known value of these are left out.
    """
    if rows:
        names = columns or table.columns.keys()
        values = ", ".join([parameter_mark(connection)] * len(names))
        unless = f" ON CONFLICT ({new_only}) DO NOTHING" if new_only else ""
        connection.exec_driver_sql(f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({values}){unless}", rows)


def insert_values(
    connection: Connection,
    table: Table,
    keys: tuple[tuple[str | int, ...], ...],
    values: Mapping[int, Sequence[float | None]],
) -> None:
    """Insert a row (run, *key, value) for each of `keys` and each run; `values` are by run, in the order of the keys.

    One statement has the rows of a run and holds the keys as text, in half the time of a statement for each row.
    """
    for start in range(0, len(keys), _MOST_VALUES):
        part = keys[start : start + _MOST_VALUES]
        rows = []
        for run_id, own in values.items():
            row: list[float | None] = [run_id] * (2 * len(part))
            row[1::2] = own[start : start + len(part)]
            rows.append(tuple(row))
        lists = _value_lists(part, parameter_mark(connection))
        connection.exec_driver_sql(f"INSERT INTO {table.name} ({', '.join(table.columns.keys())}) VALUES {lists}", rows)


def update_rows(
    connection: Connection, table: Table, key: str, keys: Sequence[int], values: Mapping[str, Any], condition: str = ""
) -> None:
    """Set columns to `values` in the rows with one of `keys` in column `key`, and which meet a condition in SQL."""
    mark, dialect = parameter_mark(connection), connection.dialect
    settings = ", ".join(f"{name} = {mark}" for name in values)
    parameters = [converted(table.columns[name], value, dialect) for name, value in values.items()]
    for some in chunks(keys):
        marks = ", ".join([mark] * len(some))
        statement = f"UPDATE {table.name} SET {settings} WHERE {key} IN ({marks})"
        connection.exec_driver_sql(f"{statement} AND {condition}" if condition else statement, (*parameters, *some))


def converted(column: Column[Any], value: Any, dialect: Dialect) -> Any:
    """Return the value of a column as the driver takes it."""
    convert = column.type.dialect_impl(dialect).bind_processor(dialect)
    return value if convert is None else convert(value)


@lru_cache(maxsize=16)
def _value_lists(keys: tuple[tuple[str | int, ...], ...], mark: str) -> str:
    return ", ".join(f"({mark}, {', '.join(_literal(part, mark) for part in key)}, {mark})" for key in keys)


def _literal(value: str | int, mark: str) -> str:
    if isinstance(value, int):
        return str(value)
    text = value.replace("'", "''")
    return f"'{text if mark == '?' else text.replace('%', '%%')}'"


def parameter_mark(connection: Connection) -> str:
    """Return the driver's mark of a parameter."""
    return "?" if connection.dialect.name == "sqlite" else "%s"
