"""The option `--measure`: the quality of prototypes of stored runs that lack it, and the advice to use it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import idwbench
from idwbench.cli.interruption import interruptible
from idwbench.cli.output import echo
from idwbench.errors import ConfigError
from idwbench.report.labels import count_label

if TYPE_CHECKING:
    import pandas

    from idwbench.results.records import StoredRun

__all__ = ["advise", "advised", "measure", "measured_runs", "opened"]

_ADVICE = "--measure computes it from their keys, without training"


def opened(db: str, measure: bool) -> idwbench.Results:
    """Return the database, writable if runs are to be measured; one that does not exist is not created."""
    return idwbench.Results(db, read_only=not (measure and ("://" in db or Path(db).exists())))


def measure(results: idwbench.Results, runs: Sequence[StoredRun], data_dir: Path | None) -> int:
    """Store the quality of prototypes of the runs that lack it; print progress, and return their number."""
    from idwbench.sweep.measurement import unmeasured_runs

    n = len(unmeasured_runs(runs))
    if n == 0:
        echo("all runs are measured already", err=True)
        return 0
    with interruptible(lambda: "what was measured is stored; the same command continues"):
        return idwbench.measure_runs(
            results, runs, data_dir, lambda done: echo(f"measured {done} of {n} runs", err=True)
        )


def measured_runs(results: idwbench.Results, data_dir: Path | None, measured: bool) -> list[StoredRun]:
    """Return the finished runs of the paper's data sets; with `measured` they are measured first."""
    from idwbench.publications.publication import publications

    runs = publications()["paper"].finished_runs(results)
    if measured and measure(results, publications()["paper"].select(runs), data_dir):
        runs = publications()["paper"].finished_runs(results)
    return runs


def advise(runs: Sequence[StoredRun]) -> None:
    """Print how to get the quality of prototypes, if some of the runs lack it."""
    from idwbench.sweep.measurement import unmeasured_runs

    if n := len(unmeasured_runs(runs)):
        echo(f"{count_label(n, 'run')} without the quality of prototypes: {_ADVICE}", err=True)


@contextmanager
def advised(table: pandas.DataFrame) -> Iterator[None]:
    """Advise to measure if runs of a table lack its metric, one of quality; of an error it is the hint."""
    from idwbench.results.frame import records
    from idwbench.sweep.measurement import unmeasured_runs

    runs = records(table)
    try:
        yield
    except ConfigError as error:
        if error.location != ("metric",) or not unmeasured_runs(runs):
            raise
        raise ConfigError(error.problem, location=error.location, hint=_ADVICE) from None
    advise(runs)
