"""`train` and `run_sweep`: train and store the runs that the database does not have."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from idwbench.data.folders import resolve_files
from idwbench.errors import ResultsError, TrainingError
from idwbench.results import DEFAULT_DATABASE
from idwbench.results.records import RESULT_STATES, EndedState, StoredRun, SweepStatus
from idwbench.results.store import Results
from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import dataset_identity
from idwbench.sweep.observer import Observer
from idwbench.sweep.planner import plan
from idwbench.sweep.spec import SweepSpec, read_sweep

if TYPE_CHECKING:
    from idwbench.data.dataset import Dataset
    from idwbench.sweep.runner import Outcome
    from idwbench.training.selection import EngineName, EngineSelector

__all__ = ["Retry", "run_sweep", "train"]

Retry = Literal["failed", "diverged", "all"]
_RETRIED: dict[str | None, tuple[EndedState, ...]] = {
    None: (),
    "failed": ("failed",),
    "diverged": ("diverged",),
    "all": ("failed", "diverged", "complete"),
}


def train(
    config: RunConfig,
    db: str | PathLike[str] = DEFAULT_DATABASE,
    *,
    engine: EngineName = "auto",
    device: str = "cpu",
    data_dir: Path | None = None,
    retrain: bool = False,
    observer: Observer | None = None,
) -> StoredRun:
    """Return a run from the database, after training it if it is missing or failed.

    Args:
        config: The run; a relative path of a file starts at the working directory.
        db: The results database: a path, or an SQLAlchemy URL.
        engine: ``fused``, ``torch``, or ``auto`` for fused where it supports the run.
        device: Device of the torch engine.
        data_dir: Folder of the image archives, see `idwbench.data.folders.data_folder`.
        retrain: Whether to retrain a run that has a result.
        observer: Receives the progress.

    Raises:
        IdwbenchError: the data or the database cannot be used, another process trains the run, or it failed.
    """
    config = config.model_copy(update={"dataset": resolve_files(config.dataset, Path.cwd())})
    key = config.run_key
    if not retrain and (found := _finished(db, key)) is not None:
        return found
    # What can be wrong is found before the database is created or changed.
    selector, dataset = _selector(engine, device), _load(config, data_dir)
    selector.check(config, dataset)
    results = Results(db)
    results.plan([config])
    results.reset([key], _RETRIED["all" if retrain else "failed"])
    if results.pending([key]):
        to_do = [*_missing_requirements([config], results), config]
        _prepare(to_do, selector, results, observer)
        outcome = _run(to_do, results, selector, dataset, 1, observer)
        if outcome.elsewhere:
            raise ResultsError(f"run {key[:12]} is being trained by another process")
        if outcome.failed:
            error = (results.find_run(key).error or "").strip().splitlines()
            raise TrainingError(f"run {key[:12]} failed: {error[-1] if error else 'no reason was stored'}")
    return results.find_run(key)


def _finished(db: str | PathLike[str], key: str) -> StoredRun | None:
    """Return a run that has a result; None if there is none or the database cannot be read without an upgrade."""
    try:
        run = Results(db, read_only=True).find_run(key)
    except ResultsError:
        return None
    return run if run.state in RESULT_STATES else None


def run_sweep(
    sweep: SweepSpec | str | PathLike[str],
    db: str | PathLike[str] = DEFAULT_DATABASE,
    *,
    retry: Retry | None = None,
    engine: EngineName = "auto",
    device: str = "cpu",
    jobs: int | None = None,
    data_dir: Path | None = None,
    observer: Observer | None = None,
) -> SweepStatus:
    """Train the runs of a sweep that the database does not have, and return the status of the sweep.

    Args:
        sweep: A sweep file, or the result of `read_sweep`.
        db: The results database: a path, or an SQLAlchemy URL.
        retry: Retrain runs in this state.
        engine: ``fused``, ``torch``, or ``auto`` for fused where it supports a run.
        device: Device of the torch engine.
        jobs: Number of threads that train; by default one for each core, or one on a GPU.
        data_dir: Folder of the image archives.
        observer: Receives the progress.

    Each data set is loaded when its turn comes, so that only one is in memory.

    Raises:
        IdwbenchError: the file, the data or the database cannot be used. A failed run does not raise.
    """
    spec = sweep if isinstance(sweep, SweepSpec) else read_sweep(Path(sweep))
    # A device that is not available is found before the database is changed; the CPU always is.
    selector = _selector(engine, device) if device != "cpu" else None
    configs, results = plan(spec), Results(db)
    keys = results.register_sweep(spec.name, spec.description, spec.source, configs)
    results.reset(keys, _RETRIED[retry])
    pending = set(results.pending(keys))
    to_do = [config for config, key in zip(configs, keys, strict=True) if key in pending]
    to_do = [*_missing_requirements(to_do, results), *to_do]
    status = results.sweep_status(spec.name)
    if observer is not None:
        failed = 0 if "failed" in _RETRIED[retry] else status.failed
        observer.planned(len(keys) + len(to_do) - len(pending), len(to_do), status.running, failed)
    if to_do:
        _run_by_dataset(to_do, results, selector or _selector(engine, device), data_dir, jobs, observer)
        status = results.sweep_status(spec.name)
    return status


def _selector(engine: EngineName, device: str) -> EngineSelector:
    from idwbench.training.selection import EngineSelector

    return EngineSelector(engine, device)


def _load(config: RunConfig, data_dir: Path | None) -> Dataset:
    from idwbench.data.loading import load_dataset

    return load_dataset(config.dataset, data_dir)


def _run_by_dataset(
    configs: Sequence[RunConfig],
    results: Results,
    selector: EngineSelector,
    data_dir: Path | None,
    jobs: int | None,
    observer: Observer | None,
) -> None:
    """Train runs data set by data set, in the order of the first run of each."""
    groups: dict[str, list[RunConfig]] = {}
    for config in configs:
        groups.setdefault(dataset_identity(config.dataset), []).append(config)
    for place, group in enumerate(groups.values()):
        dataset = _load(group[0], data_dir)
        for config in group:
            selector.check(config, dataset)
        if place == 0:
            _prepare(configs, selector, results, observer)
        _run(group, results, selector, dataset, jobs, observer)


def _prepare(
    configs: Sequence[RunConfig], selector: EngineSelector, results: Results, observer: Observer | None
) -> None:
    selector.results = results
    selector.prepare(configs, (observer or Observer()).note)


def _run(
    configs: Sequence[RunConfig],
    results: Results,
    selector: EngineSelector,
    dataset: Dataset,
    jobs: int | None,
    observer: Observer | None,
) -> Outcome:
    from idwbench.sweep.runner import run_pending
    from idwbench.training.threads import available_cores, limited_threads

    observer = observer or Observer()
    # A GPU trains one large stack at a time.
    n_jobs = jobs or (available_cores() if selector.device == "cpu" else 1)
    required = {run.run_key for config in configs if (run := config.required) is not None}
    first = [config for config in configs if required and config.run_key in required]
    with limited_threads(1), _frozen_heap():
        if first:
            run_pending(first, results, selector, dataset, observer, n_jobs)
            configs = [config for config in configs if config.run_key not in required]
        # Another process may still train a network; the process that ends last makes the runs that need it.
        waiting = {key for key in required if results.find_run(key).state in ("planned", "running")}
        ready = [run for run in configs if run.required is None or run.required.run_key not in waiting]
        outcome = run_pending(ready, results, selector, dataset, observer, n_jobs)
        outcome.add("elsewhere", len(configs) - len(ready))
        return outcome


def _missing_requirements(configs: Sequence[RunConfig], results: Results) -> list[RunConfig]:
    """Return the runs that runs of `configs` need and that have no result, added to the database."""
    required = {run.run_key: run for config in configs if (run := config.required) is not None}
    if not required:
        return []
    results.plan(list(required.values()))
    results.reset(list(required), _RETRIED["failed"])
    among = {config.run_key for config in configs}
    return [required[key] for key in results.pending(list(required)) if key not in among]


@contextmanager
def _frozen_heap() -> Iterator[None]:
    """Exclude the objects that are already loaded from garbage collection."""
    was_enabled = gc.isenabled()
    gc.freeze()
    gc.enable()
    try:
        yield
    finally:
        gc.unfreeze()
        if not was_enabled:
            gc.disable()
