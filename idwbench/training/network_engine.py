"""The engine of networks: an encoder and a head, trained together by torch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from idwbench.data.dataset import Dataset
from idwbench.models.modules import parameter_arrays
from idwbench.models.networks import Network, check_network, head_metrics, initial_network, nearest_rows
from idwbench.runs.config import RunConfig
from idwbench.runs.kinds.network import LINEAR, NetworkConfig
from idwbench.runs.metrics import headline_metric
from idwbench.runs.results import RunResult
from idwbench.training.module_engine import ModuleEngine
from idwbench.training.module_training import ModuleTraining, shuffled_batches

__all__ = ["NetworkEngine"]

Values = dict[tuple[str, str], float]


class NetworkEngine(ModuleEngine):
    """Trains the runs of kind ``network``, one after the other."""

    @classmethod
    def check(cls, config: RunConfig, dataset: Dataset) -> None:
        """Raise `ConfigError` if the encoder does not fit the data, or there are too few inputs for the head."""
        assert isinstance(config.model, NetworkConfig)
        check_network(config.model, dataset)

    def train_one(self, config: RunConfig, dataset: Dataset, on_epoch: Callable[[int], None]) -> RunResult:
        """Train one network, and analyse its head."""
        model, generator = config.model, np.random.default_rng(config.seed)
        assert isinstance(model, NetworkConfig)
        network = initial_network(model, dataset, generator).to(self.device)
        trained = ModuleTraining(
            network,
            config.protocol,
            _losses_of_rows(network, dataset, self.device),
            shuffled_batches(len(dataset.train), config.protocol.batch_size),
            generator,
            evaluate=lambda: _watched(network, dataset),
            checkpoint=self.checkpoints.file(config, dataset.sha256, str(self.device)),
        ).train(on_epoch)
        if trained.diverged_epoch is not None:
            return self.result(config, network, trained, {}, {})
        metrics = {**_split_metrics(network, dataset), **head_metrics(model, network, dataset)}
        return self.result(config, network, trained, metrics, _arrays(model, network, dataset))


def _losses_of_rows(network: Network, dataset: Dataset, device: torch.device) -> Callable[[NDArray[np.int64]], Tensor]:
    """Return a function from rows of the training data to the loss of each."""
    inputs, targets = (torch.from_numpy(part).to(device) for part in (dataset.train.inputs, dataset.train.targets))

    def losses(rows: NDArray[np.int64]) -> Tensor:
        where = torch.from_numpy(rows).to(device)
        return _losses(network(inputs.index_select(0, where)), targets.index_select(0, where))

    return losses


def _losses(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropy of logits and labels (n,), or the squared error of numbers (n, outputs)."""
    if targets.ndim == 1:
        return functional.cross_entropy(outputs, targets, reduction="none")
    return functional.mse_loss(outputs, targets, reduction="none").mean(1)


def _watched(network: Network, dataset: Dataset) -> Values:
    """Return the headline metric on the test and validation data."""
    headline = headline_metric(dataset.task).name
    found: Values = {}
    for name in dataset.splits.keys() & {"test", "validation"}:
        metrics = dataset.metrics(name, network.outputs(dataset.splits[name].inputs))
        found |= {key: value for key, value in metrics.items() if key[1] == headline}
    return dict(sorted(found.items()))


def _split_metrics(network: Network, dataset: Dataset) -> Values:
    """Return the metrics of the task and the mean loss on every split."""
    found: Values = {}
    for name, split in dataset.splits.items():
        outputs = network.outputs(split.inputs)
        losses = _losses(torch.from_numpy(outputs).double(), _loss_targets(split.targets))
        found |= {**dataset.metrics(name, outputs), (name, "loss"): float(losses.mean())}
    return found


def _loss_targets(targets: NDArray[np.generic]) -> Tensor:
    tensor = torch.from_numpy(targets)
    return tensor if tensor.ndim == 1 else tensor.double()


def _arrays(model: NetworkConfig, network: Network, dataset: Dataset) -> dict[str, NDArray[np.generic]]:
    """Return the parameters by name, and the training row nearest to each key of a head of prototypes."""
    arrays = parameter_arrays(network)
    return arrays if model.head == LINEAR else {**arrays, "nearest": nearest_rows(network, dataset)}
