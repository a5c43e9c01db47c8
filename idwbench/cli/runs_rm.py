"""`idwbench runs rm`: remove runs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from idwbench.cli.options import DEFAULT_DATABASE, Database, Json
from idwbench.cli.output import echo, echo_json
from idwbench.cli.runs_options import RunKeys, States, Sweep, Where, selected_keys

__all__ = ["runs_rm"]


def runs_rm(
    runs: RunKeys = None,
    db: Database = DEFAULT_DATABASE,
    where: Where = None,
    sweep: Sweep = None,
    state: States = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Remove runs with their metrics, curves, arrays, tags, recordings and checkpoints.

    Runs are given by keys or by conditions. Those in the plan of a sweep stay in the plan and are planned again. If a
    process trains one of the runs, none is removed.
    """
    from idwbench.errors import ConfigError
    from idwbench.report.labels import count_label
    from idwbench.results.store import Results

    if not runs and where is None and sweep is None and not state:
        raise ConfigError("give keys of runs, or conditions", hint="--where, --sweep or --state")
    keys = selected_keys(Results(db, read_only=True), runs, where, sweep, state)
    if keys and not yes:
        if not _is_interactive():
            raise ConfigError(f"removing {count_label(len(keys), 'run')} needs a confirmation", hint="--yes")
        if not typer.confirm(f"remove {count_label(len(keys), 'run')} from {db}?", err=True):
            echo("nothing was removed", err=True)
            raise typer.Exit(1)
    done = Results(db).remove_runs(keys) if keys else None
    removed, planned = (done.removed, done.planned) if done is not None else ((), ())
    if json:
        echo_json({"removed": removed, "planned": planned})
        return
    again = f", {len(planned):,} of them planned again by their sweeps" if planned else ""
    echo(f"removed {count_label(len(keys), 'run')}{again}", err=True)


def _is_interactive() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()
