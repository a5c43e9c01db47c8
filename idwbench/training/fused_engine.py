"""The fused engine: whole epochs in one call of a compiled kernel on one core, without the GIL; thread-safe."""

import math
import threading
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, cast

import numba
import numpy as np
from numba.core.registry import cpu_target
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset, FeatureMoments, Scaling, Split
from idwbench.models.initialisation import check_prototypes, initial_prototypes
from idwbench.runs.config import RunConfig, run_config
from idwbench.runs.metrics import headline_metric
from idwbench.runs.protocol import learning_rate
from idwbench.runs.results import CurvePoint, RunResult
from idwbench.training.engine import AbstractEngine, batch_order, check_stack
from idwbench.training.kernels.epochs import Progress, Samples, State, run_epochs
from idwbench.training.kernels.jit import cache_holds_code, with_repaired_cache
from idwbench.training.kernels.network import make_scratch
from idwbench.training.kernels.scores import KERNEL_SCORES, kernel_score
from idwbench.training.kernels.similarities import KEY_ROWS
from idwbench.training.kernels.updates import gradient_rows, kernel_optimizer

__all__ = ["FusedEngine", "KernelRun", "instruction_set"]

# With fewer features keys are stored as (features, prototypes): a vector register holds 16 numbers.
NARROW_FEATURES = 16
# Number of differences of inputs and keys in one call of the kernel, some tenths of a second.
CALL_NUMBERS = 2**29
# Overhead of a sample, as a number of differences.
SAMPLE_NUMBERS = 1024
# Number of differences in a bundle of runs, about a tenth of a second.
BUNDLE_NUMBERS = 2**28
MAX_BUNDLE = 50
EVALUATION_BATCH = 64

_compiling = threading.Lock()
_compiled = threading.Event()


