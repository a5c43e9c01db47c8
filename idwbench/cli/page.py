"""`idwbench page`: a results database as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from idwbench.cli.completion import complete_table
from idwbench.cli.options import (
    DEFAULT_DATABASE,
    Database,
    DataDir,
    Force,
    Methods,
    Plugins,
    Prototypes,
    load_plugins,
)
from idwbench.cli.output import echo

__all__ = ["page"]


def page(
    output: Annotated[Path, typer.Argument(help="HTML file to write.", show_default=False)],
    table: Annotated[
        str | None,
        typer.Option(help="Only this sweep or data set.", show_default=False, autocompletion=complete_table),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="Metric of the leaderboards; that of the task if not given.", show_default=False)
    ] = None,
    top: Annotated[
        int | None, typer.Option(min=1, help="Number of rows of the leaderboards.", show_default=False)
    ] = None,
    method: Methods = None,
    prototypes: Prototypes = None,
    db: Database = DEFAULT_DATABASE,
    data_dir: DataDir = None,
    plugin: Plugins = None,
    force: Force = False,
) -> None:
    """Write one HTML file to look at in a browser, with leaderboards, charts, prototypes and claims.

    It shows all sweeps and data sets of the database, or one of them, and needs no network.
    """
    load_plugins(plugin)

    from idwbench.page.writing import TOP, write_page
    from idwbench.results.store import Results
    from idwbench.training.threads import limited_threads

    with limited_threads(1):
        written = write_page(
            Results(db, read_only=True),
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
