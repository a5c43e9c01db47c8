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
from idwbench.results.store import Results

if TYPE_CHECKING:
    import pandas

__all__ = ["TABLE_SUFFIXES", "export_table", "plain_setting"]

TABLE_SUFFIXES = (".csv", ".parquet")
_COUNTS = ["n_parameters", "diverged_epoch", "threads", "attempt", "seed"]


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
    suffix = path.suffix.lower()
    if suffix not in TABLE_SUFFIXES:
        raise OutputError(f"expected a name ending in {' or '.join(TABLE_SUFFIXES)}", file=path)
    if suffix == ".parquet":
        require_package("pyarrow", "parquet")
    check_output(path, overwrite=overwrite)
    from idwbench.results.frame import runs_frame, with_settings

    # As objects, since pandas turns whole numbers into fractions where one is missing.
    frame = with_settings(runs_frame(results.load_runs(run_keys)), objects=True)
    frame = frame.astype(dict.fromkeys(_COUNTS, "Int64"))
    frame = frame.assign(**{name: _typed(column) for name, column in frame.items() if column.dtype == object})
    content = io.BytesIO()
    if suffix == ".parquet":
        frame.to_parquet(content, engine="pyarrow", index=False)
    else:
        frame.to_csv(content, index=False)
    write_file(path, content.getvalue(), overwrite=overwrite)
    return len(frame)


def _typed(column: pandas.Series[Any]) -> pandas.Series[Any]:
    """Return a column of objects with one type, which has missing values."""
    kinds = {*map(type, column.dropna())}
    if kinds == {int}:
        return column.astype("Int64")
    if kinds <= {int, float}:
        return column.astype("float64")
    if kinds == {bool}:
        return column.astype("boolean")
    return column.map(lambda value: str(plain_setting(value)), na_action="ignore").astype("string")


def plain_setting(value: Any) -> bool | int | float | str:
    """Return a number or a text as it is; lists and mappings are JSON."""
    if isinstance(value, bool | int | float | str):
        return value
    try:
        return json.dumps(value)
    except TypeError:  # settings in settings, such as those of the parts of a data set
        return str(value)
