"""Progress on stderr: bars on a terminal, plain lines otherwise; and the status of a sweep."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Self

from idwbench.cli.output import echo, print_line
from idwbench.cli.setting_progress import RunLabels, SettingProgress, settings_of_plan
from idwbench.errors import error_summary
from idwbench.report.labels import count_label
from idwbench.results import DEFAULT_DATABASE
from idwbench.results.store import Results
from idwbench.runs.config import RunConfig
from idwbench.runs.metrics import headline_metric
from idwbench.runs.results import RunResult
from idwbench.sweep.observer import Observer

if TYPE_CHECKING:
    from idwbench.cli.display import Display
    from idwbench.results.records import SweepStatus
    from idwbench.runs.datasets import DatasetConfig

__all__ = ["RunProgress", "SweepProgress", "status_line"]

PLAIN_SECONDS = 20.0  # between two lines about epochs
LIVE_SECONDS = 0.05  # between two moves of the bar of epochs


class RunProgress(Observer):
    """Shows the number of finished runs, the current stack, and failures."""

    def __init__(self, to_do: int = 1) -> None:
        self.to_do, self.done, self.n_failed = to_do, 0, 0
        self.label = RunLabels()
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

    def planned(self, total: int, to_do: int, running: int, failed: int) -> None:
        """Learn the number of runs to train."""
        self.to_do = to_do

    def note(self, text: str) -> None:
        """Print a line, and on a terminal start the display."""
        if self.display is not None:
            self.display.print(text)
            return
        echo(text, err=True)
        if self.live:
            from idwbench.cli.display import Display  # loads Rich

            self.display = Display(self.to_do)

    def epoch(self, configs: Sequence[RunConfig], epoch: int) -> None:
        """Update the bar of epochs every `LIVE_SECONDS`, or print a line every `PLAIN_SECONDS`."""
        now = time.monotonic()
        if now - self.last < (PLAIN_SECONDS if self.display is None else LIVE_SECONDS):
            return  # a small run has thousands of epochs a second, and their description costs more than they do
        self.last = now
        total = configs[0].n_epochs
        what = f"{self.label(configs[0])} · {count_label(len(configs), 'run')}"
        if self.display is not None:
            self.display.show_epoch(what, epoch, total)
        else:
            self._line(f"{what}: epoch {epoch} of {total}")

    def finished(self, results: Sequence[RunResult]) -> None:
        """Print one line for a stack that is stored."""
        config = results[0].config
        metric = headline_metric(config.dataset.task)
        values = [value for result in results if (value := result.metric(metric.name)) is not None]
        parts = [self.label(config), count_label(len(results), "run")]
        if values:
            mean = sum(values) / len(values)
            parts.append(f"test {metric.name} " + (f"{100 * mean:.2f} %" if metric.percent else f"{mean:.4g}"))
        if n_diverged := sum(result.state == "diverged" for result in results):
            parts.append(f"{n_diverged} diverged")
        parts.append(f"{sum(result.seconds for result in results):.1f} s")
        with self.lock:
            self._advance(len(results), " · ".join(parts))

    def failed(self, config: RunConfig, error: Exception) -> None:
        """Print one line for a run that failed."""
        with self.lock:
            self.n_failed += 1
            self._advance(1, f"{self.label(config)} · seed {config.seed} · FAILED: {error_summary(error)}")

    def _advance(self, runs: int, line: str = "") -> None:
        """Count runs and print a line, if there is one, while holding the lock."""
        self.done += runs
        if self.display is not None:
            self.display.show_runs(self.done)
        if line:
            self._line(line)

    def _line(self, text: str) -> None:
        width = len(str(self.to_do))
        self.last = time.monotonic()
        line = f"[{self.done:>{width}}/{self.to_do}] {text}"
        if self.display is not None:
            self.display.print(line)
        else:
            print_line(line, err=True)


class SweepProgress(RunProgress):
    """Shows the progress of a sweep: a line for each setting whose runs have ended, and failures at once.

    `db` has the metrics of stored runs; `dataset_labels` are the labels of several data sets, shown before that of the
    model; `searched` has the settings of the protocol that a search varies.
    """

    def __init__(
        self,
        name: str,
        db: str = DEFAULT_DATABASE,
        dataset_labels: Mapping[DatasetConfig, str] | None = None,
        searched: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.name, self.db, self.dataset_labels, self.searched = name, db, dataset_labels, searched
        self.settings: dict[str, SettingProgress] = {}
        self.left_elsewhere = 0

    def planned(self, total: int, to_do: int, running: int, failed: int) -> None:
        """Print the number of runs done, to do, trained by other processes, and failed."""
        super().planned(total, to_do, running, failed)
        others = f", {running} in work elsewhere" if running else ""
        others += f", {failed} failed" if failed else ""
        echo(f"{self.name}: {total - to_do - running - failed} of {total} done, {to_do} to go{others}", err=True)

    def pending(self, configs: Sequence[RunConfig], run_keys: Sequence[str], to_do: Collection[str]) -> None:
        """Learn which runs each setting has."""
        self.label = RunLabels(configs, self.dataset_labels)
        self.label.varying = [*self.searched] or self.label.varying
        self.settings = settings_of_plan(configs, run_keys, to_do, self._stored_values)

    def _stored_values(self, run_keys: Sequence[str], metric: str) -> Mapping[str, float]:
        return Results(self.db, read_only=True).metric_values(run_keys, metric)

    def waiting(self, left: int) -> None:
        """Print a line when the number of runs in work elsewhere has changed."""
        if left != self.left_elsewhere:
            self.left_elsewhere = left
            echo(f"{self.name}: waiting for {count_label(left, 'run')} in work elsewhere", err=True)

    def taken_over(self, runs: int) -> None:
        """Print the number of runs that another process has left."""
        self.to_do += runs
        echo(f"{self.name}: {count_label(runs, 'run')} left by another process to go", err=True)

    def taken(self, configs: Sequence[RunConfig]) -> None:
        """Expect these runs no longer."""
        with self.lock:
            for config in configs:
                if (setting := self.settings.get(config.run_key)) is not None:
                    setting.to_do.discard(config.run_key)

    def finished(self, results: Sequence[RunResult]) -> None:
        """Print a line for each setting that is complete, and every `PLAIN_SECONDS` for one that is not."""
        ended = [(result.config.run_key, result) for result in results]
        if any(key not in self.settings for key, _ in ended):  # runs outside the plan, which others need
            super().finished(results)
            return
        with self.lock:
            touched = {}
            for key, result in ended:
                setting = self.settings[key]
                setting.include(key, result)
                touched[id(setting)] = setting
            self._advance(len(results))
            for setting in touched.values():
                self._show(setting)

    def failed(self, config: RunConfig, error: Exception) -> None:
        """Print a line for a run that failed, and one for its setting if that was the last run."""
        super().failed(config, error)
        key = config.run_key
        with self.lock:
            if (setting := self.settings.get(key)) is not None:
                setting.to_do.discard(key)
                setting.n_failed += 1
                if setting.values:
                    self._show(setting)

    def _show(self, setting: SettingProgress) -> None:
        is_slow = self.display is None and time.monotonic() - self.last >= PLAIN_SECONDS
        if not setting.to_do or is_slow:
            self._line(f"{self.label(setting.config)}: {setting.describe()}")


def status_line(name: str, status: SweepStatus) -> str:
    """Return ``two_moons: 178 of 180 runs complete, 2 failed (--retry failed trains them again)``."""
    hints = {"failed": " (--retry failed trains them again)", "stale": " (their process is gone)"}
    parts = [f"{status.complete} of {status.total} runs complete"]
    for word in ("running", "stale", "diverged", "failed"):
        n = getattr(status, word)
        if n:
            parts.append(f"{n} {word}{hints.get(word, '')}")
    return f"{name}: {', '.join(parts)}"