class FusedEngine(AbstractEngine):
    """Trains runs of built-in methods with Numba, one after the other; thread-safe."""

    name = "fused"

    @staticmethod
    def needs_compiling() -> bool:
        """Return whether kernels must be compiled, which takes some seconds."""
        return not _compiled.is_set() and not cache_holds_code()

    @staticmethod
    def prepare() -> None:
        """Compile kernels, or load them from the cache; `train` calls it."""
        with _compiling:
            if not _compiled.is_set():
                with_repaired_cache(_train_nothing)
                _compiled.set()

    @staticmethod
    def supports(config: RunConfig) -> bool:
        """Return whether there is a kernel for the run's method."""
        return config.model.method in KERNEL_SCORES and config.model.plugin_sha256 is None

    @classmethod
    def check(cls, config: RunConfig, dataset: Dataset) -> None:
        """Raise `ConfigError` if there are too few training inputs for the prototypes."""
        check_prototypes(config.network, dataset)

    def max_stack(self, config: RunConfig, dataset: Dataset) -> int:
        """Return the number of runs that are stored together."""
        sample_numbers = SAMPLE_NUMBERS + config.model.prototypes * dataset.n_features
        run_numbers = config.protocol.epochs * len(dataset.train) * sample_numbers
        return int(np.clip(BUNDLE_NUMBERS // run_numbers, 1, MAX_BUNDLE))

    def train(
        self, configs: Sequence[RunConfig], dataset: Dataset, on_epoch: Callable[[int], None] = lambda epoch: None
    ) -> list[RunResult]:
        """Train runs of one stack and return their results in order.

        Raises:
            ValueError: the stack keys differ, or the method has no kernel.
        """
        check_stack(configs)
        if not self.supports(configs[0]):
            raise ValueError(f"there is no kernel for method '{configs[0].model.method}'")
        self.prepare()
        return [KernelRun(config, dataset, dataset.moments).run(on_epoch) for config in configs]


class KernelRun:
    """The training of one run."""

    def __init__(self, config: RunConfig, dataset: Dataset, moments: FeatureMoments) -> None:
        self.started = time.perf_counter()
        self.config, self.dataset, self.protocol = config, dataset, config.protocol
        self.generator = np.random.default_rng(config.seed)
        self.score = kernel_score(config.network, dataset.n_features)
        self.optimizer = kernel_optimizer(config.protocol)
        keys, values = initial_prototypes(config.network, dataset, moments, self.generator)
        self.state = _state(keys, values, narrow=dataset.n_features < NARROW_FEATURES)
        n_batch = max(min(config.protocol.batch_size, len(dataset.train)), EVALUATION_BATCH)
        n_rows = gradient_rows(self.optimizer, self.state.keys.shape[1], KEY_ROWS)
        self.scratch = make_scratch(n_batch, self.state.keys[0], self.state.values[0], n_rows, self.state.narrow)
        self.samples = {name: _samples(split) for name, split in dataset.splits.items()}
        train = self.samples["train"]
        self.samples.setdefault("validation", Samples(train.inputs[:0], train.labels[:0], train.targets[:0]))
        self.target_scale = np.ones(dataset.n_outputs) * dataset.target_scaling.std
        self.test_outputs = np.empty((len(dataset.test), dataset.n_outputs), np.float32)
        self.curve: list[CurvePoint] = []

    def run(self, on_epoch: Callable[[int], None]) -> RunResult:
        """Train to the last epoch, or to the first in which loss, keys or values are not finite."""
        epochs = self.protocol.epochs
        chunk = max(1, CALL_NUMBERS // (len(self.dataset.train) * (self.state.keys[0].size + SAMPLE_NUMBERS)))
        for first in range(0, epochs, chunk):
            last = min(first + chunk, epochs)
            finite = self.train_epochs(first, last)
            for epoch in range(first, min(finite + 1, last)):
                on_epoch(epoch + 1)
            if finite < last:
                return self._result(diverged_epoch=finite + 1)
        return self._result(diverged_epoch=None)

    def train_epochs(self, first: int, last: int) -> int:
        """Train epochs from `first` to `last` (exclusive); return the first that was not finite, or `last`."""
        n_train = len(self.dataset.train)
        orders = np.stack([batch_order(self.generator, n_train) for _ in range(first, last)])
        rates = np.array([learning_rate(self.protocol, epoch) for epoch in range(first, last)])
        progress = self._progress(last - first, self.test_outputs)
        steps_done = first * math.ceil(n_train / self.protocol.batch_size)
        finite = self._call_kernel(orders, rates, steps_done, self.samples["test"], progress)
        columns = {
            ("train", "learning_rate"): rates.tolist(),
            ("train", "loss"): progress.losses.tolist(),
            **self._headlines(progress.totals),
        }
        for epoch in range(finite):
            self.curve.append(CurvePoint(first + epoch + 1, {name: column[epoch] for name, column in columns.items()}))
        return first + finite

    def take_steps(self, rows: NDArray[np.int64], rate: float, steps_done: int, nothing: Samples) -> None:
        """Take steps at a rate on rows (steps, batch) of the training data, without evaluation.

        `nothing` has no rows: it takes the place of the data that the kernel evaluates.
        """
        progress = self._progress(len(rows), self.test_outputs)
        self._call_kernel(rows, np.full(len(rows), rate), steps_done, nothing, progress, nothing)

    def outputs(self, split: str) -> NDArray[np.float32]:
        """Return the outputs of the model for a split, (n, outputs)."""
        samples, no_epoch = self.samples[split], np.empty((1, 0), np.int64)
        outputs = np.empty((len(samples.inputs), self.dataset.n_outputs), np.float32)
        self._call_kernel(no_epoch, np.zeros(1), 0, samples, self._progress(1, outputs))
        return outputs

    def _call_kernel(
        self,
        orders: NDArray[np.int64],
        rates: NDArray[np.float64],
        steps_done: int,
        test: Samples,
        progress: Progress,
        validation: Samples | None = None,
    ) -> int:
        return run_epochs(
            self.score,
            self.optimizer,
            self.samples["train"],
            self.samples["validation"] if validation is None else validation,
            test,
            orders,
            self.protocol.batch_size,
            rates,
            steps_done,
            self.state,
            self.scratch,
            progress,
        )

    def _progress(self, n_epochs: int, outputs: NDArray[np.float32]) -> Progress:
        return Progress(np.empty(n_epochs), np.empty((n_epochs, 2)), self.target_scale, outputs)

    def _headlines(self, totals: NDArray[np.float64]) -> dict[tuple[str, str], list[float]]:
        """Return the headline metric after each epoch by split, from the totals of the kernel."""
        task, splits = self.dataset.task, self.dataset.splits
        found = {}
        for split, column in zip(("validation", "test"), totals.T, strict=True):
            if split in splits:
                means = column / len(splits[split])
                metric = means if task == "classification" else np.sqrt(means / self.dataset.n_outputs)
                found[split, headline_metric(task).name] = metric.tolist()
        return found

    def _result(self, diverged_epoch: int | None) -> RunResult:
        complete = diverged_epoch is None
        keys = self.state.keys[0].T if self.state.narrow else self.state.keys[0]
        arrays = {"keys": np.array(keys, order="C"), "values": np.array(self.state.values[0].T, order="C")}
        metrics: dict[tuple[str, str], float] = {}
        for split in self.dataset.splits if complete else ():
            outputs = self.test_outputs if split == "test" else self.outputs(split)
            metrics |= self.dataset.metrics(split, outputs)
        return RunResult(
            config=self.config,
            state="complete" if complete else "diverged",
            curve=tuple(self.curve),
            metrics=metrics,
            arrays=arrays if complete else {},
            n_parameters=sum(array.size for array in arrays.values()) if complete else None,
            diverged_epoch=diverged_epoch,
            seconds=time.perf_counter() - self.started,
            engine=FusedEngine.name,
            device="cpu",
            threads=1,
            instruction_set=instruction_set(),
        )


@cache
def instruction_set() -> str:
    """Return LLVM's name of the processor that kernels are compiled for; ``python`` without compilation."""
    if getattr(numba.config, "DISABLE_JIT", False):
        return "python"
    return str(cast(Any, cpu_target).target_context.codegen().magic_tuple()[1])


def _train_nothing() -> None:
    """Call the kernel with the types of every later call."""
    split = Split(np.zeros((1, 1), np.float32), np.zeros(1, np.int64))
    config = run_config("two_moons", prototypes=1, epochs=1, batch_size=1)
    dataset = Dataset(config.dataset, split, split, None, Scaling.identity(), None, ("",), "")
    KernelRun(config, dataset, (np.zeros(1), np.zeros(1))).train_epochs(0, 1)


def _state(keys: NDArray[np.float32], values: NDArray[np.float32], narrow: bool) -> State:
    return State(_with_moments(keys.T if narrow else keys), _with_moments(values.T), narrow)


def _with_moments(parameters: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return (4, rows, columns): the parameters, and zeros for the state of the optimizer."""
    state = np.zeros((4, *parameters.shape), np.float32)
    state[0] = parameters
    return state


def _samples(split: Split) -> Samples:
    """Return read-only arrays of a split, so that all calls of the kernel have the same types."""
    labels, targets = np.empty(0, np.int64), np.empty((0, 0), np.float32)
    if split.targets.dtype == np.int64:
        labels = split.labels.view()
    else:
        targets = cast(NDArray[np.float32], split.targets).view()
    inputs = split.inputs.view()
    inputs.flags.writeable = labels.flags.writeable = targets.flags.writeable = False
    return Samples(inputs, labels, targets)
