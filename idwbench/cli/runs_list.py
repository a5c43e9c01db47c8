"""`idwbench runs list`: one line for each run."""

from __future__ import annotations

from idwbench.cli.options import option
from idwbench.cli.output import echo, echo_json, terminal_width
from idwbench.results import DEFAULT_DATABASE

__all__ = ["OPTIONS", "runs_list"]

OPTIONS = {
    "sort": option("Order by a column; -COLUMN begins with the largest.", metavar="COLUMN"),
    "limit": option("Only the first runs: without --sort, the newest.", min=1),
}


def runs_list(
    db: str = DEFAULT_DATABASE,
    where: str | None = None,
    sweep: str | None = None,
    state: list[str] | None = None,
    sort: str | None = None,
    limit: int | None = None,
    json: bool = False,
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
        echo_json(row_facts(frame) if len(frame) else [])
    elif len(frame):
        echo("\n".join(run_lines(frame, terminal_width())))
    else:
        echo("no runs", err=True)
