"""A training of a prototype network, repeated step by step with the numbers of its engine."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset
from idwbench.runs.config import RunConfig
from idwbench.runs.protocol import learning_rate
from idwbench.training.engine import batch_order

__all__ = ["AbstractReplay", "Prototypes", "Snapshot", "Steps", "step_replay"]

# Arrays or tensors by name.
Snapshot = Mapping[str, Any]


class Steps(NamedTuple):
    """Consecutive steps of one epoch with batches of one size.

    Attributes:
        first: The first step, from 0.
        rows: Rows of the training data, (steps, batch).
        rate: The learning rate.
    """

    first: int
    rows: NDArray[np.int64]
    rate: float


class Prototypes(NamedTuple):
    """Copies of keys and values, and of what Adam divides the steps of keys by, squared (None for SGD)."""

    keys: NDArray[np.float32]
    values: NDArray[np.float32]
    squares: NDArray[np.float32] | None


class AbstractReplay(ABC):
    """Repeats the steps of a run; begins at its initial prototypes.

    Attributes:
        n_steps: Number of steps of the run.
    """

    def __init__(self, config: RunConfig, dataset: Dataset, generator: np.random.Generator) -> None:
        self.config, self.protocol, self.dataset = config, config.protocol, dataset
        n_train, epochs = len(dataset.train), self.protocol.epochs
        self.orders = np.empty((epochs, n_train), np.uint32)
        for order in self.orders:
            order[:] = batch_order(generator, n_train)
        self.steps_of_epoch = math.ceil(n_train / self.protocol.batch_size)
        self.n_steps = epochs * self.steps_of_epoch

    def steps(self, first: int, last: int) -> Iterator[Steps]:
        """Yield the steps from `first` to `last` (exclusive) in order."""
        size, n_train = self.protocol.batch_size, len(self.dataset.train)
        n_full = n_train // size
        while first < last:
            epoch, step = divmod(first, self.steps_of_epoch)
            order, rate = self.orders[epoch].astype(np.int64), learning_rate(self.protocol, epoch)
            if step < n_full:
                n = min(n_full - step, last - first)
                rows = order[step * size : (step + n) * size].reshape(n, size)
            else:
                rows = order[None, step * size :]
            yield Steps(first, rows, rate)
            first += len(rows)

    @abstractmethod
    def take(self, steps: Steps) -> None:
        """Take steps; the model must be where they begin."""

    @abstractmethod
    def prototypes(self) -> Prototypes:
        """Return the present prototypes."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Return a copy of parameters and the state of the optimizer, by name."""

    @abstractmethod
    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot."""


def step_replay(config: RunConfig, dataset: Dataset, engine: str, device: str) -> AbstractReplay:
    """Return the replay of a run with the engine that trained it.

    Raises:
        ConfigError: this machine does not have the device.
    """
    if engine == "fused":
        from idwbench.training.fused_replay import FusedReplay

        return FusedReplay(config, dataset)
    from idwbench.training.torch_replay import TorchReplay

    return TorchReplay(config, dataset, device)
