"""The runner: does what a plan still lacks, records each stack whole, and goes on after a failure."""

from __future__ import annotations

import contextlib
import math
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Protocol

from idwbench.config import RunConfig
from idwbench.data.dataset import Dataset
from idwbench.engine.base import AbstractEngine, RunResult, stack_key
from idwbench.errors import ResultsError
from idwbench.results.store import ResultsStore

__all__ = ["Outcome", "SweepObserver", "run_pending", "stacks"]

HEARTBEAT_SECONDS = 30.0

EngineChoice = Callable[[RunConfig], AbstractEngine]


class SweepObserver(Protocol):
    """What wants to know how the work goes on; called from any of the threads that train."""

    def epoch(self, configs: Sequence[RunConfig], epoch: int) -> None:
        """One epoch of a stack is done."""

    def finished(self, results: Sequence[RunResult]) -> None:
        """A stack has ended and is stored."""

    def failed(self, configs: Sequence[RunConfig], error: Exception) -> None:
        """A run has failed and is stored as failed."""


@dataclass
class Outcome:
    """How the runs of one call ended; `elsewhere` were taken by another process meanwhile."""

    complete: int = 0
    diverged: int = 0
    failed: int = 0
    elsewhere: int = 0


def stacks(configs: Sequence[RunConfig], limit: Callable[[RunConfig], int], jobs: int = 1) -> Iterator[list[RunConfig]]:
    """Yield runs that may train together, in the order of the plan, at most `limit` of them at a time.

    Where there are fewer kinds of runs than jobs, each kind is shared out, so that no job is idle.
    """
    groups: dict[str, list[RunConfig]] = {}
    for config in configs:
        groups.setdefault(stack_key(config), []).append(config)
    for group in groups.values():
        share = len(group) if len(groups) >= jobs else math.ceil(len(group) / jobs)
        size = min(limit(group[0]), share)
        for start in range(0, len(group), size):
            yield group[start : start + size]


def run_pending(
    configs: Sequence[RunConfig],
    store: ResultsStore,
    engine_for: EngineChoice,
    dataset: Dataset,
    observer: SweepObserver,
    jobs: int = 1,
) -> Outcome:
    """Train those of `configs` that nobody has done or is doing, and store how each ended.

    `jobs` threads share the data, each with one stack at a time. A stack that fails is tried again run by run, so that
    one run takes no neighbour with it. When interrupted, the runs in work are handed back and `KeyboardInterrupt` goes
    on.

    Raises:
        ResultsError: the database cannot be written to.
    """
    queue = deque(stacks(configs, lambda config: engine_for(config).max_stack(config, dataset), jobs))
    crew = _Crew(queue, store, engine_for, dataset, observer)
    workers = min(jobs, max(1, len(queue)))
    with ThreadPoolExecutor(workers, thread_name_prefix="idwbench") as pool:
        futures = [pool.submit(crew.work) for _ in range(workers)]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            crew.stop.set()
    for future in futures:
        future.result()
    return crew.outcome


class _Stopped(Exception):
    """Raised inside a training to end it: the sweep was interrupted, or another thread cannot go on."""


class _Crew:
    """Threads that take stacks from one queue until it is empty."""

    def __init__(
        self,
        queue: deque[list[RunConfig]],
        store: ResultsStore,
        engine_for: EngineChoice,
        dataset: Dataset,
        observer: SweepObserver,
    ) -> None:
        self.queue, self.store, self.engine_for = queue, store, engine_for
        self.dataset, self.observer = dataset, observer
        self.outcome = Outcome()
        self.lock = threading.Lock()
        self.stop = threading.Event()

    def work(self) -> None:
        while not self.stop.is_set():
            try:
                stack = self.queue.popleft()
            except IndexError:
                return
            claimed = set(self.store.claim([config.run_key for config in stack]))
            self._count("elsewhere", len(stack) - len(claimed))
            stack = [config for config in stack if config.run_key in claimed]
            if stack:
                self._train(stack)

    def _train(self, stack: list[RunConfig]) -> None:
        keys = [config.run_key for config in stack]
        try:
            results = self.engine_for(stack[0]).train(stack, self.dataset, _Pulse(self, stack))
        except _Stopped:
            self.store.release(keys)
            return
        except Exception as error:  # whatever a run does, the next one deserves its turn
            if len(stack) > 1:
                self.store.release(keys)
                self.queue.extendleft([config] for config in reversed(stack))
                return
            self.store.fail(keys, traceback.format_exc())
            self._count("failed", 1)
            self.observer.failed(stack, error)
            return
        except BaseException:
            self.store.release(keys)
            raise
        try:
            self.store.finish(results, data_sha256=self.dataset.sha256)
        except ResultsError:
            with contextlib.suppress(ResultsError):
                self.store.release(keys)
            raise
        for state in ("complete", "diverged"):
            self._count(state, sum(result.state == state for result in results))
        self.observer.finished(results)

    def _count(self, what: str, n: int) -> None:
        with self.lock:
            setattr(self.outcome, what, getattr(self.outcome, what) + n)


class _Pulse:
    """Tells the observer of each epoch and the database, now and then, that the runs are alive; ends them if asked."""

    def __init__(self, crew: _Crew, stack: Sequence[RunConfig]) -> None:
        self.crew, self.stack = crew, stack
        self.last = time.monotonic()

    def __call__(self, epoch: int) -> None:
        if self.crew.stop.is_set():
            raise _Stopped
        self.crew.observer.epoch(self.stack, epoch)
        if time.monotonic() - self.last > HEARTBEAT_SECONDS:
            # A database that is locked just now must not cost a healthy run; the next epoch tries again.
            with contextlib.suppress(ResultsError):
                self.crew.store.heartbeat([config.run_key for config in self.stack])
                self.last = time.monotonic()
