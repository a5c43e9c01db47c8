"""`idwbench runs note`: a line about a run."""

from __future__ import annotations

from typing import Annotated

import typer

from idwbench.cli.options import DEFAULT_DATABASE, Database
from idwbench.cli.output import echo
from idwbench.cli.runs_options import RunKey

__all__ = ["runs_note"]


def runs_note(
    run: RunKey,
    text: Annotated[str, typer.Argument(help="One line; an empty one removes the note.", show_default=False)],
    db: Database = DEFAULT_DATABASE,
) -> None:
    """Write a note on a run, in place of the one that it has."""
    from idwbench.results.store import Results

    results = Results(db)
    key = results.find_run(run).run_key
    results.note([key], text)
    echo(f"{key[:12]}: {results.find_run(key).note or 'no note'}")
