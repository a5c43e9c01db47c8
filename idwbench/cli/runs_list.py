"""`idwbench runs list`: one line for each run."""

from __future__ import annotations

from typing import Annotated

import typer

from idwbench.cli.options import DEFAULT_DATABASE, Database, Json
from idwbench.cli.output import echo, echo_json, terminal_width
from idwbench.cli.runs_options import States, Sweep, Where

__all__ = ["runs_list"]


def runs_list(
    db: Database = DEFAULT_DATABASE,
    where: Where = None,
    sweep: Sweep = None,
    state: States = None,
    sort: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Order by a column; -COLUMN has the largest first.", show_default=False),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only the first runs: without --sort, the newest.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """List runs, the newest first.

    A line has key, data set, model, seed, state, the main metric on the test split, training time, number of attempts,
    tags, and the note or the reason of a failure.

    --where takes an expression on the columns of `Results.to_frame`, such as method, prototypes, seed, dataset_noise,
    learning_rate, test_accuracy, host, tags or finished_at. It has ==, !=, <, <=, >, >=, and, or, not, arithmetic and
    in: method in ["idw", "neg_dist"], "best" in tags. None is a missing value.
    """
    from idwbench.cli.runs_table import row_facts, run_lines
    from idwbench.results.filters import sorted_runs
    from idwbench.results.store import Results

    frame = Results(db, read_only=True).to_frame(where=where, sweep=sweep, states=state or None)
    frame = sorted_runs(frame, sort).head(limit if limit is not None else len(frame))
    if json:
        echo_json(row_facts(frame))
    elif len(frame):
        echo("\n".join(run_lines(frame, terminal_width())))
    else:
        echo("no runs", err=True)
