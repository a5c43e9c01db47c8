"""The contract of an engine, and what every engine draws from a run's generator.

An engine is handed runs of one *stack* (same data set, method, prototypes and protocol; seeds and parameters may
differ) and gives one `RunResult` for each. All randomness of a run comes from ``numpy.random.default_rng(seed)``:
first keys, then values, then one permutation of the training data an epoch. So two engines see the same batches.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from idwbench.config import Protocol, RunConfig
from idwbench.data.dataset import Dataset

__all__ = ["AbstractEngine", "EpochMetrics", "RunResult", "batch_order", "check_stack", "learning_rate", "stack_key"]

RunState = Literal["complete", "diverged"]


@dataclass(frozen=True)
class EpochMetrics:
    """One point of a learning curve.

    Attributes:
        epoch: From 1.
        learning_rate: Used throughout the epoch.
        train_loss: Mean cross-entropy of the epoch's batches, in nats, weighted by their size.
        test_accuracy: On the test split after the epoch, 0 to 1.
    """

    epoch: int
    learning_rate: float
    train_loss: float
    test_accuracy: float


@dataclass(frozen=True)
class RunResult:
    """What one training gave; of a diverged run the curve up to the epoch, and no tensors or accuracies.

    Attributes:
        keys: (prototypes, features), scaled like the inputs.
        values: (prototypes, classes).
        seconds: Wall-clock time of this run; in a stack, that of the stack divided by its runs.
    """

    config: RunConfig
    state: RunState
    keys: NDArray[np.float32] | None
    values: NDArray[np.float32] | None
    curve: tuple[EpochMetrics, ...]
    train_accuracy: float | None
    test_accuracy: float | None
    holdout_accuracy: float | None
    diverged_epoch: int | None
    seconds: float
    engine: str
    device: str
    threads: int


class AbstractEngine(ABC):
    """Trains stacks of runs on one data set."""

    name: ClassVar[str]

    @abstractmethod
    def max_stack(self, config: RunConfig, dataset: Dataset) -> int:
        """Return how many runs like `config` one call of `train` should be given."""

    @abstractmethod
    def train(
        self,
        configs: Sequence[RunConfig],
        dataset: Dataset,
        on_epoch: Callable[[int], None] = lambda epoch: None,
    ) -> list[RunResult]:
        """Train runs of one stack and return their results in order.

        Args:
            configs: Runs with the same `stack_key`.
            dataset: The data set that all of them name.
            on_epoch: Called with the number of each finished epoch.
        """


def stack_key(config: RunConfig) -> str:
    """Return a text that runs share exactly if one stack may hold them."""
    alike = config.model_copy(update={"seed": 0, "parameters": dict.fromkeys(config.parameters, "")})
    words = {name: value for name, value in config.parameters.items() if isinstance(value, str)}
    return f"{alike.canonical_json()}{words}"


def check_stack(configs: Sequence[RunConfig]) -> None:
    """Raise `ValueError` unless one stack may hold all of `configs`."""
    if len({stack_key(config) for config in configs}) != 1:
        raise ValueError("a stack holds runs of one data set, method, shape and protocol")


def learning_rate(protocol: Protocol, epoch: int) -> float:
    """Return the rate of an epoch (from 0): constant, or r·(1 + cos(π·epoch/epochs))/2."""
    if protocol.schedule == "constant":
        return protocol.learning_rate
    return protocol.learning_rate * (1 + math.cos(math.pi * epoch / protocol.epochs)) / 2


def batch_order(generator: np.random.Generator, n_train: int) -> NDArray[np.int64]:
    """Return the order in which one epoch visits the training data; batches are its consecutive slices."""
    return generator.permutation(n_train)
