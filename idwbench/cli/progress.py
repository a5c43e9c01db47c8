"""Progress on stderr: a live display on a terminal, plain lines otherwise."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from idwbench.config import RunConfig
from idwbench.engine.base import RunResult

__all__ = ["SweepProgress", "describe"]

# A log file wants to know that a long run is alive, not of each epoch.
PLAIN_SECONDS = 20.0


def describe(config: RunConfig) -> str:
    """Return what a run is in a few words: ``idw · 16 prototypes · power=2 epsilon=0.001``."""
    parameters = " ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in sorted(config.parameters.items(), reverse=True)
    )
    parts = [config.method, f"{config.prototypes} prototypes", parameters]
    return " · ".join(part for part in parts if part)


class SweepProgress:
    """A `SweepObserver` that shows runs done of runs to do, the stack in work, and each failure as it happens."""

    def __init__(self, to_do: int) -> None:
        self.to_do = to_do
        self.done = 0
        self.lock = threading.Lock()
        self.last = time.monotonic()
        # isatty, not the console's opinion: FORCE_COLOR in a log must not draw bars into it.
        self.live = sys.stderr.isatty()
        self.console = Console(stderr=True, highlight=False)
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.live,
            transient=True,
        )
        self.runs = self.progress.add_task("runs", total=to_do)
        self.epochs = self.progress.add_task("", total=None, visible=False)

    def __enter__(self) -> SweepProgress:
        """Start the live display."""
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it."""
        self.progress.stop()

    def epoch(self, configs: Sequence[RunConfig], epoch: int) -> None:
        """Move the bar of the stack in work; on a plain stream a line now and then."""
        total = configs[0].protocol.epochs
        what = f"{describe(configs[0])} · {_runs(len(configs))}"
        self.progress.update(self.epochs, description=what, completed=epoch, total=total, visible=True)
        if not self.live and time.monotonic() - self.last > PLAIN_SECONDS:
            self._line(f"{what}: epoch {epoch} of {total}")

    def finished(self, results: Sequence[RunResult]) -> None:
        """Print one line for a stack that is stored."""
        accuracies = [result.test_accuracy for result in results if result.test_accuracy is not None]
        diverged = len(results) - len(accuracies)
        parts = [describe(results[0].config), _runs(len(results))]
        if accuracies:
            parts.append(f"test accuracy {100 * sum(accuracies) / len(accuracies):.2f} %")
        if diverged:
            parts.append(f"{diverged} diverged")
        parts.append(f"{sum(result.seconds for result in results):.1f} s")
        self._advance(len(results), " · ".join(parts))

    def failed(self, configs: Sequence[RunConfig], error: Exception) -> None:
        """Print one line for a run that failed."""
        reason = (str(error).strip().splitlines() or [""])[0]
        line = f"{describe(configs[0])} · seed {configs[0].seed} · FAILED: {type(error).__name__}: {reason}"
        self._advance(len(configs), line)

    def _advance(self, runs: int, line: str) -> None:
        with self.lock:
            self.done += runs
            self.progress.update(self.runs, completed=self.done)
            self._line(line)

    def _line(self, text: str) -> None:
        width = len(str(self.to_do))
        self.last = time.monotonic()
        self.console.print(f"[{self.done:>{width}}/{self.to_do}] {text}", markup=False, soft_wrap=True)


def _runs(n: int) -> str:
    return "1 run" if n == 1 else f"{n} runs"
