"""Damaged values of runs, which messages name by run and column."""

from __future__ import annotations

from sqlalchemy import Connection, LargeBinary, String, cast, select

from idwbench.errors import ResultsError
from idwbench.results.tables import Json, runs

__all__ = ["check_text", "unreadable"]

_SHORT = 12
_UNDECODABLE = "Could not decode to UTF-8"  # of the driver of SQLite, which names the column and not the run


def unreadable(run_key: str, column: str, problem: str) -> ResultsError:
    """Return the error of a damaged value of a run."""
    return ResultsError(f"run {run_key[:_SHORT]}: its {column} cannot be read: {problem}")


def check_text(connection: Connection, label: str, error: Exception) -> None:
    """Find the run whose text an SQLite database could not decode; other errors pass.

    Raises:
        ResultsError: names the run and the column.
    """
    if _UNDECODABLE not in str(error):
        return
    texts = [column for column in runs.columns if isinstance(column.type, String | Json)]
    for key, *values in connection.execute(select(*(cast(column, LargeBinary) for column in (runs.c.run_key, *texts)))):
        for column, value in zip(texts, values, strict=True):
            try:
                (value or b"").decode()
            except UnicodeDecodeError as reason:
                run_key = key.decode("utf-8", "backslashreplace")
                raise ResultsError(str(unreadable(run_key, column.name, f"{reason}")), file=label) from None
