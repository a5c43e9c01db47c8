"""Runs as a folder for TensorBoard or MLflow: curves and metrics by epoch, settings, and what is known of the run."""

from __future__ import annotations

import json
import logging
import os
import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from idwbench.errors import DatasetError, OutputError, ResultsError
from idwbench.exports.folders import written_folder
from idwbench.machine import require_package
from idwbench.results.comparison import environment, run_settings
from idwbench.results.records import RESULT_STATES, StoredRun
from idwbench.results.store import Results
from idwbench.runs.config import RunConfig

if TYPE_CHECKING:
    from idwbench.runs.results import CurvePoint

__all__ = ["MLFLOW_FILE", "export_mlflow", "export_tensorboard", "run_folder_name"]

_AT_ONCE = 500
# The version of the messages of the plugin of hyperparameters.
_PLUGIN_VERSION = 0
MLFLOW_FILE = "mlflow.db"
_ARTIFACTS = "artifacts"
_PARAMETERS_AT_ONCE, _METRICS_AT_ONCE, _LONGEST = 100, 900, 5000  # limits of MLflow
_STATUS = {"complete": "FINISHED", "diverged": "FAILED", "failed": "FAILED"}


def export_tensorboard(results: Results, run_keys: Sequence[str], folder: Path, *, overwrite: bool = False) -> int:
    """Write a folder that TensorBoard reads, and return the number of runs.

    Each run has a folder with one file: the curve as scalars such as ``loss/train`` and ``accuracy/test`` by epoch, the
    metrics after the last epoch as scalars such as ``test_accuracy``, and the settings as hyperparameters. The same
    runs give the same bytes. Arrays are not read.

    Args:
        results: The database.
        run_keys: Runs with a result; others are left out.
        folder: The folder to write, which is new or empty.
        overwrite: Whether folders of the same runs may be replaced.

    Raises:
        OutputError: the package ``tensorboard`` is missing, or the folder cannot be written.
        ResultsError: no run has one of the keys.
    """
    require_package("tensorboard", "tensorboard")
    with written_folder(folder, overwrite=overwrite) as temporary:
        runs = _with_curves(results, run_keys, RESULT_STATES)
        return sum(_write_events(temporary / run_folder_name(run), run, curve) for run, curve in runs)


def run_folder_name(run: StoredRun) -> str:
    """Return ``two_moons.idw.16.seed0.0a1b2c3d4e5f``."""
    model = run.config.model
    words = [run.dataset, model.method, *([str(model.prototypes)] if model.prototypes else [])]
    name = ".".join([*words, f"seed{run.config.seed}", run.run_key[:12]])
    return re.sub(r"[^\w.+-]+", "_", name)


def _write_events(folder: Path, run: StoredRun, curve: Sequence[CurvePoint]) -> int:
    """Write the file of a run and return 1."""
    from tensorboard.plugins.hparams.summary_v2 import hparams_pb
    from tensorboard.summary.writer.record_writer import RecordWriter

    folder.mkdir()
    start, end = _times(run)
    n_epochs = max(run.config.n_epochs, *(point.epoch for point in curve), 1) if curve else run.config.n_epochs
    with open(folder / f"events.out.tfevents.{int(end)}.idwbench", "wb") as file:
        writer = RecordWriter(file)

        def write(time: float, step: int = 0, **content: Any) -> None:
            from tensorboard.compat.proto.event_pb2 import Event

            writer.write(Event(wall_time=time, step=step, **content).SerializeToString(deterministic=True))

        write(start, file_version="brain.Event:2")
        write(start, summary=hparams_pb(_flat_settings(run.config), trial_id=run.run_key, start_time_secs=start))
        for point in curve:
            time = start + (end - start) * point.epoch / n_epochs
            scalars = {f"{name}/{split}": value for (split, name), value in point.values.items()}
            write(time, point.epoch, summary=_scalars(scalars))
        metrics = {f"{split}_{name}": value for (split, name), value in run.metrics.items()}
        if metrics:
            write(end, n_epochs, summary=_scalars(metrics))
        write(end, n_epochs, summary=_end(run, end))
    return 1


def _scalars(values: Mapping[str, float]) -> Any:
    from tensorboard.compat.proto.summary_pb2 import Summary

    return Summary(value=[Summary.Value(tag=name, simple_value=value) for name, value in values.items()])


def _end(run: StoredRun, time: float) -> Any:
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

    status = api_pb2.Status.Value("STATUS_SUCCESS" if run.state == "complete" else "STATUS_FAILURE")
    ended = plugin_data_pb2.SessionEndInfo(status=status, end_time_secs=time)
    content = plugin_data_pb2.HParamsPluginData(session_end_info=ended, version=_PLUGIN_VERSION)
    about = metadata.create_summary_metadata(content)
    return Summary(value=[Summary.Value(tag=metadata.SESSION_END_INFO_TAG, metadata=about)])


