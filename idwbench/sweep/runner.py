"""`Runner`: leases given runs, lets an executor train them stack by stack, and stores each stack in one transaction.

An executor, `Threads` or `ClusterExecutor`, has a number of threads and of stacks `ahead` for each, and two methods:
`submit` gives the future answer of a stack, and `stop` ends the trainings in work.
"""

from __future__ import annotations

import math
import time
from _thread import allocate_lock, start_new_thread
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from idwbench.errors import IdwbenchError, ResultsError, TrainingError
from idwbench.results.leases import ENDED_STATES
from idwbench.results.store import Results
from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import dataset_identity
from idwbench.sweep.observer import Observer
from idwbench.training.engine import Context, EngineName, stack_key
from idwbench.training.selection import check_run, engine_of, prepare_engines

if TYPE_CHECKING:
    from idwbench.data.dataset import Dataset
    from idwbench.sweep.cluster import Cluster, ClusterExecutor
    from idwbench.sweep.threads import Answer, Threads

    Executor: TypeAlias = Threads | ClusterExecutor

__all__ = ["Runner", "stacks", "uninterrupted", "with_requirements"]

# Pauses between two looks at the database for runs that other processes train.
_FIRST_SECONDS, _LONGEST_SECONDS = 0.5, 30.0

_RENEWAL_SECONDS = 30.0
# Python handles a signal that comes just before a wait after it, so no wait is longer.
_SIGNAL_SECONDS = 0.5

Stack = list[RunConfig]
_Returned = TypeVar("_Returned")


