"""`idwbench runs`: the stored runs; here what changes them, and their export."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import typer

import idwbench
from idwbench.cli.options import argument, option
from idwbench.cli.output import echo, echo_json
from idwbench.errors import ConfigError
from idwbench.report.labels import count_label
from idwbench.results import DEFAULT_DATABASE

__all__ = ["OPTIONS", "runs_export", "runs_note", "runs_rm", "runs_tag"]

OPTIONS = {
    "tag": argument(help="A word without commas."),
    "remove": option("--remove", help="Take the tag from the run."),
    "text": argument(help="One line; an empty one removes the note."),
    "yes": option("--yes", "-y", help="Do not ask."),
    "output": option("-o", "--output", help="File to write, .csv or .parquet; or a folder with --format."),
    "format": option(help="Format of a folder: tensorboard or mlflow. A file has the format of its suffix."),
}


def runs_tag(run: str, tag: str, remove: bool = False, db: str = DEFAULT_DATABASE) -> None:
    """Give a run a tag, by which --where finds it: '"best" in tags'."""
    results = idwbench.Results(db)
    key = results.find_run(run).run_key
    results.tag([key], tag, remove=remove)
    echo(f"{key[:12]}: {results.find_run(key).tags or 'no tags'}")


def runs_note(run: str, text: str, db: str = DEFAULT_DATABASE) -> None:
    """Write a note on a run; it replaces an earlier note."""
    results = idwbench.Results(db)
    key = results.find_run(run).run_key
    results.note([key], text)
    echo(f"{key[:12]}: {results.find_run(key).note or 'no note'}")


def runs_rm(
    runs: list[str] | None = None,
    db: str = DEFAULT_DATABASE,
    where: str | None = None,
    sweep: str | None = None,
    state: list[str] | None = None,
    yes: bool = False,
    json: bool = False,
) -> None:
    """Remove runs with their metrics, curves, arrays, tags, recordings and checkpoints.

    Runs are selected by keys or by conditions. Runs in the plan of a sweep stay in the plan and are planned again. If
    a process trains one of the runs, nothing is removed.
    """
    if not runs and where is None and sweep is None and not state:
        raise ConfigError("give keys of runs, or conditions", hint="--where, --sweep or --state")
    keys = _selected_keys(idwbench.Results(db, read_only=True), runs, where, sweep, state)
    if keys and not yes:
        if not _is_interactive():
            raise ConfigError(f"removing {count_label(len(keys), 'run')} needs a confirmation", hint="--yes")
        if not typer.confirm(f"remove {count_label(len(keys), 'run')} from {db}?", err=True):
            echo("nothing was removed", err=True)
            raise typer.Exit(1)
    done = idwbench.Results(db).remove_runs(keys) if keys else None
    removed, planned = (done.removed, done.planned) if done is not None else ((), ())
    if json:
        echo_json({"removed": removed, "planned": planned})
        return
    again = f", {len(planned):,} of them planned again by their sweeps" if planned else ""
    echo(f"removed {count_label(len(keys), 'run')}{again}", err=True)


def _is_interactive() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def runs_export(
    output: Path,
    runs: list[str] | None = None,
    format: Literal["csv", "parquet", "tensorboard", "mlflow"] | None = None,
    db: str = DEFAULT_DATABASE,
    where: str | None = None,
    sweep: str | None = None,
    state: list[str] | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Write runs as a table, or as a folder for TensorBoard or MLflow.

    Runs are selected by keys or by conditions; without a selection all runs are written. Tables have the columns of
    `Results.to_frame`. Folders have curves, metrics and settings of runs that have ended.
    `idwbench export` writes the model of a run.
    """
    from idwbench.exports import tables, trackers

    suffix, files = output.suffix.lower(), (".csv", ".parquet")
    kind = format or suffix.removeprefix(".")
    if format is None and suffix not in files:
        hint = "expected .csv, .parquet, or a folder with --format; idwbench export writes models"
        raise ConfigError(f"the suffix of '{output}' does not name a format", location=("output",), hint=hint)
    if f".{kind}" in files and suffix != f".{kind}":
        raise ConfigError(f"expected a name ending in .{kind}, got '{output}'", location=("output",))
    results = idwbench.Results(db, read_only=True)
    keys = _selected_keys(results, runs, where, sweep, state)
    folders = {"tensorboard": trackers.export_tensorboard, "mlflow": trackers.export_mlflow}
    written = folders.get(kind, tables.export_table)(results, keys, output, overwrite=force)
    if json:
        echo_json({"output": str(output), "format": kind, "runs": written})
        return
    left = f" ({count_label(len(keys) - written, 'run')} without a result left out)" if written < len(keys) else ""
    echo(f"{count_label(written, 'run')} written{left}", err=True)
    echo(str(output))


def _selected_keys(
    results: idwbench.Results, keys: list[str] | None, where: str | None, sweep: str | None, states: list[str] | None
) -> list[str]:
    """Return the keys of the runs with these beginnings of keys, or of all that meet the conditions.

    Raises:
        IdwbenchError: unknown key, column, sweep or state, or both keys and conditions.
    """
    if not keys:
        return list(results.to_frame(where=where, sweep=sweep, states=states or None)["run_key"])
    if where is not None or sweep is not None or states:
        raise ConfigError("give either keys or conditions", location=("where",))
    return list(dict.fromkeys(results.find_run(key).run_key for key in keys))
