"""`idwbench report`: tables and leaderboards from the results database."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import idwbench
from idwbench.cli.options import TableFormat, check_format, complete_table, option, refuse
from idwbench.cli.output import echo, echo_json, write_tables
from idwbench.results import DEFAULT_DATABASE

__all__ = ["OPTIONS", "report"]

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

_FOR_LEADERBOARDS = {"only with --leaderboard": ("top", "best_over")}
_FOR_SPLITS = {"only with --leaderboard or --by-dataset": ("split",)}
_OPTIONS_OF_REPORTS = (
    *("metric", "interval", "by_dataset", "split", "top", "format", "best_over", "output", "method", "prototypes"),
    "capacity",
)
# By what is printed: the options that would be ignored, by the reason.
_REFUSED: dict[str, dict[str, tuple[str, ...]]] = {
    "contents": {"only with --table or --leaderboard": _OPTIONS_OF_REPORTS},
    "leaderboard": {
        "cannot be combined with --leaderboard": ("table",),
        "only with --table": ("by_dataset", "capacity"),
    },
    "by_dataset": {**_FOR_LEADERBOARDS, "cannot be combined with --by-dataset": ("interval",)},
    "capacity": {
        **_FOR_LEADERBOARDS,
        "cannot be combined with --capacity": ("metric", "interval", "by_dataset"),
        **_FOR_SPLITS,
    },
    "table": {**_FOR_LEADERBOARDS, **_FOR_SPLITS},
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
    given: dict[str, Any] = dict(locals())
    ranked, of_table = leaderboard is not None, "capacity" if capacity else "by_dataset" if by_dataset else "table"
    mode = "leaderboard" if ranked else "contents" if table is None else of_table
    for problem, names in _REFUSED[mode].items():
        refuse(problem, **{name: given[name] for name in names})
    if mode == "contents":
        return _print_contents(db, json)
    table_format = check_format(format, output, json)
    results = idwbench.Results(db, read_only=True)
    options: dict[str, Any] = {"metric": metric, "split": split, "intervals": interval}
    options |= {"methods": method or (), "prototypes": prototypes or ()}
    if ranked:
        axes = [axis.strip() for axis in best_over.split(",")] if best_over is not None else []
        tables = idwbench.leaderboard(results, leaderboard, top=top, best_over=axes, **options).tables
    elif capacity:
        from idwbench.report.lookups import capacity_tables
        from idwbench.report.reports import select_runs

        runs = select_runs(results, table, options["methods"], options["prototypes"])
        tables = tuple(capacity_tables(results.load_runs([*runs.run_key])))
    else:
        tables = idwbench.table(results, table, by_dataset=by_dataset, **options).tables
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
