"""`idwbench report`: tables and figures from the results database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from idwbench.cli.completion import complete_table
from idwbench.cli.echo import echo
from idwbench.cli.options import DEFAULT_DATABASE, Database, DataDir, Force, Json, Plugins, load_plugins

if TYPE_CHECKING:
    from idwbench.report.layout import Printable
    from idwbench.results.records import ReportedRun
    from idwbench.results.store import Results

__all__ = ["report"]

# The options of each kind of output, beside --db, --plugin and --force; None lists the content of the database.
_SELECTION = {"table", "method", "prototypes", "data_dir", "output"}
_OPTIONS: dict[str | None, set[str]] = {
    None: {"json", "data_dir"},
    "table": {*_SELECTION, "format", "json", "metric", "interval", "measure", "by_dataset", "split"},
    "leaderboard": {*_SELECTION - {"table"}, *("format", "json", "metric", "interval", "measure")}
    | {"split", "top", "best_over"},
    "figure": {*_SELECTION, "show"},
    "claims": {"format", "json", "measure", "output", "data_dir"},
    "paper": {"output", "data_dir", "format", "json", "measure"},
    "family": {"output", "data_dir", "format", "json"},
    "dual": {"output", "data_dir", "format", "json"},
    "html": {*_SELECTION - {"output"}, "metric", "top"},
}
_PUBLICATIONS = ("paper", "family", "dual")

Format = Literal["rich", "markdown", "latex", "csv", "json", "png", "svg", "pdf"]
_FIGURE_FORMATS = ("png", "svg", "pdf")


def report(
    table: Annotated[
        str | None,
        typer.Option(
            help="Name of a sweep or data set. Without it the content of the database is listed.",
            show_default=False,
            autocompletion=complete_table,
        ),
    ] = None,
    leaderboard: Annotated[
        str | None,
        typer.Option(
            help="Name of a sweep or data set, whose settings are sorted by a metric.",
            show_default=False,
            autocompletion=complete_table,
        ),
    ] = None,
    figure: Annotated[
        str | None,
        typer.Option(
            help="Figure to draw, such as curves, keys, moons or weights; the word list names all.",
            show_default=False,
        ),
    ] = None,
    show: Annotated[
        bool, typer.Option("--show", help="Show the figure in a window; writes a file only with -o.")
    ] = False,
    format: Annotated[
        Format | None,
        typer.Option(
            help="Format of a table (default: that of the file -o, or rich), or of the figures of --paper, --family "
            "and --dual (png).",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="File to write, with the format as suffix: of a table .csv, .md, .tex, .json or .txt, of a figure "
            ".png, .svg or .pdf; or a folder with --paper.",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="Metric of a table or leaderboard, such as accuracy or coverage; that of the task if not given.",
            show_default=False,
        ),
    ] = None,
    interval: Annotated[
        bool, typer.Option("--interval", help="Add 95 % bootstrap intervals of the means over seeds.")
    ] = False,
    by_dataset: Annotated[
        bool, typer.Option("--by-dataset", help="With --table: one row for each model and a column for each data set.")
    ] = False,
    split: Annotated[
        str | None,
        typer.Option(
            help="Split that a leaderboard is sorted by, or that --by-dataset shows: test, holdout, validation or "
            "train. [default: test]",
            show_default=False,
        ),
    ] = None,
    top: Annotated[int | None, typer.Option(min=1, help="Number of rows of a leaderboard.", show_default=False)] = None,
    best_over: Annotated[
        str | None,
        typer.Option(
            help="Settings, joined by commas, of which a leaderboard shows the values with the best validation metric.",
            show_default=False,
        ),
    ] = None,
    method: Annotated[list[str] | None, typer.Option(help="Only this method; may be repeated.")] = None,
    prototypes: Annotated[
        list[int] | None, typer.Option(help="Only this number of prototypes; may be repeated.")
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="First store the quality of prototypes of selected runs that lack it.")
    ] = False,
    claims: Annotated[
        bool, typer.Option("--claims", help="Judge the claims of the paper by all runs with its data and protocol.")
    ] = False,
    paper: Annotated[
        bool, typer.Option("--paper", help="Write all figures, tables and claims of the paper to the folder -o.")
    ] = False,
    family: Annotated[
        bool,
        typer.Option(
            "--family",
            help="Write those of kernel regression, hash tables, networks and language models to the folder -o.",
        ),
    ] = False,
    dual: Annotated[
        bool, typer.Option("--dual", help="Write those of the dual form of gradient descent to the folder -o.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(
            help="Write one HTML file to look at in a browser: all sweeps, or that of --table.", show_default=False
        ),
    ] = None,
    db: Database = DEFAULT_DATABASE,
    data_dir: DataDir = None,
    plugin: Plugins = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Print a table of metrics over seeds, draw a figure, or judge the claims of the paper.

    A table shows for each model n, mean ± sample standard deviation of a metric, with the best of each number of
    prototypes in bold, and published results. A leaderboard shows all settings in one list, best first. A name of both
    a sweep and a data set means the sweep. Of multilayer perceptrons alone, without --metric and --interval, a table
    shows to which class each layer attends.
    """
    output_kind = _check_together(
        {"leaderboard": leaderboard, "figure": figure, "claims": claims, "paper": paper, "family": family}
        | {"dual": dual, "html": html},
        {"table": table, "method": method, "prototypes": prototypes, "output": output, "format": format, "json": json}
        | {"metric": metric, "interval": interval, "measure": measure, "split": split, "top": top}
        | {"best_over": best_over, "show": show, "by_dataset": by_dataset},
    )
    table_format = _table_format(output_kind, format, output, json)
    load_plugins(plugin)
    if output_kind in _PUBLICATIONS:
        from idwbench.cli.publications import report_publication

        assert output is not None  # checked above
        report_publication(
            output_kind, db, output, format or "png", data_dir, measured=measure, force=force, as_json=json
        )
    elif html is not None:
        from idwbench.cli.page import write_html

        write_html(db, html, table, method or (), prototypes or (), metric, top, data_dir, force=force)
    elif output_kind == "claims":
        from idwbench.cli.claims import report_claims

        report_claims(db, table_format, output, data_dir, measured=measure, force=force)
    elif figure is not None:
        from idwbench.cli.figures import FigureRequest, draw_figure

        draw_figure(
            FigureRequest(figure, table, method or (), prototypes or (), db, data_dir, output, show=show, force=force)
        )
    elif output_kind is None:
        from idwbench.results.store import Results

        _print_contents(Results(db, read_only=True), json)
    else:
        from idwbench.cli.quality import advised
        from idwbench.cli.tables import write_table
        from idwbench.report.dual_form import dual_form, has_only_perceptrons
        from idwbench.report.formats import render, terminal_report

        shown: Printable
        runs = _selected(db, table, leaderboard, method or (), prototypes or (), metric, measure, data_dir)
        with advised(runs, metric):
            if leaderboard is not None:
                from idwbench.report.leaderboard import leaderboard as make_leaderboard

                axes = [] if best_over is None else [axis.strip() for axis in best_over.split(",")]
                shown = make_leaderboard(runs, metric, split=split, top=top, best_over=axes, intervals=interval)
            elif by_dataset:
                from idwbench.report.by_dataset import by_dataset as side_by_side
                from idwbench.report.summaries import summarise

                shown = side_by_side(summarise(runs, metric), split)
            elif metric is None and not interval and has_only_perceptrons(runs):
                shown = dual_form(runs)
            else:
                from idwbench.report.summaries import summarise

                shown = summarise(runs, metric, intervals=interval)
        write_table(shown, render, terminal_report, table_format, output, force=force)


