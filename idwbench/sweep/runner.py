"""The runner: does what a plan still lacks, records each stack whole, and goes on after a failure."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from idwbench.config import RunConfig
from idwbench.data.dataset import Dataset
from idwbench.engine.base import AbstractEngine, RunResult, stack_key
from idwbench.results.store import ResultsStore

__all__ = ["Outcome", "SweepObserver", "run_pending", "stacks"]

HEARTBEAT_SECONDS = 30.0


class SweepObserver(Protocol):
    """What wants to know how the work goes on; called from the thread that trains."""

    def epoch(self, configs: Sequence[RunConfig], epoch: int) -> None:
        """One epoch of a stack is done."""

    def finished(self, results: Sequence[RunResult]) -> None:
        """A stack has ended and is stored."""

    def failed(self, configs: Sequence[RunConfig], error: Exception) -> None:
        """A stack has failed and is stored as failed."""


@dataclass
class Outcome:
    """How the runs of one call ended; `elsewhere` were taken by another process meanwhile."""

    complete: int = 0
    diverged: int = 0
    failed: int = 0
    elsewhere: int = 0


def stacks(configs: Sequence[RunConfig], limit: Callable[[RunConfig], int]) -> Iterator[list[RunConfig]]:
    """Yield runs that may train together, in the order of the plan, at most `limit` of them at a time."""
    groups: dict[str, list[RunConfig]] = {}
    for config in configs:
        groups.setdefault(stack_key(config), []).append(config)
    for group in groups.values():
        size = limit(group[0])
        for start in range(0, len(group), size):
            yield group[start : start + size]


def run_pending(
    configs: Sequence[RunConfig],
    store: ResultsStore,
    engine: AbstractEngine,
    dataset: Dataset,
    observer: SweepObserver,
) -> Outcome:
    """Train those of `configs` that nobody has done or is doing, and store how each ended.

    A stack that fails is tried again run by run, so that one run takes no neighbour with it. When interrupted, the runs
    in work are handed back and `KeyboardInterrupt` goes on.

    Raises:
        ResultsError: the database cannot be written to.
    """
    outcome = Outcome()
    todo = list(stacks(configs, lambda config: engine.max_stack(config, dataset)))
    while todo:
        stack = todo.pop(0)
        claimed = set(store.claim([config.run_key for config in stack]))
        outcome.elsewhere += len(stack) - len(claimed)
        stack = [config for config in stack if config.run_key in claimed]
        if not stack:
            continue
        keys = [config.run_key for config in stack]
        try:
            results = engine.train(stack, dataset, _Pulse(stack, store, observer))
            store.finish(results, data_sha256=dataset.sha256)
        except KeyboardInterrupt:
            store.release(keys)
            raise
        except Exception as error:  # whatever a run does, the next one deserves its turn
            if len(stack) > 1:
                store.release(keys)
                todo[:0] = [[config] for config in stack]
                continue
            store.fail(keys, traceback.format_exc())
            outcome.failed += 1
            observer.failed(stack, error)
            continue
        outcome.complete += sum(result.state == "complete" for result in results)
        outcome.diverged += sum(result.state == "diverged" for result in results)
        observer.finished(results)
    return outcome


class _Pulse:
    """Tells the observer of each epoch, and the database now and then that the runs are alive."""

    def __init__(self, stack: Sequence[RunConfig], store: ResultsStore, observer: SweepObserver) -> None:
        self.stack, self.store, self.observer = stack, store, observer
        self.last = time.monotonic()

    def __call__(self, epoch: int) -> None:
        self.observer.epoch(self.stack, epoch)
        if time.monotonic() - self.last > HEARTBEAT_SECONDS:
            self.store.heartbeat([config.run_key for config in self.stack])
            self.last = time.monotonic()
