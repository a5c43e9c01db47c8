"""Stored runs as a CSV or Parquet table, or as a folder for TensorBoard or MLflow.

A table has the columns of `Results.to_frame`; a folder has curves and metrics by epoch, settings, and what is known of
the runs.
"""

from __future__ import annotations

import io
import json
import os
import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from idwbench.errors import DatasetError, OutputError, OutputExistsError, ResultsError
from idwbench.files import check_output, write_file
from idwbench.machine import require_package
from idwbench.results.comparison import environment
from idwbench.results.frame import runs_frame, with_settings
from idwbench.results.records import RESULT_STATES, StoredRun
from idwbench.results.store import Results
from idwbench.runs.config import RunConfig
from idwbench.runs.results import CurvePoint

if TYPE_CHECKING:
    import pandas

__all__ = ["MLFLOW_FILE", "export_mlflow", "export_table", "export_tensorboard", "run_folder_name", "written_folder"]

_TABLE_SUFFIXES = (".csv", ".parquet")
_COUNTS = ["n_parameters", "diverged_epoch", "threads", "attempt", "seed"]
MLFLOW_FILE = "mlflow.db"
_LONGEST = 5000  # the limit of MLflow for a text
_STATUS = {"complete": "FINISHED", "diverged": "FAILED", "failed": "FAILED"}


def export_table(results: Results, run_keys: Sequence[str], path: Path, *, overwrite: bool = False) -> int:
    """Write the settings, state, metrics and provenance of runs to a table, and return the number of its rows.

    Whole numbers stay whole where values are missing. A column with numbers and words, such as an epsilon that a rule
    chooses in some runs, is text; lists are JSON. Curves and arrays are not read.

    Args:
        results: The database.
        run_keys: The runs, in the order of the rows.
        path: A name that ends in ``.csv`` or ``.parquet`` (extra ``parquet``).
        overwrite: Whether a file may be replaced.

    Raises:
        OutputError: another suffix, a missing package, or the file cannot be written.
        ResultsError: no run has one of the keys.
    """
    suffix = path.suffix.lower()
    if suffix not in _TABLE_SUFFIXES:
        raise OutputError(f"expected a name ending in {' or '.join(_TABLE_SUFFIXES)}", file=path)
    if suffix == ".parquet":
        require_package("pyarrow", "parquet")
    check_output(path, overwrite=overwrite)

    # As objects, since pandas turns whole numbers into fractions where one is missing.
    frame = with_settings(runs_frame(results.load_runs(run_keys)), objects=True)
    frame = frame.astype(dict.fromkeys(_COUNTS, "Int64"))
    frame = frame.assign(**{name: _typed(column) for name, column in frame.items() if column.dtype == object})
    content = io.BytesIO()
    if suffix == ".parquet":
        frame.to_parquet(content, engine="pyarrow", index=False)
    else:
        frame.to_csv(content, index=False)
    write_file(path, content.getvalue(), overwrite=overwrite)
    return len(frame)


def _typed(column: pandas.Series[Any]) -> pandas.Series[Any]:
    """Return a column of objects with one type, which has missing values."""
    kinds = {*map(type, column.dropna())}
    if kinds == {int}:
        return column.astype("Int64")
    if kinds <= {int, float}:
        return column.astype("float64")
    if kinds == {bool}:
        return column.astype("boolean")
    return column.map(lambda value: str(_plain_setting(value)), na_action="ignore").astype("string")


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
        runs = [run for run in results.load_runs(run_keys) if run.state in RESULT_STATES]
        for run in runs:
            _write_events(temporary / run_folder_name(run), run, results.load_curve(run.run_key))
        return len(runs)


def run_folder_name(run: StoredRun) -> str:
    """Return ``two_moons.idw.16.seed0.0a1b2c3d4e5f``."""
    model = run.config.model
    words = [run.dataset, model.method, *([str(model.prototypes)] if model.prototypes else [])]
    name = ".".join([*words, f"seed{run.config.seed}", run.run_key[:12]])
    return re.sub(r"[^\w.+-]+", "_", name)


