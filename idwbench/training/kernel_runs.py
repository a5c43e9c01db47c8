"""Runs of one stack in the compiled kernels: their parameters, data and results in arrays."""

import math
from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
import scipy.linalg.cython_blas  # noqa: F401  # the kernels' BLAS, loaded before threads are limited
from numpy.typing import NDArray

from idwbench.data.dataset import FeatureMoments, Split, TrainingData
from idwbench.models.initialisation import initial_prototypes
from idwbench.runs.config import RunConfig
from idwbench.runs.metrics import headline_metric
from idwbench.runs.protocol import learning_rate
from idwbench.runs.results import Curve
from idwbench.training.engine import PrototypeTraining, batch_orders
from idwbench.training.kernels.epochs import Data, Samples, Schedule, Stack, State, run_stack
from idwbench.training.kernels.scores import kernel_score
from idwbench.training.kernels.scratch import aligned_zeros, make_scratch
from idwbench.training.kernels.updates import kernel_optimizer
from idwbench.training.threads import blas_threads

__all__ = ["KernelRun", "KernelRuns", "useful_threads"]

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
        by_products: Whether matrix products give similarities and gradients.
    """

    def __init__(self, configs: Sequence[Training], dataset: TrainingData, moments: FeatureMoments) -> None:
        self.configs, self.dataset, self.protocol = configs, dataset, configs[0].protocol
        self.generators = [np.random.default_rng(config.seed) for config in configs]
        self.narrow = dataset.n_features < NARROW_FEATURES
        models = {config.network.identity(): config.network for config in configs}
        scores = {key: kernel_score(model, dataset.n_features) for key, model in models.items()}
        self.score = scores[configs[0].network.identity()]
        self.parameters = np.array([scores[config.network.identity()][-2:] for config in configs], np.float32)
        self.optimizer = kernel_optimizer(self.protocol)
        self.keys, self.values = self._initial_state(moments)
        n_trained = min(self.protocol.batch_size, len(dataset.train))
        n_batch = max(n_trained, EVALUATION_BATCH)
        self.by_products = _uses_products(configs[0], dataset)
        self.scratch = make_scratch(
            n_batch,
            self.keys[0, 0],
            self.values[0, 0],
            narrow=self.narrow,
            by_products=self.by_products,
        )
        self.samples = {name: _samples(split) for name, split in dataset.splits.items()}
        train = self.samples["train"]
        self.nothing = Samples(train.inputs[:0], train.labels[:0], train.targets[:0], train.weights)
        for name in ("validation", "test", "holdout"):
            self.samples.setdefault(name, self.nothing)
        self.target_scale = np.ones(dataset.n_outputs) * dataset.target_scaling.std
        self.outputs = {name: self._new_outputs(len(samples.inputs)) for name, samples in self.samples.items()}
        self.finite = np.zeros(len(configs), np.int64)
        self.curve_names = self._curve_names()
        self.curve_values = np.zeros((len(configs), self.protocol.epochs, len(self.curve_names)))

    def _initial_state(self, moments: FeatureMoments) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return keys and values, each (runs, 4, rows, columns) with zeros for the state of the optimizer."""
        n, n_features, n_outputs = self.configs[0].network.prototypes, self.dataset.n_features, self.dataset.n_outputs
        keys = aligned_zeros(len(self.configs), 4, *((n_features, n) if self.narrow else (n, n_features)))
        values = aligned_zeros(len(self.configs), 4, n_outputs, n)
        for r, (config, generator) in enumerate(zip(self.configs, self.generators, strict=True)):
            initial_keys, initial_values = initial_prototypes(config.network, self.dataset, moments, generator)
            keys[r, 0] = initial_keys.T if self.narrow else initial_keys
            values[r, 0] = initial_values.T
        return keys, values

    def _new_outputs(self, n: int) -> NDArray[np.float32]:
        return np.empty((len(self.configs), n, self.dataset.n_outputs), np.float32)

    def train(self, first: int, last: int) -> None:
        """Train epochs from `first` to `last` (exclusive) of the runs that are still finite.

        `outputs` (runs, n, outputs) by split are those after the last epoch of the protocol.
        """
        n_train, n_epochs = len(self.dataset.train), last - first
        orders = np.stack([batch_orders(generator, n_train, n_epochs) for generator in self.generators])
        rates = np.array([learning_rate(self.protocol, epoch) for epoch in range(first, last)])
        losses, totals = self._new_progress(n_epochs)
        steps_done = first * math.ceil(n_train / self.protocol.batch_size)
        is_last = last == self.protocol.epochs
        self._call_kernel(orders, rates, first, steps_done, losses, totals, at_end=is_last)
        columns = [np.broadcast_to(rates, losses.shape), losses, *self._headlines(totals)]
        np.stack(columns, axis=2, out=self.curve_values[:, first:last])

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

    def _call_kernel(
        self,
        orders: NDArray[np.int64],
        rates: NDArray[np.float64],
        first: int,
        steps_done: int,
        losses: NDArray[np.float64],
        totals: NDArray[np.float64],
        *,
        at_end: bool = False,
        evaluated: bool = True,
    ) -> None:
        outputs = self.outputs
        stack = Stack(
            parameters=self.parameters,
            keys=self.keys,
            values=self.values,
            orders=orders,
            finite=self.finite,
            losses=losses,
            totals=totals,
            target_scale=self.target_scale,
            validation_outputs=outputs["validation"],
            test_outputs=outputs["test"],
            train_outputs=outputs["train"] if at_end else outputs["train"][:, :0],
            holdout_outputs=outputs["holdout"],
        )
        nothing, samples = self.nothing, self.samples
        data = Data(
            train=samples["train"],
            validation=samples["validation"] if evaluated else nothing,
            test=samples["test"] if evaluated else nothing,
            holdout=samples["holdout"],
        )
        schedule = Schedule(self.protocol.batch_size, rates, first, steps_done)
        run_stack(self.score, self.optimizer, data, schedule, self.narrow, stack, self.scratch)

    def _new_progress(self, n_epochs: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return np.zeros((len(self.configs), n_epochs)), np.zeros((len(self.configs), n_epochs, 2))

    def _curve_names(self) -> tuple[tuple[str, str], ...]:
        evaluated = [split for split in ("validation", "test") if split in self.dataset.splits]
        headlines = [(split, headline_metric(self.dataset.task).name) for split in evaluated]
        return (("train", "learning_rate"), ("train", "loss"), *headlines)

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
        self.state = State(self.keys[0], self.values[0], self.narrow)

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
        rates = np.full(len(rows), rate)
        losses, totals = self._new_progress(len(rows))
        self._call_kernel(rows[None], rates, 0, steps_done, losses, totals, evaluated=False)
        return np.asarray(losses[0])


def useful_threads(config: Training, dataset: TrainingData) -> int:
    """Return the number of threads for a run that trains alone: several, those of BLAS, for large products only."""
    if not _uses_products(config, dataset) or math.prod(_product_sizes(config, dataset)) < THREADED_PRODUCT:
        return 1
    return min(blas_threads(), MOST_THREADS)


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
