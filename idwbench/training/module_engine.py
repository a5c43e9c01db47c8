"""What the kinds share whose runs are torch modules: training with checkpoints and recordings, and their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from idwbench.data.dataset import Dataset
from idwbench.dual.facts import RecordingFacts
from idwbench.dual.recorder import Recorder, Recordings
from idwbench.errors import FullDiskError
from idwbench.runs.config import RunConfig
from idwbench.runs.metrics import Metrics
from idwbench.training.checkpoints import Checkpoints
from idwbench.training.engine import Context, Engine, Environment, Fit, Fitted, one_by_one
from idwbench.training.module_training import Batches, ModuleTraining, Trained
from idwbench.training.torch_engine import resolve_device, torch_environment

__all__ = ["Arrays", "Values", "fit_module", "module_engine", "run_recorder"]

Values = dict[tuple[str, str], float]
Arrays = dict[str, NDArray[np.generic]]


def module_engine(fit: Fit, check: Callable[[RunConfig, Dataset], None]) -> Engine:
    """Return the engine of a kind whose `fit` calls `fit_module`; each run is stored when it ends."""

    def environment(context: Context) -> Environment:
        return torch_environment(resolve_device(context.device))

    return replace(one_by_one("torch", fit, check=check, environment=environment), stored=_delete_checkpoints)


def _delete_checkpoints(configs: Sequence[RunConfig], context: Context) -> None:
    Checkpoints(context.checkpoint_folder).delete(configs)


def fit_module(
    config: RunConfig,
    dataset: Dataset,
    context: Context,
    module: nn.Module,
    losses: Callable[[Any], Tensor],
    batches: Batches,
    generator: np.random.Generator,
    *,
    watch: Callable[[], Metrics],
    measure: Callable[[Trained], tuple[Metrics, Mapping[str, NDArray[np.generic]]]],
    recorder: Recorder | None = None,
) -> Fitted:
    """Train the module of a run by its protocol, from its checkpoint if there is one, and measure it if it is finite.

    The metrics have the costs of the training, and with a recorder that of Adam the largest residual share of a layer;
    then the arrays have one that points to the recording.

    Args:
        config: The run.
        dataset: Its data.
        context: Device, folders, and what is called after each epoch.
        module: The module with its initial parameters, on its device.
        losses: Returns the losses of a batch, see `ModuleTraining`.
        batches: Yields the batches of an epoch.
        generator: The generator of the run.
        watch: Returns the metrics of the curve after each epoch.
        measure: Returns the metrics and arrays of the trained module.
        recorder: Records every step, or None.

    Raises:
        FullDiskError: there is no room for a checkpoint or the recording.
        OutputError: a checkpoint or the recording cannot be written.
    """
    checkpoints = Checkpoints(context.checkpoint_folder, context.report)
    training = ModuleTraining(
        module,
        config.protocol.model_copy(update={"epochs": config.n_epochs}),
        losses,
        batches,
        generator,
        evaluate=watch,
        checkpoint=checkpoints.file(config, dataset.sha256, str(resolve_device(context.device))),
        recorder=recorder,
    )
    trained, pointer = _train(training, context.on_epoch)
    if trained.diverged_epoch is not None:
        return Fitted({}, {}, None, trained.curve, trained.diverged_epoch, trained.seconds)
    metrics, arrays = measure(trained)
    costs = {
        ("train", "seconds_per_step"): trained.seconds_per_step,
        ("train", "activation_memory"): trained.activation_memory,
    }
    n_parameters = sum(parameter.numel() for parameter in module.parameters())
    metrics = {**metrics, **_residual_share(recorder), **costs}
    return Fitted(metrics, {**arrays, **pointer}, n_parameters, trained.curve, seconds=trained.seconds)


def _train(training: ModuleTraining, on_epoch: Callable[[int], None]) -> tuple[Trained, Arrays]:
    """Train, and return the array that points to the recording, if there is one.

    The recording of an interrupted training is kept, to be continued. That of a diverged one is deleted, and one that
    filled the disk before there was a checkpoint, from which it could be continued.
    """
    recorder = training.recorder
    if recorder is None:
        return training.train(on_epoch), {}
    try:
        trained = training.train(on_epoch)
        if trained.diverged_epoch is None:
            return trained, {"recording": recorder.finish()}
        recorder.discard()
        return trained, {}
    except FullDiskError:
        if training.checkpoint is None or not training.checkpoint.path.exists():
            recorder.discard()
        raise
    finally:
        recorder.close()


def _residual_share(recorder: Recorder | None) -> Values:
    """Return the largest residual share of a recorded layer, which only Adam has."""
    layers = recorder.facts.layers.values() if recorder is not None else ()
    shares = [layer.residual_share for layer in layers if layer.residual_share is not None]
    return {("train", "residual_share"): max(shares)} if shares else {}


def run_recorder(config: RunConfig, dataset: Dataset, context: Context, layers: Any, **sizes: Any) -> Recorder:
    """Return the recorder of some layers of a run, see `Recordings.recorder`; its disk space is said."""
    protocol = config.protocol
    facts = RecordingFacts(config.run_key, dataset.sha256, protocol.optimizer, protocol.momentum, protocol.weight_decay)
    return Recordings(context.recording_folder, context.report).recorder(layers, facts, **sizes)
