"""`train` and `run_sweep` train and store the runs that the database does not have; `replay_run` trains one again.

`measure_runs` adds the metrics of prototype quality to stored runs, from their keys and values, without training.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ConfigDict

from idwbench.data.folder import resolve_files
from idwbench.errors import ConfigError, ResultsError, RunElsewhereError, TrainingError
from idwbench.results import DEFAULT_DATABASE
from idwbench.results.records import RESULT_STATES, EndedState, StoredRun, SweepStatus
from idwbench.results.store import Results
from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import dataset_identity
from idwbench.runs.kinds.models import MODELS
from idwbench.runs.metrics import NEWEST_QUALITY
from idwbench.runs.settings import Count, Settings, validated
from idwbench.sweep.observer import Observer, default_observer
from idwbench.sweep.runner import Runner, with_requirements
from idwbench.sweep.spec import SweepSpec, plan, read_sweep, sweep_path
from idwbench.training.engine import Context, EngineName
from idwbench.training.selection import check_engine, check_run, useful_threads

if TYPE_CHECKING:
    from idwbench.results.comparison import Comparison
    from idwbench.sweep.cluster import Cluster

__all__ = ["RETRIED", "Retry", "measure_runs", "replay_run", "run_sweep", "train", "unmeasured_runs"]

# Metrics of the cost of a training, which differ from one to the next.
_COSTS = ("seconds_per_step", "activation_memory", "fit_seconds", "predict_seconds")
Retry = Literal["failed", "diverged", "all"]
# The states that each choice trains again.
RETRIED: dict[str | None, tuple[EndedState, ...]] = {
    None: (),
    "failed": ("failed",),
    "diverged": ("diverged",),
    "all": ("failed", "diverged", "complete"),
}


class _Arguments(Settings):
    """What `train` and `run_sweep` take beside the runs."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    db: str | PathLike[str]
    engine: EngineName
    device: str
    data_dir: str | PathLike[str] | None
    observer: Observer | None
    retrain: bool = False
    retry: Retry | None = None
    jobs: Count | None = None
    dask: str | None = None
    wait: bool = False
    max_failures: Count | None = None


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
        data_dir: Folder of the image archives, see `idwbench.data.folder.data_folder`.
        retrain: Whether to retrain a run that has a result.
        observer: Receives the progress; by default a notebook shows a bar.

    Raises:
        IdwbenchError: an argument of another type, the data or the database cannot be used, another process trains the
            run, or it failed.
    """
    given = {"db": db, "engine": engine, "device": device, "data_dir": data_dir, "observer": observer}
    validated(_Arguments, {**given, "retrain": retrain})
    if not isinstance(config, RunConfig):
        raise ConfigError(f"expected a run, got {config!r}", location=("config",), hint="make it with run_config")
    config = config.model_copy(update={"dataset": resolve_files(config.dataset, Path.cwd())})
    key = config.run_key
    with suppress(ResultsError):  # there is none, or the database cannot be read without an upgrade
        run = Results(db, read_only=True).find_run(key)
        if run.state in RESULT_STATES and not retrain:
            return run
    # What can be wrong is found before the database is created or changed.
    check_engine(engine, device)
    from idwbench.data.loading import load_dataset

    dataset = load_dataset(config.dataset, data_dir)
    check_run(config, dataset, Context(engine, device))
    results = Results(db)
    results.plan([config])
    results.reset([key], RETRIED["all" if retrain else "failed"])
    if results.pending([key]):
        runner = Runner(results, observer or default_observer(), engine, device)
        to_do = with_requirements([config], results)
        runner.observer.planned(len(to_do), len(to_do), 0, 0)
        if len(to_do) == 1:
            runner.threads = useful_threads(config, dataset, runner.context)
        runner.train_all(to_do, dataset)
        if runner.outcome["failed"]:
            raise TrainingError(f"run {key[:12]} failed: {results.find_run(key).reason or 'no reason was stored'}")
    run = results.find_run(key)
    if run.state in ("planned", "running"):
        raise RunElsewhereError(f"run {key[:12]} is being trained by another process")
    return run


def run_sweep(
    sweep: SweepSpec | str | PathLike[str],
    db: str | PathLike[str] = DEFAULT_DATABASE,
    *,
    changes: Mapping[str, Any] | None = None,
    retry: Retry | None = None,
    engine: EngineName = "auto",
    device: str = "cpu",
    jobs: int | None = None,
    data_dir: Path | None = None,
    dask: str | None = None,
    observer: Observer | None = None,
    wait: bool = False,
    max_failures: int | None = None,
) -> SweepStatus:
    """Train the runs of a sweep that the database does not have, and return the status of the sweep.

    Args:
        sweep: A sweep file, the name of a shipped sweep such as ``two_moons``, or the result of `read_sweep`.
        db: The results database: a path, or an SQLAlchemy URL.
        changes: Other values in the sweep file, such as ``{"seeds": 2, "epochs": 5}``; see `read_sweep`.
        retry: Retrain runs in this state.
        engine: ``fused``, ``torch``, or ``auto`` for fused where it supports a run.
        device: Device of the torch engine.
        jobs: Number of threads that train; by default one for each core, or one on a GPU.
        data_dir: Folder of the image archives; a data set is loaded when its turn comes, so that only one is in memory.
        dask: A Dask cluster that trains the runs: ``tcp://host:8786``, or ``local:2`` for two new processes.
        observer: Receives the progress; by default a notebook shows a bar.
        wait: Whether to wait for the runs that other processes train, and to train those that they leave.
        max_failures: End after this number of failed runs; those in work are released and stay to be trained.

    Raises:
        IdwbenchError: an argument of another type; the file, the data or the database cannot be used; no failed run.
    """
    given = {"db": db, "engine": engine, "device": device, "data_dir": data_dir, "observer": observer}
    own = {"retry": retry, "jobs": jobs, "dask": dask, "wait": wait, "max_failures": max_failures}
    validated(_Arguments, given | own)
    spec = _specification(sweep, changes)
    cluster: AbstractContextManager[Cluster | None] = nullcontext()
    if dask is not None:
        from idwbench.sweep.cluster import connected, local_workers

        local_workers(dask)  # a wrong address is found before the database is changed
        cluster = connected(dask, device)
    # A device that is not available is found before the database is changed; the CPU always is. Workers have their own.
    check_engine(engine, device if dask is None else "cpu")
    results, retried = Results(db), RETRIED[retry]
    runner = Runner(results, observer or default_observer(), engine, device, data_dir, jobs, max_failures=max_failures)
    waited, to_do = _register(spec, runner, retried, wait=wait) if spec.sampler is None else ({}, [])
    if waited or to_do or spec.sampler is not None:
        with cluster as runner.cluster:
            if spec.sampler is not None:
                from idwbench.sweep.search import run_search

                run_search(spec, runner, retried)
                waited = {run.run_key: run.config for run in results.find_runs(sweep=spec.name)} if wait else {}
            runner.train_all(to_do)
            runner.wait_for_others(waited)
    return results.sweep_status(spec.name)


def _specification(sweep: SweepSpec | str | PathLike[str], changes: Mapping[str, Any] | None) -> SweepSpec:
    if not isinstance(sweep, SweepSpec | str | PathLike):
        expected = "expected the path or name of a sweep, or the result of read_sweep"
        raise ConfigError(f"{expected}, got {sweep!r}", location=("sweep",))
    if not isinstance(sweep, SweepSpec):
        return read_sweep(sweep_path(sweep), changes)
    if changes:
        raise ConfigError("only a file can be changed, not a sweep that has been read", location=("changes",))
    return sweep


def _register(
    spec: SweepSpec, runner: Runner, retried: Sequence[EndedState], *, wait: bool
) -> tuple[dict[str, RunConfig], list[RunConfig]]:
    """Store a sweep and its plan; return its runs by key if they are to be waited for, and the runs to train."""
    configs, results = plan(spec), runner.results
    with results.kept_open():
        keys = results.register_sweep(spec.name, spec.description, spec.source, configs)
        if retried:
            results.reset(keys, retried)
        by_key = dict(zip(keys, configs, strict=True))
        pending = results.pending(keys)
        to_do = with_requirements([by_key[key] for key in pending], results)
        status = results.sweep_status(spec.name)
    failed = 0 if "failed" in retried else status.failed
    runner.observer.planned(len(keys) + len(to_do) - len(pending), len(to_do), status.running, failed)
    waits = wait and bool(to_do or status.running)
    if to_do or waits:
        runner.observer.pending(configs, keys, set(pending))
    return by_key if waits else {}, to_do


def replay_run(
    run_key: str,
    db: str | PathLike[str] = DEFAULT_DATABASE,
    *,
    data_dir: Path | None = None,
    observer: Observer | None = None,
) -> Comparison:
    """Train a stored run again with the engine and on the device that it had, and compare; the database is only read.

    The metrics are those that are stored, without time and memory. What the run needs, such as the network of a study
    of patches, is trained again too. The new result, its recording and its checkpoints are in a temporary folder, which
    is deleted.

    Args:
        run_key: The key of the run, or its beginning.
        db: The results database: a path, or an SQLAlchemy URL.
        data_dir: Folder of the image archives.
        observer: Receives the progress.

    Raises:
        ResultsError: no such run, or it has no result.
        IdwbenchError: the data, the device or the plugin of the run is not available, or the training failed.
    """
    from idwbench.results.comparison import compare_runs

    results = Results(db, read_only=True)
    run = results.find_run(run_key)
    if run.state not in RESULT_STATES:
        raise ResultsError(f"run {run.run_key[:12]} is {run.state}: it has no result to compare with")
    engine: EngineName = run.engine if run.engine in ("fused", "torch") else "auto"  # type: ignore[assignment]
    with tempfile.TemporaryDirectory(prefix="idwbench-replay-") as folder:
        scratch = Path(folder) / "replay.db"
        train(run.config, scratch, engine=engine, device=run.device or "cpu", data_dir=data_dir, observer=observer)
        both = compare_runs(results, run.run_key, run.run_key, Results(scratch, read_only=True))
    stored = {key: pair for key, pair in both.metrics.items() if key in run.metrics and key[1] not in _COSTS}
    return replace(both, metrics=stored)


def unmeasured_runs(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """Return the complete runs with keys and values that lack metrics of prototype quality.

    These are runs of versions that had none, or some: the newest of these metrics is missing.
    """
    complete = [run for run in runs if run.state == "complete" and run.metric(NEWEST_QUALITY, "train") is None]
    return [run for run in complete if {"keys", "values"} <= set(MODELS[run.config.model.kind].array_names)]


def measure_runs(
    results: Results,
    runs: Sequence[StoredRun],
    data_dir: Path | None = None,
    on_measured: Callable[[int], None] = lambda done: None,
) -> int:
    """Store the metrics of prototype quality of the runs that lack them, and return the number of these runs.

    Args:
        results: The database of the runs.
        runs: Runs in any state.
        data_dir: Folder of the image archives.
        on_measured: Called with the number of runs measured so far; an exception in it keeps what is stored.

    Raises:
        DatasetError: a data set cannot be loaded.
        ResultsError: it is not the data that a run was trained on, or the database cannot be written.
    """
    groups: dict[str, list[StoredRun]] = {}
    for run in unmeasured_runs(runs):
        groups.setdefault(dataset_identity(run.config.dataset), []).append(run)
    done = 0
    for group in groups.values():
        from idwbench.data.loading import load_dataset
        from idwbench.models.neighbours import PrototypeQuality

        dataset = load_dataset(group[0].config.dataset, data_dir)
        quality = PrototypeQuality(dataset.splits, are_images=dataset.image_shape is not None)
        with results.kept_open():
            for run in group:
                if run.data_sha256 not in (None, dataset.sha256):
                    raise ResultsError(f"run {run.run_key[:12]} was trained on other data: the checksums differ")
                stored = results.load_arrays(run.run_key)
                keys, values = (stored[name].astype("float32") for name in ("keys", "values"))
                results.add_metrics({run.run_key: quality.metrics(keys, values)})
                done += 1
                on_measured(done)
    return done
