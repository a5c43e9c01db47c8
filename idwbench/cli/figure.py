"""`idwbench figure`: figures of stored runs, written to a file, or shown in a window."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import idwbench
from idwbench.cli.options import argument, option, refuse
from idwbench.cli.output import echo, echo_json
from idwbench.errors import ConfigError
from idwbench.files import check_output
from idwbench.results import DEFAULT_DATABASE

__all__ = ["OPTIONS", "figure"]


def _figure_names() -> list[str]:
    from idwbench.figures.stored import FIGURES

    return sorted(FIGURES)


OPTIONS = {
    "name": argument(help="The figure, such as curves, keys, moons or weights.", autocompletion=_figure_names),
    "output": option(
        "-o",
        "--output",
        help="File to write: .png, .svg or .pdf (default: beside the database, if --show is not given).",
    ),
    "show": option("--show", help="Show the figure in a window; writes a file only with -o."),
    "list_figures": option("--list", help="List the figures and exit."),
}


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
    from idwbench.training.threads import limited_threads

    if show and window_backend() is None:
        raise ConfigError("needs a window", location=("show",), hint="-o FILE writes the figure")
    check_figure_name(name)
    if name in FORMULAS:
        refuse(f"the figure '{name}' shows no runs", table=table, method=method, prototypes=prototypes)
        default = Path(f"{name}.png")
    else:
        results, runs = _chosen_runs(table, method, prototypes, db)
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


def _chosen_runs(table: str | None, methods: list[str] | None, prototypes: list[int] | None, db: str) -> Any:
    """Return the database and the runs to draw; raises `ConfigError` if there are none."""
    from idwbench.report.selection import select_runs

    results = idwbench.Results(db, read_only=True)
    return results, results.load_runs([*select_runs(results, table, methods or [], prototypes or []).run_key])
