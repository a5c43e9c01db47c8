"""`idwbench report`: tables and figures from the results database."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from idwbench.cli.options import DEFAULT_DATABASE, Database, DataDir, Force, Json, Plugins, load_plugins
from idwbench.cli.status import status_line

if TYPE_CHECKING:
    from idwbench.report.summaries import Report
    from idwbench.results.records import StoredRun
    from idwbench.results.store import ResultsStore

__all__ = ["report"]

TableFormat = Literal["rich", "markdown", "latex", "csv", "json"]


def report(
    table: Annotated[
        str | None,
        typer.Option(help="A sweep or a data set. Without it: what the database holds.", show_default=False),
    ] = None,
    figure: Annotated[
        Literal["keys", "moons"] | None,
        typer.Option(help="Draw the keys as images, or data with decisions and keys.", show_default=False),
    ] = None,
    format: Annotated[
        TableFormat | None, typer.Option(help="How to write a table. [default: rich]", show_default=False)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="File to write; a figure's ending (.png, .svg, .pdf) says its form."),
    ] = None,
    method: Annotated[list[str] | None, typer.Option(help="Only this method; may be given again.")] = None,
    prototypes: Annotated[list[int] | None, typer.Option(help="Only so many prototypes; may be given again.")] = None,
    db: Database = DEFAULT_DATABASE,
    data_dir: DataDir = None,
    plugin: Plugins = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Print accuracies over seeds as a table, or draw the prototypes.

    A table shows methods by setting with n, mean ± sample standard deviation of the test accuracy, the best of equal
    prototypes in bold, and published figures beside them. A name that is both a sweep and a data set means the sweep.
    """
    from idwbench.results.store import ResultsStore

    _check_together(table, figure, format, output, json)
    load_plugins(plugin)
    store = ResultsStore.open(db, read_only=True)
    if table is None and figure is None:
        _print_contents(store, json)
        return
    runs = _select(store, table, method, prototypes)
    if figure is not None:
        folder = Path("results") if "://" in db else Path(db).parent
        _write_figure(store, runs, figure, output or folder / f"{runs[0].dataset}_{figure}.png", data_dir, force)
    else:
        from idwbench.report.summaries import summarise

        _write_table(summarise(runs), "json" if json else format or "rich", output, force)


def _check_together(
    table: str | None, figure: str | None, table_format: str | None, output: Path | None, json: bool
) -> None:
    """Refuse options that would be passed over in silence."""
    from idwbench.errors import ConfigError

    if figure is not None and (table_format is not None or json):
        raise ConfigError("--figure: takes neither --format nor --json; the ending of -o says its form")
    if json and table_format not in (None, "json"):
        raise ConfigError(f"--json: --format says '{table_format}'")
    if table is None and figure is None and (table_format is not None or output is not None):
        raise ConfigError("--format and -o: give --table NAME or --figure too")


def _select(
    store: ResultsStore, name: str | None, methods: list[str] | None, prototypes: list[int] | None
) -> list[StoredRun]:
    """Return the runs of a sweep or data set; without a name, of the only data set there is."""
    from idwbench.errors import ConfigError, did_you_mean

    datasets, sweeps = store.dataset_labels(), [sweep.name for sweep in store.list_sweeps()]
    if name is None:
        if len(datasets) != 1:
            known = ", ".join(sorted({*datasets, *sweeps})) or "nothing is stored"
            raise ConfigError(f"--figure: give --table NAME ({known})")
        name = datasets[0]
    if name in sweeps:
        runs = store.find_runs(sweep=name)
    elif name in datasets:
        runs = store.find_runs(dataset=name)
    else:
        raise ConfigError(f"--table: nothing is called '{name}'" + did_you_mean(name, {*datasets, *sweeps}))
    present = {run.config.method for run in runs}
    for method in methods or []:
        if method not in present:
            raise ConfigError(f"--method: no run of {name} is by '{method}'" + did_you_mean(method, present))
    runs = [run for run in runs if not methods or run.config.method in methods]
    runs = [run for run in runs if not prototypes or run.config.prototypes in prototypes]
    if not runs:
        raise ConfigError(f"--table {name}: no runs with that method and number of prototypes")
    return runs


def _write_table(report: Report, table_format: str, output: Path | None, force: bool) -> None:
    from idwbench.report.tables import render

    if output is not None:
        from idwbench.output import write_whole

        write_whole(output, render(report, table_format).encode(), overwrite=force)
        typer.echo(str(output))
    elif table_format == "rich":
        from rich.console import Console

        from idwbench.report.terminal import TerminalReport

        # A pipe has no width of its own: give it that of a file.
        Console(highlight=False, width=None if sys.stdout.isatty() else 100).print(TerminalReport(report))
    else:
        typer.echo(render(report, table_format), nl=False)


def _write_figure(
    store: ResultsStore, runs: list[StoredRun], figure: str, target: Path, data_dir: Path | None, force: bool
) -> None:
    from idwbench.output import check_output

    check_output(target, overwrite=force)

    from idwbench.engine.threads import limited_threads
    from idwbench.gallery import FIGURES
    from idwbench.report.figures import save_figure

    with limited_threads(1):
        drawn = FIGURES[figure](store, runs, data_dir)
    save_figure(drawn, target, overwrite=force)
    typer.echo(str(target))


def _print_contents(store: ResultsStore, as_json: bool) -> None:
    import dataclasses
    import json

    statuses = {sweep.name: store.sweep_status(sweep.name) for sweep in store.list_sweeps()}
    datasets = store.dataset_labels()
    if as_json:
        sweeps = [{"name": name, **dataclasses.asdict(status)} for name, status in statuses.items()]
        typer.echo(json.dumps({"sweeps": sweeps, "datasets": datasets}, indent=1))
        return
    for name, status in statuses.items():
        typer.echo(f"sweep {status_line(name, status)}")
    for name in datasets:
        typer.echo(f"data set {name}")
