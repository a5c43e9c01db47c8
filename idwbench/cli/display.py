"""The progress bars of runs and epochs on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from idwbench.errors import printable

__all__ = ["Display"]


class Display:
    """Two bars on stderr."""

    def __init__(self, runs: int) -> None:
        self.console = Console(stderr=True, highlight=False)
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
        )
        self.runs = self.progress.add_task("runs", total=runs)
        self.epochs = self.progress.add_task("", total=None, visible=False)
        self.progress.start()

    def show_runs(self, done: int) -> None:
        """Update the bar of runs."""
        self.progress.update(self.runs, completed=done)

    def show_epoch(self, what: str, epoch: int, total: int) -> None:
        """Update the bar of epochs."""
        self.progress.update(
            self.epochs, description=escape(printable(what)), completed=epoch, total=total, visible=True
        )

    def print(self, line: str) -> None:
        """Print a line above the bars."""
        self.console.print(printable(line), markup=False, soft_wrap=True)

    def stop(self) -> None:
        """Remove the bars."""
        self.progress.stop()
