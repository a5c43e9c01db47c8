"""The contract of engines, and the one builder of results.

An engine trains runs of one *stack*: same data set, method, prototypes and protocol; seeds and parameters may differ.
All random numbers of a run come from ``numpy.random.default_rng(seed)``: first the initial keys and values, then one
permutation of the training data for each epoch. All engines support all settings of the protocol:

- The gradient is that of the mean loss of a batch: cross-entropy, or the squared error, mean over the outputs.
- A gradient clip c scales the gradient g of keys and values by min(1, c / (‖g‖ + 1e-6)), as
  `torch.nn.utils.clip_grad_norm_`, before weight decay is added.
- The optimizers are `torch.optim.Adam`, with or without amsgrad, and `torch.optim.SGD`, with default betas and epsilon.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from idwbench.attention.records import Parameter
from idwbench.attention.scores import METHODS
from idwbench.errors import TrainingError
from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import dataset_identity
from idwbench.runs.kinds.prototypes import PrototypesConfig
from idwbench.runs.metrics import Metrics
from idwbench.runs.protocol import Protocol
from idwbench.runs.results import CurvePoint, RunResult, best_epoch_metrics

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from idwbench.data.dataset import Dataset
    from idwbench.results.records import StoredRun
    from idwbench.results.store import Results

__all__ = [
    "MAX_STACK",
    "Check",
    "Context",
    "Engine",
    "EngineName",
    "Fit",
    "Fitted",
    "PrototypeTraining",
    "batch_order",
    "batch_orders",
    "check_stack",
    "one_by_one",
    "required_run",
    "run_result",
    "small_stack",
    "stack_key",
]

EngineName = Literal["auto", "fused", "torch"]

# Each engine takes the settings of its kind, which `RunConfig.model` has in general.
Check = Callable[[Any, "Dataset"], None]

# Runs that are made one by one are stored together, some tenths of a second of work.
_STACK_NUMBERS = 2**17
MAX_STACK = 20


@dataclass(frozen=True)
class Context:
    """What the trainings of one command share.

    Attributes:
        engine: The engine of networks of prototypes: ``fused``, ``torch``, or ``auto`` for fused where it has a kernel.
        device: Name of the device of torch.
        results: The database of the trained runs that studies of patches read.
        checkpoint_folder: Where interrupted trainings are kept, or None.
        recording_folder: Where recorded trainings are kept, or None.
        report: Receives lines of text.
        on_epoch: Called with the number of each finished epoch; an exception in it ends the training.
    """

    engine: EngineName = "auto"
    device: str = "cpu"
    results: Results | None = None
    checkpoint_folder: Path | None = None
    recording_folder: Path | None = None
    report: Callable[[str], None] = lambda line: None
    on_epoch: Callable[[int], None] = lambda epoch: None


@dataclass(frozen=True)
class Engine:
    """What trains the runs of a kind.

    Attributes:
        name: The name that is stored with each run.
        train: Trains runs with the same `stack_key` on their data set and returns their results in order.
        max_stack: Returns the largest number of runs like a given one for one call of `train`.
        check: Raises `ConfigError`, without drawing anything, if the data does not support a model.
        stored: Deletes what was kept in case the training of runs is interrupted: their results are stored now.
    """

    name: str
    train: Callable[[Sequence[RunConfig], Dataset, Context], list[RunResult]]
    max_stack: Callable[[RunConfig, Dataset], int]
    check: Check = lambda model, dataset: None
    stored: Callable[[Sequence[RunConfig], Context], None] = lambda configs, context: None


@dataclass(frozen=True)
class Fitted:
    """What the training of one run gave, see `RunResult`; of a diverged run only the curve is read.

    Attributes:
        seconds: Wall-clock time if it is not that of the call, such as with the time before an interruption.
    """

    metrics: Metrics
    arrays: Mapping[str, NDArray[np.generic]]
    n_parameters: int | None
    curve: Sequence[CurvePoint] = ()
    diverged_epoch: int | None = None
    seconds: float | None = None


# The device, the number of threads and the instruction set of a training.
Environment = tuple[str, int, str]
Fit = Callable[[RunConfig, "Dataset", Context], Fitted]


class PrototypeTraining(NamedTuple):
    """A training of prototypes that is no run on a data set."""

    network: PrototypesConfig
    protocol: Protocol
    seed: int


def run_result(config: RunConfig, fitted: Fitted, engine: str, seconds: float, environment: Environment) -> RunResult:
    """Return the result of a run; a diverged one has no metrics, arrays and number of parameters."""
    complete = fitted.diverged_epoch is None
    device, threads, instruction_set = environment
    return RunResult(
        config=config,
        state="complete" if complete else "diverged",
        curve=fitted.curve,
        metrics={**fitted.metrics, **best_epoch_metrics(config.dataset.task, fitted.curve)} if complete else {},
        arrays=fitted.arrays if complete else {},
        n_parameters=fitted.n_parameters if complete else None,
        diverged_epoch=fitted.diverged_epoch,
        seconds=seconds if fitted.seconds is None else fitted.seconds,
        engine=engine,
        device=device,
        threads=threads,
        instruction_set=instruction_set,
    )


def small_stack(config: RunConfig, dataset: Dataset) -> int:
    """Return the number of runs that are stored together where each takes little time."""
    numbers = len(dataset.train) * dataset.n_features * config.model.prototypes
    return max(1, min(MAX_STACK, _STACK_NUMBERS // numbers))


def one_by_one(
    name: str,
    fit: Fit,
    *,
    max_stack: Callable[[RunConfig, Dataset], int] = lambda config, dataset: 1,
    check: Check = lambda model, dataset: None,
    environment: Callable[[Context], Environment] = lambda context: ("cpu", 1, ""),
    stored: Callable[[Sequence[RunConfig], Context], None] = lambda configs, context: None,
) -> Engine:
    """Return an engine that trains the runs of a stack one after the other with `fit`."""

    def train(configs: Sequence[RunConfig], dataset: Dataset, context: Context) -> list[RunResult]:
        results = []
        for config in configs:
            started = time.perf_counter()
            fitted = fit(config, dataset, context)
            results.append(run_result(config, fitted, name, time.perf_counter() - started, environment(context)))
        return results

    return Engine(name, train, max_stack, check, stored)


def required_run(config: RunConfig, dataset: Dataset, context: Context) -> StoredRun:
    """Return the run that a study needs, complete or diverged.

    Raises:
        ValueError: the context has no database, or the run needs no other.
        ResultsError: the other run is not stored.
        TrainingError: it has no result, or was trained on other data.
    """
    if context.results is None or config.required is None:
        raise ValueError("a study needs a network and the database of the trained runs")
    network = context.results.find_run(config.required.run_key)
    if network.state not in ("complete", "diverged"):
        raise TrainingError(f"the run {network.run_key[:12]}, whose network is to be studied, is {network.state}")
    if network.data_sha256 not in (None, dataset.sha256):
        raise TrainingError(f"the run {network.run_key[:12]} was trained on other data: the checksums differ")
    return network


def stack_key(config: RunConfig) -> str:
    """Return a text that is equal for runs of one stack; numeric parameters may differ unless they are special.

    Whole numbers are sizes, or numbers of keys, and do not differ either; nor do parameters of a plugin, whose function
    may compute with a number in float64 and with those of a stack in float32.
    """
    model = config.model
    method = model.method_record if isinstance(model, PrototypesConfig) else METHODS.get(model.method)
    parameters = {p.name: p for p in method.parameters} if method else {}
    is_plugin = config.model.plugin_sha256 is not None
    shared = {
        name: f"{value}" if is_plugin else _shared(parameters.get(name), value)
        for name, value in config.model.parameters.items()
    }
    alike = (dataset_identity(config.dataset), config.model.identity("parameters"), config.protocol.identity())
    return "\n".join([*alike, *(f"{name}: {value}" for name, value in sorted(shared.items()))])


def _shared(parameter: Parameter | None, value: float | str) -> str:
    if isinstance(value, str) or (parameter is not None and (parameter.whole or value in parameter.special)):
        return f"{value}"
    return ""


def check_stack(configs: Sequence[RunConfig]) -> None:
    """Raise `ValueError` unless all of `configs` have the same stack key."""
    settings = {config.setting_key: config for config in configs}
    if len(settings) != 1 and len({stack_key(config) for config in settings.values()}) != 1:
        raise ValueError("a stack holds runs of one data set, method, shape and protocol")


def batch_order(generator: np.random.Generator, n_train: int) -> NDArray[np.int64]:
    """Return the order of the training data in one epoch; batches are consecutive slices."""
    return generator.permutation(n_train)


def batch_orders(generator: np.random.Generator, n_train: int, n_epochs: int) -> NDArray[np.int64]:
    """Return the `batch_order` of some epochs (epochs, n), drawn in one call: the same numbers in half the time."""
    import numpy as np

    orders = np.tile(np.arange(n_train), (n_epochs, 1))
    return generator.permuted(orders, axis=1, out=orders)
