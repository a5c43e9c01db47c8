"""The fused engine: whole epochs in one call of a compiled kernel, on one core, with the lock released.

Several threads may train at once; they share the data, and each run is the same numbers alone or in a crowd.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from idwbench.config import Protocol, RunConfig, TwoMoonsConfig, parse_run
from idwbench.data.dataset import Dataset, Scaling, Split
from idwbench.engine.base import AbstractEngine, EpochMetrics, RunResult, batch_order, check_stack, learning_rate
from idwbench.engine.kernels.epochs import Progress, Samples, State, run_epochs
from idwbench.engine.kernels.jit import cache_holds_code, with_sound_cache
from idwbench.engine.kernels.network import make_scratch
from idwbench.engine.kernels.scores import CODES, Score
from idwbench.initialisation import Moments, feature_moments, initial_prototypes
from idwbench.methods import get_method

__all__ = ["FusedEngine", "KernelRun"]

# With fewer features than this, keys lie with prototypes in rows: a vector instruction holds 16 numbers.
NARROW_FEATURES = 16
# One call trains as many epochs as come to this many differences of an input and a key (some tenths of a second), so
# that small runs make few calls, and large ones can be watched and interrupted.
CALL_NUMBERS = 2**29
# What a sample costs besides, so that tiny shapes do not make endless calls.
SAMPLE_NUMBERS = 1024
# A bundle of runs takes about a tenth of a second, so that an interruption loses little.
BUNDLE_NUMBERS = 2**28
MAX_BUNDLE = 50
# Inputs that a test takes at once.
TEST_BATCH = 64

_compiling = threading.Lock()
_compiled = threading.Event()


class FusedEngine(AbstractEngine):
    """Trains runs of built-in methods in Numba, one after the other; one engine may serve several threads."""

    name = "fused"

    def __init__(self) -> None:
        self._moments: tuple[Dataset, Moments] | None = None

    @staticmethod
    def needs_compiling() -> bool:
        """Return whether the next run will first compile kernels, which takes some seconds."""
        return not _compiled.is_set() and not cache_holds_code()

    @staticmethod
    def prepare() -> None:
        """Compile kernels, or load them from the cache; runs do so by themselves if this was not called."""
        with _compiling:
            if not _compiled.is_set():
                with_sound_cache(_train_nothing)
                _compiled.set()

    @staticmethod
    def supports(config: RunConfig) -> bool:
        """Return whether the run's method is one that kernels know."""
        return config.method in CODES and config.plugin_sha256 is None

    def max_stack(self, config: RunConfig, dataset: Dataset) -> int:
        """Return how many runs are worth one visit to the database; here they gain nothing else from one another."""
        sample_numbers = SAMPLE_NUMBERS + config.prototypes * dataset.n_features
        return int(
            np.clip(BUNDLE_NUMBERS // (config.protocol.epochs * len(dataset.train) * sample_numbers), 1, MAX_BUNDLE)
        )

    def train(
        self,
        configs: Sequence[RunConfig],
        dataset: Dataset,
        on_epoch: Callable[[int], None] = lambda epoch: None,
    ) -> list[RunResult]:
        """Train runs of one stack and return their results in order.

        Raises:
            ValueError: the runs do not share a stack, or no kernel knows their method.
        """
        check_stack(configs)
        if not self.supports(configs[0]):
            raise ValueError(f"no kernel knows method '{configs[0].method}'")
        self.prepare()
        moments = self._moments_of(dataset)
        return [KernelRun(config, dataset, moments).run(on_epoch) for config in configs]

    def _moments_of(self, dataset: Dataset) -> Moments:
        known = self._moments
        if known is None or known[0] is not dataset:
            known = self._moments = (dataset, feature_moments(dataset.train.inputs))
        return known[1]


class KernelRun:
    """One run from its first key to its result."""

    def __init__(self, config: RunConfig, dataset: Dataset, moments: Moments) -> None:
        self.started = time.perf_counter()
        self.config, self.dataset, self.protocol = config, dataset, config.protocol
        self.generator = np.random.default_rng(config.seed)
        self.score = _score(config, dataset.n_features)
        self.state = _initial_state(config, dataset, moments, self.generator)
        batch = max(min(config.protocol.batch_size, len(dataset.train)), TEST_BATCH)
        shape = dataset.n_features, config.prototypes, dataset.n_classes
        self.scratch = make_scratch(batch, *shape, self.state.narrow)
        self.train, self.test = _samples(dataset.train), _samples(dataset.test)
        self.curve: list[EpochMetrics] = []

    def run(self, on_epoch: Callable[[int], None]) -> RunResult:
        """Train to the end, or to the epoch that is not finite."""
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
        """Train epochs from `first` up to `last` and return the first that was not finite, or `last`."""
        n_train, n_test, batch_size = len(self.dataset.train), len(self.dataset.test), self.protocol.batch_size
        orders = np.stack([batch_order(self.generator, n_train) for _ in range(first, last)])
        rates = np.array([learning_rate(self.protocol, epoch) for epoch in range(first, last)])
        progress = Progress(np.empty(last - first), np.empty(last - first, np.int64))
        steps_done = first * math.ceil(n_train / batch_size)
        finite = run_epochs(
            self.score, self.train, self.test, orders, batch_size, rates, steps_done, self.state, self.scratch, progress
        )
        reports = zip(rates.tolist(), progress.losses.tolist(), progress.correct.tolist(), strict=True)
        for epoch, (rate, loss, correct) in zip(range(first, first + finite), reports, strict=False):
            self.curve.append(EpochMetrics(epoch + 1, rate, loss, correct / n_test))
        return first + finite

    def _result(self, diverged_epoch: int | None) -> RunResult:
        complete = diverged_epoch is None
        keys = self.state.keys[0].T if self.state.narrow else self.state.keys[0]
        holdout = self.dataset.holdout
        return RunResult(
            config=self.config,
            state="complete" if complete else "diverged",
            keys=np.array(keys, order="C") if complete else None,
            values=np.array(self.state.values[0].T, order="C") if complete else None,
            curve=tuple(self.curve),
            train_accuracy=self._accuracy(self.dataset.train) if complete else None,
            test_accuracy=self.curve[-1].test_accuracy if complete else None,
            holdout_accuracy=self._accuracy(holdout) if complete and holdout is not None else None,
            diverged_epoch=diverged_epoch,
            seconds=time.perf_counter() - self.started,
            engine=FusedEngine.name,
            device="cpu",
            threads=1,
        )

    def _accuracy(self, split: Split) -> float:
        samples, nothing = _samples(split), np.empty((1, 0), np.int64)
        progress = Progress(np.empty(1), np.empty(1, np.int64))
        run_epochs(self.score, samples, samples, nothing, 1, np.zeros(1), 0, self.state, self.scratch, progress)
        return float(progress.correct[0] / len(split))


def _train_nothing() -> None:
    """Call the kernel with the types of every later call."""
    split = Split(np.zeros((1, 1), np.float32), np.zeros(1, np.int64))
    config = parse_run(TwoMoonsConfig(), "idw", 1, Protocol(epochs=1, batch_size=1, learning_rate=1.0), 0)
    dataset = Dataset(config.dataset, split, split, None, Scaling.identity(), None, ("",), "")
    KernelRun(config, dataset, (np.zeros(1), np.zeros(1))).train_epochs(0, 1)


def _score(config: RunConfig, n_features: int) -> Score:
    """Return the run's score as kernels know it."""
    numbers = config.parameters
    if config.method == "scaled_dot":
        columns = n_features if numbers["scale"] == "features" else config.prototypes
        first = 1 / math.sqrt(columns)
    elif config.method == "cosine":
        first = 1 / float(numbers["temperature"])
    elif config.method == "gaussian":
        first = 1 / float(numbers["sigma_squared"])
    else:
        first = float(numbers.get("power", 1.0))
    return Score(CODES[config.method], np.float32(first), np.float32(numbers.get("epsilon", 0.0)))


def _initial_state(config: RunConfig, dataset: Dataset, moments: Moments, generator: np.random.Generator) -> State:
    method = get_method(config.method)
    keys, values = initial_prototypes(method, config.prototypes, dataset.n_classes, *moments, generator)
    narrow = dataset.n_features < NARROW_FEATURES
    return State(_with_moments(keys.T if narrow else keys), _with_moments(values.T), narrow)


def _with_moments(numbers: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return (4, rows, columns): the numbers, and zeros for what Adam knows of their gradients."""
    state = np.zeros((4, *numbers.shape), np.float32)
    state[0] = numbers
    return state


def _samples(split: Split) -> Samples:
    """Return the split as the kernels take it: read-only, so that one compiled version serves all callers."""
    inputs, labels = split.inputs.view(), split.labels.view()
    inputs.flags.writeable = labels.flags.writeable = False
    return Samples(inputs, labels)
