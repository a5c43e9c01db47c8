"""The part of a worker: checks of versions and data, and the training of a task.

Nothing here opens the results database.
"""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from idwbench.data.folder import DATA_VARIABLE
from idwbench.errors import IdwbenchError, first_line
from idwbench.files import full_disk_error
from idwbench.results.provenance import collect_provenance
from idwbench.results.rows import package_versions
from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import DatasetConfig, dataset_identity, dataset_label
from idwbench.sweep.cluster.plugin_sources import load_sources
from idwbench.sweep.cluster.tasks import SharedFolder, StackResult, Task, TaskResult
from idwbench.training.engine import Context, EngineName
from idwbench.training.selection import check_engine, engine_of

if TYPE_CHECKING:
    from idwbench.data.dataset import Dataset
    from idwbench.models.neighbours import PrototypeQuality

__all__ = ["train_task", "version_problem"]

# One task at a time: the number of threads is set for the whole process.
_one_task = threading.Lock()
_setup: _Setup | None = None


class _Cancelled(Exception):
    """Ends a training that the driver no longer waits for."""


class _Refused(Exception):
    """The worker cannot train the task."""


@dataclass(frozen=True)
class _Setup:
    """What tasks on one data set share."""

    identity: tuple[object, ...]
    dataset: Dataset
    quality: PrototypeQuality
    context: Context


def version_problem(expected: Mapping[str, str]) -> str:
    """Return how the versions of this process differ from those of the driver, or "" if they do not.

    The build of a package, as ``cpu`` in torch 2.13.0+cpu, may differ.
    """
    own = package_versions()
    different = [
        f"{name} {own.get(name, 'is missing')}, the driver has {version}"
        for name, version in expected.items()
        if own.get(name, "").partition("+")[0] != version.partition("+")[0]
    ]
    return "; ".join(different)


def train_task(task: Task) -> TaskResult:
    """Train the stacks of a task in order, until its time is used up, and return what was trained.

    Nothing is trained if versions, plugins or data differ from those of the driver.
    """
    address, cancelled = _worker()
    result: TaskResult = {"worker": address, "refused": "", "stacks": [], "provenance": None}
    with _one_task:
        try:
            _train(task, result, cancelled)
            result["provenance"] = collect_provenance()
        except _Refused as error:
            result["refused"] = str(error)
        except _Cancelled:
            pass  # nobody reads the result
    return result


def _worker() -> tuple[str, Callable[[], bool]]:
    """Return the address of the worker, and a function that says whether its present task was cancelled."""
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()

    def cancelled() -> bool:
        state = worker.state.tasks.get(key)
        return state is None or state.state == "cancelled"

    return str(worker.address), cancelled


def _train(task: Task, result: TaskResult, cancelled: Callable[[], bool]) -> None:
    def on_epoch(epoch: int) -> None:
        if cancelled():
            raise _Cancelled

    if problem := version_problem(task["versions"]):
        raise _Refused(problem)
    try:
        load_sources(task["plugins"])
        stacks = [[RunConfig.model_validate_json(text) for text in stack] for stack in task["stacks"]]
        setup = _prepared(task, stacks[0][0].dataset)
    except IdwbenchError as error:
        raise _Refused(str(error)) from None
    started = time.monotonic()  # reading the data is no training
    for stack in stacks:
        if result["stacks"] and time.monotonic() - started > task["seconds"]:
            return
        result["stacks"].append(_trained(stack, setup, on_epoch))


def _trained(stack: list[RunConfig], setup: _Setup, on_epoch: Callable[[int], None]) -> StackResult:
    from idwbench.sweep.threads import train_stack
    from idwbench.training.threads import limited_threads

    started, context = time.perf_counter(), replace(setup.context, on_epoch=on_epoch)
    result: StackResult = {"results": [], "failure": None, "seconds": 0.0}
    try:
        engine_of(stack[0], setup.context)  # loads torch if it is needed, which is limited only then
        with limited_threads(1):
            result["results"] = train_stack(stack, setup.dataset, setup.quality, context)
    except _Cancelled:
        raise
    except Exception as error:  # no error of one run may end the sweep
        if (full := full_disk_error(error)) is not None:
            raise _Refused(str(full)) from None
        text = "".join(traceback.format_exception(error))
        result["failure"] = {"name": type(error).__name__, "message": first_line(error), "traceback": text}
    result["seconds"] = time.perf_counter() - started
    return result


def _prepared(task: Task, data: DatasetConfig) -> _Setup:
    """Return data and engines for a task: those of the last one, or new ones."""
    global _setup
    content = (task["data_sha256"], task["engine"], task["device"], task["data_dir"], str(task["checkpoints"]))
    identity = (dataset_identity(data), getattr(data, "path", ""), *content)
    if _setup is None or _setup.identity != identity:
        _setup = None  # two data sets may not fit into memory
        _setup = _new_setup(task, data, identity)
    return _setup


def _new_setup(task: Task, data: DatasetConfig, identity: tuple[object, ...]) -> _Setup:
    from idwbench.data.loading import load_dataset
    from idwbench.models.neighbours import PrototypeQuality

    is_own = not task["data_dir_is_given"] and bool(os.environ.get(DATA_VARIABLE))
    dataset = load_dataset(data, None if is_own else Path(task["data_dir"]))
    if dataset.sha256 != task["data_sha256"]:
        raise _Refused(
            f"the data set {dataset_label(data)} differs: its SHA-256 begins with {dataset.sha256[:12]}, "
            f"the driver's with {task['data_sha256'][:12]}"
        )
    engine, device = cast(EngineName, task["engine"]), task["device"]
    check_engine(engine, device)
    context = Context(engine, device, checkpoint_folder=_checkpoints(task["checkpoints"]))
    return _Setup(identity, dataset, PrototypeQuality(dataset.splits), context)


def _checkpoints(shared: SharedFolder | None) -> Path | None:
    """Return the folder of checkpoints if this worker sees the driver's."""
    if shared is None:
        return None
    try:
        is_same = Path(shared["path"]).parent.stat().st_ino == shared["inode"]
    except OSError:
        return None
    return Path(shared["path"]) if is_same else None
