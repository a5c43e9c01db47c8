"""The runner: trains the pending runs of a plan and stores each stack in one transaction."""

import math
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import replace

from idwbench.data.dataset import Dataset
from idwbench.errors import ResultsError
from idwbench.files import full_disk_error
from idwbench.models.neighbours import PrototypeQuality
from idwbench.results.renewal import renewed
from idwbench.results.store import Results
from idwbench.runs.config import RunConfig
from idwbench.runs.results import RunResult
from idwbench.sweep.observer import Observer
from idwbench.sweep.outcome import Outcome
from idwbench.sweep.stack_training import train_stack
from idwbench.training.engine import Context, stack_key
from idwbench.training.selection import engine_of

__all__ = ["run_pending", "stacks"]

# After this time an interrupted sweep says that it waits for the end of an epoch.
_PATIENCE_SECONDS = 1.0
# Python handles a signal that comes just before a wait after it, so no wait is longer.
_SIGNAL_SECONDS = 0.5


def stacks(configs: Sequence[RunConfig], limit: Callable[[RunConfig], int], jobs: int = 1) -> Iterator[list[RunConfig]]:
    """Yield stacks of at most `limit` runs, in the order of the plan.

    If there are fewer stack keys than jobs, the runs of each are divided among the jobs.
    """
    groups: dict[str, list[RunConfig]] = {}
    stack_keys: dict[str, str] = {}  # by setting
    for config in configs:
        if (setting := config.setting_key) not in stack_keys:
            stack_keys[setting] = stack_key(config)
        groups.setdefault(stack_keys[setting], []).append(config)
    for group in groups.values():
        share = len(group) if len(groups) >= jobs else math.ceil(len(group) / jobs)
        size = min(limit(group[0]), share)
        for start in range(0, len(group), size):
            yield group[start : start + size]


def run_pending(
    configs: Sequence[RunConfig],
    results: Results,
    context: Context,
    dataset: Dataset,
    observer: Observer,
    jobs: int = 1,
    max_failures: int | None = None,
) -> Outcome:
    """Train the pending runs of `configs` in `jobs` threads, and store the results.

    A stack that fails is retried run by run. After `max_failures` failed runs no run is started, and those in work are
    released. An interruption releases the leased runs at the end of their epoch and is raised again; another one in
    the meantime releases them at once, and what their threads still train is discarded.

    Raises:
        ResultsError: the database cannot be written.
        FullDiskError: a file of a training has no room on the disk.
    """
    queue = deque(stacks(configs, lambda config: engine_of(config, context).max_stack(config, dataset), jobs))
    workers = _Workers(queue, results, context, dataset, observer, max_failures)
    workers.run(min(jobs, max(1, len(queue))))
    return workers.outcome


def _wait_for_all_or_an_error(futures: Sequence[Future[None]]) -> None:
    while True:
        done, not_done = wait(futures, timeout=_SIGNAL_SECONDS, return_when=FIRST_EXCEPTION)
        if not not_done or any(future.exception() is not None for future in done):
            return


class _Stopped(Exception):
    """Ends a training after an interruption or an error in another thread."""


