"""The engine of softened hash tables: it looks up noisy queries, and trains what is learned.

Each seed has its own table and queries, see `draw_table`. An epoch has as many new noisy queries, for random items,
as the test; the loss of a batch is the mean squared error of the answers. All random numbers of a run come from its
seed and that of the data set. Runs are independent: none shares an operation with another.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from idwbench.data.dataset import Dataset
from idwbench.data.synthetic import Queries, draw_queries, draw_table, lookup_stream
from idwbench.models.hash_table import HashTable, initial_arrays, measured, recall
from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import LookupConfig
from idwbench.runs.kinds.hash_table import HashTableConfig
from idwbench.runs.metrics import Metrics
from idwbench.runs.protocol import learning_rate
from idwbench.runs.results import CurvePoint
from idwbench.training.engine import MAX_STACK, Context, Fitted, one_by_one
from idwbench.training.optimizers import OptimizerStep, clip_gradients, flat_parameters

__all__ = ["ENGINES", "TableRun"]


def _fit(config: RunConfig, dataset: Dataset, context: Context) -> Fitted:
    """Look up, after training if anything is learned; a run without has no epochs and no curve."""
    return TableRun(config).fit(context.on_epoch)


class TableRun:
    """One run: its table, its queries, and what it learns."""

    def __init__(self, config: RunConfig) -> None:
        model, data = config.model, config.dataset
        assert isinstance(model, HashTableConfig) and isinstance(data, LookupConfig)
        self.config, self.data = config, data
        self.table = draw_table(data, config.seed)
        self.queries = {"test": draw_queries(data, config.seed, self.table)}
        if data.validation:
            self.queries["validation"] = draw_queries(data, config.seed, self.table, "validation")
        generator = lookup_stream(data, config.seed, "projections")
        initial = initial_arrays(model, data.dimensions, generator)
        self.learned = {name: torch.from_numpy(array).requires_grad_() for name, array in initial.items()}
        self.hash_table = HashTable(model, self.learned)
        self.curve: list[CurvePoint] = []
        self.diverged_epoch: int | None = None

    def fit(self, on_epoch: Callable[[int], None]) -> Fitted:
        """Train what is learned, if there is anything, and measure."""
        metrics: dict[tuple[str, str], float] = {}
        if self.learned:
            before = measured(self.hash_table, self.table, self.queries["test"])
            metrics["test", "recall_before"] = before["recall"]
            self._train(on_epoch)
        if self.diverged_epoch is None:
            metrics |= self._metrics()
        weights = {name: weight.detach().numpy().copy() for name, weight in self.learned.items()}
        n_parameters = sum(weight.size for weight in weights.values())
        return Fitted(metrics, weights, n_parameters, tuple(self.curve), self.diverged_epoch)

    def _metrics(self) -> Metrics:
        metrics = {
            ("test", name): value for name, value in measured(self.hash_table, self.table, self.queries["test"]).items()
        }
        others = {name: (self.table, queries) for name, queries in self.queries.items() if name != "test"}
        if self.learned:
            second = draw_table(self.data, self.config.seed, holdout=True)
            others["holdout"] = (second, draw_queries(self.data, self.config.seed, second, "holdout"))
        return metrics | {(name, "recall"): recall(self.hash_table, *asked) for name, asked in others.items()}

    def _train(self, on_epoch: Callable[[int], None]) -> None:
        protocol = self.config.protocol
        numbers, gradients = flat_parameters(self.learned.values(), alignment=1)
        step = OptimizerStep(protocol, numbers, gradients)
        generator = lookup_stream(self.data, self.config.seed, "training")
        keys, values = torch.from_numpy(self.table.keys), torch.from_numpy(self.table.values)
        for epoch in range(protocol.epochs):
            rate, losses = learning_rate(protocol, epoch), []
            inputs, targets = self._new_queries(generator, values)
            for part in range(0, len(inputs), protocol.batch_size):
                rows = slice(part, part + protocol.batch_size)
                errors = (self.hash_table.answers(inputs[rows], keys, values) - targets[rows]).square().mean(-1)
                gradients.zero_()
                if errors.requires_grad:  # some weightings have no gradient
                    errors.mean().backward()  # type: ignore[no-untyped-call]
                clip_gradients(protocol, gradients)
                losses.append(errors.detach())
                step(rate)
            loss = float(torch.cat(losses).mean())
            if not (np.isfinite(loss) and numbers.isfinite().all()):
                self.diverged_epoch = epoch + 1
                return
            self.curve.append(CurvePoint(epoch + 1, self._curve_values(rate, loss)))
            on_epoch(epoch + 1)

    def _new_queries(self, generator: np.random.Generator, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return noisy queries for random items, and the values of these items."""
        items = generator.integers(self.data.items, size=self.data.queries)
        noise = generator.standard_normal((self.data.queries, self.data.dimensions))
        queries = Queries((self.table.keys[items] + self.data.noise * noise).astype(np.float32), items)
        return torch.from_numpy(queries.inputs), values[torch.from_numpy(queries.items)]

    def _curve_values(self, rate: float, loss: float) -> Metrics:
        recalls = {
            (name, "recall"): recall(self.hash_table, self.table, queries) for name, queries in self.queries.items()
        }
        return {("train", "learning_rate"): rate, ("train", "loss"): loss, **recalls}


def _max_stack(config: RunConfig, dataset: Dataset) -> int:
    """Return the number of runs that are stored together: a table that learns nothing takes some milliseconds."""
    assert isinstance(config.model, HashTableConfig)
    return 1 if config.model.is_learned else MAX_STACK


ENGINES = {"hash_table": one_by_one("hash_table", _fit, max_stack=_max_stack)}
