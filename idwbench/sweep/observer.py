"""The interface for the progress of a sweep, and the bar of a notebook."""

import sys
from collections.abc import Collection, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from idwbench.runs.config import RunConfig
from idwbench.runs.results import RunResult

__all__ = ["NotebookBar", "Observer", "default_observer"]


class Observer:
    """Receives the progress of a sweep and ignores it; subclasses override methods, which any thread may call."""

    def note(self, text: str) -> None:
        """Receive one line of text."""

    def planned(self, total: int, to_do: int, running: int, failed: int) -> None:
        """Receive the numbers of all runs, and of those to train, trained by other processes, and failed before."""

    def pending(self, configs: Sequence[RunConfig], run_keys: Sequence[str], to_do: Collection[str]) -> None:
        """Receive the runs of the sweep with their keys, and the keys of those to train, if there are any."""

    def waiting(self, left: int) -> None:
        """Receive the number of runs that other processes have not ended yet."""

    def taken_over(self, runs: int) -> None:
        """Receive the number of runs to train in addition, which another process has left."""

    def taken(self, configs: Sequence[RunConfig]) -> None:
        """Receive runs that another process has leased in the meantime."""

    def epoch(self, configs: Sequence[RunConfig], epoch: int) -> None:
        """Receive the number of a finished epoch of a stack."""

    def finished(self, results: Sequence[RunResult]) -> None:
        """Receive the results of a stack, after they were stored."""

    def failed(self, config: RunConfig, error: Exception) -> None:
        """Receive the error of a failed run."""


class NotebookBar(Observer):
    """Shows a bar of tqdm, which is a widget where ipywidgets is installed."""

    def planned(self, total: int, to_do: int, running: int, failed: int) -> None:
        """Begin the bar."""
        # Without widgets `tqdm.auto` warns. With miniters=0 time alone decides when the bar is drawn again.
        tqdm = import_module("tqdm.auto" if find_spec("ipywidgets") else "tqdm").tqdm
        self._bar: Any = tqdm(total=to_do, unit="run", miniters=0, disable=not to_do)

    def note(self, text: str) -> None:
        """Write a line above the bar, if there is one: a search whose runs are all stored has none."""
        import_module("tqdm").tqdm.write(text)

    def taken_over(self, runs: int) -> None:
        """Lengthen the bar."""
        self._bar.total += runs
        self._bar.refresh()

    def epoch(self, configs: Sequence[RunConfig], epoch: int) -> None:
        """Show the epoch, at most ten times a second."""
        words = f"{configs[0].model.label}: epoch {epoch} of {configs[0].protocol.epochs}"
        self._bar.set_postfix_str(words, refresh=False)
        self._bar.update(0)

    def finished(self, results: Sequence[RunResult]) -> None:
        """Move the bar, and end it with the last run."""
        self._advance(len(results))

    def failed(self, config: RunConfig, error: Exception) -> None:
        """Write the reason above the bar, and move it."""
        self._bar.write(f"{config.model.label} failed: {error}")
        self._advance(1)

    def _advance(self, runs: int) -> None:
        self._bar.update(runs)
        if self._bar.n >= self._bar.total:
            self._bar.close()


def default_observer() -> Observer:
    """Return a bar in a notebook where tqdm is installed; elsewhere nothing is shown."""
    return NotebookBar() if "ipykernel" in sys.modules and find_spec("tqdm") else Observer()
