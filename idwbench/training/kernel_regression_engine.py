"""The engine of kernel regression: predictions from the training data, without training."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from idwbench.data.dataset import Dataset
from idwbench.models.kernel_regression import KernelRegression, training_values
from idwbench.runs.config import RunConfig
from idwbench.runs.kinds.kernel_regression import KernelRegressionConfig
from idwbench.runs.results import RunResult
from idwbench.training.engine import AbstractEngine

__all__ = ["KernelRegressionEngine"]

_STACK_NUMBERS = 2**23
_MAX_STACK = 20


class KernelRegressionEngine(AbstractEngine):
    """Evaluates the runs of kind ``kernel_regression``, one after the other."""

    name = "kernel_regression"

    def max_stack(self, config: RunConfig, dataset: Dataset) -> int:
        """Return the number of runs that are stored together, some tenths of a second of work."""
        numbers = len(dataset.train) ** 2 * dataset.n_features
        return max(1, min(_MAX_STACK, _STACK_NUMBERS // numbers))

    def train(
        self, configs: Sequence[RunConfig], dataset: Dataset, on_epoch: Callable[[int], None] = lambda epoch: None
    ) -> list[RunResult]:
        """Evaluate runs and return their results in order; kernel regression has no epochs and no curve.

        Raises:
            ConfigError: a rule finds no bandwidth, since all training inputs are equal.
        """
        return [_evaluated(config, dataset) for config in configs]


def _evaluated(config: RunConfig, dataset: Dataset) -> RunResult:
    started = time.perf_counter()
    model = config.model
    assert isinstance(model, KernelRegressionConfig)
    values = training_values(dataset)
    memory = KernelRegression.of(model.kernel, model.parameters, dataset.train.inputs, values)
    # The prediction without neighbours: class frequencies, or the mean target.
    mean = values.mean(0, dtype=np.float64).astype(np.float32)
    metrics: dict[tuple[str, str], float] = {}
    chosen = [name for name, value in model.parameters.items() if isinstance(value, str)]
    shown = [name for name in memory.parameters if name in (*chosen, "bandwidth")]
    metrics |= {("train", name): memory.parameters[name] for name in shown}
    for name, split in dataset.splits.items():
        outputs = memory.predict(split.inputs)
        missing = np.isnan(outputs[:, 0])
        outputs[missing] = mean
        metrics |= dataset.metrics(name, outputs)
        metrics[name, "queries_without_neighbours"] = float(missing.sum())
    return RunResult(
        config=config,
        state="complete",
        curve=(),
        metrics=metrics,
        arrays={},
        n_parameters=len(chosen),
        diverged_epoch=None,
        seconds=time.perf_counter() - started,
        engine=KernelRegressionEngine.name,
        device="cpu",
        threads=1,
    )
