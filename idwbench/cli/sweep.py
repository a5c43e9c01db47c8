"""`idwbench sweep`: train the missing runs of a sweep file."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

import idwbench
from idwbench.cli.interruption import interruptible
from idwbench.cli.options import EngineName, argument, option, refuse, training_option
from idwbench.cli.output import echo, echo_json, print_facts, print_line
from idwbench.errors import ConfigError
from idwbench.report.labels import count_label
from idwbench.results import DEFAULT_DATABASE

if TYPE_CHECKING:
    from idwbench.cli.progress import SweepProgress
    from idwbench.results.records import SweepStatus

__all__ = ["OPTIONS", "sweep"]


def _sweep_names(incomplete: str) -> list[str]:
    """Return the names of the shipped sweeps, and of files and folders beside what is typed, for a shell."""
    from idwbench.sweep.shipped import shipped_sweeps

    head = incomplete[: incomplete.rfind("/") + 1]
    try:
        paths = [path for path in Path(head or ".").iterdir() if path.is_dir() or path.suffix in (".yaml", ".yml")]
    except OSError:
        paths = []
    return sorted(shipped_sweeps()) + sorted(f"{head}{path.name}{'/' if path.is_dir() else ''}" for path in paths)


OPTIONS = {
    "file": argument(
        help="The sweep file (YAML), or the name of a shipped sweep (see --list).", autocompletion=_sweep_names
    ),
    "dry_run": option("--dry-run", help="Print the runs and their states without training."),
    "list_shipped": option("--list", help="List the sweeps that come with idwbench and exit."),
    "retry": training_option(help="Retrain runs in this state."),
    "wait": training_option("--wait", help="Wait for runs that other processes train, and take over what they leave."),
    "fail_fast": training_option("--fail-fast", help="Stop at the first failed run."),
    "max_failures": training_option(help="Stop after this number of failed runs.", min=1),
    "jobs": training_option(
        "-j", "--jobs", help="Number of threads that train; one for each core if not given.", min=1
    ),
    "dask": training_option(
        help="Train on a Dask cluster: tcp://host:8786, tls://host:8786, or local:2 for two processes here.",
        metavar="ADDRESS",
    ),
}


def sweep(
    context: typer.Context,
    file: str | None = None,
    db: str = DEFAULT_DATABASE,
    dry_run: bool = False,
    retry: Literal["failed", "diverged", "all"] | None = None,
    wait: bool = False,
    fail_fast: bool = False,
    max_failures: int | None = None,
    engine: EngineName = "auto",
    device: str = "cpu",
    jobs: int | None = None,
    data_dir: Path | None = None,
    dask: str | None = None,
    list_shipped: bool = False,
    json: bool = False,
) -> None:
    """Train the runs of a sweep file that the database does not have.

    The same command continues after an interruption, a crash, or a change of the grid. The exit code is 1 if runs
    failed, and 3 if other processes have not ended all runs; diverged runs are results.
    """
    if list_shipped:
        return _list_shipped(context, json)
    if file is None:
        raise ConfigError("missing argument 'FILE': a sweep file, or the name of a shipped sweep (--list)")
    if fail_fast:
        refuse("cannot be combined with --fail-fast", max_failures=max_failures)
        max_failures = 1

    from idwbench.cli.progress import SweepProgress
    from idwbench.cli.sweep_output import print_plan
    from idwbench.sweep.execution import RETRIED
    from idwbench.sweep.shipped import sweep_path
    from idwbench.sweep.spec import read_sweep

    spec = read_sweep(sweep_path(file))
    if dry_run:
        print_plan(spec, db, RETRIED[retry], json)
        return
    progress = SweepProgress(spec, db)
    with interruptible(lambda: _done(spec.name, db)), progress:
        status = idwbench.run_sweep(
            spec,
            db,
            retry=retry,
            engine=engine,
            device=device,
            jobs=jobs,
            data_dir=data_dir,
            dask=dask,
            observer=progress,
            wait=wait,
            max_failures=max_failures,
        )
    _print_status(progress, status, json)
    raise typer.Exit(_exit_code(status, progress.n_failed, max_failures))


def _list_shipped(context: typer.Context, as_json: bool) -> None:
    """Print the shipped sweeps; raise `ConfigError` if something but ``--json`` was given beside ``--list``."""
    from idwbench.sweep.shipped import shipped_descriptions

    for name in context.params:
        source = context.get_parameter_source(name)
        if name not in ("list_shipped", "json") and source is not None and source.name == "COMMANDLINE":
            raise ConfigError("cannot be combined with --list", location=("FILE" if name == "file" else name,))
    descriptions = shipped_descriptions()
    if as_json:
        echo_json([{"name": name, "description": text} for name, text in descriptions.items()])
    else:
        print_facts(descriptions)


def _done(name: str, db: str) -> str:
    status = idwbench.Results(db, read_only=True).sweep_status(name)
    done = status.complete + status.diverged + status.failed
    return f"{done} of {status.total} done; the same command continues"


def _print_status(progress: SweepProgress, status: SweepStatus, as_json: bool) -> None:
    """Print how many runs are in each state, and the failures."""
    from idwbench.cli.progress import run_labels, status_line
    from idwbench.cli.sweep_output import failure_lines

    name, db = progress.name, progress.db
    if as_json:
        echo_json({"sweep": name, "db": db, **dataclasses.asdict(status)})
    else:
        # A URL may have a password.
        place = "" if db == DEFAULT_DATABASE else f" --db {'URL' if '://' in db else shlex.quote(db)}"
        echo(status_line(name, status), err=True)
        echo(f"see: idwbench report --table {shlex.quote(name)}{place}", err=True)
    if status.failed:
        failed = idwbench.Results(db, read_only=True).find_runs(sweep=name, states=["failed"])
        configs = [run.config for run in failed]
        label = progress.label if progress.settings else run_labels(configs, progress.spec)
        for line in failure_lines(failed, label):
            print_line(line, err=True, hanging=4)


def _exit_code(status: SweepStatus, n_failed: int, most: int | None) -> int:
    """Say why runs are left, if there are any, and return the exit code; `n_failed` runs failed in this command."""
    left = status.planned + status.running + status.stale
    if most is not None and n_failed >= most:
        stopped = f"stopped after {count_label(n_failed, 'failure')}"
        echo(f"{stopped}: {count_label(left, 'run')} to go; the same command continues", err=True)
    elif left:
        words = f"{count_label(left, 'run')} {'are' if left > 1 else 'is'} being trained elsewhere"
        echo(f"{words}; --wait waits for them", err=True)
    return 1 if status.failed or n_failed else 3 if left else 0
