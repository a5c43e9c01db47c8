"""`idwbench figure`, `claims`, `page` and `publish`: what the stored runs say as a whole, drawn and judged."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any, Literal

import idwbench
from idwbench.cli.interruption import interruptible
from idwbench.cli.options import TableFormat, argument, complete_table, option
from idwbench.cli.output import check_format, echo, echo_json, write_tables
from idwbench.errors import ConfigError
from idwbench.files import check_output
from idwbench.results import DEFAULT_DATABASE
from idwbench.training.threads import limited_threads

__all__ = ["OPTIONS", "claims", "figure", "page", "publish"]


def _figure_names() -> list[str]:
    from idwbench.figures.stored import FIGURES

    return sorted(FIGURES)


OPTIONS = {
    "figure.name": argument(help="The figure, such as curves, keys, moons or weights.", autocompletion=_figure_names),
    "figure.output": option(
        "-o",
        "--output",
        help="File to write: .png, .svg or .pdf (default: beside the database, if --show is not given).",
    ),
    "show": option("--show", help="Show the figure in a window; writes a file only with -o."),
    "list_figures": option("--list", help="List the figures and exit."),
    "page.output": argument(help="HTML file to write."),
    "publish.output": option("-o", "--output", help="Folder to write to."),
    "publish.format": option(help="Format of the figures."),
    "page.table": option(help="Only this sweep or data set.", autocompletion=complete_table),
    "metric": option(help="Metric of the leaderboards (default: the metric of the task)."),
    "top": option(help="Number of rows of the leaderboards.", min=1),
    "publish.name": argument(
        help="paper: inverse distance weighting attention; family: kernel regression, hash tables, networks and "
        "language models; dual: the dual form of gradient descent; baselines: methods of scikit-learn; repairs: "
        "patches beside what else mends a wrong prediction; prototypes: when they form, and what noise does to them; "
        "frontier: how accurate prototypes can be that look like data."
    ),
}


def claims(
    format: TableFormat | None = None,
    output: Path | None = None,
    json: bool = False,
    db: str = DEFAULT_DATABASE,
    force: bool = False,
) -> None:
    """Judge the claims of the papers by all runs with their data and protocol."""
    table_format = check_format(format, output, json)
    results = idwbench.Results(db, read_only=True)
    if output is not None:
        check_output(output, overwrite=force)

    from idwbench.claims.verdicts import claims_table

    with limited_threads(1):
        judgements = idwbench.judge_claims(results)
    write_tables([claims_table(judgements)], table_format, output, force=force)


def page(
    output: Path,
    table: str | None = None,
    metric: str | None = None,
    top: int | None = None,
    method: list[str] | None = None,
    prototypes: list[int] | None = None,
    db: str = DEFAULT_DATABASE,
    data_dir: Path | None = None,
    force: bool = False,
) -> None:
    """Write one HTML file to look at in a browser, with leaderboards, charts, prototypes and claims.

    It shows all sweeps and data sets of the database, or one of them, and needs no network.
    """
    from idwbench.page.writing import TOP

    results = idwbench.Results(db, read_only=True)
    with limited_threads(1):
        written = idwbench.write_page(
            results,
            output,
            table,
            methods=method or (),
            prototypes=prototypes or (),
            metric=metric,
            top=top or TOP,
            data_dir=data_dir,
            overwrite=force,
        )
    echo(str(written))


def publish(
    name: Literal["paper", "family", "dual", "baselines", "repairs", "prototypes", "frontier"],
    output: Path,
    format: Literal["png", "svg", "pdf"] = "png",
    json: bool = False,
    db: str = DEFAULT_DATABASE,
    data_dir: Path | None = None,
    force: bool = False,
) -> None:
    """Write the figures, tables and claims of a publication to a folder, with a page that shows them.

    Names of files go to stdout; what is missing, and the sweeps that would fill the gaps, to stderr.
    """
    results = idwbench.Results(db, read_only=True)
    options: dict[str, Any] = {"figure_format": format, "data_dir": data_dir, "overwrite": force}
    unfinished = f"{output} is not complete; the same command with --force makes all of it"
    with limited_threads(1), interruptible(lambda: unfinished):
        written = idwbench.write_publication(name, results, output, on_item=partial(echo, err=True), **options)
    if json:
        content = {"files": list(map(str, written.files)), "gaps": [dataclasses.asdict(gap) for gap in written.gaps]}
        echo_json(content, indent=1)
    else:
        for path in written.files:
            echo(str(path))
        for gap in written.gaps:
            echo(f"missing: {gap.name}: {gap.problem}", err=True)
        for file in dict.fromkeys(gap.sweep_file for gap in written.gaps if gap.sweep_file is not None):
            echo(f"to fill gaps: idwbench sweep {file}", err=True)


def figure(
    name: str | None = None,
    table: str | None = None,
    output: Path | None = None,
    show: bool = False,
    list_figures: bool = False,
    json: bool = False,
    method: list[str] | None = None,
    prototypes: list[int] | None = None,
    db: str = DEFAULT_DATABASE,
    data_dir: Path | None = None,
    force: bool = False,
) -> None:
    """Draw a figure of stored runs, or of formulas.

    What a figure leaves out is named on stderr. The same runs give the same bytes.
    """
    if list_figures:
        echo_json(_figure_names()) if json else echo("\n".join(_figure_names()))
        return
    if name is None:
        raise ConfigError("missing argument 'NAME': a figure, see --list")
    from idwbench.figures.stored import FORMULAS, Drawing, check_figure_name, stored_drawing
    from idwbench.figures.style import check_figure_path, open_window, save_figure, window_backend
    from idwbench.report.reports import select_runs

    if show and window_backend() is None:
        raise ConfigError("needs a window", location=("show",), hint="-o FILE writes the figure")
    check_figure_name(name)
    if name in FORMULAS:
        given = {"table": table, "method": method, "prototypes": prototypes}
        for option_name in (option_name for option_name, value in given.items() if value):
            raise ConfigError(f"the figure '{name}' shows no runs", location=(option_name,))
        default = Path(f"{name}.png")
    else:
        results = idwbench.Results(db, read_only=True)
        runs = results.load_runs([*select_runs(results, table, method or (), prototypes or ()).run_key])
        default = (Path("results") if "://" in db else Path(db).parent) / f"{runs[0].dataset}_{name}.png"
    target = output or (None if show else default)
    if target is not None:  # all is checked before anything is drawn
        check_figure_path(target)
        check_output(target, overwrite=force)
    with limited_threads(1):
        drawing = Drawing(FORMULAS[name]()) if name in FORMULAS else stored_drawing(name, results, runs, data_dir)
    for line in drawing.left_out:
        echo(line, err=True)
    if target is not None:
        save_figure(drawing.figure, target, overwrite=force)
    if json:
        echo_json({"figure": name, "output": str(target) if target else None, "left_out": list(drawing.left_out)})
    elif target is not None:
        echo(str(target), err=show)
    if show:
        open_window(drawing.figure)
