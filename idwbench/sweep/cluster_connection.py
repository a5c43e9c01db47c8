"""Connection to a Dask cluster, ``local:2``, ``tcp://…`` or ``tls://…``; a local one is started first."""

from __future__ import annotations

import asyncio
import logging
import re
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import Any

from idwbench.errors import ClusterError, ConfigError, first_line
from idwbench.sweep.runner import uninterrupted

__all__ = ["Cluster", "connected", "local_workers"]

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

    started = []

    def start() -> None:
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
        started.append(cluster)

    with dask.config.set(_LOCAL_SETTINGS):
        try:
            try:
                uninterrupted(start)
            except Exception as error:  # of the operating system, or of a process that ended
                raise ClusterError(f"{workers} processes cannot be started", hint=_reason(error)) from None
            yield started[0]
        finally:
            for cluster in started:
                uninterrupted(cluster.close)


def _check_scheduler(address: str, distributed: Any) -> None:
    """Check that a scheduler answers; a `Client` that cannot connect takes long to give up."""

    async def identity() -> Any:
        arguments = distributed.Security().get_connection_args("client")
        comm = await distributed.core.connect(address, timeout=CONNECT_SECONDS, **arguments)
        try:
            return await asyncio.wait_for(distributed.core.send_recv(comm, op="identity"), CONNECT_SECONDS)
        finally:
            comm.abort()

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


def _reason(error: BaseException | None) -> str:
    """Return what the operating system says, such as ``Connection refused``, or the first line of the error."""
    first = first_line(error)
    while error is not None:
        if isinstance(error, OSError) and error.strerror:
            return error.strerror
        if found := re.search(r"\[Errno -?\d+\] ([^\n]+)", str(error)):
            return found[1]
        error = error.__cause__ or error.__context__
    return first


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
