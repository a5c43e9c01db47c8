"""The engine of multilayer perceptrons, trained on one data set, or on one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from idwbench.data.dataset import Dataset
from idwbench.dual.recorder import Recorder
from idwbench.errors import ConfigError
from idwbench.models.modules import parameter_arrays
from idwbench.models.perceptron import KeySums, MultilayerPerceptron, attention_metrics, initial_mlp
from idwbench.runs.config import RunConfig
from idwbench.runs.kinds.mlp import MlpConfig
from idwbench.runs.results import RunResult
from idwbench.training.module_engine import ModuleEngine, recording_facts
from idwbench.training.module_training import Batches, ModuleTraining, Trained, shuffled_batches
from idwbench.training.recorded_training import recorded_training

__all__ = ["MlpEngine", "sequence_batches"]

Values = dict[tuple[str, str], float]
BEFORE = "accuracy_1_before"


class MlpEngine(ModuleEngine):
    """Trains the runs of kind ``mlp``, one after the other.

    In a sequence of data sets all epochs of the protocol are trained on the first part, then all of them on the second;
    the optimizer keeps its state, and the schedule of the learning rate spans both. The sums of the inputs of each
    layer by class are taken at each step, before the weights change. With `record`, the inputs of each layer and the
    gradients of its outputs are recorded too, and the array ``recording`` says to which parameters they led.
    """

    @classmethod
    def check(cls, config: RunConfig, dataset: Dataset) -> None:
        """Raise `ConfigError` if the data has no classes."""
        if dataset.task != "classification":
            raise ConfigError("mlp needs classes, and this data set has none", location=("kind",))

    def train_one(self, config: RunConfig, dataset: Dataset, on_epoch: Callable[[int], None]) -> RunResult:
        """Train one network, and measure the total attention of its layers to each class."""
        model, generator = config.model, np.random.default_rng(config.seed)
        assert isinstance(model, MlpConfig)
        network = initial_mlp(model, dataset, generator)
        sums = KeySums({name: layer.in_features for name, layer in network.layers.items()}, dataset.n_outputs)
        # Together, so that a checkpoint holds the sums too.
        both = nn.ModuleDict({"network": network, "key_sums": sums}).to(self.device)
        recorder = self._recorder(config, network, dataset) if model.record else None
        training = ModuleTraining(
            both,
            config.protocol.model_copy(update={"epochs": config.n_epochs}),
            _losses_of_rows(network, sums, dataset, self.device),
            _batches(config, dataset, lambda: training.progress.epoch),
            generator,
            evaluate=lambda: _watched(network, dataset),
            checkpoint=self.checkpoints.file(config, dataset.sha256, str(self.device)),
            recorder=recorder,
        )
        trained, recording, residual = recorded_training(training, on_epoch)
        if trained.diverged_epoch is not None:
            return self.result(config, network, trained, {}, {})
        shares = attention_metrics(network, sums, "test", dataset.test)
        metrics = {**_split_metrics(network, dataset), **shares, **residual}
        if config.dataset.name == "sequence":
            metrics |= _before(trained, config.protocol.epochs)
        parameters = parameter_arrays(network)
        return self.result(config, network, trained, metrics, {**parameters, **sums.arrays(), **recording})

    def _recorder(self, config: RunConfig, network: MultilayerPerceptron, dataset: Dataset) -> Recorder:
        """Return the recorder of a run; the disk space is said and checked before."""
        model, protocol, train = config.model, config.protocol, dataset.train
        assert isinstance(model, MlpConfig)
        parts = (
            np.bincount(train.tasks) if config.dataset.name == "sequence" and train.tasks is not None else [len(train)]
        )
        return self.recordings.recorder(
            network.layers,
            recording_facts(config, dataset),
            steps=protocol.epochs * sum(-(-int(size) // protocol.batch_size) for size in parts),
            slots=protocol.epochs * len(train),
            dtype=model.record_dtype,
            fold={model.layer_names[0]: train.inputs} if model.fold else None,
        )


def _batches(config: RunConfig, dataset: Dataset, epoch: Callable[[], int]) -> Batches:
    """Return a function that yields the rows of each batch of an epoch; `epoch` returns its number from 0."""
    batch_size, tasks = config.protocol.batch_size, dataset.train.tasks
    if config.dataset.name != "sequence":
        return shuffled_batches(len(dataset.train), batch_size)
    assert tasks is not None
    return sequence_batches(tasks, batch_size, lambda: epoch() // config.protocol.epochs)


def sequence_batches(tasks: NDArray[np.int64], batch_size: int, task: Callable[[], int]) -> Batches:
    """Return a function that yields the rows of each batch of one epoch, all from one part of the training data.

    Args:
        tasks: The part (n,) of each row.
        batch_size: Rows of a batch; the last of an epoch may be smaller.
        task: Returns the part of the epoch.
    """

    def batches(generator: np.random.Generator) -> Iterator[NDArray[np.int64]]:
        rows = np.flatnonzero(tasks == task())
        for places in shuffled_batches(len(rows), batch_size)(generator):
            yield rows[places]

    return batches


def _losses_of_rows(
    network: MultilayerPerceptron, sums: KeySums, dataset: Dataset, device: torch.device
) -> Callable[[NDArray[np.int64]], Tensor]:
    """Return a function from rows of the training data to the loss of each; it adds the inputs of layers to `sums`."""
    inputs, labels = (torch.from_numpy(part).to(device) for part in (dataset.train.inputs, dataset.train.labels))

    def losses(rows: NDArray[np.int64]) -> Tensor:
        where = torch.from_numpy(rows).to(device)
        of_rows = labels.index_select(0, where)
        of_layers, logits = network.layer_inputs(inputs.index_select(0, where))
        sums.add(of_layers, of_rows)
        return functional.cross_entropy(logits, of_rows, reduction="none")

    return losses


def _watched(network: MultilayerPerceptron, dataset: Dataset) -> Values:
    """Return the accuracies on the test and validation data."""
    found: Values = {}
    for name in sorted(dataset.splits.keys() & {"test", "validation"}):
        found |= _accuracies(dataset, name, network.outputs(dataset.splits[name].inputs))
    return found


def _split_metrics(network: MultilayerPerceptron, dataset: Dataset) -> Values:
    """Return the accuracies and the mean loss on every split."""
    found: Values = {}
    for name, split in dataset.splits.items():
        logits = network.outputs(split.inputs)
        loss = functional.cross_entropy(torch.from_numpy(logits).double(), torch.from_numpy(split.labels))
        found |= {**_accuracies(dataset, name, logits), (name, "loss"): float(loss)}
    return found


def _accuracies(dataset: Dataset, name: str, logits: NDArray[np.float32]) -> Values:
    """Return the accuracy on a split, and on the rows of each part of data with parts."""
    found, split = dataset.metrics(name, logits), dataset.splits[name]
    if split.tasks is not None:
        is_right = logits.argmax(1) == split.labels
        found |= {(name, f"accuracy_{1 + t}"): float(is_right[split.tasks == t].mean()) for t in np.unique(split.tasks)}
    return found


def _before(trained: Trained, epochs: int) -> Values:
    """Return the accuracies on the first part of a sequence before the second part was trained on."""
    curve = trained.curve[epochs - 1].values
    return {
        (split, BEFORE): curve[split, "accuracy_1"]
        for split in ("test", "validation")
        if (split, "accuracy_1") in curve
    }
