"""The part of a worker: checks of versions and data, and the training of the stack of a task.

Nothing here opens the results database.
"""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TypedDict

from idwbench.attention.scores import METHODS
from idwbench.data.dataset import Dataset
from idwbench.data.folder import DATA_VARIABLE
from idwbench.data.loading import load_dataset
from idwbench.errors import ClusterError, IdwbenchError, PluginError, error_summary
from idwbench.models.neighbours import PrototypeQuality
from idwbench.results.provenance import collect_provenance, package_versions
from idwbench.runs.config import RunConfig
from idwbench.runs.dataset_base import DatasetConfig
from idwbench.runs.datasets import dataset_identity, dataset_label
from idwbench.sweep.threads import Answer, Stopped, train_stack
from idwbench.training.engine import Context, EngineName
from idwbench.training.selection import check_engine, engine_of
from idwbench.training.threads import limited_threads

__all__ = ["Task", "train_task", "version_problem"]


class Task(TypedDict):
    """A stack to train, as plain data, so that a worker with other versions can read it and say so.

    Attributes:
        versions: Of the driver, by package.
        stack: Configurations as JSON.
        engine: Name of the engine.
        device: Name of the device.
        methods: The methods of plugins that the runs of the sweep need, pickled with their code.
        data_dir: The data folder of the driver.
        data_dir_is_given: Whether it has priority over the worker's own.
        data_sha256: Checksum of the driver's data.
        checkpoints: The folder of checkpoints with the inode number of the folder that it is in, by which a worker
            knows whether it sees the same; or None.
    """

    versions: dict[str, str]
    stack: list[str]
    engine: EngineName
    device: str
    methods: bytes
    data_dir: str
    data_dir_is_given: bool
    data_sha256: str
    checkpoints: tuple[str, int] | None


# One task at a time: the number of threads is set for the whole process.
_one_task = threading.Lock()
# What tasks on one data set share, by all that it depends on.
_Setup = tuple[Dataset, PrototypeQuality, Context]
_setups: dict[tuple[object, ...], _Setup] = {}


def version_problem(expected: Mapping[str, str]) -> str:
    """Return how the versions of this process differ from those of the driver, or "" if they do not.

    The build of a package, as ``cpu`` in torch 2.13.0+cpu, may differ.
    """
    own = package_versions()
    return "; ".join(
        f"{name} {own.get(name, 'is missing')}, the driver has {version}"
        for name, version in expected.items()
        if own.get(name, "").partition("+")[0] != version.partition("+")[0]
    )


def train_task(task: Task) -> Answer:
    """Train the stack of a task.

    Raises:
        ClusterError: versions, plugins or data differ from those of the driver, or a file has no room on the disk.
    """
    address, cancelled = _worker()

    def on_epoch(epoch: int) -> None:
        if cancelled():
            raise Stopped  # nobody reads the answer

    with _one_task:
        try:
            if problem := version_problem(task["versions"]):
                raise ClusterError(problem)
            _register_methods(task["methods"])
            stack = [RunConfig.model_validate_json(text) for text in task["stack"]]
            dataset, quality, context = _prepared(task, stack[0].dataset)
            engine_of(stack[0], context)  # loads torch if it is needed, which is limited only then
            with limited_threads(1):
                answer = train_stack(stack, dataset, quality, replace(context, on_epoch=on_epoch))
        except IdwbenchError as error:
            raise ClusterError(f"worker {address}: {error}") from None
    return replace(answer, provenance=collect_provenance())


def _worker() -> tuple[str, Callable[[], bool]]:
    """Return the address of the worker, and a function that says whether its present task was cancelled."""
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()

    def cancelled() -> bool:
        state = worker.state.tasks.get(key)
        return state is None or state.state == "cancelled"

    return str(worker.address), cancelled


@lru_cache(1)
def _register_methods(content: bytes) -> None:
    """Register pickled methods, in place of others of their names, as of an earlier sweep.

    Raises:
        PluginError: they need what this worker lacks.
    """
    try:
        METHODS.update({method.name: method for method in pickle.loads(content)})
    except Exception as error:  # what they import can raise any exception
        raise PluginError(f"the methods of plugins cannot be loaded: {error_summary(error)}") from None


def _prepared(task: Task, data: DatasetConfig) -> _Setup:
    """Return the data set of a task, its quality and the context of engines: those of the last task, or new ones."""
    content = (task["data_sha256"], task["engine"], task["device"], task["data_dir"], str(task["checkpoints"]))
    identity = (dataset_identity(data), getattr(data, "path", ""), *content)
    if identity in _setups:
        return _setups[identity]
    _setups.clear()  # two data sets may not fit into memory
    is_own = not task["data_dir_is_given"] and bool(os.environ.get(DATA_VARIABLE))
    dataset = load_dataset(data, None if is_own else Path(task["data_dir"]))
    if dataset.sha256 != task["data_sha256"]:
        raise ClusterError(
            f"the data set {dataset_label(data)} differs: its SHA-256 begins with {dataset.sha256[:12]}, "
            f"the driver's with {task['data_sha256'][:12]}"
        )
    check_engine(task["engine"], task["device"])
    context = Context(task["engine"], task["device"], checkpoint_folder=_checkpoints(task["checkpoints"]))
    _setups[identity] = dataset, PrototypeQuality(dataset.splits, are_images=dataset.image_shape is not None), context
    return _setups[identity]


def _checkpoints(shared: tuple[str, int] | None) -> Path | None:
    """Return the folder of checkpoints if this worker sees the driver's."""
    try:
        return Path(shared[0]) if shared and Path(shared[0]).parent.stat().st_ino == shared[1] else None
    except OSError:
        return None
