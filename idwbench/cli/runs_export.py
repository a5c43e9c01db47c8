"""`idwbench runs export`: a table, or a folder for TensorBoard or MLflow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from idwbench.cli.options import DEFAULT_DATABASE, Database, Force, Json
from idwbench.cli.output import echo, echo_json
from idwbench.cli.runs_options import RunKeys, States, Sweep, Where, selected_keys

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["runs_export"]

Format = Literal["csv", "parquet", "tensorboard", "mlflow"]
_SUFFIXES: dict[str, Format] = {".csv": "csv", ".parquet": "parquet"}


def runs_export(
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            help="File to write, .csv or .parquet; or a folder with --format.",
            show_default=False,
        ),
    ],
    runs: RunKeys = None,
    format: Annotated[
        Format | None,
        typer.Option(help="Format of a folder: tensorboard or mlflow; others follow the suffix.", show_default=False),
    ] = None,
    db: Database = DEFAULT_DATABASE,
    where: Where = None,
    sweep: Sweep = None,
    state: States = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write runs as a table, or as a folder for TensorBoard or MLflow.

    Runs are given by keys or by conditions; the default is all. Tables have the columns of
    `Results.to_frame`. Folders have curves, metrics and settings of runs that have ended.
    `idwbench export` writes the model of a run.
    """
    from idwbench.results.store import Results

    kind = _kind(format, output)
    results = Results(db, read_only=True)
    keys = selected_keys(results, runs, where, sweep, state)
    written = _write(kind, results, keys, output, force)
    if json:
        echo_json({"output": str(output), "format": kind, "runs": written})
        return
    from idwbench.report.labels import count_label

    left = f" ({count_label(len(keys) - written, 'run')} without a result left out)" if written < len(keys) else ""
    echo(f"{count_label(written, 'run')} written{left}", err=True)
    echo(str(output))


def _kind(given: Format | None, output: Path) -> Format:
    """Return the format of the output, given or by its suffix; refuse a contradiction."""
    from idwbench.errors import ConfigError

    by_suffix = _SUFFIXES.get(output.suffix.lower())
    if given is None:
        if by_suffix is None:
            problem = f"the suffix of '{output}' names no format"
            hint = "expected .csv, .parquet, or a folder with --format; idwbench export writes models"
            raise ConfigError(problem, location=("output",), hint=hint)
        return by_suffix
    if by_suffix != given and given in _SUFFIXES.values():
        suffixes = " or ".join(suffix for suffix, kind in _SUFFIXES.items() if kind == given)
        raise ConfigError(f"expected a name ending in {suffixes}, got '{output}'", location=("output",))
    return given


def _write(kind: Format, results: Results, keys: list[str], output: Path, force: bool) -> int:
    if kind == "tensorboard":
        from idwbench.exports.trackers import export_tensorboard

        return export_tensorboard(results, keys, output, overwrite=force)
    if kind == "mlflow":
        from idwbench.exports.trackers import export_mlflow

        return export_mlflow(results, keys, output, overwrite=force)
    from idwbench.exports.tables import export_table

    return export_table(results, keys, output, overwrite=force)
