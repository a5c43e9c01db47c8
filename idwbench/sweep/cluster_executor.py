"""`ClusterExecutor`: sends stacks to the workers of a Dask cluster, and receives what became of them."""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from idwbench.attention.scores import METHODS
from idwbench.data.dataset import Dataset
from idwbench.data.folder import data_folder
from idwbench.errors import ClusterError, error_summary
from idwbench.results.provenance import package_versions
from idwbench.runs.config import RunConfig
from idwbench.sweep.cluster_connection import Cluster
from idwbench.sweep.cluster_worker import Task, train_task, version_problem
from idwbench.sweep.threads import Answer
from idwbench.training.engine import Context

__all__ = ["ClusterExecutor", "sent_methods"]


class ClusterExecutor:
    """Trains stacks on the workers of a cluster.

    Raises:
        ClusterError: a worker has other versions, or a method cannot be sent to it.
    """

    ahead = 2  # for each thread of the workers: a stack that trains, and the next

    def __init__(
        self, cluster: Cluster, configs: Sequence[RunConfig], dataset: Dataset, data_dir: Path | None, context: Context
    ) -> None:
        self.cluster, self.report = cluster, context.report
        # The workers that are there; tasks check again, for workers that come later.
        answers = cluster.client.run(version_problem, package_versions(), on_error="return")
        for worker, problem in answers.items():
            if isinstance(problem, Exception):
                raise _cannot_load(problem, f"worker {worker}")
            if problem:
                raise ClusterError(f"worker {worker}: {problem}")
        self.has_workers = True
        self.in_work: dict[Future[Answer], Any] = {}
        folder = context.checkpoint_folder
        self.task: Task = {
            "versions": package_versions(),
            "stack": [],
            "engine": context.engine,
            "device": context.device,
            "methods": sent_methods(configs),
            "data_dir": str(data_folder(data_dir)),
            "data_dir_is_given": data_dir is not None,
            "data_sha256": dataset.sha256,
            "checkpoints": None if folder is None else (str(folder.absolute()), folder.absolute().parent.stat().st_ino),
        }

    @property
    def n_threads(self) -> int:
        """The number of threads of all workers that have the resources at this time.

        Raises:
            ClusterError: the connection is lost.
        """
        workers = self._connected(self.cluster.client.scheduler_info, n_workers=-1)["workers"].values()
        needed = self.cluster.resources.keys()
        threads = [worker["nthreads"] for worker in workers if needed <= worker["resources"].keys()]
        if self.has_workers and not threads:
            kind = f" with the resource {next(iter(self.cluster.resources))}" if self.cluster.resources else ""
            self.report(f"{self.cluster.address} has no worker{kind}: waiting for one")
        self.has_workers = bool(threads)
        return sum(threads)

    def submit(self, stack: Sequence[RunConfig]) -> Future[Answer]:
        """Send a stack. Its answer raises what ends the whole sweep.

        This is a `ClusterError`: the connection is lost, or a worker has other versions or data.
        """
        task: Task = {**self.task, "stack": [config.model_dump_json() for config in stack]}
        options = {"key": f"idwbench-{uuid.uuid4().hex}", "pure": False, "resources": self.cluster.resources or None}
        sent = self._connected(self.cluster.client.submit, train_task, task, **options)
        ended: Future[Answer] = Future()
        self.in_work[ended] = sent

        def receive(sent: Any) -> None:
            del self.in_work[ended]  # an answer that is stored is not kept
            try:
                ended.set_result(self._answer(sent, stack))
            except Exception as error:
                ended.set_exception(error)

        sent.add_done_callback(receive)
        return ended

    def stop(self, _: object) -> None:
        """Cancel all tasks in work."""
        with suppress(Exception):  # it may not hide the error that ended the sweep
            self.cluster.client.cancel(list(self.in_work.values()), force=True)

    def _answer(self, sent: Any, stack: Sequence[RunConfig]) -> Answer:
        from distributed import KilledWorker

        if sent.status not in ("finished", "error"):
            raise self._lost()
        try:
            answer: Answer = sent.result()
        except asyncio.CancelledError:
            raise self._lost() from None
        except KilledWorker as error:
            ended = f"{error.allowed_failures + 1} workers ended while they trained this run"
            reason = f"{ended}, the last was {error.last_worker.address}: out of memory, or a crash"
            return Answer(failure=("TrainingError", reason, f"TrainingError: {reason}"), is_lost=True)
        except ClusterError:
            raise
        except Exception as error:  # a worker raises only what keeps it from reading the task
            raise _cannot_load(error, "a worker") from None
        finally:
            sent.release()
        # The configurations of this process know their keys already.
        results = [replace(run, config=own) for run, own in zip(answer.results, stack, strict=False)]
        return replace(answer, results=results)

    def _connected(self, function: Callable[..., Any], *arguments: object, **options: object) -> Any:
        try:
            return function(*arguments, **options)
        except (Exception, asyncio.CancelledError):  # Dask has no common class for them
            raise self._lost() from None

    def _lost(self) -> ClusterError:
        return ClusterError(f"the connection to {self.cluster.address} is lost", hint="the same command continues")


def sent_methods(configs: Sequence[RunConfig]) -> bytes:
    """Return the methods of plugins that `configs` name, pickled with their code, which workers need not have.

    Raises:
        ClusterError: their code uses what cannot be sent, such as an open file.
    """
    import cloudpickle

    models = [config.model for config in configs if config.model.plugin_sha256 is not None]
    names = {getattr(model, field, None) for model in models for field in ("method", "head", "attention")}
    methods = [method for name, method in METHODS.items() if name in names and method.sha256 is not None]
    modules = [sys.modules[name] for name in {method.score.__module__ for method in methods} & sys.modules.keys()]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        content: bytes = cloudpickle.dumps(methods)
    except Exception as error:  # what it uses can raise any exception
        raise ClusterError(f"the methods of plugins cannot be sent to workers: {error_summary(error)}") from None
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
    return content


def _cannot_load(error: BaseException, worker: str) -> ClusterError:
    problem = f"{worker} cannot run idwbench: {error_summary(error)}"
    return ClusterError(problem, hint="all workers need the versions of the driver")
