"""The engine of baselines: prototypes from k-means, or random training inputs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset
from idwbench.errors import ConfigError
from idwbench.models.initialisation import check_prototypes
from idwbench.models.quality import nearest
from idwbench.runs.config import RunConfig
from idwbench.runs.models import BaselineConfig
from idwbench.runs.results import RunResult
from idwbench.training.engine import AbstractEngine

__all__ = ["BaselineEngine"]

_STACK_NUMBERS = 2**17
_MAX_STACK = 20


class BaselineEngine(AbstractEngine):
    """Fits the runs of kind ``baseline``, one after the other."""

    name = "baseline"

    def max_stack(self, config: RunConfig, dataset: Dataset) -> int:
        """Return the number of runs that are stored together, some tenths of a second of work."""
        numbers = len(dataset.train) * dataset.n_features * config.model.prototypes
        return max(1, min(_MAX_STACK, _STACK_NUMBERS // numbers))

    def train(
        self, configs: Sequence[RunConfig], dataset: Dataset, on_epoch: Callable[[int], None] = lambda epoch: None
    ) -> list[RunResult]:
        """Fit runs and return their results in order; a baseline has no epochs and no curve.

        Raises:
            ConfigError: more prototypes than training inputs; for ``kmeans``, than distinct ones.
        """
        return [_fitted(config, dataset) for config in configs]


def _fitted(config: RunConfig, dataset: Dataset) -> RunResult:
    started = time.perf_counter()
    model = config.model
    assert isinstance(model, BaselineConfig)
    check_prototypes(model, dataset)
    fit = _centres if model.method == "kmeans" else _samples
    keys, values = fit(model.prototypes, dataset, config.seed)
    metrics: dict[tuple[str, str], float] = {}
    for name, split in dataset.splits.items():
        metrics |= dataset.metrics(name, values[nearest(split.inputs, keys)[0]])
    return RunResult(
        config=config,
        state="complete",
        curve=(),
        metrics=metrics,
        arrays={"keys": keys, "values": values},
        n_parameters=keys.size + values.size,
        diverged_epoch=None,
        seconds=time.perf_counter() - started,
        engine=BaselineEngine.name,
        device="cpu",
        threads=1,
    )


def _targets(dataset: Dataset) -> NDArray[np.floating]:
    """Return one-hot labels, or scaled targets (n, outputs)."""
    if dataset.task == "regression":
        return dataset.train.targets.astype(np.float32)
    return np.eye(dataset.n_outputs, dtype=np.float32)[dataset.train.labels]


def _samples(n: int, dataset: Dataset, seed: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    rows = np.random.default_rng(seed).choice(len(dataset.train), size=n, replace=False)
    return dataset.train.inputs[rows], _targets(dataset)[rows].astype(np.float32)


def _centres(n: int, dataset: Dataset, seed: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    from sklearn.cluster import KMeans  # its import takes a second
    from threadpoolctl import threadpool_limits

    # Sums split over threads differ in the last bits, and a limit set outside holds for another thread's OpenMP.
    with threadpool_limits(1, user_api="openmp"):
        clusters = KMeans(n, n_init="auto", random_state=seed).fit(dataset.train.inputs)
    if (n_found := len(np.unique(clusters.labels_))) < n:  # float32 cannot tell some inputs apart
        problem = f"expected at most {n_found}, the number of clusters that k-means can separate, got {n}"
        raise ConfigError(problem, location=("prototypes",))
    targets = _targets(dataset)
    values = [targets[clusters.labels_ == label].mean(0, dtype=np.float64) for label in range(n)]
    return clusters.cluster_centers_.astype(np.float32), np.stack(values).astype(np.float32)
