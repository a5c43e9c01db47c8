"""A cluster in this process: its tasks end at once, as scripted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from distributed import KilledWorker

from idwbench.sweep.cluster_connection import Cluster
from idwbench.sweep.cluster_worker import Task
from idwbench.sweep.threads import Answer

ADDRESS = "tcp://10.0.0.1:4000"


class FakeFuture:
    def __init__(self, key: str, answer: Any) -> None:
        self.key, self.answer = key, answer
        self.status = "lost" if answer is None else "error" if isinstance(answer, Exception) else "finished"

    def result(self) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def release(self) -> None:
        self.answer = None

    def add_done_callback(self, callback: Callable[[FakeFuture], None]) -> None:
        callback(self)


class FakeClient:
    """Answers each task by `train`, with an answer, an exception, or None for a lost connection."""

    def __init__(self, train: Callable[[Task], Any] | None = None, workers: int = 2) -> None:
        self.train, self.n_workers = train, workers
        self.tasks: list[Task] = []
        self.resources: list[object] = []
        self.is_cancelled = False
        self.versions: dict[str, str | Exception] = {}

    def submit(
        self, function: Callable[[Task], Answer], task: Task, *, key: str, pure: bool, resources: object
    ) -> FakeFuture:
        self.tasks.append(task)
        self.resources.append(resources)
        try:
            return FakeFuture(key, (self.train or function)(task))
        except Exception as error:
            return FakeFuture(key, error)

    def run(self, function: Callable[..., str], *arguments: object, on_error: str) -> dict[str, str | Exception]:
        return self.versions or {ADDRESS: function(*arguments)}

    def cancel(self, futures: Sequence[FakeFuture], force: bool) -> None:
        self.is_cancelled = True

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        return {"workers": {f"w{i}": {"nthreads": 1, "resources": {"GPU": 1}} for i in range(self.n_workers)}}


def cluster(client: FakeClient, **resources: float) -> Cluster:
    return Cluster(client, "tcp://10.0.0.1:8786", resources)


def killed() -> KilledWorker:
    return KilledWorker("key", SimpleNamespace(address=ADDRESS), 1)
