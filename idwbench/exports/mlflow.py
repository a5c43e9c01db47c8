"""Runs as a folder for MLflow: a database with parameters, metrics by epoch, and tags."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from idwbench.errors import OutputError
from idwbench.exports.folders import check_folder, written_folder
from idwbench.exports.packages import require
from idwbench.exports.settings import flat_settings
from idwbench.results.comparison import environment
from idwbench.results.records import StoredRun
from idwbench.results.store import Results

if TYPE_CHECKING:
    from idwbench.runs.results import CurvePoint

__all__ = ["MLFLOW_FILE", "export_mlflow"]

MLFLOW_FILE = "mlflow.db"
_AT_ONCE = 500
_PARAMETERS_AT_ONCE, _METRICS_AT_ONCE, _LONGEST = 100, 900, 5000  # limits of MLflow
_STATUS = {"complete": "FINISHED", "diverged": "FAILED", "failed": "FAILED"}


def export_mlflow(results: Results, run_keys: Sequence[str], folder: Path, *, overwrite: bool = False) -> int:
    """Write a folder with the database ``mlflow.db``, which MLflow reads without a server; return the number of runs.

    Its address for MLflow is ``sqlite:///FOLDER/mlflow.db``. Each data set is an experiment. A run has
    its settings as parameters, the curve and the metrics after the last epoch as metrics such as ``train_loss`` and
    ``test_accuracy`` with the epoch as step, and run key, state, engine, versions and commit as tags. Arrays are not
    read. Nothing is sent anywhere.

    Args:
        results: The database.
        run_keys: Runs that have ended; others are left out.
        folder: The folder to write, which is new or empty.
        overwrite: Whether a database of an earlier export may be replaced.

    Raises:
        OutputError: the package ``mlflow`` is missing, or the folder cannot be written.
        ResultsError: no run has one of the keys.
    """
    require("mlflow", "mlflow")
    check_folder(folder, overwrite=overwrite)
    runs = [run for run in results.load_runs(run_keys) if run.state in _STATUS]
    with written_folder(folder, overwrite=overwrite) as temporary, _quiet():
        client = _client(temporary / MLFLOW_FILE)
        experiments: dict[str, str] = {}
        for start in range(0, len(runs), _AT_ONCE):
            part = runs[start : start + _AT_ONCE]
            curves = results.load_curves([run.run_key for run in part])
            for run in part:
                if run.dataset not in experiments:
                    place = (folder.absolute() / "artifacts").as_uri()
                    experiments[run.dataset] = client.create_experiment(run.dataset, artifact_location=place)
                _write_run(client, experiments[run.dataset], run, curves[run.run_key])
    return len(runs)


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


def _write_run(client: Any, experiment: str, run: StoredRun, curve: Sequence[CurvePoint]) -> None:
    from mlflow.entities import Param

    end = run.finished_at.timestamp() if run.finished_at else 0.0
    start = end - (run.seconds or 0.0)
    name = f"{run.config.model.label} · seed {run.config.seed}"
    created = client.create_run(experiment, start_time=int(1000 * start), run_name=name, tags=_tags(run))
    run_id = created.info.run_id
    parameters = [Param(key, str(value)[:_LONGEST]) for key, value in flat_settings(run.config).items()]
    for place in range(0, len(parameters), _PARAMETERS_AT_ONCE):
        client.log_batch(run_id, params=parameters[place : place + _PARAMETERS_AT_ONCE])
    metrics = _metrics(run, curve, start, end)
    for place in range(0, len(metrics), _METRICS_AT_ONCE):
        client.log_batch(run_id, metrics=metrics[place : place + _METRICS_AT_ONCE])
    client.set_terminated(run_id, _STATUS[run.state], int(1000 * end))


def _metrics(run: StoredRun, curve: Sequence[CurvePoint], start: float, end: float) -> list[Any]:
    """Return the curve, and the metrics that it does not end with."""
    from mlflow.entities import Metric

    last = max((point.epoch for point in curve), default=run.config.n_epochs)
    values = {(point.epoch, *key): value for point in curve for key, value in point.values.items()}
    values |= {(last, *key): value for key, value in run.metrics.items()}
    moments = {epoch: int(1000 * (start + (end - start) * epoch / last)) for epoch, _, _ in values}
    return [Metric(f"{split}_{name}", value, moments[epoch], epoch) for (epoch, split, name), value in values.items()]


def _tags(run: StoredRun) -> dict[str, str]:
    facts = {"run key": run.run_key, "state": run.state, **environment(run), "error": run.error}
    found = {name.replace(" ", "_"): str(value)[:_LONGEST] for name, value in facts.items() if value is not None}
    if run.git:
        found["mlflow.source.git.commit"] = str(run.git.get("commit"))
    return found
