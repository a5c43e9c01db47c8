"""`idwbench report`: tables and figures from the results database."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from idwbench.cli.options import DEFAULT_DATABASE, Database, DataDir, Force, Json, Plugins, load_plugins

if TYPE_CHECKING:
    from idwbench.report.summaries import Report
    from idwbench.results.records import StoredRun
    from idwbench.results.store import Results

__all__ = ["report"]

TableFormat = Literal["rich", "markdown", "latex", "csv", "json"]


def report(
    table: Annotated[
        str | None,
        typer.Option(
            help="Name of a sweep or data set. Without it the content of the database is listed.", show_default=False
        ),
    ] = None,
    figure: Annotated[
        str | None,
        typer.Option(help="Figure to draw, such as keys or moons.", show_default=False),
    ] = None,
    format: Annotated[
        TableFormat | None, typer.Option(help="Format of a table. [default: rich]", show_default=False)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="File to write; its suffix (.png, .svg, .pdf) is the format of a figure."),
    ] = None,
    method: Annotated[list[str] | None, typer.Option(help="Only this method; may be repeated.")] = None,
    prototypes: Annotated[
        list[int] | None, typer.Option(help="Only this number of prototypes; may be repeated.")
    ] = None,
    db: Database = DEFAULT_DATABASE,
    data_dir: DataDir = None,
    plugin: Plugins = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Print a table of metrics over seeds, or draw a figure.

    A table shows for each model n, mean ± sample standard deviation of the headline metric (such as accuracy), with the
    best of each number of prototypes in bold, and published results. A name of both a sweep and a data set means the
    sweep.
    """
    from idwbench.results.store import Results

    _check_together(table, figure, format, output, json)
    load_plugins(plugin)
    results = Results(db, read_only=True)
    if table is None and figure is None:
        _print_contents(results, json)
        return

    from idwbench.report.selection import select_runs

    runs = select_runs(results, table, method or (), prototypes or ())
    if figure is not None:
        folder = Path("results") if "://" in db else Path(db).parent
        _write_figure(results, runs, figure, output or folder / f"{runs[0].dataset}_{figure}.png", data_dir, force)
    else:
        from idwbench.report.summaries import summarise

        _write_table(summarise(runs), "json" if json else format or "rich", output, force)


def _check_together(
    table: str | None, figure: str | None, table_format: str | None, output: Path | None, json: bool
) -> None:
    """Refuse options that would be ignored."""
    from idwbench.errors import ConfigError

    if figure is not None and (table_format is not None or json):
        problem = "takes neither --format nor --json; the ending of -o is its format"
        raise ConfigError(problem, location=("figure",))
    if json and table_format not in (None, "json"):
        raise ConfigError(f"--format is '{table_format}'", location=("json",))
    if table is None and figure is None and (table_format is not None or output is not None):
        raise ConfigError("give --table NAME or --figure too", location=("format" if table_format else "output",))


def _write_table(report: Report, table_format: str, output: Path | None, force: bool) -> None:
    from idwbench.report.formats import render

    if output is not None:
        from idwbench.files import write_file

        write_file(output, render(report, table_format).encode(), overwrite=force)
        typer.echo(str(output))
    elif table_format == "rich":
        from rich.console import Console

        from idwbench.report.terminal import TerminalReport

        # A pipe has no width.
        Console(highlight=False, width=None if sys.stdout.isatty() else 100).print(TerminalReport(report))
    else:
        typer.echo(render(report, table_format), nl=False)


def _write_figure(
    results: Results, runs: list[StoredRun], figure: str, target: Path, data_dir: Path | None, force: bool
) -> None:
    from idwbench.files import check_output

    check_output(target, overwrite=force)

    from idwbench.figures.drawing import save_figure
    from idwbench.figures.stored import draw_stored
    from idwbench.training.threads import limited_threads

    with limited_threads(1):
        drawn = draw_stored(figure, results, runs, data_dir)
    save_figure(drawn, target, overwrite=force)
    typer.echo(str(target))


def _print_contents(results: Results, as_json: bool) -> None:
    import dataclasses
    import json

    from idwbench.cli.progress import status_line

    statuses = {sweep.name: results.sweep_status(sweep.name) for sweep in results.list_sweeps()}
    datasets = results.dataset_labels()
    if as_json:
        sweeps = [{"name": name, **dataclasses.asdict(status)} for name, status in statuses.items()]
        typer.echo(json.dumps({"sweeps": sweeps, "datasets": datasets}, indent=1))
        return
    for name, status in statuses.items():
        typer.echo(f"sweep {status_line(name, status)}")
    for name in datasets:
        typer.echo(f"data set {name}")
