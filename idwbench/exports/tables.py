"""Runs as a CSV or Parquet table with the columns of `Results.to_frame`."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from idwbench.errors import OutputError
from idwbench.files import check_output, write_file
from idwbench.machine import require_package
from idwbench.results.comparison import run_settings
from idwbench.results.records import StoredRun
from idwbench.results.store import Results

if TYPE_CHECKING:
    import pandas

__all__ = ["TABLE_SUFFIXES", "export_table"]

TABLE_SUFFIXES = (".csv", ".parquet")
_COUNTS = ("n_parameters", "diverged_epoch", "threads", "attempt", "seed")


def export_table(results: Results, run_keys: Sequence[str], path: Path, *, overwrite: bool = False) -> int:
    """Write the settings, state, metrics and provenance of runs to a table, and return the number of its rows.

    Whole numbers stay whole where values are missing. A column with numbers and words, such as an epsilon that a rule
    chooses in some runs, is text; lists are JSON. Curves and arrays are not read.

    Args:
        results: The database.
        run_keys: The runs, in the order of the rows.
        path: A name that ends in ``.csv`` or ``.parquet`` (extra ``parquet``).
        overwrite: Whether a file may be replaced.

    Raises:
        OutputError: another suffix, a missing package, or the file cannot be written.
        ResultsError: no run has one of the keys.
    """
    if path.suffix.lower() not in TABLE_SUFFIXES:
        raise OutputError(f"expected a name ending in {' or '.join(TABLE_SUFFIXES)}", file=path)
    if path.suffix.lower() == ".parquet":
        require_package("pyarrow", "parquet")
    check_output(path, overwrite=overwrite)
    from idwbench.results.frame import runs_frame, with_settings  # loads pandas

    runs = results.load_runs(run_keys)
    frame = _plain(with_settings(runs_frame(runs)), _whole_numbers(runs))
    content = io.BytesIO()
    if path.suffix.lower() == ".parquet":
        frame.to_parquet(content, engine="pyarrow", index=False)
    else:
        frame.to_csv(content, index=False)
    write_file(path, content.getvalue(), overwrite=overwrite)
    return len(frame)


def _whole_numbers(runs: Sequence[StoredRun]) -> set[str]:
    """Return the names of the columns of whole numbers, which pandas turns into fractions where one is missing."""
    kinds: dict[str, set[type]] = {}
    for run in runs:
        for name, value in run_settings(run.config).items():
            if value is not None:
                kinds.setdefault(name, set()).add(type(value))
    return {name for name, found in kinds.items() if found == {int}} | set(_COUNTS)


def _plain(frame: pandas.DataFrame, whole: set[str]) -> pandas.DataFrame:
    """Return the table with one type in each column, and missing values that fit it."""
    columns = {name: frame[name].astype("Int64") if name in whole else _column(frame[name]) for name in frame.columns}
    return frame.assign(**columns)


def _column(column: pandas.Series[Any]) -> pandas.Series[Any]:
    if column.dtype != object:
        return column
    kinds = {type(value) for value in column if value is not None and value == value}
    if kinds == {bool}:
        return column.astype("boolean")
    if kinds <= {int, float}:
        return column.astype("float64")
    return column.map(_text).astype("string") if kinds <= {bool, int, float, str, tuple, list, dict} else column


def _text(value: Any) -> str | None:
    if value is None or value != value:
        return None
    return value if isinstance(value, str) else json.dumps(value)
