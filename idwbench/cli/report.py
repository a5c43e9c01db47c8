"""`idwbench report`: tables and leaderboards from the results database."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from idwbench.cli.completion import complete_table
from idwbench.cli.options import TableFormat, check_format, load_plugins, option, refuse
from idwbench.cli.output import echo, echo_json
from idwbench.results import DEFAULT_DATABASE

if TYPE_CHECKING:
    from idwbench.report.tables import Table
    from idwbench.results.records import StoredRun
    from idwbench.results.store import Results

__all__ = ["OPTIONS", "report"]

_LEADERBOARD = "Leaderboard"

OPTIONS = {
    "table": option(
        "Name of a sweep or data set. Without it the content of the database is listed.", autocompletion=complete_table
    ),
    "leaderboard": option(
        "Name of a sweep or data set, whose settings are sorted by a metric.", autocompletion=complete_table
    ),
    "metric": option("Metric, such as accuracy or coverage; that of the task if not given."),
    "interval": option("Add 95 % bootstrap intervals of the means over seeds."),
    "by_dataset": option("With --table: one row for each model and a column for each data set."),
    "split": option(
        "Split that a leaderboard is sorted by, or that --by-dataset shows: test, holdout, validation or train "
        "(default: test)."
    ),
    "top": option("Number of rows.", min=1, panel=_LEADERBOARD),
    "best_over": option(
        "Settings, joined by commas, of which the values with the best validation metric are shown.",
        panel=_LEADERBOARD,
    ),
}


def report(
    table: str | None = None,
    leaderboard: str | None = None,
    metric: str | None = None,
    interval: bool = False,
    by_dataset: bool = False,
    split: str | None = None,
    top: int | None = None,
    best_over: str | None = None,
    measure: bool = False,
    format: TableFormat | None = None,
    output: Path | None = None,
    json: bool = False,
    method: list[str] | None = None,
    prototypes: list[int] | None = None,
    db: str = DEFAULT_DATABASE,
    data_dir: Path | None = None,
    plugin: list[Path] | None = None,
    force: bool = False,
) -> None:
    """Print a table of metrics over seeds, or a leaderboard.

    A table shows for each model n, mean ± sample standard deviation of a metric, with the best of each number of
    prototypes in bold, and published results. A leaderboard shows all settings in one list, best first. A name of both
    a sweep and a data set means the sweep. Of multilayer perceptrons alone, without --metric and --interval, a table
    shows to which class each layer attends.
    """
    if leaderboard is not None:
        refuse("cannot be combined with --leaderboard", table=table)
        refuse("only with --table", by_dataset=by_dataset)
    elif table is not None:
        refuse("only with --leaderboard", top=top, best_over=best_over)
        refuse("only with --leaderboard or --by-dataset", split=None if by_dataset else split)
    else:
        problem = "only with --table or --leaderboard"
        refuse(problem, metric=metric, interval=interval, by_dataset=by_dataset, split=split, top=top)
        refuse(problem, best_over=best_over, measure=measure, format=format, output=output)
        refuse(problem, method=method, prototypes=prototypes)
        _print_contents(db, json)
        return
    if by_dataset:
        refuse("cannot be combined with --by-dataset", interval=interval)
    table_format = check_format(format, output, json)
    load_plugins(plugin)

    from idwbench.cli.output import write_tables
    from idwbench.cli.quality import advised

    setting, name = ("table", table or "") if leaderboard is None else ("leaderboard", leaderboard)
    runs = _selected(db, name, setting, method or (), prototypes or (), metric, measure, data_dir)
    with advised(runs, metric):
        if leaderboard is not None:
            tables = _leaderboard(runs, metric, split, top, best_over, interval)
        else:
            tables = _tables(runs, metric, split if by_dataset else None, by_dataset=by_dataset, interval=interval)
    write_tables(tables, table_format, output, force=force)


def _leaderboard(
    runs: Sequence[StoredRun],
    metric: str | None,
    split: str | None,
    top: int | None,
    best_over: str | None,
    interval: bool,
) -> Sequence[Table]:
    from idwbench.report.leaderboard import leaderboard

    axes = [] if best_over is None else [axis.strip() for axis in best_over.split(",")]
    return [leaderboard(runs, metric, split=split, top=top, best_over=axes, intervals=interval)]


def _tables(
    runs: Sequence[StoredRun], metric: str | None, split: str | None, *, by_dataset: bool, interval: bool
) -> Sequence[Table]:
    from idwbench.report.dual_form import dual_form, has_only_perceptrons
    from idwbench.report.summaries import section_tables, summarise

    if by_dataset:
        from idwbench.report.by_dataset import by_dataset as side_by_side

        return side_by_side(summarise(runs, metric), split)
    if metric is None and not interval and has_only_perceptrons(runs):
        return dual_form(runs)
    return section_tables(summarise(runs, metric, intervals=interval))


def _selected(
    db: str,
    name: str,
    setting: str,
    methods: Collection[str],
    prototypes: Collection[int],
    metric: str | None,
    measure: bool,
    data_dir: Path | None,
) -> Sequence[StoredRun]:
    """Return the runs of a table or leaderboard, measured first if asked for."""
    from idwbench.cli.quality import measure as measure_quality
    from idwbench.cli.quality import opened
    from idwbench.report.selection import select_reported_runs, select_runs

    results = opened(db, measure)
    if measure:
        measure_quality(results, select_runs(results, name, methods, prototypes, setting=setting), data_dir)
    return select_reported_runs(results, name, methods, prototypes, metric=metric, setting=setting)


def _print_contents(db: str, as_json: bool) -> None:
    from idwbench.cli.progress import status_line
    from idwbench.results.store import Results

    results: Results = Results(db, read_only=True)
    statuses = {sweep.name: results.sweep_status(sweep.name) for sweep in results.list_sweeps()}
    datasets = results.dataset_labels()
    if as_json:
        sweeps = [{"name": name, **dataclasses.asdict(status)} for name, status in statuses.items()]
        echo_json({"sweeps": sweeps, "datasets": datasets}, indent=1)
        return
    for name, status in statuses.items():
        echo(f"sweep {status_line(name, status)}")
    for name in datasets:
        echo(f"data set {name}")
    if not statuses and not datasets:
        echo("nothing is stored", err=True)