def _check_together(kinds: Mapping[str, Any], options: Mapping[str, Any]) -> str | None:
    """Return the kind of output; refuse options that it would ignore."""
    from idwbench.errors import ConfigError

    kind, *others = [*(name for name, value in kinds.items() if value), None]
    if others and others[0] is not None:
        raise ConfigError(f"cannot be combined with --{kind}", location=(others[0],))
    if kind is None and options["table"] is not None:
        kind = "table"
    for name, value in options.items():
        if value in (None, False, []) or name in _OPTIONS[kind]:
            continue
        if name == "table":
            raise ConfigError(f"cannot be combined with --{kind}", location=(name,))
        takers = [f"--{taker}" for taker, taken in _OPTIONS.items() if taker is not None and name in taken]
        raise ConfigError(f"only with {' or '.join(takers)}", location=(name,))
    if kind == "table" and options["split"] is not None and not options["by_dataset"]:
        raise ConfigError("only with --leaderboard or --by-dataset", location=("split",))
    if options["by_dataset"] and options["interval"]:
        raise ConfigError("cannot be combined with --by-dataset", location=("interval",))
    of_figures = options["format"] in _FIGURE_FORMATS
    if options["format"] is not None and of_figures != (kind in _PUBLICATIONS):
        needed = " or ".join(f"--{name}" for name in _PUBLICATIONS)
        problem = f"{options['format']} is a format of {f'figures: only with {needed}' if of_figures else 'tables'}"
        raise ConfigError(problem, location=("format",))
    if options["json"] and kind not in _PUBLICATIONS and options["format"] not in (None, "json"):
        raise ConfigError(f"--format is '{options['format']}'", location=("json",))
    if kind in _PUBLICATIONS and options["output"] is None:
        raise ConfigError("give -o FOLDER too", location=(kind,))
    return kind


