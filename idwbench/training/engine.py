"""The interface of engines.

An engine trains runs of one *stack*: same data set, method, prototypes and protocol; seeds and parameters may differ.
All random numbers of a run come from ``numpy.random.default_rng(seed)``: first the initial keys and values, then one
permutation of the training data for each epoch. All engines support all settings of the protocol:

- The gradient is that of the mean loss of a batch: cross-entropy, or the squared error, mean over the outputs.
- A gradient clip c scales the gradient g of keys and values by min(1, c / (‖g‖ + 1e-6)), as
  `torch.nn.utils.clip_grad_norm_`, before weight decay is added.
- The optimizers are `torch.optim.Adam`, with or without amsgrad, and `torch.optim.SGD`, with default betas and epsilon.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from idwbench.attention.records import Parameter
from idwbench.attention.scores import METHODS
from idwbench.data.dataset import Dataset
from idwbench.models.quality import StackSearch
from idwbench.runs.config import RunConfig
from idwbench.runs.results import RunResult

__all__ = [
    "AbstractEngine",
    "SingleRunEngine",
    "batch_order",
    "batch_orders",
    "check_stack",
    "draw_orders",
    "stack_key",
]


# Runs that are made one by one are stored together, some tenths of a second of work.
_STACK_NUMBERS = 2**17
_MAX_STACK = 20


class AbstractEngine(ABC):
    """Trains stacks of runs on one data set."""

    name: ClassVar[str]

    @classmethod
    def check(cls, config: RunConfig, dataset: Dataset) -> None:
        """Check, without drawing anything, that the data supports a run; by default it does.

        Raises:
            ConfigError: it does not.
        """
        return None

    @abstractmethod
    def max_stack(self, config: RunConfig, dataset: Dataset) -> int:
        """Return the maximum number of runs like `config` for one call of `train`."""

    @abstractmethod
    def train(
        self, configs: Sequence[RunConfig], dataset: Dataset, on_epoch: Callable[[int], None] = lambda epoch: None
    ) -> list[RunResult]:
        """Train runs with the same `stack_key` on their data set and return their results in order.

        `on_epoch` is called with the number of each finished epoch; an exception in it ends the training.
        """

    def stack_search(self, dataset: Dataset) -> StackSearch | None:
        """Return the fastest search for the neighbours of the keys of a stack, or None for that of NumPy."""
        return None

    def stored(self, configs: Sequence[RunConfig]) -> None:  # noqa: B027  # most engines keep nothing
        """Delete what was kept in case the training of `configs` is interrupted: their results are stored now."""


class SingleRunEngine(AbstractEngine):
    """Makes the runs of a stack one after the other; they have no epochs and no curve."""

    def max_stack(self, config: RunConfig, dataset: Dataset) -> int:
        """Return the number of runs that are stored together."""
        numbers = len(dataset.train) * dataset.n_features * config.model.prototypes
        return max(1, min(_MAX_STACK, _STACK_NUMBERS // numbers))

    def train(
        self, configs: Sequence[RunConfig], dataset: Dataset, on_epoch: Callable[[int], None] = lambda epoch: None
    ) -> list[RunResult]:
        """Return the results of `train_one` in order; `on_epoch` is not called."""
        return [self.train_one(config, dataset) for config in configs]

    @abstractmethod
    def train_one(self, config: RunConfig, dataset: Dataset) -> RunResult:
        """Make one run and return its result."""


def stack_key(config: RunConfig) -> str:
    """Return a text that is equal for runs of one stack; numeric parameters may differ unless they are special."""
    method = METHODS.get(config.model.method)
    parameters = {p.name: p for p in method.parameters} if method else {}
    shared = {name: _shared(parameters.get(name), value) for name, value in config.model.parameters.items()}
    alike = config.model_copy(update={"seed": 0, "model": config.model.replace_parameters(shared)})
    return alike.canonical_json()


def _shared(parameter: Parameter | None, value: float | str) -> str:
    if isinstance(value, str) or (parameter is not None and value in parameter.special):
        return f"{value}"
    return ""


def check_stack(configs: Sequence[RunConfig]) -> None:
    """Raise `ValueError` unless all of `configs` have the same stack key."""
    settings = {config.setting_key: config for config in configs}
    if len({stack_key(config) for config in settings.values()}) != 1:
        raise ValueError("a stack holds runs of one data set, method, shape and protocol")


def batch_order(generator: np.random.Generator, n_train: int) -> NDArray[np.int64]:
    """Return the order of the training data in one epoch; batches are consecutive slices."""
    return generator.permutation(n_train)


def batch_orders(generator: np.random.Generator, n_train: int, n_epochs: int) -> NDArray[np.int64]:
    """Return the `batch_order` of some epochs (epochs, n), drawn in one call: the same numbers in half the time."""
    orders = np.tile(np.arange(n_train), (n_epochs, 1))
    draw_orders(orders, generator)
    return orders


def draw_orders(orders: NDArray[np.int64], generator: np.random.Generator) -> None:
    """Turn rows that count from 0 into the `batch_orders` of as many epochs."""
    generator.permuted(orders, axis=1, out=orders)
