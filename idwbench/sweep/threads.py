"""Threads of this process that train stacks, and the training of a stack with the metrics of prototype quality."""

from __future__ import annotations

import traceback
from collections.abc import Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from time import perf_counter

from idwbench.data.dataset import Dataset
from idwbench.errors import TrainingError, first_line
from idwbench.files import full_disk_error
from idwbench.machine import allocation_problem
from idwbench.models.neighbours import PrototypeQuality
from idwbench.results.provenance import Provenance
from idwbench.runs.config import RunConfig
from idwbench.runs.results import RunResult
from idwbench.sweep.observer import Observer
from idwbench.training.engine import Context
from idwbench.training.selection import engine_of

__all__ = ["Answer", "Stopped", "Threads", "train_stack"]

# After this time an interrupted sweep says that it waits for the end of an epoch.
_PATIENCE_SECONDS = 1.0
# Python handles a signal that comes just before a wait after it, so no wait is longer.
_SIGNAL_SECONDS = 0.5


@dataclass(frozen=True)
class Answer:
    """What became of the training of a stack.

    Attributes:
        results: Of its runs, in order; empty after a failure.
        failure: Class, message and traceback of the error as text, since some errors cannot be sent; or None.
        provenance: Of the process that trained, if it is another one.
        is_lost: Whether the processes that trained it have ended, for which it may not be the cause.
    """

    results: Sequence[RunResult] = ()
    failure: tuple[str, str, str] | None = None
    provenance: Provenance | None = None
    is_lost: bool = False


class Stopped(Exception):
    """Ends a training that nobody waits for any more, after an interruption or an error."""


class Threads:
    """Trains stacks in threads of this process."""

    ahead = 1

    def __init__(self, n_threads: int, dataset: Dataset, context: Context, observer: Observer) -> None:
        self.n_threads, self.dataset, self.context, self.observer = n_threads, dataset, context, observer
        self.quality = PrototypeQuality(dataset.splits, are_images=dataset.image_shape is not None)
        self.pool = ThreadPoolExecutor(n_threads, thread_name_prefix="idwbench")
        self.is_stopped = False

    def submit(self, stack: Sequence[RunConfig]) -> Future[Answer]:
        """Begin to train a stack. Its answer raises what ends the whole sweep.

        These are a `FullDiskError` of a file that has no room on the disk, and a `KeyboardInterrupt` of the thread.
        """

        def on_epoch(epoch: int) -> None:
            if self.is_stopped:
                raise Stopped
            self.observer.epoch(stack, epoch)

        context = replace(self.context, on_epoch=on_epoch)
        return self.pool.submit(train_stack, stack, self.dataset, self.quality, context)

    def stop(self, in_work: Collection[Future[Answer]]) -> None:
        """Let all threads end with their epoch, and wait for them; an interruption ends the waiting."""
        self.is_stopped = True
        self.pool.shutdown(wait=False)
        if wait(in_work, timeout=_PATIENCE_SECONDS).not_done:
            self.observer.note("stopping at the end of the epoch; another interruption stops at once")
        while wait(in_work, timeout=_SIGNAL_SECONDS).not_done:
            pass


def train_stack(stack: Sequence[RunConfig], dataset: Dataset, quality: PrototypeQuality, context: Context) -> Answer:
    """Train a stack; a failure is an answer, too.

    Raises:
        FullDiskError: a file of the training has no room on the disk.
    """
    try:
        engine, started = engine_of(stack[0], context), perf_counter()
        return Answer(_measured(engine.train(stack, dataset, context), quality, started))
    except Exception as error:  # no error of one run may end the sweep
        if (problem := full_disk_error(error)) is not None:
            raise problem from None
        known = isinstance(error, (MemoryError, RuntimeError, ValueError))
        if known and (memory := allocation_problem(error)) is not None:
            named = TrainingError(f"{stack[0].model.label}: {memory}")
            named.__cause__, error = error, named
        text = "".join(traceback.format_exception(error))
        return Answer(failure=(type(error).__name__, first_line(error), text))


def _measured(trained: Sequence[RunResult], quality: PrototypeQuality, started: float) -> list[RunResult]:
    """Return the results of a stack with the metrics of quality and with durations.

    Each run has the same share of the metrics and of the set-up, which is all time since `started` that is no training.
    """
    ended = perf_counter()
    qualities = [quality.run_metrics(result) for result in trained]
    set_up = max(0.0, ended - started - sum(result.seconds for result in trained)) / len(trained)
    metrics = (perf_counter() - ended) / len(trained)
    return [
        replace(
            result,
            metrics={**result.metrics, **quality_metrics},
            durations={"set_up": set_up, "training": result.seconds, "metrics": metrics},
        )
        for result, quality_metrics in zip(trained, qualities, strict=True)
    ]