def export_mlflow(
    results: Results, run_keys: Sequence[str], folder: Path, *, overwrite: bool = False, data_dir: Path | None = None
) -> int:
    """Write a folder with the database ``mlflow.db``, which MLflow reads without a server; return the number of runs.

    Its address for MLflow is ``sqlite:///FOLDER/mlflow.db``. Each data set is an experiment, and each sweep on it one
    with the names of both. A run has its settings as parameters, the curve and the metrics after the last epoch as
    metrics such as ``train_loss`` and ``test_accuracy`` with the epoch as step, and run key, sweeps, state, engine,
    versions and commit as tags. A complete prototype network has its model file as the artifact ``model.pt``; if its
    data set, which has the scaling, is not available, the tag ``no_model`` says so. Nothing is sent anywhere.

    Args:
        results: The database.
        run_keys: Runs that have ended; others are left out.
        folder: The folder to write, which is new or empty.
        overwrite: Whether the database and the artifacts of an earlier export may be replaced.
        data_dir: Folder of the image archives, for the scaling of models.

    Raises:
        OutputError: the package ``mlflow`` is missing, or the folder cannot be written.
        ResultsError: no run has one of the keys.
    """
    require_package("mlflow", "mlflow")
    with written_folder(folder, overwrite=overwrite) as temporary, _quiet():
        client = _client(temporary / MLFLOW_FILE)
        place = (folder.absolute() / _ARTIFACTS).as_uri()
        create_experiment = cache(partial(client.create_experiment, artifact_location=place))
        n_runs = 0
        for run, curve in _with_curves(results, run_keys, _STATUS):
            sweeps = results.sweeps_of(run.run_key)
            model = _model_file(results, run, data_dir)
            tags = {"sweep": ", ".join(sweeps) or None, "no_model": model if isinstance(model, str) else None}
            experiment = create_experiment(" · ".join([run.dataset, *sweeps[:1]]))
            run_id = _write_run(client, experiment, run, curve, tags)
            if isinstance(model, bytes):
                artifacts = temporary / _ARTIFACTS / run_id / "artifacts"
                artifacts.mkdir(parents=True)
                (artifacts / "model.pt").write_bytes(model)
            n_runs += 1
        return n_runs


def _model_file(results: Results, run: StoredRun, data_dir: Path | None) -> bytes | str | None:
    """Return the model file of a complete prototype network, or why it cannot be made; None for other runs."""
    if run.config.model.kind != "prototypes" or run.state != "complete":
        return None
    from idwbench.models.model_file import model_content
    from idwbench.models.saved_model import stored_model

    try:
        return model_content(stored_model(results, run, data_dir), ".pt")
    except (DatasetError, ResultsError) as error:
        return error.problem


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep MLflow's notes about its tables from stderr, and what it warns of in its own code."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # it would report its use to its makers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mlflow  # sets the level of its logger

        logger = logging.getLogger(mlflow.__name__)
        level = logger.level
        logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            logger.setLevel(level)


def _client(path: Path) -> Any:
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    try:
        return MlflowClient(tracking_uri=f"sqlite:///{path}")
    except MlflowException as error:
        raise OutputError(f"MLflow cannot create it: {error}", file=path) from None


def _write_run(
    client: Any, experiment: str, run: StoredRun, curve: Sequence[CurvePoint], facts: Mapping[str, str | None]
) -> str:
    """Write a run with further `facts` as tags, and return its ID."""
    from mlflow.entities import Param

    start, end = _times(run)
    name = f"{run.config.model.label} · seed {run.config.seed}"
    created = client.create_run(experiment, start_time=int(1000 * start), run_name=name, tags=_tags(run, facts))
    run_id = created.info.run_id
    parameters = [Param(key, str(value)[:_LONGEST]) for key, value in _flat_settings(run.config).items()]
    for place in range(0, len(parameters), _PARAMETERS_AT_ONCE):
        client.log_batch(run_id, params=parameters[place : place + _PARAMETERS_AT_ONCE])
    metrics = _metrics(run, curve, start, end)
    for place in range(0, len(metrics), _METRICS_AT_ONCE):
        client.log_batch(run_id, metrics=metrics[place : place + _METRICS_AT_ONCE])
    client.set_terminated(run_id, _STATUS[run.state], int(1000 * end))
    return str(run_id)


def _metrics(run: StoredRun, curve: Sequence[CurvePoint], start: float, end: float) -> list[Any]:
    """Return the curve, and the metrics that it does not end with."""
    from mlflow.entities import Metric

    last = max((point.epoch for point in curve), default=run.config.n_epochs)
    values = {(point.epoch, *key): value for point in curve for key, value in point.values.items()}
    values |= {(last, *key): value for key, value in run.metrics.items()}
    moments = {epoch: int(1000 * (start + (end - start) * epoch / last)) for epoch, _, _ in values}
    return [Metric(f"{split}_{name}", value, moments[epoch], epoch) for (epoch, split, name), value in values.items()]


def _tags(run: StoredRun, more: Mapping[str, str | None]) -> dict[str, str]:
    facts = {"run key": run.run_key, "state": run.state, **environment(run), "error": run.error, **more}
    tags = {name.replace(" ", "_"): str(value)[:_LONGEST] for name, value in facts.items() if value is not None}
    if run.git:
        tags["mlflow.source.git.commit"] = str(run.git.get("commit"))
    return tags


def _with_curves(
    results: Results, run_keys: Sequence[str], states: Collection[str]
) -> Iterator[tuple[StoredRun, Sequence[CurvePoint]]]:
    """Yield each run in one of these states with its curve; the curves of some runs are read at a time."""
    runs = [run for run in results.load_runs(run_keys) if run.state in states]
    for start in range(0, len(runs), _AT_ONCE):
        part = runs[start : start + _AT_ONCE]
        curves = results.load_curves([run.run_key for run in part])
        yield from ((run, curves[run.run_key]) for run in part)


def _times(run: StoredRun) -> tuple[float, float]:
    """Return the times of start and end of a run, in seconds since 1970."""
    end = run.finished_at.timestamp() if run.finished_at else 0.0
    return end - (run.seconds or 0.0), end


def _flat_settings(config: RunConfig) -> dict[str, bool | int | float | str]:
    """Return the settings of a run without those that are None; lists and mappings are JSON."""
    return {name: _plain(value) for name, value in run_settings(config).items() if value is not None}


def _plain(value: Any) -> bool | int | float | str:
    if isinstance(value, bool | int | float | str):
        return value
    try:
        return json.dumps(value)
    except TypeError:  # settings in settings, such as those of the parts of a data set
        return str(value)
