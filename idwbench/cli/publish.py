"""`idwbench claims`, `page` and `publish`: what the stored runs say as a whole."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Literal

import idwbench
from idwbench.cli.interruption import interruptible
from idwbench.cli.options import TableFormat, argument, check_format, complete_table, option
from idwbench.cli.output import echo, echo_json, write_tables
from idwbench.files import check_output
from idwbench.results import DEFAULT_DATABASE

__all__ = ["OPTIONS", "claims", "page", "publish"]

OPTIONS = {
    "page.output": argument(help="HTML file to write."),
    "publish.output": option("-o", "--output", help="Folder to write to."),
    "publish.format": option(help="Format of the figures."),
    "table": option(help="Only this sweep or data set.", autocompletion=complete_table),
    "metric": option(help="Metric of the leaderboards (default: the metric of the task)."),
    "top": option(help="Number of rows of the leaderboards.", min=1),
    "name": argument(
        help="paper: inverse distance weighting attention; family: kernel regression, hash tables, networks and "
        "language models; dual: the dual form of gradient descent; baselines: methods of scikit-learn; repairs: "
        "patches beside what else mends a wrong prediction; prototypes: when they form, and what noise does to them."
    ),
}


def claims(
    format: TableFormat | None = None,
    output: Path | None = None,
    measure: bool = False,
    json: bool = False,
    db: str = DEFAULT_DATABASE,
    data_dir: Path | None = None,
    force: bool = False,
) -> None:
    """Judge the claims of the papers by all runs with their data and protocol."""
    table_format = check_format(format, output, json)
    from idwbench.cli.quality import advise, measured_runs, opened

    results = opened(db, measure)
    if output is not None:
        check_output(output, overwrite=force)

    from idwbench.claims.verdicts import claims_table
    from idwbench.publications.publication import publications
    from idwbench.training.threads import limited_threads

    with limited_threads(1):
        runs = measured_runs(results, data_dir, measure)
        judgements = idwbench.judge_claims(results, runs)
    write_tables([claims_table(judgements)], table_format, output, force=force)
    advise(publications()["paper"].select(runs))


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
    from idwbench.training.threads import limited_threads

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
    name: Literal["paper", "family", "dual", "baselines", "repairs", "prototypes"],
    output: Path,
    format: Literal["png", "svg", "pdf"] = "png",
    measure: bool = False,
    json: bool = False,
    db: str = DEFAULT_DATABASE,
    data_dir: Path | None = None,
    force: bool = False,
) -> None:
    """Write the figures, tables and claims of a publication to a folder, with a page that shows them.

    Names of files go to stdout; what is missing, and the sweeps that would fill the gaps, to stderr.
    """
    from idwbench.cli.quality import advise, measured_runs, opened
    from idwbench.publications.publication import publications
    from idwbench.training.threads import limited_threads

    results = opened(db, measure)
    with limited_threads(1):
        runs = measured_runs(results, data_dir, measure)
        with interruptible(lambda: f"{output} is not complete; the same command with --force makes all of it"):
            on_item = functools.partial(echo, err=True)
            written = idwbench.write_publication(
                name,
                results,
                output,
                figure_format=format,
                data_dir=data_dir,
                overwrite=force,
                on_item=on_item,
                runs=runs,
            )
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
    if name == "paper":
        advise(publications()["paper"].select(runs))
