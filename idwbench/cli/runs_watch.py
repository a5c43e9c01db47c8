"""`idwbench runs watch`: the progress of sweeps that other processes train, as lines or JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import idwbench
from idwbench.cli.options import argument, option
from idwbench.cli.output import echo, echo_json, print_line, time_label
from idwbench.cli.progress import status_line
from idwbench.report.labels import count_label
from idwbench.results import DEFAULT_DATABASE

if TYPE_CHECKING:
    from idwbench.results.sweeps import SweepProgress

__all__ = ["OPTIONS", "lines_of", "runs_watch", "watch"]

OPTIONS = {
    "sweep": argument(help="Name of a sweep (default: all that have not ended)."),
    "once": option("--once", help="Print the progress once and exit."),
    "interval": option(help="Seconds between two readings of the database.", min=0.1),
}


def runs_watch(
    sweep: str | None = None, once: bool = False, interval: float = 2.0, db: str = DEFAULT_DATABASE, json: bool = False
) -> None:
    """Watch sweeps while other processes train them, until all runs have ended or Ctrl-C is pressed.

    For each sweep: the number of runs in each state, the runs per minute of the last ten minutes, the time left, the
    processes that train, and the last failures. The database is only read. Without a terminal a line is printed
    whenever a number changes; --json prints the progress once.
    """
    results = idwbench.Results(db, read_only=True)
    names = [sweep] if sweep is not None else results.names()[0]
    shown = [results.sweep_progress(name) for name in names]
    if sweep is None:
        shown = [one for one in shown if one.status.to_do] or shown
    if json:
        echo_json({"sweeps": list(map(_facts, shown))}, indent=1)
    elif not shown:
        echo("no sweep is stored")
    elif once:
        _print_all(shown)
    else:
        watch(results, [one.name for one in shown], interval)


def watch(results: idwbench.Results, names: Sequence[str], interval: float) -> None:
    """Print the progress until all runs have ended: in a terminal all of it on a cleared screen, else what changes."""
    from rich.console import Console

    printed: list[str] = []
    while True:
        shown = [results.sweep_progress(name) for name in names]
        if sys.stdout.isatty():
            Console().clear()
            _print_all(shown)
        else:
            lines = [status_line(one.name, one.status) for one in shown]
            for line in (line for line in lines if line not in printed):
                print_line(line)
            printed = lines
        if not any(one.status.to_do for one in shown):
            return
        time.sleep(interval)


def _print_all(shown: Sequence[SweepProgress]) -> None:
    for line in (line for one in shown for line in lines_of(one)):
        print_line(line, hanging=4)


def lines_of(one: SweepProgress) -> Iterator[str]:
    """Yield the lines on a sweep: its runs, each process, and each of the last failures."""
    pace = ""
    if one.status.to_do and one.rate is not None:
        per_minute = 60 * one.rate
        pace = f" · {per_minute:,.0f}" if per_minute >= 10 else f" · {per_minute:.2g}"
        pace += f" runs per minute, about {time_label(one.seconds_left)} left"
    yield f"{status_line(one.name, one.status)}{pace}"
    for process in one.processes:
        seconds = max(0, round((datetime.now(UTC) - process.since).total_seconds()))
        runs = count_label(process.runs, "run")
        yield f"  {process.host} process {process.pid}: {runs}, {process.label}, since {seconds:,} s"
    for failure in one.failures:
        yield f"  failed: {failure.label} · seed {failure.seed}: {failure.reason or 'no message'}"


def _facts(one: SweepProgress) -> dict[str, Any]:
    """Return all of it for JSON."""
    names = ("run_key", "label", "seed")
    return {
        **{"name": one.name, **asdict(one.status), "ended": one.status.ended},
        **{"runs_per_minute": one.rate and 60 * one.rate, "seconds_left": one.seconds_left},
        "processes": one.processes,
        "failures": [
            {name: getattr(run, name) for name in names} | {"error": run.reason, "ended_at": run.finished_at}
            for run in one.failures
        ],
    }