class _Workers:
    """State shared by the threads: the queue of stacks, the leased runs, and the outcome."""

    def __init__(
        self,
        queue: deque[list[RunConfig]],
        results: Results,
        context: Context,
        dataset: Dataset,
        observer: Observer,
        max_failures: int | None,
    ) -> None:
        self.queue, self.results, self.context = queue, results, context
        self.dataset, self.observer, self.max_failures = dataset, observer, max_failures
        self.quality = PrototypeQuality(dataset.splits)
        self.outcome = Outcome()
        self.stop = False  # no stack is started, and those in work end with their epoch
        self.is_abandoned = False  # the threads may no longer write
        self.writing = threading.Lock()
        self.leased: set[str] = set()

    def run(self, n: int) -> None:
        """Work in `n` threads until the queue is empty; raises the first error of a thread."""
        pool = ThreadPoolExecutor(n, thread_name_prefix="idwbench")
        futures: list[Future[None]] = []
        try:
            for _ in range(n):
                futures.append(pool.submit(self.work))
            _wait_for_all_or_an_error(futures)
        finally:
            self.stop = True
            self._join(pool, futures)
        for future in futures:
            future.result()

    def _join(self, pool: ThreadPoolExecutor, futures: list[Future[None]]) -> None:
        try:
            if wait(futures, timeout=_PATIENCE_SECONDS).not_done:
                self.observer.note("stopping at the end of the epoch; another interruption stops at once")
            while wait(futures, timeout=_SIGNAL_SECONDS).not_done:
                pass
            pool.shutdown()
        except KeyboardInterrupt:
            self.is_abandoned = True
            releasing = threading.Thread(target=self._release_all)
            releasing.start()
            while releasing.is_alive():  # a third interruption must not leave leases
                with suppress(KeyboardInterrupt):
                    releasing.join()
            raise

    def _release_all(self) -> None:
        with self.writing, suppress(ResultsError):
            self.results.release(list(self.leased))

    @contextmanager
    def _writes(self) -> Iterator[None]:
        """Let one thread at a time change leases, and none after the runs were abandoned."""
        with self.writing:
            if self.is_abandoned:
                raise _Stopped
            yield

    def work(self) -> None:
        """Train stacks until the queue is empty."""
        with suppress(_Stopped):
            while not self.stop:
                try:
                    stack = self.queue.popleft()
                except IndexError:
                    return
                keys = self._lease([config.run_key for config in stack])
                if len(keys) < len(stack):
                    leased = set(keys)
                    taken = [config for config in stack if config.run_key not in leased]
                    stack = [config for config in stack if config.run_key in leased]
                    self.outcome.add("elsewhere", len(taken))
                    self.observer.taken(taken)
                if stack:
                    self._train(stack, keys)

    def _train(self, stack: list[RunConfig], keys: list[str]) -> None:
        def on_epoch(epoch: int) -> None:
            if self.stop:
                raise _Stopped
            self.observer.epoch(stack, epoch)

        engine, context = engine_of(stack[0], self.context), replace(self.context, on_epoch=on_epoch)
        try:
            with renewed(self.results, keys):
                trained = train_stack(engine, stack, self.dataset, self.quality, context)
        except _Stopped:
            self._release(keys)
            raise
        except Exception as error:  # no error of one run may end the sweep
            self._failed(stack, keys, error)
            return
        except BaseException:
            self._release(keys)
            raise
        self._finish(trained, keys)
        engine.stored(stack, context)
        for state in ("complete", "diverged"):
            self.outcome.add(state, sum(result.state == state for result in trained))
        self.observer.finished(trained)

    def _failed(self, stack: list[RunConfig], keys: list[str], error: Exception) -> None:
        if self.stop:  # what fails while the sweep ends may fail because of it
            self._release(keys)
            raise _Stopped
        if (problem := full_disk_error(error)) is not None:
            with suppress(ResultsError):
                self._release(keys)
            raise problem from None
        if len(stack) > 1:
            self._release(keys)
            self.queue.extendleft([config] for config in reversed(stack))
            return
        with self._writes():
            self.results.fail(keys, "".join(traceback.format_exception(error)))
            self.leased.difference_update(keys)
        self.outcome.add("failed", 1)
        self.observer.failed(stack[0], error)
        if self.max_failures is not None and self.outcome.failed >= self.max_failures:
            self.stop = True

    def _lease(self, keys: list[str]) -> list[str]:
        with self._writes():
            if self.stop:
                raise _Stopped
            leased = self.results.lease(keys)
            self.leased.update(leased)
            return leased

    def _finish(self, trained: list[RunResult], keys: list[str]) -> None:
        try:
            with self._writes():
                self.results.finish(trained, data_sha256=self.dataset.sha256)
                self.leased.difference_update(keys)
        except ResultsError:
            with suppress(ResultsError):
                self._release(keys)
            raise

    def _release(self, keys: list[str]) -> None:
        with self._writes():
            self.results.release(keys)
            self.leased.difference_update(keys)
