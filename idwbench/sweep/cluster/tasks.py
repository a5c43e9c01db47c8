"""Tasks of workers: what the driver sends, what a worker returns, and the number of runs in a task.

A task is plain data, so that a worker with other versions can read it and say so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypedDict

from idwbench.results.provenance import Provenance
from idwbench.runs.config import RunConfig
from idwbench.runs.results import RunResult

__all__ = ["TASK_SECONDS", "Failure", "PluginSource", "SharedFolder", "StackResult", "Task", "TaskResult", "TaskSizes"]

TASK_SECONDS = 1.0
_LARGEST_TASK = 1000  # runs


class PluginSource(TypedDict):
    """A plugin: the content of a file, or a module that the worker imports.

    `path` names the file in tracebacks.
    """

    methods: list[str]
    sha256: str
    path: str
    code: bytes | None
    module: str


class SharedFolder(TypedDict):
    """A folder in one that exists, with the inode number of that: by it a worker knows whether it sees the same."""

    path: str
    inode: int


class Task(TypedDict):
    """Stacks to train.

    Attributes:
        versions: Of the driver, by package.
        stacks: Configurations as JSON.
        engine: Name of the engine.
        device: Name of the device.
        plugins: The plugins that the runs need.
        data_dir: The data folder of the driver.
        data_dir_is_given: Whether it has priority over the worker's own.
        data_sha256: Checksum of the driver's data.
        checkpoints: The folder of checkpoints, or None.
        seconds: No stack is started after this time.
    """

    versions: dict[str, str]
    stacks: list[list[str]]
    engine: str
    device: str
    plugins: list[PluginSource]
    data_dir: str
    data_dir_is_given: bool
    data_sha256: str
    checkpoints: SharedFolder | None
    seconds: float


class Failure(TypedDict):
    """An exception of a worker as text, since some exceptions cannot be sent."""

    name: str
    message: str
    traceback: str


class StackResult(TypedDict):
    """The results of a stack, or why it failed."""

    results: list[RunResult]
    failure: Failure | None
    seconds: float


class TaskResult(TypedDict):
    """The results of the first stacks of a task; the others were not started.

    Attributes:
        worker: Address of the worker.
        refused: Why the worker trains nothing, or "".
        stacks: One for each trained stack, in order.
        provenance: Of the worker, or None if it trained nothing.
    """

    worker: str
    refused: str
    stacks: list[StackResult]
    provenance: Provenance | None


class TaskSizes:
    """Chooses how many stacks make a task of about `TASK_SECONDS`, from the time that runs have taken.

    Args:
        kind_of: Returns a text that is equal for runs that take about the same time.
    """

    def __init__(self, kind_of: Callable[[RunConfig], str], seconds: float = TASK_SECONDS) -> None:
        self.kind_of, self.seconds = kind_of, seconds
        self._by_kind: dict[str, float] = {}
        self._latest: float | None = None

    def observe(self, stack: Sequence[RunConfig], seconds: float) -> None:
        """Note the time that a stack took."""
        self._latest = self._by_kind[self.kind_of(stack[0])] = seconds / len(stack)

    def expected(self, stack: Sequence[RunConfig]) -> float | None:
        """Return the expected time of a stack, from runs of its kind or the latest of all; None before the first."""
        of_run = self._by_kind.get(self.kind_of(stack[0]), self._latest)
        return None if of_run is None else of_run * len(stack)

    def count(self, stacks: Sequence[Sequence[RunConfig]]) -> int:
        """Return how many of the first `stacks` make a task: at least one, and one while no time is known."""
        total, runs = 0.0, 0
        for number, stack in enumerate(stacks):
            expected = self.expected(stack)
            total += self.seconds if expected is None else expected
            runs += len(stack)
            if number > 0 and (total > self.seconds or runs > _LARGEST_TASK):
                return number
            if total >= self.seconds:
                return number + 1
        return len(stacks)
