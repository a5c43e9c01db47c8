"""The engine of baselines: prototypes from k-means, or random training inputs."""

from __future__ import annotations

import time

from idwbench.data.dataset import Dataset
from idwbench.models.initialisation import baseline_prototypes, check_baseline
from idwbench.models.neighbours import nearest_index
from idwbench.runs.config import RunConfig
from idwbench.runs.kinds.baseline import BaselineConfig
from idwbench.runs.results import RunResult
from idwbench.training.engine import SingleRunEngine

__all__ = ["BaselineEngine"]


class BaselineEngine(SingleRunEngine):
    """Fits the runs of kind ``baseline``."""

    name = "baseline"

    @classmethod
    def check(cls, config: RunConfig, dataset: Dataset) -> None:
        """Raise `ConfigError` if there are too few training inputs for the prototypes."""
        assert isinstance(config.model, BaselineConfig)
        check_baseline(config.model, dataset)

    def train_one(self, config: RunConfig, dataset: Dataset) -> RunResult:
        """Fit one baseline.

        Raises:
            ConfigError: more prototypes than training inputs; for ``kmeans``, than distinct ones, or than clusters that
                k-means can separate.
        """
        started = time.perf_counter()
        model = config.model
        assert isinstance(model, BaselineConfig)
        keys, values = baseline_prototypes(model, dataset, config.seed)
        metrics: dict[tuple[str, str], float] = {}
        for name, split in dataset.splits.items():
            metrics |= dataset.metrics(name, values[nearest_index(split.inputs, keys)])
        return RunResult(
            config=config,
            state="complete",
            curve=(),
            metrics=metrics,
            arrays={"keys": keys, "values": values},
            n_parameters=keys.size + values.size,
            diverged_epoch=None,
            seconds=time.perf_counter() - started,
            engine=self.name,
            device="cpu",
            threads=1,
        )
