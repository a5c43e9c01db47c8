"""The progress bars of runs and epochs on a terminal."""

from __future__ import annotations

from typing import Any

from rich import progress
from rich.console import Console
from rich.table import Column
from rich.text import Text

from idwbench.errors import printable

__all__ = ["Display"]

_LONGEST_BAR = 40


class _Description(progress.ProgressColumn):
    """What a bar is of; the only column that is cut in a narrow terminal."""

    def render(self, task: Any) -> Text:
        """Return the description on one line."""
        return Text(printable(task.description), no_wrap=True, overflow="ellipsis")


class Display:
    """Two bars on stderr, shown at once; `progress` stops them."""

    def __init__(self, runs: int) -> None:
        self.console, whole = Console(stderr=True, highlight=False), Column(no_wrap=True)
        self.progress = progress.Progress(
            _Description(),
            progress.BarColumn(min(_LONGEST_BAR, self.console.width // 4), table_column=whole),
            progress.MofNCompleteColumn(table_column=whole),
            progress.TimeElapsedColumn(table_column=whole),
            progress.TimeRemainingColumn(table_column=whole),
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
        self.progress.update(self.epochs, description=what, completed=epoch, total=total, visible=True)

    def print(self, line: str) -> None:
        """Print a line above the bars, broken between words."""
        self.console.print(Text(printable(line)))
