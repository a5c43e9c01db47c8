"""Threads of this process that train stacks, and the training of a stack with the metrics of prototype quality."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from time import perf_counter

from idwbench.data.dataset import Dataset
from idwbench.errors import TrainingError
from idwbench.files import full_disk_error
from idwbench.machine import allocation_problem
from idwbench.models.neighbours import PrototypeQuality, StackSearch
from idwbench.results.provenance import Provenance
from idwbench.runs.config import RunConfig
from idwbench.runs.results import RunResult
from idwbench.sweep.observer import Observer
from idwbench.training.engine import Context
from idwbench.training.selection import engine_of

__all__ = ["Answer", "Threads", "train_stack"]

# After this time an interrupted sweep says that it waits for the end of an epoch.
_PATIENCE_SECONDS = 1.0
# Python handles a signal that comes just before a wait after it, so no wait is longer.
_SIGNAL_SECONDS = 0.5
# With more features matrix products are faster than the compiled search.
_MOST_COMPILED_FEATURES = 8


@dataclass(frozen=True)
class Answer:
    """What became of the training of a stack: the results of its runs, or an error with the text of its traceback.

    Attributes:
        provenance: Of the process that trained, if it is another one.
        is_lost: Whether the processes that trained it have ended, for which it may not be the cause.
    """

    results: Sequence[RunResult] = ()
    error: Exception | None = None
    traceback: str = ""
    provenance: Provenance | None = None
    is_lost: bool = False


class _Stopped(Exception):
    """Ends a training after an interruption or an error."""


class Threads:
    """Trains stacks in threads of this process."""

    ahead = 1

    def __init__(self, n_threads: int, dataset: Dataset, context: Context, observer: Observer) -> None:
        self.n_threads, self.dataset, self.context, self.observer = n_threads, dataset, context, observer
        self.quality = PrototypeQuality(dataset.splits)
        self.pool = ThreadPoolExecutor(n_threads, thread_name_prefix="idwbench")
        self.futures: dict[int, Future[list[RunResult]]] = {}
        self.is_stopped = False

    def submit(self, stack: Sequence[RunConfig], number: int, on_end: Callable[[int], None]) -> None:
        """Train a stack; `on_end` is called with its number when it has ended."""

        def on_epoch(epoch: int) -> None:
            if self.is_stopped:
                raise _Stopped
            self.observer.epoch(stack, epoch)

        context = replace(self.context, on_epoch=on_epoch)
        future = self.pool.submit(train_stack, stack, self.dataset, self.quality, context)
        self.futures[number] = future
        future.add_done_callback(lambda _: on_end(number))

    def answer(self, number: int) -> Answer:
        """Return what became of a stack that has ended.

        Raises:
            FullDiskError: a file of the training has no room on the disk.
            KeyboardInterrupt: of its thread.
        """
        future = self.futures.pop(number)
        error = future.exception()
        if error is None:
            return Answer(future.result())
        if not isinstance(error, Exception):
            raise error
        if (problem := full_disk_error(error)) is not None:
            raise problem from None
        return Answer(error=error, traceback="".join(traceback.format_exception(error)))

    def stop(self) -> None:
        """Let all threads end with their epoch, and wait for them; an interruption ends the waiting."""
        self.is_stopped = True
        self.pool.shutdown(wait=False)
        futures = list(self.futures.values())
        if wait(futures, timeout=_PATIENCE_SECONDS).not_done:
            self.observer.note("stopping at the end of the epoch; another interruption stops at once")
        while wait(futures, timeout=_SIGNAL_SECONDS).not_done:
            pass


def train_stack(
    stack: Sequence[RunConfig], dataset: Dataset, quality: PrototypeQuality, context: Context
) -> list[RunResult]:
    """Return the results of a stack with the metrics of quality and with durations.

    Raises:
        TrainingError: memory cannot be allocated.

    Each run has the same share of the metrics and of the set-up, which is all time of the engine that is no training.
    """
    engine, started = engine_of(stack[0], context), perf_counter()
    try:
        trained = engine.train(stack, dataset, context)
    except (MemoryError, RuntimeError, ValueError) as error:
        if (problem := allocation_problem(error)) is None:
            raise
        raise TrainingError(f"{stack[0].model.label}: {problem}") from error
    ended = perf_counter()
    qualities = quality.stack_metrics(trained, _search(trained[0], dataset))
    set_up = max(0.0, ended - started - sum(result.seconds for result in trained)) / len(stack)
    metrics = (perf_counter() - ended) / len(stack)
    return [
        replace(
            result,
            metrics={**result.metrics, **quality_metrics},
            durations={"set_up": set_up, "training": result.seconds, "metrics": metrics},
        )
        for result, quality_metrics in zip(trained, qualities, strict=True)
    ]


def _search(result: RunResult, dataset: Dataset) -> StackSearch | None:
    """Return the compiled search if the run was trained by kernels on few features."""
    if result.engine != "fused" or result.instruction_set == "python" or dataset.n_features > _MOST_COMPILED_FEATURES:
        return None
    from idwbench.training.kernels.neighbours import nearest_in_stack

    return nearest_in_stack
