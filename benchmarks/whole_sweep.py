"""How much of a sweep of small runs is the compiled kernel."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.tables import header, row
from benchmarks.timing import Times
from idwbench.data.dataset import Dataset
from idwbench.sweep.execution import run_sweep
from idwbench.training import kernel_runs

__all__ = ["whole_sweep"]

N_SEEDS = 1000
GRID = "{method: idw, prototypes: 16, power: 2, epsilon: 1.0e-3}"
SWEEP = f"name: seeds\ndataset: two_moons\nseeds: SEEDS\ngrid: {GRID}\n"


def whole_sweep(mnist: Dataset) -> None:
    """Processor time of the kernel over that of a whole sweep of Two Moons with a new database, in one thread.

    The kernel is each call of `run_stack`: 25 epochs of training, each with a test, and the final outputs for all
    splits. The whole is all of `run_sweep`, apart from the imports, the loading of machine code and git, which a first
    sweep of one run has done; reading the sweep file, creating the database and the generation of data are included.
    """
    _seconds(1)
    times = Times([_seconds(N_SEEDS) for _ in range(5)])
    header("work", "ratio", "ms a run", "runs a second", "must", numbers=3)
    for place, title in enumerate(("the kernel", f"the whole sweep, {N_SEEDS} seeds")):
        milliseconds = 1000 * times.seconds(place) / N_SEEDS
        ratio, must = (f"{times.ratio(0, 1):.2f}", "≥ 0.75") if place else ("", "")
        row(title, ratio, f"{milliseconds:.2f}", f"{1000 / milliseconds:.0f}", must)


def _seconds(n_seeds: int) -> list[float]:
    """Return the processor time of the kernel and of the whole sweep."""
    with tempfile.TemporaryDirectory() as folder, _kernel_calls() as calls:
        file = Path(folder) / "sweep.yaml"
        file.write_text(SWEEP.replace("SEEDS", str(n_seeds)), encoding="utf-8")
        started = time.process_time()
        status = run_sweep(file, f"{folder}/results.db", engine="fused", jobs=1)
        seconds = time.process_time() - started
        if status.complete != n_seeds:
            raise RuntimeError(f"{status.complete} of {n_seeds} runs are complete")
    return [sum(calls), seconds]


@contextmanager
def _kernel_calls() -> Iterator[list[float]]:
    """Give a list that gets the processor time of each call of the kernel."""
    kernel: Callable[..., None] = kernel_runs.run_stack
    calls: list[float] = []

    def timed(*arguments: Any) -> None:
        started = time.thread_time()
        kernel(*arguments)
        calls.append(time.thread_time() - started)

    kernel_runs.run_stack = timed
    try:
        yield calls
    finally:
        kernel_runs.run_stack = kernel
