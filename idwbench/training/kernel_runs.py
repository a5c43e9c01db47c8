"""Runs of one stack in the compiled kernels: their parameters, data and results in arrays."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import scipy.linalg.cython_blas  # noqa: F401  # the kernels' BLAS, loaded before threads are limited
from numpy.typing import NDArray

from idwbench.attention.slopes import SLOPE_ARRAYS
from idwbench.data.dataset import FeatureMoments, Split, TrainingData
from idwbench.models.initialisation import initial_prototypes, initial_slopes, key_bounds
from idwbench.runs.config import RunConfig
from idwbench.runs.metrics import HEADLINES
from idwbench.runs.protocol import learning_rate
from idwbench.runs.results import Curve
from idwbench.training.engine import PrototypeTraining, batch_orders
from idwbench.training.kernels.epochs import Data, Samples, Schedule, Stack, run_stack
from idwbench.training.kernels.scores import IDW, SQ_DIST, Score, kernel_score
from idwbench.training.kernels.scratch import aligned_zeros, make_scratch, slope_scratch
from idwbench.training.kernels.updates import ADAM, Optimizer, kernel_optimizer
from idwbench.training.threads import blas_threads

__all__ = ["KernelRun", "KernelRuns", "first_call", "useful_threads"]

# With fewer features keys are stored as (features, prototypes): a vector register holds 16 numbers.
NARROW_FEATURES = 16
EVALUATION_BATCH = 64
# From this batch size, number of prototypes and of features on matrix products are faster.
PRODUCT_SIZES = (32, 64, 64)
# Multiplications of a product from which several threads pay: about half a millisecond.
THREADED_PRODUCT = 2**25
# They wait in busy loops, and more of them gain little.
MOST_THREADS = 8

Training = RunConfig | PrototypeTraining


class KernelRuns:
    """The training of runs of one stack, one after the other in each call of the kernel.

    Attributes:
        stack: What the kernel gets of the runs, but for the orders of training and the progress of each call.
        keys, values, slope_inputs, slope_outputs: Each (runs, 4, rows, columns), with the state of the optimizer.
        narrow: Whether keys have the axes (features, prototypes).
        by_products: Whether matrix products give similarities and gradients.
        finite: The number of epochs after which loss, keys and values of each run were finite.
        outputs: Those after the last epoch of the protocol by split, (runs, n, outputs).
    """

    def __init__(self, configs: Sequence[Training], dataset: TrainingData, moments: FeatureMoments) -> None:
        self.configs, self.dataset, self.protocol = configs, dataset, configs[0].protocol
        self.generators = [np.random.default_rng(config.seed) for config in configs]
        self.narrow = dataset.n_features < NARROW_FEATURES
        scores = [kernel_score(config.network, dataset.n_features) for config in configs]
        self.score, self.optimizer = scores[0], kernel_optimizer(self.protocol)
        network = configs[0].network
        self.slope_rank = network.slope_rank
        self.loss_settings = np.float32(network.label_smoothing), np.float32(network.key_penalty)
        self._place_prototypes(moments)
        n_batch = max(min(self.protocol.batch_size, len(dataset.train)), EVALUATION_BATCH)
        self.by_products = _uses_products(configs[0], dataset)
        sizes = n_batch, self.keys[0, 0], self.values[0, 0]
        self.scratch = make_scratch(*sizes, narrow=self.narrow, by_products=self.by_products)
        self.slope_scratch = slope_scratch(self.scratch, self.slope_inputs.shape[2])
        samples = {name: _samples(split) for name, split in dataset.splits.items()}
        train, bounds = samples["train"], key_bounds(configs[0].network, dataset)
        nothing = Samples(train.inputs[:0], train.labels[:0], train.targets[:0], train.weights)
        validation, test, holdout = (samples.get(name, nothing) for name in ("validation", "test", "holdout"))
        limits = np.empty((2, 0), np.float32) if bounds is None else np.stack(bounds)
        self.data = Data(train, validation, test, holdout, limits)
        self.nothing, self.finite = nothing, np.zeros(len(configs), np.int64)
        n_runs, n_outputs = len(configs), dataset.n_outputs
        self.outputs = {
            name: np.empty((n_runs, len(part.inputs), n_outputs), np.float32) for name, part in samples.items()
        }
        no_outputs = np.empty((n_runs, 0, n_outputs), np.float32)
        self.stack = Stack(
            parameters=np.array([score[-2:] for score in scores], np.float32),
            keys=self.keys,
            values=self.values,
            slope_inputs=self.slope_inputs,
            slope_outputs=self.slope_outputs,
            orders=np.zeros((n_runs, 0, 0), np.int64),
            finite=self.finite,
            **_progress(n_runs, 0),
            target_scale=np.ones(n_outputs) * dataset.target_scaling.std,
            validation_outputs=self.outputs.get("validation", no_outputs),
            test_outputs=self.outputs.get("test", no_outputs),
            train_outputs=no_outputs,
            holdout_outputs=self.outputs.get("holdout", no_outputs),
        )
        evaluated = [split for split in ("validation", "test") if split in dataset.splits]
        headlines = [(split, HEADLINES[dataset.task].name) for split in evaluated]
        self.curve_names = (("train", "learning_rate"), ("train", "loss"), *headlines)
        self.curve_values = np.zeros((len(configs), self.protocol.epochs, len(self.curve_names)))

    def _place_prototypes(self, moments: FeatureMoments) -> None:
        """Set keys, values and their slopes, with zeros for the state of the optimizer."""
        n, n_features, n_outputs = self.configs[0].network.prototypes, self.dataset.n_features, self.dataset.n_outputs
        n_runs, n_slopes = len(self.configs), self.slope_rank * n
        self.keys = aligned_zeros(n_runs, 4, *((n_features, n) if self.narrow else (n, n_features)))
        self.values = aligned_zeros(n_runs, 4, n_outputs, n)
        self.slope_inputs = aligned_zeros(n_runs, 4, n_slopes, n_features)
        self.slope_outputs = aligned_zeros(n_runs, 4, n_outputs, n_slopes)
        for r, (config, generator) in enumerate(zip(self.configs, self.generators, strict=True)):
            initial_keys, initial_values = initial_prototypes(config.network, self.dataset, moments, generator)
            self.keys[r, 0] = initial_keys.T if self.narrow else initial_keys
            self.values[r, 0] = initial_values.T
            slopes = initial_slopes(config.network, self.dataset, generator)
            for name, part in slopes.items():
                rows = part.reshape(n_slopes, -1)
                getattr(self, name)[r, 0] = rows if name == "slope_inputs" else rows.T

    def train(self, first: int, last: int) -> None:
        """Train epochs from `first` to `last` (exclusive) of the runs that are still finite."""
        n_train, n_epochs = len(self.dataset.train), last - first
        orders = np.stack([batch_orders(generator, n_train, n_epochs) for generator in self.generators])
        rates = np.array([learning_rate(self.protocol, epoch) for epoch in range(first, last)])
        steps_done = first * math.ceil(n_train / self.protocol.batch_size)
        schedule = Schedule(self.protocol.batch_size, rates, *self.loss_settings, first, steps_done)
        stack = self.stack._replace(orders=orders, **_progress(*orders.shape[:2]))
        if last == self.protocol.epochs:
            stack = stack._replace(train_outputs=self.outputs["train"])
        run_stack(self.score, self.optimizer, self.data, schedule, self.narrow, stack, self.scratch, self.slope_scratch)
        columns = [np.broadcast_to(rates, stack.losses.shape), stack.losses, *self._headlines(stack.totals)]
        np.stack(columns, axis=2, out=self.curve_values[:, first:last])

    @property
    def calls_blas(self) -> bool:
        """Whether results depend on the number of threads of BLAS."""
        return self.by_products or self.slope_rank > 0

    def slopes(self, run: int) -> dict[str, NDArray[np.float32]]:
        """Return copies of the `SLOPE_ARRAYS` of a run by name; none without slopes."""
        if not self.slope_rank:
            return {}
        parts = self.slope_inputs[run, 0], self.slope_outputs[run, 0].T
        shape = self.slope_rank, self.configs[0].network.prototypes, -1
        return {name: np.array(part.reshape(shape), order="C") for name, part in zip(SLOPE_ARRAYS, parts, strict=True)}

    def prototypes(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return copies of keys (runs, prototypes, features) and values (runs, prototypes, outputs)."""
        keys = self.keys[:, 0].transpose(0, 2, 1) if self.narrow else self.keys[:, 0]
        return np.array(keys, order="C"), np.array(self.values[:, 0].transpose(0, 2, 1), order="C")

    def curves(self) -> list[Curve]:
        """Return the curves of the runs, up to the last epoch that was finite."""
        finite = self.finite.tolist()
        if min(finite) == self.protocol.epochs:
            values = self.curve_values.reshape(len(finite), -1).tolist()
        else:
            values = [own[:n].ravel().tolist() for own, n in zip(self.curve_values, finite, strict=True)]
        return [Curve(self.curve_names, own) for own in values]

    def _headlines(self, totals: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
        """Yield the headline metric of each run after each epoch (runs, epochs), from the totals of the kernel."""
        splits = self.dataset.splits
        for place, split in enumerate(("validation", "test")):
            if split in splits:
                means = totals[:, :, place] / len(splits[split])
                is_classification = self.dataset.task == "classification"
                yield means if is_classification else np.sqrt(means / self.dataset.n_outputs)


class KernelRun(KernelRuns):
    """One run, trained epoch by epoch or step by step."""

    def __init__(self, config: Training, dataset: TrainingData, moments: FeatureMoments) -> None:
        super().__init__([config], dataset, moments)
        self.config, self.generator = config, self.generators[0]

    @property
    def curve(self) -> Curve:
        """The curve, up to the last epoch that was finite."""
        return self.curves()[0]

    def train_epochs(self, first: int, last: int) -> int:
        """Train epochs from `first` to `last` (exclusive); return the first that was not finite, or `last`."""
        self.finite[:] = first
        self.train(first, last)
        return int(self.finite[0])

    def take_steps(
        self, rows: NDArray[np.int64], rate: float | NDArray[np.float64], steps_done: int
    ) -> NDArray[np.float64]:
        """Take steps at a rate, or rates (steps,), on rows (steps, batch) of the training data; return their losses.

        Nothing is evaluated. With more rows than the batch size, each of `steps` is several, such as an epoch.
        """
        self.finite[:] = 0
        schedule = Schedule(self.protocol.batch_size, np.full(len(rows), rate), *self.loss_settings, 0, steps_done)
        data = self.data._replace(validation=self.nothing, test=self.nothing)
        stack = self.stack._replace(orders=rows[None], **_progress(1, len(rows)))
        run_stack(self.score, self.optimizer, data, schedule, self.narrow, stack, self.scratch, self.slope_scratch)
        return np.asarray(stack.losses[0])


def _progress(n_runs: int, n_epochs: int) -> dict[str, Any]:
    """Return new arrays for what `Stack` has for each epoch."""
    return {"losses": np.zeros((n_runs, n_epochs)), "totals": np.zeros((n_runs, n_epochs, 2))}


def first_call() -> None:
    """Call the kernel with arrays of one number, of the types of every later call: it is compiled, or loaded."""
    samples = _samples(Split(np.zeros((1, 1), np.float32), np.zeros(1, np.int64)))
    outputs = np.zeros((1, 1, 1), np.float32)
    keys, values, slope_inputs, slope_outputs = (aligned_zeros(1, 4, 1, 1) for _ in range(4))
    stack = Stack(
        parameters=np.ones((1, 2), np.float32),
        keys=keys,
        values=values,
        slope_inputs=slope_inputs,
        slope_outputs=slope_outputs,
        orders=np.zeros((1, 1, 1), np.int64),
        finite=np.zeros(1, np.int64),
        **_progress(1, 1),
        target_scale=np.ones(1),
        validation_outputs=outputs,
        test_outputs=outputs,
        train_outputs=outputs,
        holdout_outputs=outputs,
    )
    score = Score(SQ_DIST, IDW, False, np.float32(2), np.float32(1))
    optimizer = Optimizer(ADAM, np.float32(0), np.float32(0), 0.0)
    scratch = make_scratch(1, keys[0, 0], values[0, 0], narrow=True, by_products=False)
    data = Data(samples, samples, samples, samples, np.empty((2, 0), np.float32))
    schedule, own = Schedule(1, np.ones(1), np.float32(0), np.float32(0), 0, 0), slope_scratch(scratch, 1)
    run_stack(score, optimizer, data, schedule, True, stack, scratch, own)


def useful_threads(config: Training, dataset: TrainingData) -> int:
    """Return the number of threads for a run that trains alone: several, those of BLAS, for large products only."""
    largest = math.prod(_product_sizes(config, dataset))
    by_slopes, by_keys = largest * config.network.slope_rank, largest if _uses_products(config, dataset) else 0
    return min(blas_threads(), MOST_THREADS) if max(by_slopes, by_keys) >= THREADED_PRODUCT else 1


def _product_sizes(config: Training, dataset: TrainingData) -> tuple[int, int, int]:
    return min(config.protocol.batch_size, len(dataset.train)), config.network.prototypes, dataset.n_features


def _uses_products(config: Training, dataset: TrainingData) -> bool:
    return all(n >= least for n, least in zip(_product_sizes(config, dataset), PRODUCT_SIZES, strict=True))


def _samples(split: Split) -> Samples:
    """Return read-only arrays of a split, so that all calls of the kernel have the same types."""
    labels, targets = np.empty(0, np.int64), np.empty((0, 0), np.float32)
    if split.targets.dtype == np.int64:
        labels = split.labels.view()
    else:
        targets = cast(NDArray[np.float32], split.targets).view()
    weights = np.empty(0, np.float32) if split.weights is None else split.weights.view()
    samples = Samples(split.inputs.view(), labels, targets, weights)
    for array in samples:
        array.flags.writeable = False
    return samples
