"""`idwbench runs tag`: a word for runs."""

from __future__ import annotations

from typing import Annotated

import typer

from idwbench.cli.options import DEFAULT_DATABASE, Database
from idwbench.cli.output import echo
from idwbench.cli.runs_options import RunKey

__all__ = ["runs_tag"]


def runs_tag(
    run: RunKey,
    tag: Annotated[str, typer.Argument(help="A word without commas.", show_default=False)],
    remove: Annotated[bool, typer.Option("--remove", help="Take the tag from the run.")] = False,
    db: Database = DEFAULT_DATABASE,
) -> None:
    """Give a run a tag, by which --where finds it: '"best" in tags'."""
    from idwbench.results.store import Results

    results = Results(db)
    key = results.find_run(run).run_key
    results.tag([key], tag, remove=remove)
    echo(f"{key[:12]}: {results.find_run(key).tags or 'no tags'}")
