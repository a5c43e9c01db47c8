"""The runner: trains the pending runs of a plan and stores each stack in one transaction."""

import contextlib
import math
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from idwbench.data.dataset import Dataset
from idwbench.errors import ResultsError
from idwbench.models.quality import PrototypeQuality
from idwbench.results.renewal import renewed
from idwbench.results.store import Results
from idwbench.runs.config import RunConfig
from idwbench.sweep.observer import Observer
from idwbench.training.engine import AbstractEngine, stack_key

__all__ = ["Outcome", "run_pending", "stacks"]


@dataclass
class Outcome:
    """Number of runs by outcome; `elsewhere` were leased by another process."""

    complete: int = 0
    diverged: int = 0
    failed: int = 0
    elsewhere: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(self, state: str, n: int) -> None:
        """Add `n` runs to a state; thread-safe."""
        with self._lock:
            setattr(self, state, getattr(self, state) + n)


def stacks(configs: Sequence[RunConfig], limit: Callable[[RunConfig], int], jobs: int = 1) -> Iterator[list[RunConfig]]:
    """Yield stacks of at most `limit` runs, in the order of the plan.

    If there are fewer stack keys than jobs, the runs of each are divided among the jobs.
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
    results: Results,
    engine_for: Callable[[RunConfig], AbstractEngine],
    dataset: Dataset,
    observer: Observer,
    jobs: int = 1,
) -> Outcome:
    """Train the pending runs of `configs` in `jobs` threads, and store the results.

    A stack that fails is retried run by run. An interruption releases the leased runs and is raised again.

    Raises:
        ResultsError: the database cannot be written.
    """
    queue = deque(stacks(configs, lambda config: engine_for(config).max_stack(config, dataset), jobs))
    workers = _Workers(queue, results, engine_for, dataset, observer)
    n_workers = min(jobs, max(1, len(queue)))
    with ThreadPoolExecutor(n_workers, thread_name_prefix="idwbench") as pool:
        futures = [pool.submit(workers.work) for _ in range(n_workers)]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            workers.stop.set()
    for future in futures:
        future.result()
    return workers.outcome


class _Stopped(Exception):
    """Ends a training after an interruption or an error in another thread."""


class _Workers:
    """State shared by the threads: the queue of stacks, and the outcome."""

    def __init__(
        self,
        queue: deque[list[RunConfig]],
        results: Results,
        engine_for: Callable[[RunConfig], AbstractEngine],
        dataset: Dataset,
        observer: Observer,
    ) -> None:
        self.queue, self.results, self.engine_for = queue, results, engine_for
        self.dataset, self.observer = dataset, observer
        self.quality = PrototypeQuality(dataset)
        self.outcome = Outcome()
        self.stop = threading.Event()

    def work(self) -> None:
        """Train stacks until the queue is empty."""
        while not self.stop.is_set():
            try:
                stack = self.queue.popleft()
            except IndexError:
                return
            keys = [config.run_key for config in stack]
            leased = set(self.results.lease(keys))
            self.outcome.add("elsewhere", len(stack) - len(leased))
            stack = [config for config, key in zip(stack, keys, strict=True) if key in leased]
            if stack:
                self._train(stack, [key for key in keys if key in leased])

    def _train(self, stack: list[RunConfig], keys: list[str]) -> None:
        def on_epoch(epoch: int) -> None:
            if self.stop.is_set():
                raise _Stopped
            self.observer.epoch(stack, epoch)

        engine = self.engine_for(stack[0])
        try:
            with renewed(self.results, keys):
                trained = engine.train(stack, self.dataset, on_epoch)
                trained = [self.quality.measured(result) for result in trained]
        except _Stopped:
            self.results.release(keys)
            return
        except Exception as error:  # no error of one run may end the sweep
            self._failed(stack, keys, error)
            return
        except BaseException:
            self.results.release(keys)
            raise
        try:
            self.results.finish(trained, data_sha256=self.dataset.sha256)
        except ResultsError:
            with contextlib.suppress(ResultsError):
                self.results.release(keys)
            raise
        engine.stored(stack)
        for state in ("complete", "diverged"):
            self.outcome.add(state, sum(result.state == state for result in trained))
        self.observer.finished(trained)

    def _failed(self, stack: list[RunConfig], keys: list[str], error: Exception) -> None:
        if len(stack) > 1:
            self.results.release(keys)
            self.queue.extendleft([config] for config in reversed(stack))
            return
        self.results.fail(keys, "".join(traceback.format_exception(error)))
        self.outcome.add("failed", 1)
        self.observer.failed(stack[0], error)
