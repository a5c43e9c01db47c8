"""`idwbench runs list`: one line for each run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from idwbench.cli.echo import echo
from idwbench.cli.options import DEFAULT_DATABASE, Database, Json
from idwbench.cli.runs_options import SelectingCommand, States, Sweep, Where
from idwbench.errors import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from idwbench.results.listing import RunRow

__all__ = ["COMMAND_CLASS", "runs_list"]

COMMAND_CLASS = SelectingCommand


def runs_list(
    db: Database = DEFAULT_DATABASE,
    where: Where = None,
    sweep: Sweep = None,
    state: States = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first runs.", show_default=False)] = None,
    json: Json = False,
) -> None:
    """List runs in the order of planning, or of the plan of --sweep.

    A line has key, data set, model, seed, state, the main metric on the test split, training time and number of
    attempts, and the reason of a failure. A condition compares a column of `Results.to_frame`, such as method,
    prototypes, seed, dataset_noise, learning_rate, test_accuracy, host or finished_at, by =, !=, <, <=, > or >=;
    alternatives are separated by commas.
    """
    from idwbench.results.store import Results

    rows = Results(db, read_only=True).list_runs(where or (), sweep=sweep, states=_states(state), limit=limit)
    if json:
        echo(_as_json(rows))
    elif rows:
        from idwbench.cli.runs_table import run_lines, terminal_width

        lines = [*run_lines(rows, terminal_width())]
        if not "".join(lines).isprintable():
            lines = [*map(printable, lines)]
        sys.stdout.write("\n".join(lines) + "\n")  # echo would search a long text for colours
    else:
        echo("no runs", err=True)


def _states(words: list[str] | None) -> Any:
    return words or None  # the library refuses unknown words


def _as_json(rows: Sequence[RunRow]) -> str:
    import json

    return "[" + ",\n ".join(json.dumps(row._asdict()) for row in rows) + "]"
