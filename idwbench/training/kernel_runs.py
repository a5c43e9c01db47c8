"""Runs of one stack in the compiled kernels: their parameters, data and results in arrays."""

import math
from collections.abc import Sequence
from typing import cast

import numpy as np
import scipy.linalg.cython_blas  # noqa: F401  # the kernels' BLAS, loaded before threads are limited
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset, FeatureMoments, Split
from idwbench.models.initialisation import initial_prototypes
from idwbench.runs.config import RunConfig
from idwbench.runs.metrics import headline_metric
from idwbench.runs.protocol import learning_rate
from idwbench.runs.results import CurvePoint
from idwbench.training.engine import draw_orders
from idwbench.training.kernels.epochs import Samples, Stack, State, run_stack
from idwbench.training.kernels.memory import aligned_zeros
from idwbench.training.kernels.scores import kernel_score
from idwbench.training.kernels.scratch import make_scratch
from idwbench.training.kernels.updates import gradient_rows, kernel_optimizer

__all__ = ["KernelRun", "KernelRuns"]

# With fewer features keys are stored as (features, prototypes): a vector register holds 16 numbers.
NARROW_FEATURES = 16
EVALUATION_BATCH = 64
# From this batch size, number of prototypes and of features on matrix products are faster.
PRODUCT_SIZES = (32, 64, 64)


class KernelRuns:
    """The training of runs of one stack, one after the other in each call of the kernel."""

    def __init__(self, configs: Sequence[RunConfig], dataset: Dataset, moments: FeatureMoments) -> None:
        self.configs, self.dataset, self.protocol = configs, dataset, configs[0].protocol
        self.generators = [np.random.default_rng(config.seed) for config in configs]
        self.narrow = dataset.n_features < NARROW_FEATURES
        scores = {id(config.model): kernel_score(config.network, dataset.n_features) for config in _distinct(configs)}
        self.score = scores[id(configs[0].model)]
        self.parameters = np.array([scores[id(config.model)][-2:] for config in configs], np.float32)
        self.optimizer = kernel_optimizer(self.protocol)
        self.keys, self.values = self._initial_state(moments)
        n_trained = min(self.protocol.batch_size, len(dataset.train))
        n_batch = max(n_trained, EVALUATION_BATCH)
        sizes = n_trained, configs[0].model.prototypes, dataset.n_features
        products = not self.narrow and all(size >= least for size, least in zip(sizes, PRODUCT_SIZES, strict=True))
        n_rows = gradient_rows(self.optimizer, self.keys.shape[2], whole=self.narrow or products)
        self.scratch = make_scratch(
            n_batch, self.keys[0, 0], self.values[0, 0], n_rows, narrow=self.narrow, by_products=products
        )
        self.samples = {name: _samples(split) for name, split in dataset.splits.items()}
        train = self.samples["train"]
        self.nothing = Samples(train.inputs[:0], train.labels[:0], train.targets[:0])
        for name in ("validation", "holdout"):
            self.samples.setdefault(name, self.nothing)
        self.target_scale = np.ones(dataset.n_outputs) * dataset.target_scaling.std
        self.outputs = {name: self._new_outputs(len(samples.inputs)) for name, samples in self.samples.items()}
        self.finite = np.zeros(len(configs), np.int64)
        self.curves: list[list[CurvePoint]] = [[] for _ in configs]

    def _initial_state(self, moments: FeatureMoments) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return keys and values, each (runs, 4, rows, columns) with zeros for the state of the optimizer."""
        n, n_features, n_outputs = self.configs[0].model.prototypes, self.dataset.n_features, self.dataset.n_outputs
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
        """Train epochs from `first` to `last` (exclusive) of the runs that are still finite, and add to their curves.

        `outputs` (runs, n, outputs) by split are those after the last epoch of the protocol.
        """
        n_train, n_epochs = len(self.dataset.train), last - first
        orders = np.tile(np.arange(n_train), (len(self.generators), n_epochs, 1))
        for order, generator in zip(orders, self.generators, strict=True):
            draw_orders(order, generator)
        rates = np.array([learning_rate(self.protocol, epoch) for epoch in range(first, last)])
        losses, totals = self._new_progress(n_epochs)
        steps_done = first * math.ceil(n_train / self.protocol.batch_size)
        is_last = last == self.protocol.epochs
        self._call_kernel(orders, rates, first, steps_done, losses, totals, at_end=is_last)
        columns = {
            ("train", "learning_rate"): [rates.tolist()] * len(self.configs),
            ("train", "loss"): losses.tolist(),
            **self._headlines(totals),
        }
        epochs = range(first + 1, last + 1)
        for r, finite in enumerate(self.finite.tolist()):
            rows = zip(epochs[: max(0, finite - first)], *(column[r] for column in columns.values()), strict=False)
            self.curves[r] += [CurvePoint(epoch, dict(zip(columns, row, strict=True))) for epoch, *row in rows]

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
        run_stack(
            self.score,
            self.optimizer,
            self.samples["train"],
            self.samples["validation"] if evaluated else self.nothing,
            self.samples["test"] if evaluated else self.nothing,
            self.samples["holdout"],
            self.protocol.batch_size,
            rates,
            first,
            steps_done,
            self.narrow,
            stack,
            self.scratch,
        )

    def _new_progress(self, n_epochs: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return np.zeros((len(self.configs), n_epochs)), np.zeros((len(self.configs), n_epochs, 2))

    def _headlines(self, totals: NDArray[np.float64]) -> dict[tuple[str, str], list[list[float]]]:
        """Return the headline metric of each run after each epoch by split, from the totals of the kernel."""
        task, splits = self.dataset.task, self.dataset.splits
        found = {}
        for place, split in enumerate(("validation", "test")):
            if split in splits:
                means = totals[:, :, place] / len(splits[split])
                metric = means if task == "classification" else np.sqrt(means / self.dataset.n_outputs)
                found[split, headline_metric(task).name] = metric.tolist()
        return found


class KernelRun(KernelRuns):
    """One run, trained epoch by epoch or step by step."""

    def __init__(self, config: RunConfig, dataset: Dataset, moments: FeatureMoments) -> None:
        super().__init__([config], dataset, moments)
        self.config, self.generator, self.curve = config, self.generators[0], self.curves[0]
        self.state = State(self.keys[0], self.values[0], self.narrow)

    def train_epochs(self, first: int, last: int) -> int:
        """Train epochs from `first` to `last` (exclusive); return the first that was not finite, or `last`."""
        self.finite[:] = first
        self.train(first, last)
        return int(self.finite[0])

    def take_steps(self, rows: NDArray[np.int64], rate: float, steps_done: int) -> None:
        """Take steps at a rate on rows (steps, batch) of the training data, without evaluation."""
        self.finite[:] = 0
        rates = np.full(len(rows), rate)
        self._call_kernel(rows[None], rates, 0, steps_done, *self._new_progress(len(rows)), evaluated=False)


def _distinct(configs: Sequence[RunConfig]) -> list[RunConfig]:
    """Return one run for each object with settings of the model; runs of one setting share it."""
    return list({id(config.model): config for config in configs}.values())


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
