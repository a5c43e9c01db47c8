"""`ClusterExecutor`: sends stacks to the workers of a Dask cluster, and receives what became of them.

A task is plain data, so that a worker with other versions can read it and say so.
"""

from __future__ import annotations

import asyncio
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from idwbench.attention.scores import METHODS
from idwbench.data.dataset import Dataset
from idwbench.data.folder import data_folder
from idwbench.errors import ClusterError, TrainingError, error_summary
from idwbench.plugins import plugin_code
from idwbench.results.provenance import package_versions
from idwbench.runs.config import RunConfig
from idwbench.sweep.cluster_connection import Cluster
from idwbench.sweep.cluster_worker import PluginSource, Task, TaskAnswer, train_task, version_problem
from idwbench.sweep.observer import Observer
from idwbench.sweep.threads import Answer
from idwbench.training.engine import Context

__all__ = ["ClusterExecutor", "needs_database", "plugin_sources"]

_POLL_SECONDS = 1.0


class ClusterExecutor:
    """Trains stacks on the workers of a cluster.

    Raises:
        ClusterError: a worker has other versions, or a method is defined where workers cannot load it.
    """

    ahead = 2  # for each thread of the workers: a stack that trains, and the next

    def __init__(
        self, cluster: Cluster, configs: Sequence[RunConfig], dataset: Dataset, context: Context, observer: Observer
    ) -> None:
        self.cluster, self.observer = cluster, observer
        self._check_versions()
        self._n_threads, self._polled = cluster.n_threads(), time.monotonic()
        if not self._n_threads:
            self._say_waiting()
        self.sent: dict[int, tuple[Any, Sequence[RunConfig]]] = {}
        self.common: dict[str, Any] = {
            "versions": package_versions(),
            "engine": context.engine,
            "device": context.device,
            "plugins": plugin_sources(configs),
            "data_dir": str(data_folder(cluster.data_dir)),
            "data_dir_is_given": cluster.data_dir is not None,
            "data_sha256": dataset.sha256,
            "checkpoints": _shared(context.checkpoint_folder),
        }

    def _check_versions(self) -> None:
        """Check the workers that are there; tasks check again, for workers that come later."""
        answers = self.cluster.client.run(version_problem, package_versions(), on_error="return")
        for worker, problem in answers.items():
            if isinstance(problem, Exception):
                raise _cannot_load(problem, f"worker {worker}")
            if problem:
                raise ClusterError(f"worker {worker}: {problem}")

    @property
    def n_threads(self) -> int:
        """The number of threads of all workers, counted every second."""
        if time.monotonic() - self._polled > _POLL_SECONDS:
            before, self._n_threads = self._n_threads, self.cluster.n_threads()
            self._polled = time.monotonic()
            if before and not self._n_threads:
                self._say_waiting()
        return self._n_threads

    def _say_waiting(self) -> None:
        kind = f" with the resource {next(iter(self.cluster.resources))}" if self.cluster.resources else ""
        self.observer.note(f"{self.cluster.address} has no worker{kind}: waiting for one")

    def submit(self, stack: Sequence[RunConfig], number: int, on_end: Callable[[int], None]) -> None:
        """Send a stack; `on_end` is called with its number when it has ended."""
        texts = [config.model_dump_json() for config in stack]
        task: Task = {**self.common, "stack": texts}  # type: ignore[typeddict-item]
        future = self.cluster.submit(train_task, task, f"idwbench-{uuid.uuid4().hex}")
        self.sent[number] = future, stack
        future.add_done_callback(lambda _: on_end(number))

    def answer(self, number: int) -> Answer:
        """Return what became of a stack that has ended.

        Raises:
            ClusterError: the connection is lost, or a worker has other versions or data.
        """
        from distributed import KilledWorker

        future, stack = self.sent.pop(number)
        if future.status not in ("finished", "error"):
            raise self.cluster.lost()
        try:
            answer: TaskAnswer = future.result()
        except asyncio.CancelledError:
            raise self.cluster.lost() from None
        except KilledWorker as error:
            times, last = error.allowed_failures + 1, error.last_worker.address
            reason = (
                f"{times} workers ended while they trained this run, the last was {last}: out of memory, or a crash"
            )
            return Answer(error=TrainingError(reason), traceback=f"TrainingError: {reason}", is_lost=True)
        except Exception as error:  # a worker raises only what keeps it from reading the task
            raise _cannot_load(error, "a worker") from None
        finally:
            future.release()  # Python discards a Ctrl-C that comes while an object is deleted
        if answer["refused"]:
            raise ClusterError(f"worker {answer['worker']}: {answer['refused']}")
        if answer["failure"] is not None:
            name, message, text = answer["failure"]
            # Shown by the name of its class; the class itself may not exist here.
            return Answer(error=type(name, (TrainingError,), {})(message), traceback=text)
        # The configurations of this process know their keys already.
        results = [replace(run, config=own) for run, own in zip(answer["results"], stack, strict=True)]
        return Answer(results, provenance=answer["provenance"])

    def stop(self) -> None:
        """Cancel all tasks."""
        with suppress(Exception):  # it may not hide the error that ended the sweep
            self.cluster.client.cancel([future for future, _ in self.sent.values()], force=True)


def needs_database(config: RunConfig) -> bool:
    """Return whether a run reads other runs, or is recorded, and so needs the database or its disk."""
    return config.required is not None or bool(getattr(config.model, "record", False))


def plugin_sources(configs: Sequence[RunConfig]) -> list[PluginSource]:
    """Return the plugins that register the methods of `configs`, each once.

    Raises:
        ClusterError: a method is defined in a notebook or script, which workers cannot load.
    """
    models = [config.model for config in configs if config.model.plugin_sha256 is not None]
    names = {getattr(model, field, None) for model in models for field in ("method", "head", "attention")}
    sources: dict[str, PluginSource] = {}
    for name, method in METHODS.items():
        if name in names and method.sha256 is not None:
            source = sources.setdefault(method.sha256, _source(name, method.sha256))
            source["methods"].append(name)
    return list(sources.values())


def _source(name: str, sha256: str) -> PluginSource:
    if (file := plugin_code(sha256)) is not None:
        path, code = file
        return {"methods": [], "sha256": sha256, "path": str(path), "code": code, "module": ""}
    module = str(getattr(METHODS[name].score, "__module__", "__main__"))
    spec = getattr(sys.modules.get(module), "__spec__", None)
    if module == "__main__" or spec is None:
        hint = "move it to a file that is loaded as a plugin"
        raise ClusterError(f"method '{name}' is defined in a notebook or script, which workers cannot load", hint=hint)
    return {"methods": [], "sha256": sha256, "path": "", "code": None, "module": module}


def _cannot_load(error: BaseException, worker: str) -> ClusterError:
    problem = f"{worker} cannot run idwbench: {error_summary(error)}"
    return ClusterError(problem, hint="all workers need the versions of the driver")


def _shared(folder: Path | None) -> tuple[str, int] | None:
    if folder is None:
        return None
    path = folder.absolute()
    return str(path), path.parent.stat().st_ino
