"""Runs as a folder for TensorBoard: curves and metrics as scalars, settings as hyperparameters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from idwbench.exports.folders import check_folder, written_folder
from idwbench.exports.packages import require
from idwbench.exports.settings import flat_settings
from idwbench.results.records import StoredRun
from idwbench.results.store import Results

if TYPE_CHECKING:
    from idwbench.runs.results import CurvePoint

__all__ = ["export_tensorboard", "run_folder_name"]

_AT_ONCE = 500
# The version of the messages of the plugin of hyperparameters.
_PLUGIN_VERSION = 0


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
    require("tensorboard", "tensorboard")
    check_folder(folder, overwrite=overwrite)
    runs = [run for run in results.load_runs(run_keys) if run.state in ("complete", "diverged")]
    with written_folder(folder, overwrite=overwrite) as temporary:
        for start in range(0, len(runs), _AT_ONCE):
            part = runs[start : start + _AT_ONCE]
            curves = results.load_curves([run.run_key for run in part])
            for run in part:
                _write_run(temporary / run_folder_name(run), run, curves[run.run_key])
    return len(runs)


def run_folder_name(run: StoredRun) -> str:
    """Return ``two_moons.idw.16.seed0.0a1b2c3d4e5f``."""
    model = run.config.model
    words = [run.dataset, model.method, *([str(model.prototypes)] if model.prototypes else [])]
    name = ".".join([*words, f"seed{run.config.seed}", run.run_key[:12]])
    return re.sub(r"[^\w.+-]+", "_", name)


def _write_run(folder: Path, run: StoredRun, curve: Sequence[CurvePoint]) -> None:
    from tensorboard.summary.writer.record_writer import RecordWriter

    folder.mkdir()
    end = run.finished_at.timestamp() if run.finished_at else 0.0
    start = end - (run.seconds or 0.0)
    n_epochs = max(run.config.n_epochs, *(point.epoch for point in curve), 1) if curve else run.config.n_epochs
    with open(folder / f"events.out.tfevents.{int(end)}.idwbench", "wb") as file:
        writer = RecordWriter(file)

        def write(time: float, step: int = 0, **content: Any) -> None:
            from tensorboard.compat.proto.event_pb2 import Event

            writer.write(Event(wall_time=time, step=step, **content).SerializeToString(deterministic=True))

        write(start, file_version="brain.Event:2")
        write(start, summary=_start(run, start))
        for point in curve:
            time = start + (end - start) * point.epoch / n_epochs
            scalars = {f"{name}/{split}": value for (split, name), value in point.values.items()}
            write(time, point.epoch, summary=_scalars(scalars))
        metrics = {f"{split}_{name}": value for (split, name), value in run.metrics.items()}
        if metrics:
            write(end, n_epochs, summary=_scalars(metrics))
        write(end, n_epochs, summary=_end(run, end))


def _scalars(values: Mapping[str, float]) -> Any:
    from tensorboard.compat.proto.summary_pb2 import Summary

    return Summary(value=[Summary.Value(tag=name, simple_value=value) for name, value in values.items()])


def _start(run: StoredRun, time: float) -> Any:
    from tensorboard.plugins.hparams.summary_v2 import hparams_pb

    return hparams_pb(flat_settings(run.config), trial_id=run.run_key, start_time_secs=time)


def _end(run: StoredRun, time: float) -> Any:
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

    status = api_pb2.Status.Value("STATUS_SUCCESS" if run.state == "complete" else "STATUS_FAILURE")
    ended = plugin_data_pb2.SessionEndInfo(status=status, end_time_secs=time)
    content = plugin_data_pb2.HParamsPluginData(session_end_info=ended, version=_PLUGIN_VERSION)
    about = metadata.create_summary_metadata(content)
    return Summary(value=[Summary.Value(tag=metadata.SESSION_END_INFO_TAG, metadata=about)])
