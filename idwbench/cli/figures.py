"""The figures of `idwbench report`: written to a file, or shown in a window."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from idwbench.cli.echo import echo
from idwbench.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from idwbench.figures.style import Drawing

__all__ = ["FigureRequest", "draw_figure"]


@dataclass(frozen=True)
class FigureRequest:
    """The options of `report` that a figure uses."""

    name: str
    table: str | None
    methods: Collection[str]
    prototypes: Collection[int]
    db: str
    data_dir: Path | None
    output: Path | None
    show: bool
    force: bool


def draw_figure(request: FigureRequest) -> None:
    """Draw a figure, show it if requested, and write it, unless it is shown and no file is given.

    Raises:
        ConfigError: unknown figure, no run to draw, or there is no window to show it in.
        ResultsError: the database cannot be read.
        OutputError: the file exists and may not be overwritten, or cannot be written.
    """
    from idwbench.figures.stored import FORMULAS

    screen = _screen() if request.show else None
    drawing, target = _without_runs(request) if request.name in FORMULAS else _of_runs(request)
    for line in drawing.left_out:
        echo(line, err=True)
    if target is not None:
        from idwbench.figures.style import save_figure

        save_figure(drawing.figure, target, overwrite=request.force)
        echo(str(target), err=request.show)
    if screen is not None:
        screen(drawing.figure)


def _without_runs(request: FigureRequest) -> tuple[Drawing, Path | None]:
    from idwbench.figures.stored import FORMULAS

    for option, value in (("table", request.table), ("method", request.methods), ("prototypes", request.prototypes)):
        if value:
            raise ConfigError(f"the figure '{request.name}' shows no runs", location=(option,))
    target = _target(request, Path(f"{request.name}.png"))
    return FORMULAS[request.name](), target


def _of_runs(request: FigureRequest) -> tuple[Drawing, Path | None]:
    from idwbench.report.selection import select_runs
    from idwbench.results.store import Results

    results = Results(request.db, read_only=True)
    runs = select_runs(results, request.table, request.methods, request.prototypes)
    folder = Path("results") if "://" in request.db else Path(request.db).parent
    target = _target(request, folder / f"{runs[0].dataset}_{request.name}.png")

    from idwbench.figures.stored import stored_drawing
    from idwbench.training.threads import limited_threads

    with limited_threads(1):
        return stored_drawing(request.name, results, runs, request.data_dir), target


def _target(request: FigureRequest, default: Path) -> Path | None:
    """Return the file to write, after a check that it can be, or None if the figure is only shown."""
    from idwbench.figures.style import check_figure_path
    from idwbench.files import check_output

    target = request.output or (None if request.show else default)
    if target is not None:
        check_figure_path(target)
        check_output(target, overwrite=request.force)
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
