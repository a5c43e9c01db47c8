"""Progress on stderr: bars on a terminal, plain lines otherwise; the labels of runs and the status of a sweep."""

from __future__ import annotations

import math
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import idwbench
from idwbench.cli.output import echo, print_line
from idwbench.errors import error_summary, printable
from idwbench.report.labels import count_label, dataset_words, setting_label, value_label
from idwbench.runs.config import RunConfig
from idwbench.runs.dataset_base import DatasetConfig
from idwbench.runs.datasets import dataset_label
from idwbench.runs.metrics import HEADLINES
from idwbench.runs.protocol import Protocol
from idwbench.runs.results import RunResult
from idwbench.sweep.observer import Observer

if TYPE_CHECKING:
    from rich.progress import Progress

    from idwbench.results.records import SweepStatus
    from idwbench.sweep.spec import SweepSpec

__all__ = ["SettingProgress", "SweepProgress", "progress_bars", "run_labels", "status_line"]

PLAIN_SECONDS = 20.0  # between two lines about epochs
LIVE_SECONDS = 0.05  # between two moves of the bar of epochs
RUNS, EPOCHS = 0, 1  # the bars
_LONGEST_BAR = 40
_SPLITS = ("validation", "test")  # test is shown where no rows are there to choose by


def progress_bars(runs: int) -> Progress:
    """Return a bar of runs and a hidden one of epochs on stderr; in a narrow terminal only what they are of is cut."""
    from rich import progress
    from rich.console import Console
    from rich.table import Column
    from rich.text import Text

    class Description(progress.ProgressColumn):
        """A text that is cut; among columns that do not wrap, `TextColumn` would take the place of the bar."""

        def render(self, task: progress.Task) -> Text:
            return Text(task.description, no_wrap=True, overflow="ellipsis")

    console, whole = Console(stderr=True, highlight=False, markup=False, emoji=False), Column(no_wrap=True)
    bar = progress.BarColumn(min(_LONGEST_BAR, console.width // 4), table_column=whole)
    kinds = (progress.MofNCompleteColumn, progress.TimeElapsedColumn, progress.TimeRemainingColumn)
    columns = (kind(table_column=whole) for kind in kinds)
    bars = progress.Progress(Description(), bar, *columns, console=console, transient=True)
    bars.add_task("runs", total=runs)
    bars.add_task("", total=None, visible=False)
    return bars


def run_labels(configs: Sequence[RunConfig] = (), spec: SweepSpec | None = None) -> Callable[[RunConfig], str]:
    """Return what labels runs without their seed: ``idw · 16 prototypes · p=2, ε=0.001 · learning rate 0.01``.

    The data set comes first if the sweep `spec` has several; last are the settings of the protocol that it searches, or
    that vary among `configs`.
    """
    protocols = {config.setting_key: config.protocol for config in configs}.values()
    searched, datasets = ([], []) if spec is None else (spec.searched_protocol, [one for one, _ in spec.datasets])
    varying = searched or [
        name for name in Protocol.model_fields if len({getattr(protocol, name) for protocol in protocols}) > 1
    ]
    names: dict[DatasetConfig, str] = {}
    if len(datasets) > 1:
        words = dataset_words([dataset_label(dataset) for dataset in datasets], datasets)
        names = {dataset: " · ".join(parts) for dataset, parts in zip(datasets, words, strict=True)}

    def label(config: RunConfig) -> str:
        settings = (setting_label(name, getattr(config.protocol, name)) for name in varying)
        return " · ".join(filter(None, (names.get(config.dataset), config.model.label, *settings)))

    return label


@dataclass
class SettingProgress:
    """One setting: its runs, one for each seed, and what is known of them.

    Attributes:
        config: Any run of the setting.
        run_keys: Its runs, in the plan or trained.
        to_do: The runs among them that are still to be trained by this process.
        values: The headline metric by run key, also of runs that were stored before.
        split: The split of these values: validation, or test without one.
        states: Number of runs that this process has trained, by what became of them.
        seconds: Their training time.
    """

    config: RunConfig
    run_keys: set[str] = field(default_factory=set)
    to_do: set[str] = field(default_factory=set)
    values: dict[str, float] = field(default_factory=dict)
    split: str = "test"
    states: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def include(self, result: RunResult) -> None:
        """Add the result of a run."""
        self.run_keys.add(result.config.run_key)
        self.to_do.discard(result.config.run_key)
        self.seconds += result.seconds
        self.states[result.state] += 1
        name = HEADLINES[result.config.dataset.task].name
        if result.state == "complete":
            self.add(result.config.run_key, {split: result.metric(name, split) for split in _SPLITS})

    def add(self, run_key: str, by_split: Mapping[str, float | None]) -> None:
        """Add the headline metric of a run on the first split that has it."""
        for split in _SPLITS:
            if (value := by_split.get(split)) is not None:
                self.split, self.values[run_key] = split, value
                return

    def describe(self) -> str:
        """Return ``test accuracy 97.51 ± 0.42 % (5 of 5 seeds) · 3.2 s``, or with a validation part its accuracy."""
        metric, parts = HEADLINES[self.config.dataset.task], []
        if self.values:
            values = [*filter(math.isfinite, self.values.values())]
            std, words = statistics.stdev(values) if len(values) > 1 else None, "not finite"
            if values:
                words = value_label(metric.name, statistics.fmean(values), std) + (" %" if metric.percent else "")
            seeds = f"{len(self.values)} of {count_label(len(self.run_keys), 'seed')}"
            parts = [f"{self.split} {metric.name} {words} ({seeds})"]
        parts += [f"{self.states[state]} {state}" for state in ("diverged", "failed") if self.states[state]]
        return " · ".join([*parts, f"{self.seconds:.1f} s"])


class SweepProgress(Observer, AbstractContextManager["SweepProgress"]):
    """Shows the progress of a sweep: a line for each setting whose runs have ended, and failures at once.

    Without a `spec` that of single runs; `db` has the metrics of stored runs of the sweep.
    """

    def __init__(self, spec: SweepSpec | None = None, db: str = "") -> None:
        self.spec, self.name, self.db = spec, "" if spec is None else spec.name, db
        self.to_do, self.done, self.n_failed, self.left_elsewhere = 1, 0, 0, 0
        self.settings: dict[str, SettingProgress] = {}
        self.label = run_labels()
        self.lock = threading.Lock()
        self.last = time.monotonic()
        self.bars: Progress | None = None

    def __exit__(self, *error: object) -> None:
        """Remove the bars."""
        if self.bars is not None:
            self.bars.stop()

    def note(self, text: str) -> None:
        """Print a line, and on a terminal show the bars."""
        self._print(text)
        if self.bars is None and sys.stderr.isatty():  # Rich would follow FORCE_COLOR
            self.bars = progress_bars(self.to_do)
            self.bars.start()

    def planned(self, total: int, to_do: int, running: int, failed: int) -> None:
        """Print the number of runs of a sweep done, to do, trained by other processes, and failed."""
        self.to_do = to_do
        others = f", {running} being trained elsewhere" if running else ""
        others += f", {failed} failed" if failed else ""
        if self.spec is not None:
            echo(f"{self.name}: {total - to_do - running - failed} of {total} done, {to_do} to go{others}", err=True)

    def pending(self, configs: Sequence[RunConfig], run_keys: Sequence[str], to_do: Collection[str]) -> None:
        """Learn which runs each setting has, and what is stored of settings that are begun."""
        assert self.spec is not None
        self.label = run_labels(configs, self.spec)
        for config, key in zip(configs, run_keys, strict=True):
            setting = self._setting(config)
            setting.run_keys.add(key)
            if key in to_do:
                setting.to_do.add(key)
        unfinished = [setting for setting in self.settings.values() if setting.to_do]
        begun = {key: setting for setting in unfinished for key in setting.run_keys - setting.to_do}
        if begun:
            names = {HEADLINES[setting.config.dataset.task].name for setting in unfinished}
            stored = idwbench.Results(self.db, read_only=True).run_table(sweep=self.name, metrics=names, facts=())
            for place, key in enumerate(stored["run_key"]):
                if key in begun:
                    name = HEADLINES[begun[key].config.dataset.task].name
                    known = {split: stored[split, name][place] for split in _SPLITS if (split, name) in stored}
                    begun[key].add(key, {split: value for split, value in known.items() if not math.isnan(value)})

    def waiting(self, left: int) -> None:
        """Print a line when the number of runs being trained elsewhere has changed."""
        if left != self.left_elsewhere:
            self.left_elsewhere = left
            echo(f"{self.name}: waiting for {count_label(left, 'run')} being trained elsewhere", err=True)

    def taken_over(self, runs: int) -> None:
        """Print the number of runs that another process has left."""
        self.to_do += runs
        echo(f"{self.name}: {count_label(runs, 'run')} left by another process to train", err=True)

    def taken(self, configs: Sequence[RunConfig]) -> None:
        """Expect these runs no longer."""
        with self.lock:
            for config in configs:
                self._setting(config).to_do.discard(config.run_key)

    def epoch(self, configs: Sequence[RunConfig], epoch: int) -> None:
        """Update the bar of epochs every `LIVE_SECONDS`, or print a line every `PLAIN_SECONDS`."""
        now = time.monotonic()
        if now - self.last < (PLAIN_SECONDS if self.bars is None else LIVE_SECONDS):
            return  # a small run has thousands of epochs a second, and their description costs more than they do
        self.last = now
        total = configs[0].n_epochs
        what = printable(f"{self.label(configs[0])} · {count_label(len(configs), 'run')}")
        if self.bars is None:
            self._line(f"{what}: epoch {epoch} of {total}")
        else:
            self.bars.update(self.bars.task_ids[EPOCHS], description=what, completed=epoch, total=total, visible=True)

    def finished(self, results: Sequence[RunResult]) -> None:
        """Print a line for each setting that is complete, and every `PLAIN_SECONDS` for one that is not."""
        with self.lock:
            settings = [self._setting(result.config) for result in results]
            for setting, result in zip(settings, results, strict=True):
                setting.include(result)
            self._advance(len(results))
            for setting in {id(setting): setting for setting in settings}.values():
                self._show(setting)

    def failed(self, config: RunConfig, error: Exception) -> None:
        """Print a line for a run that failed, and one for its setting if that was the last run."""
        with self.lock:
            self.n_failed += 1
            self._advance(1)
            self._line(f"{self.label(config)} · seed {config.seed} · FAILED: {error_summary(error)}")
            setting = self._setting(config)
            setting.to_do.discard(config.run_key)
            setting.states["failed"] += 1
            if setting.values:
                self._show(setting)

    def _setting(self, config: RunConfig) -> SettingProgress:
        """Return the setting of a run, which is not in the plan if only others need it."""
        return self.settings.setdefault(config.setting_key, SettingProgress(config))

    def _show(self, setting: SettingProgress) -> None:
        is_slow = self.bars is None and time.monotonic() - self.last >= PLAIN_SECONDS
        if not setting.to_do or is_slow:
            self._line(f"{self.label(setting.config)}: {setting.describe()}")

    def _advance(self, runs: int) -> None:
        """Count runs that have ended; this and `_line` are called with the lock."""
        self.done += runs
        if self.bars is not None:
            self.bars.update(self.bars.task_ids[RUNS], completed=self.done)

    def _line(self, text: str) -> None:
        self.last = time.monotonic()
        self._print(f"[{self.done:>{len(str(self.to_do))}}/{self.to_do}] {text}")

    def _print(self, line: str) -> None:
        if self.bars is None:
            print_line(line, err=True)
        else:
            self.bars.console.print(printable(line))


def status_line(name: str, status: SweepStatus) -> str:
    """Return ``two_moons: 178 of 180 runs complete, 2 failed (--retry failed trains them again)``."""
    hints = {"failed": " (--retry failed trains them again)", "stale": " (their process is gone)"}
    counts = ((word, getattr(status, word)) for word in ("running", "stale", "diverged", "failed"))
    parts = [f"{n} {word}{hints.get(word, '')}" for word, n in counts if n]
    return f"{name}: {', '.join([f'{status.complete} of {status.total} runs complete', *parts])}"
