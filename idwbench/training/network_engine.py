"""The engine of networks: an encoder and a head, trained together by torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from idwbench.data.dataset import Dataset
from idwbench.models.modules import parameter_arrays
from idwbench.models.networks import Network, check_network, head_metrics, initial_network, nearest_rows
from idwbench.runs.config import RunConfig
from idwbench.runs.kinds.network import LINEAR, NetworkConfig
from idwbench.runs.metrics import headline_metric
from idwbench.runs.results import CurvePoint
from idwbench.training.engine import Context, Fitted
from idwbench.training.module_training import (
    Measured,
    ModuleTraining,
    Values,
    checkpoint_file,
    fit_module,
    module_engine,
    shuffled_batches,
)
from idwbench.training.torch_engine import resolve_device, sample_losses

__all__ = ["ENGINES"]


def _fit(config: RunConfig, dataset: Dataset, context: Context) -> Fitted:
    """Train one network, and analyse its head.

    The arrays are the parameters by name, and the training row nearest to each key of a head of prototypes.
    """
    model, generator, device = config.model, np.random.default_rng(config.seed), resolve_device(context.device)
    assert isinstance(model, NetworkConfig)
    network = initial_network(model, dataset, generator).to(device)

    def measure(curve: Sequence[CurvePoint]) -> Measured:
        nearest = {} if model.head == LINEAR else {"nearest": nearest_rows(network, dataset)}
        metrics = {**_split_metrics(network, dataset), **head_metrics(model, network, dataset)}
        return metrics, {**parameter_arrays(network), **nearest}

    training = ModuleTraining(
        network,
        config.protocol,
        _losses_of_rows(network, dataset, device),
        shuffled_batches(len(dataset.train), config.protocol.batch_size),
        generator,
        evaluate=lambda: _watched(network, dataset),
        checkpoint=checkpoint_file(config, dataset, context),
    )
    return fit_module(training, context.on_epoch, measure)


def _losses_of_rows(network: Network, dataset: Dataset, device: torch.device) -> Callable[[NDArray[np.int64]], Tensor]:
    """Return a function from rows of the training data to the loss of each."""
    inputs, targets = (torch.from_numpy(part).to(device) for part in (dataset.train.inputs, dataset.train.targets))

    def losses(rows: NDArray[np.int64]) -> Tensor:
        where = torch.from_numpy(rows).to(device)
        return sample_losses(network(inputs.index_select(0, where)), targets.index_select(0, where))

    return losses


def _watched(network: Network, dataset: Dataset) -> Values:
    """Return the headline metric on the test and validation data."""
    headline, watched = headline_metric(dataset.task).name, Values()
    for name in sorted(dataset.splits.keys() & {"test", "validation"}):
        metrics = dataset.metrics(name, network.outputs(dataset.splits[name].inputs))
        watched |= {key: value for key, value in metrics.items() if key[1] == headline}
    return watched


def _split_metrics(network: Network, dataset: Dataset) -> Values:
    """Return the metrics of the task and the mean loss on every split."""
    metrics = Values()
    for name, split in dataset.splits.items():
        outputs, targets = network.outputs(split.inputs), torch.from_numpy(split.targets)
        losses = sample_losses(torch.from_numpy(outputs).double(), targets if targets.ndim == 1 else targets.double())
        metrics |= {**dataset.metrics(name, outputs), (name, "loss"): float(losses.mean())}
    return metrics


ENGINES = {"network": module_engine(_fit, check_network)}