def _table_format(kind: str | None, given: str | None, output: Path | None, as_json: bool) -> str:
    """Return the format of a table: the one given, else that of the file, else that of the terminal."""
    if as_json or given is not None:
        return "json" if as_json else given or ""
    if output is None or kind not in ("table", "leaderboard", "claims"):
        return "rich"
    from idwbench.report.formats import format_of

    return format_of(output)


def _selected(
    db: str,
    table: str | None,
    leaderboard: str | None,
    methods: Collection[str],
    prototypes: Collection[int],
    metric: str | None,
    measure: bool,
    data_dir: Path | None,
) -> Sequence[ReportedRun]:
    """Return the runs of a table or leaderboard, measured first if asked for."""
    from idwbench.cli.quality import measure as measure_quality
    from idwbench.cli.quality import opened
    from idwbench.report.dual_form import has_only_perceptrons
    from idwbench.report.selection import select_reported_runs, select_runs

    results, name = opened(db, measure), leaderboard or table
    setting = "leaderboard" if leaderboard is not None else "table"
    if measure:
        measure_quality(results, select_runs(results, name, methods, prototypes, setting=setting), data_dir)
    runs = select_reported_runs(results, name, methods, prototypes, metric=metric, setting=setting)
    if metric is None and has_only_perceptrons(runs):  # their table has many metrics
        return select_runs(results, name, methods, prototypes, setting=setting)
    return runs


def _print_contents(results: Results, as_json: bool) -> None:
    import dataclasses
    import json

    from idwbench.cli.progress import status_line

    statuses = {sweep.name: results.sweep_status(sweep.name) for sweep in results.list_sweeps()}
    datasets = results.dataset_labels()
    if as_json:
        sweeps = [{"name": name, **dataclasses.asdict(status)} for name, status in statuses.items()]
        echo(json.dumps({"sweeps": sweeps, "datasets": datasets}, indent=1))
        return
    for name, status in statuses.items():
        echo(f"sweep {status_line(name, status)}")
    for name in datasets:
        echo(f"data set {name}")
    if not statuses and not datasets:
        echo("nothing is stored", err=True)
