"""What a sweep reports of its progress, independent of how it is shown."""

from __future__ import annotations

from collections.abc import Sequence

from idwbench.runs.config import RunConfig
from idwbench.runs.results import RunResult

__all__ = ["Observer"]


class Observer:
    """Receives the progress of a sweep and ignores it; override what is wanted.

    The methods about runs are called by any of the threads that train.
    """

    def note(self, text: str) -> None:
        """Receive one line about what happens next."""

    def planned(self, total: int, to_do: int, running: int, failed: int) -> None:
        """Receive how many runs there are, will be trained, are trained by others, and had failed before."""

    def epoch(self, configs: Sequence[RunConfig], epoch: int) -> None:
        """Receive the number of a stack's epoch that has ended."""

    def finished(self, results: Sequence[RunResult]) -> None:
        """Receive the results of a stack that is stored."""

    def failed(self, config: RunConfig, error: Exception) -> None:
        """Receive why a run failed; it is stored as failed."""
