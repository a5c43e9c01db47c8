"""`idwbench publish`: all figures, tables and claims of a publication in one folder."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from idwbench.cli.options import DEFAULT_DATABASE, Database, DataDir, Force, Json, Measure, Plugins, load_plugins
from idwbench.cli.output import echo, echo_json

if TYPE_CHECKING:
    from idwbench.publications.folder import Published

__all__ = ["publish"]


def publish(
    name: Annotated[
        Literal["paper", "family", "dual", "baselines"],
        typer.Argument(
            help="paper: inverse distance weighting attention; family: kernel regression, hash tables, networks and "
            "language models; dual: the dual form of gradient descent; baselines: methods of scikit-learn."
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write to.", show_default=False)],
    format: Annotated[Literal["png", "svg", "pdf"], typer.Option(help="Format of the figures.")] = "png",
    measure: Measure = False,
    json: Json = False,
    db: Database = DEFAULT_DATABASE,
    data_dir: DataDir = None,
    plugin: Plugins = None,
    force: Force = False,
) -> None:
    """Write the figures, tables and claims of a publication to a folder, with a page that shows them.

    Names of files go to stdout; what is missing, and the sweeps that would fill the gaps, to stderr.
    """
    from idwbench.cli.interruption import interruptible
    from idwbench.cli.quality import advise, measured_runs, opened
    from idwbench.publications.folder import write_publication
    from idwbench.publications.paper import PAPER
    from idwbench.training.threads import limited_threads

    load_plugins(plugin)
    results = opened(db, measure)
    with limited_threads(1):
        runs = measured_runs(results, data_dir, measure)
        with interruptible(lambda: f"{output} is not complete; the same command with --force makes all of it"):
            written = write_publication(
                name,
                results,
                output,
                figure_format=format,
                data_dir=data_dir,
                overwrite=force,
                on_item=lambda item: echo(item, err=True),
                runs=runs,
            )
    _print_published(written, json)
    if name == "paper":
        advise(PAPER.select(runs))


def _print_published(written: Published, as_json: bool) -> None:
    if as_json:
        content = {"files": list(map(str, written.files)), "gaps": [dataclasses.asdict(gap) for gap in written.gaps]}
        echo_json(content, indent=1)
        return
    for path in written.files:
        echo(str(path))
    for gap in written.gaps:
        echo(f"missing: {gap.name}: {gap.problem}", err=True)
    for file in dict.fromkeys(gap.sweep_file for gap in written.gaps if gap.sweep_file is not None):
        echo(f"to fill gaps: idwbench sweep {file}", err=True)
