"""`idwbench figure`: figures of stored runs, written to a file, or shown in a window."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from idwbench.cli.options import argument, option, refuse
from idwbench.cli.output import echo, echo_json
from idwbench.errors import ConfigError
from idwbench.results import DEFAULT_DATABASE

if TYPE_CHECKING:
    from idwbench.figures.style import Drawing

__all__ = ["OPTIONS", "figure"]


def _figure_names() -> list[str]:
    from idwbench.figures.stored import FIGURES

    return sorted(FIGURES)


OPTIONS = {
    "name": argument("The figure, such as curves, keys, moons or weights.", autocompletion=_figure_names),
    "output": option(
        "File to write: .png, .svg or .pdf (default: beside the database, if --show is not given).", "-o", "--output"
    ),
    "show": option("Show the figure in a window; writes a file only with -o.", "--show"),
    "list_figures": option("List the figures and exit.", "--list"),
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
    drawing, target = _drawing(name, table, method or [], prototypes or [], db, data_dir, output, show, force)
    for line in drawing.left_out:
        echo(line, err=True)
    if target is not None:
        from idwbench.figures.style import save_figure

        save_figure(drawing.figure, target, overwrite=force)
    if json:
        echo_json({"figure": name, "output": str(target) if target else None, "left_out": list(drawing.left_out)})
    elif target is not None:
        echo(str(target), err=show)
    if show:
        from idwbench.figures.window import open_window

        open_window(drawing.figure)


def _drawing(
    name: str,
    table: str | None,
    methods: list[str],
    prototypes: list[int],
    db: str,
    data_dir: Path | None,
    output: Path | None,
    show: bool,
    force: bool,
) -> tuple[Drawing, Path | None]:
    """Return the drawing, and the file to write or None if it is only shown; all is checked before anything is drawn.

    Raises:
        ConfigError: there is no window, no such figure, or no run for it.
        OutputError: the file cannot be written.
    """
    from idwbench.figures.stored import FORMULAS, check_figure_name, stored_drawing
    from idwbench.figures.style import check_figure_path
    from idwbench.figures.window import window_backend
    from idwbench.files import check_output
    from idwbench.training.threads import limited_threads

    if show and window_backend() is None:
        raise ConfigError("needs a window", location=("show",), hint="-o FILE writes the figure")
    check_figure_name(name)
    if name in FORMULAS:
        refuse(f"the figure '{name}' shows no runs", table=table, method=methods, prototypes=prototypes)
        default = Path(f"{name}.png")
    else:
        from idwbench.report.selection import select_runs
        from idwbench.results.store import Results

        results = Results(db, read_only=True)
        runs = results.load_runs([*select_runs(results, table, methods, prototypes).run_key])
        default = (Path("results") if "://" in db else Path(db).parent) / f"{runs[0].dataset}_{name}.png"
    target = output or (None if show else default)
    if target is not None:
        check_figure_path(target)
        check_output(target, overwrite=force)
    with limited_threads(1):
        return FORMULAS[name]() if name in FORMULAS else stored_drawing(name, results, runs, data_dir), target
