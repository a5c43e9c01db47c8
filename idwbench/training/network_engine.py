"""The engines of networks: an encoder and a head, or a multilayer perceptron, trained by torch.

A perceptron is trained on one data set, or on one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from idwbench.data.dataset import Dataset
from idwbench.dual.recorder import Recorder
from idwbench.errors import ConfigError
from idwbench.models.key_sums import Attended, KeySums
from idwbench.models.modules import RowModule, parameter_arrays
from idwbench.models.networks import check_network, head_metrics, initial_network, nearest_rows
from idwbench.models.perceptron import MultilayerPerceptron, initial_mlp
from idwbench.runs.config import RunConfig
from idwbench.runs.kinds.mlp import MlpConfig
from idwbench.runs.kinds.network import LINEAR, NetworkConfig
from idwbench.runs.metrics import HEADLINES
from idwbench.runs.results import CurvePoint
from idwbench.training.checkpoints import CheckpointFile
from idwbench.training.engine import Context, Fitted
from idwbench.training.layer_statistics import WatchedTraining
from idwbench.training.module_training import (
    Batches,
    Measured,
    ModuleTraining,
    Values,
    checkpoint_file,
    fit_module,
    module_engine,
    run_recorder,
    shuffled_batches,
)
from idwbench.training.torch_engine import resolve_device, sample_losses

__all__ = ["ENGINES", "losses_of_rows", "sequence_batches"]

BEFORE = "accuracy_1_before"

Loss = Callable[[Tensor, Tensor], Tensor]


def _fit_network(config: RunConfig, dataset: Dataset, context: Context) -> Fitted:
    """Train one network, and analyse its head.

    The arrays are the parameters by name, and the training row nearest to each key of a head of prototypes; with
    `statistics` those of layers by step.
    """
    model, generator, device = config.model, np.random.default_rng(config.seed), resolve_device(context.device)
    assert isinstance(model, NetworkConfig)
    network = initial_network(model, dataset, generator).to(device)
    losses = losses_of_rows(dataset, device, lambda inputs, targets: sample_losses(network(inputs), targets))
    n_train, size = len(dataset.train), config.protocol.batch_size
    watched = WatchedTraining(network, losses, shuffled_batches(n_train, size))
    if model.statistics:
        watched = watched.with_statistics(config.protocol.epochs, -(-n_train // size))

    def measure(curve: Sequence[CurvePoint]) -> Measured:
        nearest = {} if model.head == LINEAR else {"nearest": nearest_rows(network, dataset)}
        metrics = _split_metrics(network, dataset, lambda outputs, targets: sample_losses(outputs, targets).mean())
        metrics |= {**head_metrics(model, network, dataset), **watched.metrics}
        return metrics, {**parameter_arrays(network), **nearest, **watched.arrays}

    training = ModuleTraining(
        watched.module,
        config.protocol,
        losses,
        watched.batches,
        generator,
        evaluate=lambda: _watched(network, dataset),
        checkpoint=checkpoint_file(config, dataset, context),
    )
    return fit_module(training, context.on_epoch, measure)


def _check_mlp(model: MlpConfig, dataset: Dataset) -> None:
    """Raise `ConfigError` if the data has no classes."""
    if dataset.task != "classification":
        raise ConfigError("mlp needs classes, and this data set has none", location=("kind",))


def _fit_mlp(config: RunConfig, dataset: Dataset, context: Context) -> Fitted:
    """Train one network, and measure the total attention of its layers to each class.

    In a sequence of data sets all epochs of the protocol are trained on the first part, then all of them on the second;
    the optimizer keeps its state, and the schedule of the learning rate spans both. The sums of the inputs of each
    layer by class and part are taken at each step, before the weights change. With `record`, the inputs of each layer
    and the gradients of its outputs are recorded too, and the array ``recording`` says to which parameters they led.
    """
    model, generator, device = config.model, np.random.default_rng(config.seed), resolve_device(context.device)
    assert isinstance(model, MlpConfig)
    network = initial_mlp(model, dataset, generator)
    n_parts = 1 if dataset.train.tasks is None else 1 + int(dataset.train.tasks.max())
    sums = KeySums({name: layer.in_features for name, layer in network.layers.items()}, dataset.n_outputs, n_parts)
    # Together, so that a checkpoint holds the sums too.
    both = nn.ModuleDict({"network": network, "key_sums": sums}).to(device)

    def losses(inputs: Tensor, groups: Tensor) -> Tensor:
        layer_inputs, logits = network.layer_inputs(inputs)
        sums.add(layer_inputs, groups)
        return functional.cross_entropy(logits, groups % sums.n_classes, reduction="none")

    def measure(curve: Sequence[CurvePoint]) -> Measured:
        attended = Attended.by(network, sums, dataset.test)
        metrics = {**_split_metrics(network, dataset, functional.cross_entropy), **attended.metrics("test")}
        metrics |= attended.part_metrics()
        if config.dataset.name == "sequence":
            metrics |= _before(curve, config.protocol.epochs)
        return metrics, {**parameter_arrays(network), **sums.arrays(), "attended_classes": attended.counts()}

    training = ModuleTraining(
        both,
        config.protocol.model_copy(update={"epochs": config.n_epochs}),
        losses_of_rows(dataset, device, losses, sums.groups(dataset.train)),
        _batches(config, dataset),
        generator,
        evaluate=lambda: _watched(network, dataset),
        checkpoint=_checkpoint(config, dataset, context, n_parts),
        recorder=_recorder(config, network, dataset, context) if model.record else None,
    )
    return fit_module(training, context.on_epoch, measure)


def _checkpoint(config: RunConfig, dataset: Dataset, context: Context, n_parts: int) -> CheckpointFile | None:
    """Return where the training is kept; one with sums by class alone, of an earlier version, is not used for parts."""
    file = checkpoint_file(config, dataset, context)
    return file if file is None or n_parts == 1 else replace(file, identity=f"{file.identity} {n_parts} parts")


def _recorder(config: RunConfig, network: MultilayerPerceptron, dataset: Dataset, context: Context) -> Recorder:
    model, protocol, train = config.model, config.protocol, dataset.train
    assert isinstance(model, MlpConfig)
    tasks = train.tasks if config.dataset.name == "sequence" else None
    sizes = [len(train)] if tasks is None else np.bincount(tasks)
    return run_recorder(
        config,
        dataset,
        context,
        network.layers,
        steps=protocol.epochs * sum(-(-int(size) // protocol.batch_size) for size in sizes),
        slots=protocol.epochs * len(train),
        dtype=model.record_dtype,
        fold={model.layer_names[0]: train.inputs} if model.fold else None,
    )


def _batches(config: RunConfig, dataset: Dataset) -> Batches:
    """Return a function that yields the rows of each batch of an epoch."""
    if config.dataset.name != "sequence":
        return shuffled_batches(len(dataset.train), config.protocol.batch_size)
    assert dataset.train.tasks is not None
    return sequence_batches(dataset.train.tasks, config.protocol.batch_size, config.protocol.epochs)


def sequence_batches(tasks: NDArray[np.int64], batch_size: int, epochs: int) -> Batches:
    """Return a function that yields the rows of each batch of one epoch, all from one part of the training data.

    Args:
        tasks: The part (n,) of each row.
        batch_size: Rows of a batch; the last of an epoch may be smaller.
        epochs: Number of epochs on each part.
    """

    def batches(generator: np.random.Generator, epoch: int) -> Iterator[NDArray[np.int64]]:
        rows = np.flatnonzero(tasks == epoch // epochs)
        for places in shuffled_batches(len(rows), batch_size)(generator, epoch):
            yield rows[places]

    return batches


def _before(curve: Sequence[CurvePoint], epochs: int) -> Values:
    """Return the accuracies on the first part of a sequence before the second part was trained on."""
    point = curve[epochs - 1].values
    splits = (split for split in ("test", "validation") if (split, "accuracy_1") in point)
    return {(split, BEFORE): point[split, "accuracy_1"] for split in splits}


def losses_of_rows(
    dataset: Dataset, device: torch.device, losses: Loss, targets: NDArray[np.int64] | None = None
) -> Callable[[NDArray[np.int64]], Tensor]:
    """Return a function from rows of the training data to the losses (n,) of their inputs and targets.

    Args:
        dataset: The data.
        device: Where it is placed.
        losses: Losses (n,) of inputs and targets.
        targets: In place of the targets of the data, (rows,).
    """
    parts = (dataset.train.inputs, dataset.train.targets if targets is None else targets)
    inputs, wanted = (torch.from_numpy(part).to(device) for part in parts)

    def losses_of_rows(rows: NDArray[np.int64]) -> Tensor:
        where = torch.from_numpy(rows).to(device)
        return losses(inputs.index_select(0, where), wanted.index_select(0, where))

    return losses_of_rows


def _watched(network: RowModule, dataset: Dataset) -> Values:
    """Return the headline metric on the test and validation data, of a perceptron on each part of them too."""
    headline, watched = HEADLINES[dataset.task].name, Values()
    for name in sorted(dataset.splits.keys() & {"test", "validation"}):
        metrics = _metrics(network, dataset, name, network.outputs(dataset.splits[name].inputs))
        watched |= {key: value for key, value in metrics.items() if key[1].startswith(headline)}
    return watched


def _split_metrics(network: RowModule, dataset: Dataset, mean_loss: Loss) -> Values:
    """Return the metrics of the task and the mean loss on every split."""
    metrics = Values()
    for name, split in dataset.splits.items():
        outputs, targets = network.outputs(split.inputs), torch.from_numpy(split.targets)
        loss = mean_loss(torch.from_numpy(outputs).double(), targets if targets.ndim == 1 else targets.double())
        metrics |= {**_metrics(network, dataset, name, outputs), (name, "loss"): float(loss)}
    return metrics


def _metrics(network: RowModule, dataset: Dataset, name: str, outputs: NDArray[np.float32]) -> Values:
    """Return the metrics of the task on a split, and of a perceptron the accuracy on the rows of each part of data."""
    metrics, split = dataset.metrics(name, outputs), dataset.splits[name]
    if split.tasks is not None and isinstance(network, MultilayerPerceptron):
        is_right = outputs.argmax(1) == split.labels
        parts = np.unique(split.tasks)
        metrics |= {(name, f"accuracy_{1 + part}"): float(is_right[split.tasks == part].mean()) for part in parts}
    return metrics


ENGINES = {"network": module_engine(_fit_network, check_network), "mlp": module_engine(_fit_mlp, _check_mlp)}
