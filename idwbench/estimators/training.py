"""Training of an estimator by the kernels of the fused engine."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset
from idwbench.runs.config import RunConfig
from idwbench.runs.protocol import learning_rate
from idwbench.training.engine import batch_orders

if TYPE_CHECKING:
    from idwbench.training.kernel_runs import KernelRun

__all__ = ["TrainingState", "train_one_epoch", "train_prototypes"]

# Number of differences of inputs and keys in one call of the kernel, after which an interruption is noticed.
_CALL_NUMBERS = 2**30


@dataclass(frozen=True)
class TrainingState:
    """Parameters with the state of the optimizer; the first of four arrays are the parameters.

    Attributes:
        keys: (4, prototypes, features), float32.
        values: (4, prototypes, outputs), float32, in the units of training.
        steps: Number of steps so far.
        losses: Mean loss of each epoch of this training.
    """

    keys: NDArray[np.float32]
    values: NDArray[np.float32]
    steps: int
    losses: list[float]

    @classmethod
    def of(cls, keys: NDArray[np.float32], values: NDArray[np.float32]) -> TrainingState:
        """Return the state before the first step, from keys (prototypes, features) and values (prototypes, outputs)."""
        of_keys, of_values = (np.zeros((4, *array.shape), np.float32) for array in (keys, values))
        of_keys[0], of_values[0] = keys, values
        return cls(of_keys, of_values, 0, [])


def train_prototypes(config: RunConfig, dataset: Dataset, start: TrainingState | None = None) -> TrainingState:
    """Train all epochs of a run, from the keys and values of `start` or from its initialisation.

    Raises:
        ConfigError: too few rows for the initialisation.
        ValueError: loss, keys or values are not finite.
    """
    run = _new_run(config, dataset)
    if start is not None:
        _put(run, TrainingState.of(start.keys[0], start.values[0]))
    n, epochs, steps = len(dataset.train), config.protocol.epochs, _steps_in_epoch(config, dataset)
    rates = np.array([learning_rate(config.protocol, epoch) for epoch in range(epochs)])
    chunk = max(1, _CALL_NUMBERS // (n * run.keys[0, 0].size))
    losses: list[float] = []
    with _one_thread(run):
        for first in range(0, epochs, chunk):
            orders = batch_orders(run.generator, n, len(rates[first : first + chunk]))
            losses += run.take_steps(orders, rates[first : first + chunk], first * steps).tolist()
            if (finite := int(run.finite[0])) < len(orders):
                raise _divergence(f"epoch {first + finite + 1}")
    return _taken(run, epochs * steps, losses)


def train_one_epoch(config: RunConfig, dataset: Dataset, start: TrainingState | None = None) -> TrainingState:
    """Train one epoch at the learning rate itself, without a schedule, and continue the optimizer of `start`.

    The order of the rows is determined by the seed and the number of steps so far; raises as `train_prototypes`.
    """
    run = _new_run(config, dataset)
    steps = 0
    if start is not None:
        _put(run, start)
        steps = start.steps
    order = np.random.default_rng((config.seed, steps)).permutation(len(dataset.train))
    with _one_thread(run):
        losses = run.take_steps(order[None], config.protocol.learning_rate, steps)
    if not run.finite[0]:
        raise _divergence(f"step {steps + 1} or later")
    return _taken(run, steps + _steps_in_epoch(config, dataset), losses.tolist())


def _new_run(config: RunConfig, dataset: Dataset) -> KernelRun:
    from idwbench.training.fused_engine import ENGINES, prepare
    from idwbench.training.kernel_runs import KernelRun

    prepare()
    ENGINES["fused"].check(config, dataset)
    return KernelRun(config, dataset, dataset.moments)


def _put(run: KernelRun, state: TrainingState) -> None:
    run.keys[0] = state.keys.swapaxes(1, 2) if run.narrow else state.keys
    run.values[0] = state.values.swapaxes(1, 2)


def _taken(run: KernelRun, steps: int, losses: list[float]) -> TrainingState:
    keys = run.keys[0].swapaxes(1, 2) if run.narrow else run.keys[0]
    values = run.values[0].swapaxes(1, 2)
    return TrainingState(np.array(keys, order="C"), np.array(values, order="C"), steps, losses)


def _steps_in_epoch(config: RunConfig, dataset: Dataset) -> int:
    return math.ceil(len(dataset.train) / config.protocol.batch_size)


@contextmanager
def _one_thread(run: KernelRun) -> Iterator[None]:
    """Limit BLAS to one thread where the kernels call it, so that the result does not depend on their number."""
    from idwbench.training.threads import limited_threads

    if not run.scratch.by_products:
        yield
        return
    with limited_threads(1):
        yield


def _divergence(place: str) -> ValueError:
    return ValueError(
        f"training diverged in {place}: loss, prototypes or values are not finite; "
        "choose a smaller learning_rate, or scale the inputs"
    )