@dataclass
class Runner:
    """Trains runs that are in the database, with the settings of one command.

    A stack that fails is trained again run by run. After `max_failures` failed runs no run is started, and those in
    work are released. An interruption releases the leased runs at the end of their epoch and is raised again; another
    one in the meantime releases them at once, and what is still trained is discarded. None ends a transaction midway.

    Attributes:
        jobs: Number of threads that train; None for one for each core, or one on a GPU.
        threads: Number of threads of BLAS and torch; more than one only for one run that trains alone, since its bytes
            depend on it.
        cluster: Trains in place of this process, if there is one, on the device.
        max_failures: No run is started after this number of failed runs.
        outcome: Number of runs by what became of them so far: ``complete``, ``diverged`` or ``failed``.
        owned: Keys of the runs that are leased.
    """

    results: Results
    observer: Observer
    engine: EngineName = "auto"
    device: str = "cpu"
    data_dir: Path | None = None
    jobs: int | None = None
    threads: int = 1
    cluster: Cluster | None = None
    max_failures: int | None = None
    outcome: Counter[str] = field(default_factory=Counter)
    owned: set[str] = field(default_factory=set)
    _reported: str = ""
    _renewed: float = field(default_factory=time.monotonic)

    @property
    def has_failed(self) -> bool:
        """Whether there are `max_failures` failed runs."""
        return self.max_failures is not None and self.outcome["failed"] >= self.max_failures

    @property
    def context(self) -> Context:
        """What the trainings share."""
        folders = self.results.checkpoint_folder, self.results.recording_folder
        return Context(self.engine, self.device, self.results, *folders, self.observer.note)

    @property
    def planning_context(self) -> Context:
        """The context for checks and sizes of stacks: this process need not have the device of a cluster."""
        if self.cluster is None or self.device == "cpu":
            return self.context
        return replace(self.context, engine="torch", device="cpu")

    def train_all(self, configs: Sequence[RunConfig], loaded: Dataset | None = None) -> None:
        """Train runs data set by data set, in the order of the first run of each; only one data set is in memory.

        Its engines are imported and reported first. A data set that is `loaded` is that of all runs.
        """
        from idwbench.data.loading import load_dataset

        groups: dict[str, list[RunConfig]] = {}
        for config in configs:
            groups.setdefault(dataset_identity(config.dataset), []).append(config)
        for place, group in enumerate(groups.values()):
            if self.has_failed:
                return
            dataset = loaded or load_dataset(group[0].dataset, self.data_dir)
            for note in dataset.columns.notes() if dataset.columns else ():
                self.observer.note(f"{group[0].dataset_label}: {note}")
            for config in {run.setting_key: run for run in group}.values():  # no check depends on the seed
                check_run(config, dataset, self.planning_context)
            if place == 0 and (line := prepare_engines(configs, self.planning_context)) != self._reported:
                self.observer.note(line)  # once: a search trains batch by batch
                self._reported = line
            self.train(group, dataset)

    def train(self, configs: Sequence[RunConfig], dataset: Dataset) -> None:
        """Train runs on one data set, first those that others need; then the others whose needed run has ended.

        Raises:
            ResultsError: the database cannot be written.
            FullDiskError: a file of a training has no room on the disk.
        """
        from idwbench.sweep.threads import Threads
        from idwbench.training.threads import available_cores, limited_threads

        needed = {run.run_key for run in _required(configs).values()}
        with limited_threads(self.threads), self.results.kept_open():
            for is_needed in (True, False):
                ready = self._ready([run for run in configs if (run.run_key in needed) == is_needed])
                here = [config for config in ready if self.cluster is None or _needs_database(config)]
                if self.cluster is not None and (there := [run for run in ready if not _needs_database(run)]):
                    from idwbench.sweep.cluster import ClusterExecutor

                    executor = ClusterExecutor(self.cluster, there, dataset, self.data_dir, self.context)
                    self._run(there, executor, dataset)
                if not here or self.has_failed:
                    continue
                if self.cluster is not None:
                    those = f"{len(here)} of the runs read or write beside the database"
                    self.observer.note(f"{those}: this process trains them")
                # A GPU trains one large stack at a time.
                jobs = self.jobs or (available_cores() if self.device == "cpu" else 1)
                self._run(here, Threads(jobs, dataset, self.context, self.observer), dataset)

    def wait_for_others(self, configs: Mapping[str, RunConfig]) -> None:
        """Look at the database with growing pauses until runs, given by key, have ended.

        Those that lost their process are trained here.
        """
        left, pause = list(configs), _FIRST_SECONDS
        while not self.has_failed:
            states = self.results.run_states(left)
            # A run may have been removed.
            left = [key for key in left if key in states and states[key] not in ENDED_STATES]
            if not left:
                return
            n_ended = self.outcome.total()
            free = [configs[key] for key in self.results.pending(left)]
            if to_do := self._ready(with_requirements(free, self.results)):
                self.observer.taken_over(len(to_do))
                self.train_all(to_do)
            if self.outcome.total() > n_ended:
                pause = _FIRST_SECONDS
                continue
            self.observer.waiting(len(left))
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_SECONDS)

    def _ready(self, configs: Sequence[RunConfig]) -> list[RunConfig]:
        """Return the runs that need no other run, or one that is among them or has ended.

        Another process may still train a network; the process that ends last makes the runs that need it.
        """
        among = {config.run_key for config in configs}
        others = {key: run.run_key for key, run in _required(configs).items() if run.run_key not in among}
        states = self.results.run_states(list({*others.values()})) if others else {}
        missing = {key for key, other in others.items() if states.get(other) not in ENDED_STATES}
        return [config for config in configs if config.run_key not in missing]

    def _run(self, configs: Sequence[RunConfig], executor: Executor, dataset: Dataset) -> None:
        """Let an executor train runs, stack by stack, until none is left.

        A run whose stack was lost is trained alone, when nothing else is in work: it alone can be the cause.
        """

        def limit(config: RunConfig) -> int:
            return engine_of(config, self.planning_context).max_stack(config, dataset)

        waiting = deque(stacks(configs, limit, executor.n_threads))
        in_work: dict[Future[Answer], Stack] = {}
        lost: deque[Stack] = deque()
        alone: Stack = []
        try:
            while not self.has_failed:
                if lost and not waiting and not in_work:
                    waiting.append(alone := lost.popleft())
                self._submit(waiting, in_work, executor)
                if not in_work and not lost:
                    return
                self._renew()
                if not (ended := wait(in_work, timeout=_SIGNAL_SECONDS, return_when=FIRST_COMPLETED).done):
                    continue
                stack = in_work.pop(future := ended.pop())
                answer = future.result()
                if answer.is_lost and stack != alone:
                    lost.extend([config] for config in stack)
                elif answer.failure is not None and len(stack) > 1:
                    waiting.extendleft([config] for config in reversed(stack))
                else:
                    self._store(stack, answer, dataset)
        finally:
            self._end(in_work, executor, dataset)

    def _submit(self, waiting: deque[Stack], in_work: dict[Future[Answer], Stack], executor: Executor) -> None:
        """Lease stacks and give them to an executor, as many as it takes, without what other processes have leased."""

        def submit(stack: Stack) -> None:
            in_work[executor.submit(stack)] = stack

        while waiting and len(in_work) < executor.ahead * max(1, executor.n_threads):
            stack = waiting.popleft()
            new = [config.run_key for config in stack if config.run_key not in self.owned]
            self.owned.update(new)  # first, so that an interruption of the lease releases it
            self.owned.difference_update(set(new).difference(uninterrupted(self.results.lease, new)))
            if taken := [config for config in stack if config.run_key not in self.owned]:
                self.observer.taken(taken)
            if stack := [config for config in stack if config.run_key in self.owned]:
                uninterrupted(submit, stack)

    def _renew(self) -> None:
        """Renew the leases from time to time: an epoch may take longer than a lease lasts."""
        if time.monotonic() - self._renewed >= _RENEWAL_SECONDS:
            self._renewed = time.monotonic()
            with suppress(ResultsError):  # it is tried again
                uninterrupted(self.results.renew, list(self.owned))

    def _store(self, stack: Stack, answer: Answer, dataset: Dataset) -> None:
        """Store what became of a stack."""
        if answer.failure is None:
            uninterrupted(self.results.finish, answer.results, dataset.sha256, answer.provenance)
            engine_of(stack[0], self.planning_context).stored(stack, self.context)
            self.outcome.update(result.state for result in answer.results)
            self.observer.finished(answer.results)
        else:
            name, message, text = answer.failure
            uninterrupted(self.results.fail, [stack[0].run_key], text)
            self.outcome["failed"] += 1
            # Shown by the name of its class, which may not exist in this process.
            self.observer.failed(stack[0], type(name, (TrainingError,), {})(message))
        self.owned.difference_update(config.run_key for config in stack)

    def _end(self, in_work: dict[Future[Answer], Stack], executor: Executor, dataset: Dataset) -> None:
        """End the trainings in work, store those that have ended all the same, and release the other runs."""
        try:
            executor.stop(in_work)
            for future, stack in in_work.items():
                with suppress(IdwbenchError):  # it may not hide the error that ended the sweep
                    if future.done() and (answer := future.result()).failure is None:
                        self._store(stack, answer, dataset)
        finally:
            with suppress(KeyboardInterrupt, ResultsError):  # another interruption must not leave leases
                uninterrupted(self.results.release, list(self.owned))
            self.owned.clear()


