"""`idwbench figure`: figures of stored runs, written to a file, or shown in a window."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from idwbench.cli.completion import complete_figure
from idwbench.cli.options import argument, load_plugins, option, refuse
from idwbench.cli.output import echo, echo_json
from idwbench.errors import ConfigError
from idwbench.results import DEFAULT_DATABASE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from idwbench.figures.style import Drawing

__all__ = ["OPTIONS", "figure"]

OPTIONS = {
    "name": argument("The figure, such as curves, keys, moons or weights.", autocompletion=complete_figure),
    "output": option(
        "File to write: .png, .svg or .pdf (default: beside the database, if --show is not given).", "-o", "--output"
    ),
    "show": option("Show the figure in a window; writes a file only with -o."),
    "list_figures": option("List the figures, and end.", "--list"),
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
    plugin: list[Path] | None = None,
    force: bool = False,
) -> None:
    """Draw a figure of stored runs, or of formulas.

    What a figure leaves out is named on stderr. The same runs give the same bytes.
    """
    if list_figures:
        _list_figures(json)
        return
    if name is None:
        raise ConfigError("missing argument 'NAME': a figure, see --list")

    from idwbench.figures.stored import FORMULAS

    load_plugins(plugin)
    screen = _screen() if show else None
    if name in FORMULAS:
        refuse(f"the figure '{name}' shows no runs", table=table, method=method, prototypes=prototypes)
        target = _target(output, Path(f"{name}.png"), show, force)
        drawing = FORMULAS[name]()
    else:
        drawing, target = _of_runs(name, table, method or (), prototypes or (), db, data_dir, output, show, force)
    for line in drawing.left_out:
        echo(line, err=True)
    if target is not None:
        from idwbench.figures.style import save_figure

        save_figure(drawing.figure, target, overwrite=force)
    if json:
        content = {"figure": name, "output": str(target) if target else None, "left_out": list(drawing.left_out)}
        echo_json(content)
    elif target is not None:
        echo(str(target), err=show)
    if screen is not None:
        screen(drawing.figure)


def _list_figures(as_json: bool) -> None:
    from idwbench.figures.stored import FIGURES

    if as_json:
        echo_json(sorted(FIGURES))
    else:
        echo("\n".join(sorted(FIGURES)))


def _of_runs(
    name: str,
    table: str | None,
    methods: Collection[str],
    prototypes: Collection[int],
    db: str,
    data_dir: Path | None,
    output: Path | None,
    show: bool,
    force: bool,
) -> tuple[Drawing, Path | None]:
    """Return the drawing and the file to write, which is checked before anything is drawn."""
    from idwbench.figures.stored import check_figure_name, stored_drawing
    from idwbench.report.selection import select_runs
    from idwbench.results.store import Results
    from idwbench.training.threads import limited_threads

    check_figure_name(name)
    results = Results(db, read_only=True)
    runs = select_runs(results, table, methods, prototypes)
    folder = Path("results") if "://" in db else Path(db).parent
    target = _target(output, folder / f"{runs[0].dataset}_{name}.png", show, force)
    with limited_threads(1):
        return stored_drawing(name, results, runs, data_dir), target


def _target(output: Path | None, default: Path, show: bool, force: bool) -> Path | None:
    """Return the file to write, after a check that it can be, or None if the figure is only shown."""
    from idwbench.figures.style import check_figure_path
    from idwbench.files import check_output

    target = output or (None if show else default)
    if target is not None:
        check_figure_path(target)
        check_output(target, overwrite=force)
    return target


def _screen() -> Callable[[Figure], None]:
    """Return what shows a figure in a window.

    Raises:
        ConfigError: there is no window.
    """
    from idwbench.figures.window import open_window, window_backend

    if window_backend() is None:
        raise ConfigError("needs a window", location=("show",), hint="-o FILE writes the figure")
    return open_window
