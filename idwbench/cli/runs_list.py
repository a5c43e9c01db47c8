"""`idwbench runs list`: one line for each run."""

from __future__ import annotations

from idwbench.cli.options import option
from idwbench.cli.output import echo, echo_json, print_table
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
    from idwbench.cli.runs_table import LISTED_FACTS, LISTED_METRICS, row_facts, run_columns
    from idwbench.results.filters import sorted_runs, value_hint
    from idwbench.results.frame import with_settings
    from idwbench.results.store import Results

    # An expression and an order may be of any column.
    metrics, facts = (None, None) if where or sort else (LISTED_METRICS, LISTED_FACTS)
    results = Results(db, read_only=True)
    table = results.run_table(where=where, sweep=sweep, states=state or None, metrics=metrics, facts=facts)
    order = sorted_runs(with_settings(table) if sort else table, sort).index
    listed = row_facts(table.loc[order].head(len(table) if limit is None else limit))
    if json:
        echo_json([dict(zip(listed, row, strict=True)) for row in zip(*listed.values(), strict=True)])
    elif listed["run_key"]:
        columns = run_columns(listed)
        below = ("note", "error", "note and error")
        texts = ("run", "data set", "model", "state", "tags", *below)
        print_table(columns, texts=texts, below=below, pipe=None)
    else:
        hint = value_hint(with_settings(results.run_table(sweep=sweep)), where) if where else ""
        echo(f"no runs: {hint}" if hint else "no runs", err=True)