def uninterrupted(function: Callable[..., _Returned], *arguments: object) -> _Returned:
    """Call a function in a thread, and return its result; an interruption in the meantime is raised when it has ended.

    It must not end in the middle what changes the database, or what starts or ends processes. `threading.Thread.start`
    and thread pools may themselves be interrupted, with a call that goes on unnoticed or a lock that stays locked;
    functions that are written in C may not, and so these start the thread and wait for it.
    """
    begun, ended, outcomes, interruption = allocate_lock(), allocate_lock(), [], None
    ended.acquire()

    def call() -> None:
        if begun.acquire(blocking=False):  # of two threads, after an interruption of the start, one calls
            outcome: Future[_Returned] = Future()
            try:
                outcome.set_result(function(*arguments))
            except BaseException as error:
                outcome.set_exception(error)
            outcomes.append(outcome)
            ended.release()

    while True:
        try:
            if not begun.locked():
                start_new_thread(call, ())
            while not outcomes:
                ended.acquire(timeout=_SIGNAL_SECONDS)
            break
        except KeyboardInterrupt as error:
            interruption = error
    if interruption is not None:
        raise interruption
    return outcomes[0].result()


def stacks(configs: Sequence[RunConfig], limit: Callable[[RunConfig], int], jobs: int = 1) -> Iterator[Stack]:
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


def with_requirements(configs: Sequence[RunConfig], results: Results) -> list[RunConfig]:
    """Return runs after those that they need and that have no result, which are added to the database."""
    required = {run.run_key: run for run in _required(configs).values()}
    if not required:
        return [*configs]
    results.plan(list(required.values()))
    results.reset(list(required), ["failed"])
    among = {config.run_key for config in configs}
    return [*(required[key] for key in results.pending(list(required)) if key not in among), *configs]


def _required(configs: Sequence[RunConfig]) -> dict[str, RunConfig]:
    """Return the run that each run needs, by the key of the latter."""
    return {config.run_key: run for config in configs if (run := config.required) is not None}


def _needs_database(config: RunConfig) -> bool:
    """Return whether a run reads other runs, or is recorded, and so needs the database or its disk."""
    return config.required is not None or bool(getattr(config.model, "record", False))
