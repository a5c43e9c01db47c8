"""Progress on stderr: a live display on a terminal, plain lines otherwise."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

import typer

from idwbench.runs.config import RunConfig
from idwbench.runs.metrics import headline_metric
from idwbench.runs.results import RunResult
from idwbench.sweep.observer import Observer

if TYPE_CHECKING:
    from idwbench.cli.display import Display

__all__ = ["RunProgress", "SweepProgress", "interruptible"]

# In a log, a line that shows that a long run is alive is enough.
PLAIN_SECONDS = 20.0


@contextmanager
def interruptible(status: Callable[[], str]) -> Iterator[None]:
    """Turn Ctrl-C into one line with the `status` afterwards, and exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"interrupted: {status()}", err=True)
        raise typer.Exit(130) from None


class RunProgress(Observer):
    """Shows finished runs of all runs, the stack that trains, and each failure as it happens."""

    def __init__(self, to_do: int = 1) -> None:
        self.to_do, self.done, self.n_failed = to_do, 0, 0
        self.lock = threading.Lock()
        self.last = time.monotonic()
        # isatty rather than the console's opinion: FORCE_COLOR must not draw bars into a log.
        self.live = sys.stderr.isatty()
        self.display: Display | None = None

    def __enter__(self) -> Self:
        """Return the display; it starts with the first note."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
            from idwbench.cli.display import Display  # loads Rich, which a sweep with nothing to do does not need

            self.display = Display(self.to_do)

    def epoch(self, configs: Sequence[RunConfig], epoch: int) -> None:
        """Move the bar of the stack that trains; on a plain stream print a line now and then."""
        total = configs[0].protocol.epochs
        what = f"{configs[0].model.label} · {_runs(len(configs))}"
        if self.display is not None:
            self.display.show_epoch(what, epoch, total)
        elif time.monotonic() - self.last > PLAIN_SECONDS:
            self._line(f"{what}: epoch {epoch} of {total}")

    def finished(self, results: Sequence[RunResult]) -> None:
        """Print one line for a stack that is stored."""
        config = results[0].config
        metric = headline_metric(config.dataset.task)
        values = [value for result in results if (value := result.metric(metric.name)) is not None]
        parts = [config.model.label, _runs(len(results))]
        if values:
            mean = sum(values) / len(values)
            parts.append(f"test {metric.name} " + (f"{100 * mean:.2f} %" if metric.percent else f"{mean:.4g}"))
        if len(results) > len(values):
            parts.append(f"{len(results) - len(values)} diverged")
        parts.append(f"{sum(result.seconds for result in results):.1f} s")
        self._advance(len(results), " · ".join(parts))

    def failed(self, config: RunConfig, error: Exception) -> None:
        """Print one line for a run that failed."""
        reason = (str(error).strip().splitlines() or [""])[0]
        self.n_failed += 1
        self._advance(1, f"{config.model.label} · seed {config.seed} · FAILED: {type(error).__name__}: {reason}")

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
    """The same for the runs of a sweep."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def planned(self, total: int, to_do: int, running: int, failed: int) -> None:
        """Print how much is done, to do, trained by other processes, and failed."""
        self.to_do = to_do
        others = f", {running} in work elsewhere" if running else ""
        others += f", {failed} failed" if failed else ""
        typer.echo(f"{self.name}: {total - to_do - running - failed} of {total} done, {to_do} to go{others}", err=True)


def _runs(n: int) -> str:
    return "1 run" if n == 1 else f"{n} runs"
