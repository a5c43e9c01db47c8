"""The driver's side of a Dask cluster, ``local:2``, ``tcp://…`` or ``tls://…``: its connection, and its executor."""

from __future__ import annotations

import asyncio
import logging
import re
import signal
import sys
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from idwbench.attention.scores import METHODS
from idwbench.data.dataset import Dataset
from idwbench.data.folder import data_folder
from idwbench.errors import ClusterError, ConfigError, error_summary, first_line
from idwbench.results.provenance import package_versions
from idwbench.runs.config import RunConfig
from idwbench.sweep.cluster_worker import Task, train_task, version_problem
from idwbench.sweep.runner import uninterrupted
from idwbench.sweep.threads import Answer
from idwbench.training.engine import Context

__all__ = ["Cluster", "ClusterExecutor", "connected", "local_workers", "sent_methods"]

CONNECT_SECONDS = 4.0
_LOGGERS = ("distributed", "distributed.client", "distributed.gc", "tornado", "tornado.application", "asyncio")
# A run that loses its worker twice is then trained alone, which finds out whether it is the cause.
_LOCAL_SETTINGS = {
    "distributed.scheduler.allowed-failures": 1,
    # By default a process that is just being restarted 15 seconds after the loss of its predecessor is given up.
    "distributed.deploy.lost-worker-timeout": "1 day",
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.disk": False,
    "distributed.diagnostics.nvml": False,
    "distributed.comm.timeouts.connect": "10s",
}


_EXPECTED = "expected local:N, tcp://host:port or tls://host:port"
_LOCAL = re.compile(r"local:([0-9]{1,4})")
_REMOTE = re.compile(r"(tcp|tls)://(\[[0-9a-fA-F:.%]+\]|[^\s:/@\[\]]+):([0-9]{1,5})")


def local_workers(address: str) -> int:
    """Return the number of processes to start for ``local:N``, or 0 for the address of a scheduler.

    Raises:
        ConfigError: the address is neither.
    """
    if local := _LOCAL.fullmatch(address):
        if (workers := int(local[1])) > 0:
            return workers
    elif (remote := _REMOTE.fullmatch(address)) and 0 < int(remote[3]) < 2**16:
        return 0
    raise ConfigError(f"{address!r} is not the address of a cluster", location=("dask",), hint=_EXPECTED)


@dataclass(frozen=True)
class Cluster:
    """A connected cluster.

    Attributes:
        client: The `distributed.Client`.
        address: As it was given.
        resources: What each task needs of its worker: on a GPU the resource ``GPU``.
    """

    client: Any
    address: str
    resources: dict[str, float]


@contextmanager
def connected(address: str, device: str = "cpu") -> Iterator[Cluster]:
    """Connect to a cluster for trainings on a device, and at the end close what was started.

    Raises:
        ClusterError: the package `distributed` is missing, or nothing answers at the address as a scheduler does.
        ConfigError: as `local_workers`.
    """
    workers, resources = local_workers(address), {} if device == "cpu" else {"GPU": 1.0}
    try:
        import distributed
    except ModuleNotFoundError as error:
        problem = f"needs the Python package '{error.name}'"
        raise ClusterError(problem, location=("dask",), hint="pip install 'idwbench[cluster]'") from None
    with _quiet(), _local_cluster(workers, resources) if workers else nullcontext(address) as scheduler:
        if not workers:
            _check_scheduler(address, distributed)
        try:
            client = distributed.Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
        except Exception as error:  # what a server of another kind answers can raise any exception
            raise _unreachable(address, error) from None
        with client:
            yield Cluster(client, address, resources)


@contextmanager
def _local_cluster(workers: int, resources: dict[str, float]) -> Iterator[Any]:
    """Start worker processes with one thread each, on the loopback interface only."""
    import dask
    from distributed import LocalCluster

    def start() -> LocalCluster:
        # The processes inherit this: a terminal sends Ctrl-C to all of them, and it is for the driver alone.
        if hasattr(signal, "pthread_sigmask"):
            resource_tracker.ensure_running()  # would unblock SIGINT again
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
        cluster = LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            memory_limit=0,
            resources=resources,
            silence_logs=logging.CRITICAL,
        )
        ending.callback(uninterrupted, cluster.close)
        return cluster

    with dask.config.set(_LOCAL_SETTINGS), ExitStack() as ending:
        try:
            cluster = uninterrupted(start)
        except Exception as error:  # of the operating system, or of a process that ended
            raise ClusterError(f"{workers} processes cannot be started", hint=_reason(error)) from None
        yield cluster


def _check_scheduler(address: str, distributed: Any) -> None:
    """Check that a scheduler answers; a `Client` that cannot connect takes long to give up."""

    async def identity() -> Any:
        arguments = distributed.Security().get_connection_args("client")
        async with distributed.rpc(address, timeout=CONNECT_SECONDS, connection_args=arguments) as server:
            return await asyncio.wait_for(server.identity(), CONNECT_SECONDS)

    try:
        kind = asyncio.run(identity())["type"]
    except Exception as error:  # as above
        raise _unreachable(address, error) from None
    if kind != "Scheduler":
        raise ClusterError(f"{address} is the address of a {kind.lower()}, expected that of a scheduler")


def _unreachable(address: str, error: Exception) -> ClusterError:
    if "ssl_context" in str(error):
        hint = "set DASK_DISTRIBUTED__COMM__TLS__CA_FILE, …__CLIENT__CERT and …__CLIENT__KEY"
        return ClusterError(f"{address} needs certificates", hint=hint)
    return ClusterError(f"no Dask scheduler answers at {address}", hint=_reason(error))


def _reason(error: BaseException) -> str:
    """Return what the operating system says, such as ``Connection refused``, or the first line of the error."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        if found := re.search(r"\[Errno -?\d+\] ([^\n]+)", str(cause)):
            return found[1]
        cause = cause.__cause__ or cause.__context__
    return first_line(error) or error_summary(error)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep log lines and warnings of Dask from stderr: what matters to the user is said by the driver."""
    levels = {logger: logger.level for logger in map(logging.getLogger, _LOGGERS)}
    for logger in levels:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"(distributed|dask|tornado|asyncio)\b")
            yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)


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
