"""`idwbench runs watch`: the progress of sweeps that other processes train."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from idwbench.cli.options import argument, option
from idwbench.cli.output import echo_json, print_line
from idwbench.results import DEFAULT_DATABASE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from idwbench.results.progress import SweepProgress
    from idwbench.results.store import Results

__all__ = ["OPTIONS", "runs_watch"]

OPTIONS = {
    "sweep": argument("Name of a sweep; all that have not ended if not given."),
    "once": option("Print the progress once and end."),
    "interval": option("Seconds between two looks at the database.", min=0.1),
}


def runs_watch(
    sweep: str | None = None,
    once: bool = False,
    interval: float = 2.0,
    db: str = DEFAULT_DATABASE,
    json: bool = False,
) -> None:
    """Watch sweeps while other processes train them, until all runs have ended or Ctrl-C is pressed.

    For each sweep: the number of runs in each state, the runs per minute of the last ten minutes, the time left, the
    processes that train, and the last failures. The database is only read. Without a terminal a line is printed
    whenever a number changes; --json prints the progress once.
    """
    from idwbench.results.store import Results

    results = Results(db, read_only=True)
    names = [sweep] if sweep is not None else _unfinished(results)
    found = [results.sweep_progress(name) for name in names]
    if json:
        from idwbench.cli.watch_output import progress_facts

        echo_json({"sweeps": [progress_facts(one) for one in found]}, indent=1)
    elif once or not found:
        from idwbench.cli.watch_output import plain_lines

        for line in plain_lines(found):
            print_line(line, hanging=4)
    elif sys.stdout.isatty():
        _show(results, names, interval)
    else:
        _print_changes(results, names, interval)


def _unfinished(results: Results) -> list[str]:
    """Return the names of the sweeps that have not ended, or if all have, of all."""
    names = [stored.name for stored in results.list_sweeps()]
    return [name for name in names if results.sweep_progress(name).to_do] or names


def _looks(results: Results, names: Sequence[str], interval: float) -> Iterator[list[SweepProgress]]:
    """Yield the progress until all runs have ended."""
    while True:
        found = [results.sweep_progress(name) for name in names]
        yield found
        if not any(one.to_do for one in found):
            return
        time.sleep(interval)


def _show(results: Results, names: Sequence[str], interval: float) -> None:
    from idwbench.cli.watch_output import LiveView

    with LiveView() as view:
        for found in _looks(results, names, interval):
            view.show(found)


def _print_changes(results: Results, names: Sequence[str], interval: float) -> None:
    """Print a line about each sweep whenever one of its numbers changes."""
    from idwbench.cli.progress import status_line

    shown: dict[str, str] = {}
    for found in _looks(results, names, interval):
        for one in found:
            line = status_line(one.name, one.status)
            if shown.get(one.name) != line:
                shown[one.name] = line
                print_line(line)
