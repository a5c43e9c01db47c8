"""The driver: leases runs, sends them to workers in tasks, and stores what comes back. It alone opens the database."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import queue
import threading
import time
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from idwbench.data.dataset import Dataset
from idwbench.data.folder import data_folder
from idwbench.errors import ClusterError, ResultsError, TrainingError, error_summary
from idwbench.results.provenance import Provenance
from idwbench.results.renewal import renewed
from idwbench.results.rows import package_versions
from idwbench.runs.config import RunConfig
from idwbench.runs.results import RunResult
from idwbench.sweep.cluster.connection import Cluster
from idwbench.sweep.cluster.plugin_sources import plugin_sources
from idwbench.sweep.cluster.tasks import TASK_SECONDS, Failure, SharedFolder, Task, TaskResult, TaskSizes
from idwbench.sweep.cluster.worker import train_task, version_problem
from idwbench.sweep.runner import Runner, stacks
from idwbench.training.engine import EngineName, stack_key
from idwbench.training.selection import engine_of

__all__ = ["ClusterRunner"]

_TASKS_AHEAD = 2  # for each thread of the workers: one that trains, and the next
_POLL_SECONDS = 1.0

Stack = list[RunConfig]


@dataclass(frozen=True)
class ClusterRunner:
    """Trains runs on a cluster.

    Attributes:
        cluster: The connected cluster.
        engine: Name of the engine.
        device: Name of the device of the workers.
        data_dir: The data folder for all workers, or None for each worker's own.
    """

    cluster: Cluster
    engine: EngineName = "auto"
    device: str = "cpu"
    data_dir: Path | None = None

    def train(self, configs: Sequence[RunConfig], runner: Runner, dataset: Dataset) -> list[RunConfig]:
        """Train runs on the workers, store the results, and return the runs that this process is to train afterwards.

        These read other runs or are recorded, and need the database or its disk.

        Raises:
            ClusterError: the connection is lost, or a worker has other versions or data.
            ResultsError: the database cannot be written.
        """
        here = [config for config in configs if _needs_database(config)]
        there = [config for config in configs if not _needs_database(config)]
        if there:
            _Driver(self, there, runner, dataset).run()
        if here and not runner.has_failed:
            runner.observer.note(f"{len(here)} of the runs read or write beside the database: this process trains them")
            if self.device != "cpu":
                runner.engine, runner.device = "auto" if self.engine == "auto" else "torch", self.device
        return here


def _needs_database(config: RunConfig) -> bool:
    return config.required is not None or bool(getattr(config.model, "record", False))


@dataclass(frozen=True)
class _Sent:
    """A task on the cluster."""

    future: Any
    stacks: list[Stack]
    is_alone: bool


class _Driver:
    """The state of one call of `ClusterRunner.train`."""

    def __init__(self, runner: ClusterRunner, configs: Sequence[RunConfig], owner: Runner, dataset: Dataset) -> None:
        self.cluster, self.results, self.context = runner.cluster, owner.results, owner.context
        self.dataset, self.observer, self.owner = dataset, owner.observer, owner
        self.outcome, results, context = owner.outcome, owner.results, owner.context
        self.sizes = TaskSizes(stack_key)
        self.n_threads = self.cluster.n_threads()
        self.polled = time.monotonic()
        limit = lambda config: engine_of(config, context).max_stack(config, dataset)  # noqa: E731
        self.waiting: deque[Stack] = deque(stacks(configs, limit, max(1, self.n_threads)))
        self.suspects: deque[Stack] = deque()  # runs whose task lost all its workers
        self.owned: dict[str, None] = {}  # keys of the runs that are leased
        self.sent: dict[str, _Sent] = {}
        self.ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.common: dict[str, Any] = {
            "versions": package_versions(),
            "engine": runner.engine,
            "device": runner.device,
            "plugins": plugin_sources(configs),
            "data_dir": str(data_folder(runner.data_dir)),
            "data_dir_is_given": runner.data_dir is not None,
            "data_sha256": dataset.sha256,
            "checkpoints": _shared(results.checkpoint_folder),
            "seconds": 2 * TASK_SECONDS,
        }

    def run(self) -> None:
        """Send tasks and store their results until no run is left."""
        self._check_versions()
        if self.n_threads == 0:
            self._say_waiting()
        try:
            with renewed(self.results, self.owned):
                while not self.owner.has_failed and self._send():
                    sent = self.sent.pop(self._next_ended())
                    self._store(sent)
                    sent.future.release()  # Python discards a Ctrl-C that comes while an object is deleted
        finally:
            self._end()

    def _check_versions(self) -> None:
        """Check the workers that are there; tasks check again, for workers that come later."""
        answers = self.cluster.client.run(version_problem, package_versions(), on_error="return")
        for worker, problem in answers.items():
            if isinstance(problem, Exception):
                raise _cannot_load(problem, f"worker {worker}")
            if problem:
                raise _refused(worker, problem)

    def _end(self) -> None:
        """Release the runs that have not ended and cancel their tasks, even if Ctrl-C is pressed again."""
        if not self.owned and not self.sent:
            return
        ending = threading.Thread(target=self._release)
        ending.start()
        while ending.is_alive():
            with contextlib.suppress(KeyboardInterrupt):
                ending.join()

    def _release(self) -> None:
        # Neither may hide the error that ended the sweep.
        with contextlib.suppress(ResultsError):
            self.results.release(list(self.owned))
        with contextlib.suppress(Exception):
            self.cluster.client.cancel([sent.future for sent in self.sent.values()], force=True)

    def _send(self) -> bool:
        """Send tasks up to the limit, and return whether any is on the cluster.

        A run whose task lost its workers is sent alone, when no other task is there: it alone can be the cause.
        """
        while self.waiting and len(self.sent) < _TASKS_AHEAD * max(1, self.n_threads):
            if task := self._next_task():
                self._submit(task)
        if self.suspects and not self.sent and not self.waiting:
            self._submit([self.suspects.popleft()], is_alone=True)
        return bool(self.sent)

    def _next_task(self) -> list[Stack]:
        """Take stacks from the queue, lease their runs, and return those of which a run was leased."""
        ahead = list(itertools.islice(self.waiting, 1000))
        taken = [self.waiting.popleft() for _ in range(self.sizes.count(ahead))]
        keys = {config.run_key: config for stack in taken for config in stack}
        new = [key for key in keys if key not in self.owned]
        self.owned.update(dict.fromkeys(new))  # first, so that an interruption of the lease releases it
        leased = set(self.results.lease(new)) if new else set()
        for key in new:
            if key not in leased:
                del self.owned[key]
        if elsewhere := [keys[key] for key in new if key not in leased]:
            self.outcome["elsewhere"] += len(elsewhere)
            self.observer.taken(elsewhere)
        owned = [[config for config in stack if config.run_key in self.owned] for stack in taken]
        return [stack for stack in owned if stack]

    def _submit(self, stacks: list[Stack], is_alone: bool = False) -> None:
        key = f"idwbench-{uuid.uuid4().hex}"
        texts = [[config.model_dump_json() for config in stack] for stack in stacks]
        task: Task = {**self.common, "stacks": texts}  # type: ignore[typeddict-item]
        future = self.cluster.submit(train_task, task, key)
        self.sent[key] = _Sent(future, stacks, is_alone)
        future.add_done_callback(lambda ended: self.ended.put(ended.key))

    def _next_ended(self) -> str:
        """Wait for the end of a task and return its key; meanwhile count the workers."""
        while True:
            if time.monotonic() - self.polled > _POLL_SECONDS:
                self._count_workers()
            with contextlib.suppress(queue.Empty):
                return self.ended.get(timeout=_POLL_SECONDS)

    def _count_workers(self) -> None:
        before, self.n_threads = self.n_threads, self.cluster.n_threads()
        self.polled = time.monotonic()
        if before and not self.n_threads:
            self._say_waiting()

    def _say_waiting(self) -> None:
        kind = f" with the resource {next(iter(self.cluster.resources))}" if self.cluster.resources else ""
        self.observer.note(f"{self.cluster.label} has no worker{kind}: waiting for one")

    def _store(self, sent: _Sent) -> None:
        """Store the results of a task that has ended."""
        if sent.future.status not in ("finished", "error"):
            raise self.cluster.lost()
        try:
            answer: TaskResult = sent.future.result()
        except asyncio.CancelledError:
            raise self.cluster.lost() from None
        except Exception as error:  # a worker raises only what keeps it from reading the task
            self._lost(sent, error)
            return
        if answer["refused"]:
            raise _refused(answer["worker"], answer["refused"])
        done = list(zip(sent.stacks, answer["stacks"], strict=False))
        self.waiting.extendleft(reversed(sent.stacks[len(done) :]))
        trained: list[list[RunResult]] = []
        for stack, result in done:
            self.sizes.observe(stack, result["seconds"])
            if result["failure"] is not None:
                self._failed(stack, result["failure"])
            else:
                # The driver's configurations know their keys already.
                trained.append([replace(run, config=own) for run, own in zip(result["results"], stack, strict=True)])
        self._finish(trained, answer["provenance"])

    def _finish(self, trained: list[list[RunResult]], provenance: Provenance | None) -> None:
        runs = [run for stack in trained for run in stack]
        if not runs:
            return
        self.results.finish(runs, self.dataset.sha256, provenance)
        for run in runs:
            self.owned.pop(run.config.run_key)
            self.outcome[run.state] += 1
        for stack in trained:
            engine_of(stack[0].config, self.context).stored([run.config for run in stack], self.context)
            self.observer.finished(stack)

    def _failed(self, stack: Stack, failure: Failure) -> None:
        """Store the failure of a run; a stack is trained again run by run."""
        if len(stack) > 1:
            self.waiting.extendleft([config] for config in reversed(stack))
            return
        # Shown by the name of its class; the class itself may not exist here.
        error = type(failure["name"], (TrainingError,), {})(failure["message"])
        self._fail(stack[0], error, failure["traceback"])

    def _fail(self, config: RunConfig, error: Exception, text: str) -> None:
        self.results.fail([config.run_key], text)
        self.owned.pop(config.run_key)
        self.outcome["failed"] += 1
        self.observer.failed(config, error)

    def _lost(self, sent: _Sent, error: Exception) -> None:
        """Train the runs of a task that lost its workers alone; fail a run that was alone."""
        from distributed import KilledWorker

        if not isinstance(error, KilledWorker):
            raise _cannot_load(error, "a worker")
        if not sent.is_alone:
            self.suspects.extend([config] for stack in sent.stacks for config in stack)
            return
        times, last = error.allowed_failures + 1, error.last_worker.address
        reason = f"{times} workers ended while they trained this run, the last was {last}: out of memory, or a crash"
        self._fail(sent.stacks[0][0], TrainingError(reason), f"TrainingError: {reason}")


def _refused(worker: str, problem: str) -> ClusterError:
    return ClusterError(f"worker {worker}: {problem}")


def _cannot_load(error: BaseException, worker: str) -> ClusterError:
    problem = f"{worker} cannot run idwbench: {error_summary(error)}"
    return ClusterError(problem, hint="all workers need the versions of the driver")


def _shared(folder: Path | None) -> SharedFolder | None:
    if folder is None:
        return None
    path = folder.absolute()
    return {"path": str(path), "inode": path.parent.stat().st_ino}
