"""Progress on stderr: bars on a terminal, plain lines otherwise; and the status of a sweep."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

import typer

from idwbench.report.labels import count_label
from idwbench.runs.config import RunConfig
from idwbench.runs.metrics import headline_metric
from idwbench.runs.results import RunResult
from idwbench.sweep.observer import Observer

if TYPE_CHECKING:
    from idwbench.cli.display import Display
    from idwbench.results.records import SweepStatus
    from idwbench.runs.datasets import DatasetConfig

__all__ = ["RunProgress", "SweepProgress", "interruptible", "status_line"]

PLAIN_SECONDS = 20.0  # between two lines about epochs
LIVE_SECONDS = 0.05  # between two moves of the bar of epochs


@contextmanager
def interruptible(status: Callable[[], str]) -> Iterator[None]:
    """Turn Ctrl-C into one line with the `status`, and exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"interrupted: {status()}", err=True)
        raise typer.Exit(130) from None


class RunProgress(Observer):
    """Shows the number of finished runs, the current stack, and failures.

    `dataset_labels` has the labels of several data sets, shown before that of the model.
    """

    def __init__(self, to_do: int = 1, dataset_labels: Mapping[DatasetConfig, str] | None = None) -> None:
        self.to_do, self.done, self.n_failed = to_do, 0, 0
        self.dataset_labels = dataset_labels or {}
        self.lock = threading.Lock()
        self.last = time.monotonic()
        self.live = sys.stderr.isatty()  # not Rich's property, which follows FORCE_COLOR
        self.display: Display | None = None

    def __enter__(self) -> Self:
        """Return the progress; bars start with the first note."""
        return self

    def __exit__(self, *error: object) -> None:
        """Stop the display."""
        if self.display is not None:
            self.display.stop()

    @property
    def trained(self) -> bool:
        """Whether any run was trained."""
        return self.done > 0

    def note(self, text: str) -> None:
        """Print a line, and on a terminal start the display."""
        typer.echo(text, err=True)
        if self.live and self.display is None:
            from idwbench.cli.display import Display  # loads Rich

            self.display = Display(self.to_do)

    def epoch(self, configs: Sequence[RunConfig], epoch: int) -> None:
        """Update the bar of epochs every `LIVE_SECONDS`, or print a line every `PLAIN_SECONDS`."""
        now = time.monotonic()
        if now - self.last < (PLAIN_SECONDS if self.display is None else LIVE_SECONDS):
            return  # a small run has thousands of epochs a second, and their description costs more than they do
        self.last = now
        total = configs[0].n_epochs
        what = f"{self._label(configs[0])} · {count_label(len(configs), 'run')}"
        if self.display is not None:
            self.display.show_epoch(what, epoch, total)
        else:
            self._line(f"{what}: epoch {epoch} of {total}")

    def finished(self, results: Sequence[RunResult]) -> None:
        """Print one line for a stack that is stored."""
        config = results[0].config
        metric = headline_metric(config.dataset.task)
        values = [value for result in results if (value := result.metric(metric.name)) is not None]
        parts = [self._label(config), count_label(len(results), "run")]
        if values:
            mean = sum(values) / len(values)
            parts.append(f"test {metric.name} " + (f"{100 * mean:.2f} %" if metric.percent else f"{mean:.4g}"))
        if n_diverged := sum(result.state == "diverged" for result in results):
            parts.append(f"{n_diverged} diverged")
        parts.append(f"{sum(result.seconds for result in results):.1f} s")
        self._advance(len(results), " · ".join(parts))

    def failed(self, config: RunConfig, error: Exception) -> None:
        """Print one line for a run that failed."""
        reason = (str(error).strip().splitlines() or [""])[0]
        self.n_failed += 1
        self._advance(1, f"{self._label(config)} · seed {config.seed} · FAILED: {type(error).__name__}: {reason}")

    def _label(self, config: RunConfig) -> str:
        """Return the label of the model, after that of the data set if there are several."""
        return " · ".join(filter(None, (self.dataset_labels.get(config.dataset), config.model.label)))

    def _advance(self, runs: int, line: str) -> None:
        with self.lock:
            self.done += runs
            if self.display is not None:
                self.display.show_runs(self.done)
            self._line(line)

    def _line(self, text: str) -> None:
        width = len(str(self.to_do))
        self.last = time.monotonic()
        line = f"[{self.done:>{width}}/{self.to_do}] {text}"
        if self.display is not None:
            self.display.print(line)
        else:
            typer.echo(line, err=True)


class SweepProgress(RunProgress):
    """Shows the progress of a sweep."""

    def __init__(self, name: str, dataset_labels: Mapping[DatasetConfig, str] | None = None) -> None:
        super().__init__(dataset_labels=dataset_labels)
        self.name = name

    def planned(self, total: int, to_do: int, running: int, failed: int) -> None:
        """Print the number of runs done, to do, trained by other processes, and failed."""
        self.to_do = to_do
        others = f", {running} in work elsewhere" if running else ""
        others += f", {failed} failed" if failed else ""
        typer.echo(f"{self.name}: {total - to_do - running - failed} of {total} done, {to_do} to go{others}", err=True)


def status_line(name: str, status: SweepStatus) -> str:
    """Return ``two_moons: 178 of 180 runs complete, 2 failed (--retry failed trains them again)``."""
    hints = {"failed": " (--retry failed trains them again)", "stale": " (their process is gone)"}
    parts = [f"{status.complete} of {status.total} runs complete"]
    for word in ("running", "stale", "diverged", "failed"):
        n = getattr(status, word)
        if n:
            parts.append(f"{n} {word}{hints.get(word, '')}")
    return f"{name}: {', '.join(parts)}"
