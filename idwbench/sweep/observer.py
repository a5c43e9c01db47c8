"""The interface for the progress of a sweep."""

from collections.abc import Collection, Sequence

from idwbench.runs.config import RunConfig
from idwbench.runs.results import RunResult

__all__ = ["Observer"]


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
