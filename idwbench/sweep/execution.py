"""`train` and `run_sweep`: plan, look into the database, train what is missing, store it."""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from idwbench.data.folders import resolve_files
from idwbench.errors import ResultsError, TrainingError
from idwbench.results.records import RESULT_STATES, EndedState, StoredRun, SweepStatus
from idwbench.results.store import Results
from idwbench.runs.config import RunConfig
from idwbench.runs.defaults import DEFAULT_DATABASE
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
    """Return a run as the database holds it, trained first if it is not there.

    Args:
        config: The run; a relative path of a file begins at the working directory.
        db: The results database: a path, or an SQLAlchemy URL.
        engine: ``fused``, ``torch``, or ``auto`` for the fused one where it supports the run.
        device: Device of the torch engine.
        data_dir: Folder of the image archives, see `idwbench.data.folders.data_folder`.
        retrain: Whether to train a run again that has ended. A failed one is always trained again.
        observer: Receives the progress.

    Raises:
        IdwbenchError: the data cannot be loaded, the database cannot be used, another process trains the run, or it
            failed.
    """
    config = config.model_copy(update={"dataset": resolve_files(config.dataset, Path.cwd())})
    key = config.run_key
    if not retrain and (found := _finished(db, key)) is not None:
        return found
    # What can be wrong is found before the database is created or changed.
    selector, dataset = _selector(engine, device), _load(config, data_dir)
    results = Results(db)
    results.plan([config])
    results.reset([key], _RETRIED["all" if retrain else "failed"])
    if results.pending([key]):
        outcome = _run([config], results, selector, dataset, 1, observer)
        if outcome.elsewhere:
            raise ResultsError(f"run {key[:12]} is being trained by another process")
        if outcome.failed:
            error = (results.find_run(key).error or "").strip().splitlines()
            raise TrainingError(f"run {key[:12]} failed: {error[-1] if error else 'no reason was stored'}")
    return results.find_run(key)


def _finished(db: str | PathLike[str], key: str) -> StoredRun | None:
    """Return a run that has a result; None as well if the database cannot be read as it is, such as an older one."""
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
    """Train the runs of a sweep that the database does not hold, and return how all of them stand.

    Args:
        sweep: A sweep file, or what `read_sweep` returned for it.
        db: The results database: a path, or an SQLAlchemy URL.
        retry: Which runs that have ended to train again.
        engine: ``fused``, ``torch``, or ``auto`` for the fused one where it supports a run.
        device: Device of the torch engine.
        jobs: How many threads train; one for each core if not given, one on a GPU.
        data_dir: Folder of the image archives.
        observer: Receives the progress.

    Raises:
        IdwbenchError: the file is wrong, the data cannot be loaded, or the database cannot be used. A failed run does
            not raise: it is counted in the status.
    """
    spec = sweep if isinstance(sweep, SweepSpec) else read_sweep(Path(sweep))
    configs, results = plan(spec), Results(db)
    keys = results.register_sweep(spec.name, spec.description, spec.source, configs)
    results.reset(keys, _RETRIED[retry])
    to_do = _pending(configs, results, keys)
    status = results.sweep_status(spec.name)
    if observer is not None:
        failed = 0 if "failed" in _RETRIED[retry] else status.failed
        observer.planned(len(keys), len(to_do), status.running, failed)
    if to_do:
        selector, dataset = _selector(engine, device), _load(to_do[0], data_dir)
        _run(to_do, results, selector, dataset, jobs, observer)
        status = results.sweep_status(spec.name)
    return status


def _pending(configs: Sequence[RunConfig], results: Results, keys: Sequence[str]) -> list[RunConfig]:
    pending: Collection[str] = set(results.pending(keys))
    return [config for config, key in zip(configs, keys, strict=True) if key in pending]


def _selector(engine: EngineName, device: str) -> EngineSelector:
    from idwbench.training.selection import EngineSelector

    return EngineSelector(engine, device)


def _load(config: RunConfig, data_dir: Path | None) -> Dataset:
    from idwbench.data.loading import load_dataset

    return load_dataset(config.dataset, data_dir)


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
    selector.prepare(configs, observer.note)
    # A GPU is best used by one large stack at a time.
    n_jobs = jobs or (available_cores() if selector.device == "cpu" else 1)
    with limited_threads(1), _frozen_heap():
        return run_pending(configs, results, selector, dataset, observer, n_jobs)


@contextmanager
def _frozen_heap() -> Iterator[None]:
    """Keep the garbage collector from scanning what is loaded by now over and over during short runs."""
    was_enabled = gc.isenabled()
    gc.freeze()
    gc.enable()
    try:
        yield
    finally:
        gc.unfreeze()
        if not was_enabled:
            gc.disable()