def _write_events(folder: Path, run: StoredRun, curve: Sequence[CurvePoint]) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams import api_pb2, metadata
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo
    from tensorboard.plugins.hparams.summary_v2 import hparams_pb
    from tensorboard.summary.writer.record_writer import RecordWriter

    folder.mkdir()
    start, end = _times(run)
    last = max([run.config.n_epochs, *(point.epoch for point in curve)])
    hyperparameters = hparams_pb(_plain_settings(run.config), trial_id=run.run_key, start_time_secs=start)
    settings = hyperparameters.value[0].metadata.plugin_data  # as bytes, in another order in each process
    settings.content = HParamsPluginData.FromString(settings.content).SerializeToString(deterministic=True)
    scalars = [
        (point.epoch, {f"{name}/{split}": value for (split, name), value in point.values.items()}) for point in curve
    ]
    scalars += [(last, {f"{split}_{name}": value for (split, name), value in run.metrics.items()})]
    events = [Event(wall_time=start, file_version="brain.Event:2"), Event(wall_time=start, summary=hyperparameters)]
    for epoch, values in (pair for pair in scalars if pair[1]):
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])
        events.append(Event(wall_time=start + (end - start) * epoch / last, step=epoch, summary=summary))
    status = api_pb2.Status.Value("STATUS_SUCCESS" if run.state == "complete" else "STATUS_FAILURE")
    ended = HParamsPluginData(session_end_info=SessionEndInfo(status=status, end_time_secs=end))
    about = metadata.create_summary_metadata(ended)  # for the table of hyperparameters
    summary = Summary(value=[Summary.Value(tag=metadata.SESSION_END_INFO_TAG, metadata=about)])
    events.append(Event(wall_time=end, step=last, summary=summary))
    with open(folder / f"events.out.tfevents.{int(end)}.idwbench", "wb") as file:
        writer = RecordWriter(file)
        for event in events:
            writer.write(event.SerializeToString(deterministic=True))


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
    with written_folder(folder, overwrite=overwrite) as temporary, _client(temporary / MLFLOW_FILE) as client:
        place = (folder.absolute() / "artifacts").as_uri()
        create_experiment = cache(partial(client.create_experiment, artifact_location=place))
        runs = [run for run in results.load_runs(run_keys) if run.state in _STATUS]
        for run in runs:
            sweeps = results.sweeps_of(run.run_key)
            model = _model_file(results, run, data_dir)
            tags = {"sweep": ", ".join(sweeps) or None, "no_model": model if isinstance(model, str) else None}
            experiment = create_experiment(" · ".join([run.dataset, *sweeps[:1]]))
            run_id = _write_run(client, experiment, run, results.load_curve(run.run_key), tags)
            if isinstance(model, bytes):
                artifacts = temporary / "artifacts" / run_id / "artifacts"
                artifacts.mkdir(parents=True)
                (artifacts / "model.pt").write_bytes(model)
        return len(runs)


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
def _client(path: Path) -> Iterator[Any]:
    """Open MLflow's database, and keep from stderr MLflow's notes about its tables and warnings of its own code."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # it would report its use to its makers
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "ERROR")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mlflow
        from mlflow.exceptions import MlflowException

        try:
            yield mlflow.MlflowClient(tracking_uri=f"sqlite:///{path}")
        except MlflowException as error:
            raise OutputError(f"MLflow cannot write it: {error}", file=path) from None


def _write_run(
    client: Any, experiment: str, run: StoredRun, curve: Sequence[CurvePoint], facts: Mapping[str, str | None]
) -> str:
    """Write a run with further `facts` as tags, and return its ID."""
    from mlflow.entities import Param

    start, end = _times(run)
    name = f"{run.config.model.label} · seed {run.config.seed}"
    created = client.create_run(experiment, start_time=int(1000 * start), run_name=name, tags=_tags(run, facts))
    run_id = created.info.run_id
    parameters = [Param(key, str(value)[:_LONGEST]) for key, value in _plain_settings(run.config).items()]
    client.log_batch(run_id, metrics=_metrics(run, curve, start, end), params=parameters)
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


@contextmanager
def written_folder(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """Open a temporary folder whose files and folders are moved to `target` when the block ends.

    After an error nothing is written. In a folder that exists, only files and folders of the same names are replaced.

    Raises:
        OutputExistsError: `target` exists, is not empty, and may not be overwritten.
        OutputError: it is a file, its parent is not a folder, or the system refuses.
    """
    parent = target.absolute().parent
    if not parent.is_dir():
        raise OutputError(f"the folder {target.parent} does not exist", file=target)
    if target.exists() and not target.is_dir():
        raise OutputError("is a file, expected a folder", file=target)
    if target.exists() and not overwrite and any(target.iterdir()):
        raise OutputExistsError("exists already and is not empty", file=target)
    try:
        with tempfile.TemporaryDirectory(dir=parent, prefix=".idwbench-", ignore_cleanup_errors=True) as temporary:
            yield Path(temporary)
            target.mkdir(exist_ok=True)
            for path in sorted(Path(temporary).iterdir()):
                place = target / path.name
                if place.is_dir() and not place.is_symlink():
                    os.replace(place, path.with_name(f"{place.name}.replaced"))
                os.replace(path, place)
    except OSError as error:
        raise OutputError(f"cannot be written ({error.strerror or error})", file=target) from None


def _times(run: StoredRun) -> tuple[float, float]:
    """Return the times of start and end of a run, in seconds since 1970."""
    end = run.finished_at.timestamp() if run.finished_at else 0.0
    return end - (run.seconds or 0.0), end


def _plain_settings(config: RunConfig) -> dict[str, bool | int | float | str]:
    """Return the settings of a run without those that are None."""
    return {name: _plain_setting(value) for name, value in config.named_settings().items() if value is not None}


def _plain_setting(value: Any) -> bool | int | float | str:
    """Return a number or a text as it is; lists and mappings are JSON."""
    if isinstance(value, bool | int | float | str):
        return value
    try:
        return json.dumps(value)
    except TypeError:  # settings in settings, such as those of the parts of a data set
        return str(value)
