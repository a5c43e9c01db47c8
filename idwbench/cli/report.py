"""`idwbench report`: tables and leaderboards from the results database."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import idwbench
from idwbench.cli.options import NOT_WITH, ONLY_WITH, Refused, TableFormat, complete_table, option
from idwbench.cli.output import check_format, echo, echo_json, write_tables
from idwbench.results import DEFAULT_DATABASE

__all__ = ["OPTIONS", "REFUSED", "report"]

OPTIONS = {
    "table": option(
        help="Name of a sweep or data set. Without it the content of the database is listed.",
        autocompletion=complete_table,
    ),
    "leaderboard": option(
        help="Name of a sweep or data set, whose settings are sorted by a metric.", autocompletion=complete_table
    ),
    "metric": option(help="Metric, such as accuracy or coverage (default: the metric of the task)."),
    "interval": option("--interval", help="Add 95 % bootstrap intervals of the means over seeds."),
    "by_dataset": option("--by-dataset", help="With --table: one row for each model and a column for each data set."),
    "capacity": option(
        "--capacity",
        help="With --table: the number of items that hash tables recall to 99 %, by dimensions, and how fast it grows.",
    ),
    "split": option(
        help="Split that a leaderboard is sorted by (default: validation where all rows have it, else test), or that "
        "--by-dataset shows (default: test)."
    ),
    "top": option(rich_help_panel="Leaderboard", help="Number of rows.", min=1),
    "best_over": option(
        rich_help_panel="Leaderboard",
        help="Settings, joined by commas, of which the values with the best validation metric are shown.",
    ),
}

REFUSED: dict[str, list[Refused]] = {
    "report": [
        (ONLY_WITH, "table leaderboard", "metric interval by_dataset split top format best_over output method"),
        (ONLY_WITH, "table leaderboard", "prototypes capacity"),
        (NOT_WITH, "leaderboard", "table"),
        (ONLY_WITH, "table", "by_dataset capacity"),
        (ONLY_WITH, "leaderboard", "top best_over"),
        (NOT_WITH, "capacity", "metric interval by_dataset"),
        (NOT_WITH, "by_dataset", "interval"),
        (ONLY_WITH, "leaderboard by_dataset", "split"),
    ]
}


def report(
    table: str | None = None,
    leaderboard: str | None = None,
    metric: str | None = None,
    interval: bool = False,
    by_dataset: bool = False,
    capacity: bool = False,
    split: str | None = None,
    top: int | None = None,
    best_over: str | None = None,
    format: TableFormat | None = None,
    output: Path | None = None,
    json: bool = False,
    method: list[str] | None = None,
    prototypes: list[int] | None = None,
    db: str = DEFAULT_DATABASE,
    force: bool = False,
) -> None:
    """Print a table of metrics over seeds, or a leaderboard.

    A table shows for each model n, mean ± sample standard deviation of a metric, with the best of each number of
    prototypes in bold, and published results. A leaderboard shows all settings in one list, best first. A name that a
    sweep and a data set share means the sweep. If all runs are multilayer perceptrons, a table without --metric and
    --interval shows to which class each layer attends.
    """
    if table is None and leaderboard is None:
        return _print_contents(db, json)
    table_format = check_format(format, output, json)
    from idwbench.report import reports
    from idwbench.results.store import Results

    results = Results(db, read_only=True)
    options: dict[str, Any] = {"metric": metric, "split": split, "intervals": interval}
    options |= {"methods": method or (), "prototypes": prototypes or ()}
    if leaderboard is not None:
        axes = [axis.strip() for axis in best_over.split(",")] if best_over is not None else []
        tables = reports.leaderboard(results, leaderboard, top=top, best_over=axes, **options).tables
    else:
        tables = reports.table(results, table, by_dataset=by_dataset, capacity=capacity, **options).tables
    write_tables(tables, table_format, output, force=force)


def _print_contents(db: str, as_json: bool) -> None:
    from idwbench.cli.progress import status_line

    results = idwbench.Results(db, read_only=True)
    sweeps, datasets = results.names()
    statuses = {name: results.sweep_status(name) for name in sweeps}
    if as_json:
        counts = [{"name": name, **dataclasses.asdict(status)} for name, status in statuses.items()]
        echo_json({"sweeps": counts, "datasets": datasets}, indent=1)
        return
    for name, status in statuses.items():
        echo(f"sweep {status_line(name, status)}")
    for name in datasets:
        echo(f"data set {name}")
    if not statuses and not datasets:
        echo("nothing is stored", err=True)
