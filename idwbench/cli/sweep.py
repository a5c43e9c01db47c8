"""`idwbench sweep`: train the missing runs of a sweep file, or print its plan."""

from __future__ import annotations

import dataclasses
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

import idwbench
from idwbench.cli.interruption import interruptible
from idwbench.cli.options import NOT_WITH, EngineName, Refused, argument, key_values, option, training_option
from idwbench.cli.output import echo, echo_json, print_facts, print_line
from idwbench.cli.progress import SweepProgress, run_labels, status_line
from idwbench.errors import ConfigError, NoResultsError, OldResultsError, last_line, printable
from idwbench.report.labels import count_label
from idwbench.results import DEFAULT_DATABASE

if TYPE_CHECKING:
    from idwbench.results.records import StoredRun, SweepStatus
    from idwbench.runs.config import RunConfig
    from idwbench.sweep.sampler import SamplerSettings
    from idwbench.sweep.spec import SweepSpec

__all__ = ["OPTIONS", "REFUSED", "failure_lines", "print_plan", "sweep"]

_STATES = ("complete", "diverged", "failed", "running", "stale", "planned", "missing", "unknown")
_MOST_FAILURES = 20
_REASON_WIDTH = 120


def _sweep_names(incomplete: str) -> list[str]:
    """Return the names of the shipped sweeps, and of files and folders beside what is typed, for a shell."""
    from idwbench.sweep.spec import shipped_sweeps

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
    "changes": option(
        "--set",
        metavar="KEY=VALUE",
        help="Another value in the file: of a key, a setting of the protocol, or an axis of the grid; may be repeated.",
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
REFUSED: dict[str, list[Refused]] = {
    "sweep": [
        (NOT_WITH, "list_shipped", "file db changes dry_run retry wait fail_fast max_failures engine device jobs"),
        (NOT_WITH, "list_shipped", "data_dir plugin dask"),
        (NOT_WITH, "fail_fast", "max_failures"),
    ]
}


def sweep(
    file: str | None = None,
    db: str = DEFAULT_DATABASE,
    changes: list[str] | None = None,
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
        return _list_shipped(json)
    if file is None:
        raise ConfigError("missing argument 'FILE': a sweep file, or the name of a shipped sweep (--list)")
    if fail_fast:
        max_failures = 1

    from idwbench.sweep.execution import RETRIED
    from idwbench.sweep.spec import read_sweep, sweep_path

    spec = read_sweep(sweep_path(file), key_values("changes", changes))
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


def _list_shipped(as_json: bool) -> None:
    """Print the shipped sweeps."""
    from idwbench.sweep.spec import shipped_descriptions

    descriptions = shipped_descriptions()
    if as_json:
        echo_json([{"name": name, "description": text} for name, text in descriptions.items()])
    else:
        print_facts(descriptions)


def _done(name: str, db: str) -> str:
    status = idwbench.Results(db, read_only=True).sweep_status(name)
    return f"{status.ended} of {status.total} done; the same command continues"


def _print_status(progress: SweepProgress, status: SweepStatus, as_json: bool) -> None:
    """Print how many runs are in each state, and the failures."""
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
    left = status.to_do
    if most is not None and n_failed >= most:
        stopped = f"stopped after {count_label(n_failed, 'failure')}"
        echo(f"{stopped}: {count_label(left, 'run')} to go; the same command continues", err=True)
    elif left:
        words = f"{count_label(left, 'run')} {'are' if left > 1 else 'is'} being trained elsewhere"
        echo(f"{words}; --wait waits for them", err=True)
    return 1 if status.failed or n_failed else 3 if left else 0


def print_plan(spec: SweepSpec, db: str, retried: Collection[str], as_json: bool) -> None:
    """Print the runs with their states, and on stderr the number of runs in each; a database is never created.

    A state that is `retried` is followed by ``, retry``. Of a search the space is printed: its runs depend on results.
    """
    if spec.sampler is not None:
        _print_space(spec, spec.sampler, as_json)
        return
    from idwbench.sweep.spec import plan

    configs = plan(spec)
    keys = [config.run_key for config in configs]
    stored, otherwise, problem = _stored_states(db, keys)
    words = {state: f"{state}{', retry' if state in retried else ''}" for state in _STATES}
    states = [words[stored.get(key, otherwise)] for key in keys]
    if as_json:
        heads = ({"run_key": key, "state": state} for key, state in zip(keys, states, strict=True))
        echo_json([head | c.model_dump(mode="json") for head, c in zip(heads, configs, strict=True)], indent=1)
        return
    width = max(map(len, words.values()))
    label = run_labels(configs, spec)
    for number, (key, state, config) in enumerate(zip(keys, states, configs, strict=True), 1):
        start = f"{number:>5}  {key[:12]}  {state:<{width}}  "
        print_line(f"{start}{label(config)} · seed {config.seed}", hanging=len(start))
    names = ", ".join(dict.fromkeys(dataset.name for dataset, _ in spec.datasets))
    counts = Counter(states)
    in_states = ", ".join(f"{counts[state]:,} {state}" for state in words.values() if counts[state])
    print_line(f"{spec.name}: {count_label(len(keys), 'run')} on {names}: {in_states}{problem}", err=True)


def _print_space(spec: SweepSpec, sampler: SamplerSettings, as_json: bool) -> None:
    from idwbench.sweep.sampler import Range

    if as_json:
        space = [
            {name: axis.model_dump() if isinstance(axis, Range) else list(axis) for name, axis in block.items()}
            for block in spec.space
        ]
        echo_json({"sampler": sampler.model_dump(mode="json"), "space": space, "seeds": list(spec.seeds)}, indent=1)
        return
    for name, axis in (axis for block in spec.space for axis in block.items()):
        values = f"{axis.low:g} to {axis.high:g}" if isinstance(axis, Range) else ", ".join(map(str, axis))
        print_line(f"{name}: {values}")
    trials, seeds = count_label(sampler.trials, "trial"), count_label(len(spec.seeds), "seed")
    echo(f"{spec.name}: {trials} of {seeds} by {sampler.optuna}; each depends on the results before", err=True)


def _stored_states(db: str, run_keys: Sequence[str]) -> tuple[Mapping[str, str], str, str]:
    """Return the states of the runs that the database has, the state of others, and why it is unknown."""
    try:
        return idwbench.Results(db, read_only=True).run_states(run_keys), "missing", ""
    except NoResultsError:
        return {}, "missing", ""
    except OldResultsError as error:  # the tables are read after an upgrade only
        return {}, "unknown", f"; {error}"


def failure_lines(runs: Sequence[StoredRun], label: Callable[[RunConfig], str]) -> Iterator[str]:
    """Yield a line for each reason: number of runs, key of the first, settings by `label`, and the reason."""
    groups: dict[str, list[StoredRun]] = {}
    for run in runs:
        groups.setdefault(_reason(run), []).append(run)
    yield f"{count_label(len(runs), 'run')} failed:"
    rows = sorted(groups.items(), key=lambda group: len(group[1]), reverse=True)  # the largest is first
    for reason, group in rows[:_MOST_FAILURES]:
        count = count_label(len(group), "run") if len(group) > 1 else f"seed {group[0].config.seed}"
        first, *others = dict.fromkeys(label(run.config) for run in group)
        more = f" and {count_label(len(others), 'other setting')}" if others else ""
        yield f"  {count}  {group[0].run_key[:12]}  {first}{more}: {reason}"
    if rest := sum(len(group) for _, group in rows[_MOST_FAILURES:]):
        yield f"  … and {rest:,} more; idwbench runs list --state failed"


def _reason(run: StoredRun) -> str:
    """Return the last line of the stored error, without characters that control a terminal."""
    text = printable(last_line(run.error), kept="") or "no reason"
    return text if len(text) <= _REASON_WIDTH else f"{text[: _REASON_WIDTH - 1]}…"
