"""`Trainer`: trains given runs data set by data set, with the settings of one command."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from idwbench.results.records import EndedState
from idwbench.results.store import Results
from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import dataset_identity
from idwbench.sweep.observer import Observer
from idwbench.sweep.outcome import Outcome
from idwbench.training.engine import Context, EngineName
from idwbench.training.selection import check_run, prepare_engines

if TYPE_CHECKING:
    from idwbench.data.dataset import Dataset
    from idwbench.sweep.cluster.driver import ClusterRunner

__all__ = ["Trainer", "load_data", "missing_requirements"]

# Garbage is collected after as many new objects; the results of some hundred small runs have fewer.
_NEW_OBJECTS = 20_000


@dataclass
class Trainer:
    """Trains runs that are in the database.

    Attributes:
        jobs: Number of threads that train; None for one for each core, or one on a GPU.
        threads: Number of threads of BLAS and torch; more than one only for one run that trains alone, since its bytes
            depend on it.
        cluster: Trains in place of this process, if there is one.
        max_failures: No run is started after this number of failed runs.
        outcome: What became of all runs so far.
    """

    results: Results
    observer: Observer
    engine: EngineName = "auto"
    device: str = "cpu"
    data_dir: Path | None = None
    jobs: int | None = None
    threads: int = 1
    cluster: ClusterRunner | None = None
    max_failures: int | None = None
    outcome: Outcome = field(default_factory=Outcome)
    _reported: str = ""

    @property
    def has_failed(self) -> bool:
        """Whether there are `max_failures` failed runs."""
        return self.max_failures is not None and self.outcome.failed >= self.max_failures

    def train_all(self, configs: Sequence[RunConfig]) -> None:
        """Train runs data set by data set, in the order of the first run of each; only one data set is in memory."""
        groups: dict[str, list[RunConfig]] = {}
        for config in configs:
            groups.setdefault(dataset_identity(config.dataset), []).append(config)
        for place, group in enumerate(groups.values()):
            if self.has_failed:
                return
            dataset = load_data(group[0], self.data_dir)
            for config in {run.setting_key: run for run in group}.values():  # no check depends on the seed
                check_run(config, dataset, self.context)
            if place == 0:
                self.prepare(configs)
            self.train(group, dataset)

    @property
    def context(self) -> Context:
        """What the trainings share."""
        results = self.results
        folders = results.checkpoint_folder, results.recording_folder
        return Context(self.engine, self.device, results, *folders, self.observer.note)

    def prepare(self, configs: Sequence[RunConfig]) -> None:
        """Import the engines of runs, compile kernels, and report the engines unless the last call did."""
        line = prepare_engines(configs, self.context)
        if line != self._reported:  # a search prepares batch by batch
            self.observer.note(line)
            self._reported = line

    def train(self, configs: Sequence[RunConfig], dataset: Dataset) -> None:
        """Train runs on one data set, those that others need first."""
        from idwbench.sweep.runner import run_pending
        from idwbench.training.threads import available_cores, limited_threads

        train = run_pending if self.cluster is None else self.cluster.run_pending
        # A GPU trains one large stack at a time.
        jobs = self.jobs or (available_cores() if self.device == "cpu" else 1)
        with limited_threads(self.threads), _frozen_heap(), self.results.kept_open():
            for ready in self._in_order(configs):
                if ready and not self.has_failed:
                    left = None if self.max_failures is None else self.max_failures - self.outcome.failed
                    self.outcome.include(train(ready, self.results, self.context, dataset, self.observer, jobs, left))

    def _in_order(self, configs: Sequence[RunConfig]) -> Iterator[Sequence[RunConfig]]:
        """Yield the runs that others need; when these are trained, the others whose needed run has ended."""
        required = {run.run_key for config in configs if (run := config.required) is not None}
        if not required:
            yield configs
            return
        yield [config for config in configs if config.run_key in required]
        # Another process may still train a network; the process that ends last makes the runs that need it.
        waiting = {key for key in required if self.results.find_run(key).state in ("planned", "running")}
        others = [config for config in configs if config.run_key not in required]
        ready = [run for run in others if run.required is None or run.required.run_key not in waiting]
        self.outcome.add("elsewhere", len(others) - len(ready))
        yield ready


def load_data(config: RunConfig, data_dir: Path | None) -> Dataset:
    """Return the data set of a run."""
    from idwbench.data.loading import load_dataset

    return load_dataset(config.dataset, data_dir)


def missing_requirements(configs: Sequence[RunConfig], results: Results) -> list[RunConfig]:
    """Return the runs that runs of `configs` need and that have no result, added to the database."""
    required = {run.run_key: run for config in configs if (run := config.required) is not None}
    if not required:
        return []
    results.plan(list(required.values()))
    failed: tuple[EndedState] = ("failed",)
    results.reset(list(required), failed)
    among = {config.run_key for config in configs}
    return [required[key] for key in results.pending(list(required)) if key not in among]


@contextmanager
def _frozen_heap() -> Iterator[None]:
    """Exclude the objects that are already loaded from garbage collection, and collect less often."""
    was_enabled, thresholds = gc.isenabled(), gc.get_threshold()
    gc.freeze()
    gc.set_threshold(max(_NEW_OBJECTS, thresholds[0]), *thresholds[1:])
    gc.enable()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
        if not was_enabled:
            gc.disable()
