"""How keys and values begin."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from idwbench.attention.definitions import Initialisation
from idwbench.attention.methods import get_method
from idwbench.data.dataset import Dataset
from idwbench.errors import ConfigError
from idwbench.runs.models import PrototypesConfig

__all__ = ["FeatureMoments", "feature_moments", "initial_prototypes", "initialisation_of"]

FeatureMoments = tuple[NDArray[np.float64], NDArray[np.float64]]
Prototypes = tuple[NDArray[np.floating], NDArray[np.floating]]


def feature_moments(inputs: NDArray[np.float32]) -> FeatureMoments:
    """Return mean and standard deviation (n − 1) of each feature; in blocks, as float64 doubles the memory."""
    blocks = [inputs[:, start : start + 64] for start in range(0, inputs.shape[1], 64)]
    means = [block.mean(0, dtype=np.float64) for block in blocks]
    stds = [block.std(0, ddof=1, dtype=np.float64) for block in blocks]
    return np.concatenate(means), np.concatenate(stds)


def initialisation_of(model: PrototypesConfig) -> Initialisation:
    """Return how the keys of a model begin, its method's own way where none is named."""
    return get_method(model.method).initialisation if model.initialisation == "default" else model.initialisation


def initial_prototypes(
    model: PrototypesConfig, dataset: Dataset, moments: FeatureMoments, generator: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return initial keys (prototypes, features) and values (prototypes, outputs).

    ``mean``: keys ~ N(mean, (0.1 std)²) for each feature of the training data, values zero. ``kaiming``: each uniform
    in ±√(6/columns), as `torch.nn.init.kaiming_uniform_` bounds a ReLU layer (the authors' code for arXiv 2310.18805).
    ``samples``: keys are training inputs drawn without replacement. ``kmeans``: keys are the centres of k-means
    (scikit-learn's `KMeans`, one start). Both take as many prototypes from each class as from any other but for one;
    what a small class lacks, the others give. A regression has no classes: all rows count as one. Values are those
    that a key stands for: 1 for its class, or the (mean) target.

    Args:
        model: How to begin, and how many prototypes.
        dataset: The training data.
        moments: `feature_moments` of the training inputs.
        generator: The run's; keys are drawn first.

    Raises:
        ConfigError: more prototypes than training inputs to begin at; for ``kmeans``, than distinct ones.
    """
    way = initialisation_of(model)
    keys: NDArray[np.floating]
    values: NDArray[np.floating]
    if way == "mean":
        keys = generator.normal(moments[0], 0.1 * moments[1], size=(model.prototypes, dataset.n_features))
        values = np.zeros((model.prototypes, dataset.n_outputs))
    elif way == "kaiming":
        keys = _kaiming_uniform(model.prototypes, dataset.n_features, generator)
        values = _kaiming_uniform(model.prototypes, dataset.n_outputs, generator)
    else:
        keys, values = _from_data(model.prototypes, dataset, generator, k_means=way == "kmeans")
    return keys.astype(np.float32), values.astype(np.float32)


def _kaiming_uniform(rows: int, columns: int, generator: np.random.Generator) -> NDArray[np.float64]:
    bound = math.sqrt(6 / columns)
    return generator.uniform(-bound, bound, size=(rows, columns))


def _from_data(n: int, dataset: Dataset, generator: np.random.Generator, *, k_means: bool) -> Prototypes:
    """Return keys and values from the rows of each class in turn, or from all rows of a regression."""
    train = dataset.train
    if dataset.task == "regression":
        groups, targets = [np.arange(len(train))], train.targets.astype(np.float32)
    else:
        groups = [np.flatnonzero(train.labels == label) for label in range(dataset.n_outputs)]
        targets = np.eye(dataset.n_outputs, dtype=np.float32)[train.labels]
    sizes = [_n_distinct(train.inputs[rows]) if k_means else len(rows) for rows in groups]
    if n > sum(sizes):
        which = "distinct training inputs" if k_means else "training inputs"
        raise ConfigError(f"expected at most {sum(sizes)}, the number of {which}, got {n}", location=("prototypes",))
    begin = _centres if k_means else _drawn
    parts = [
        begin(count, train.inputs[rows], targets[rows], generator)
        for count, rows in zip(_shares(n, sizes, generator), groups, strict=True)
        if count
    ]
    keys, values = zip(*parts, strict=True)
    return np.concatenate(keys), np.concatenate(values)


def _shares(n: int, sizes: Sequence[int], generator: np.random.Generator) -> list[int]:
    """Return how many of `n` prototypes each group gives: equal but for one, and never more than its size."""
    counts = [0] * len(sizes)
    for group in itertools.cycle(generator.permutation(len(sizes)).tolist()):
        if sum(counts) == n:
            return counts
        counts[group] += counts[group] < sizes[group]
    raise AssertionError("a cycle ends only by its return")


def _n_distinct(rows: NDArray[np.float32]) -> int:
    return len({row.tobytes() for row in rows})


def _drawn(
    n: int, inputs: NDArray[np.float32], targets: NDArray[np.float32], generator: np.random.Generator
) -> Prototypes:
    rows = generator.choice(len(inputs), size=n, replace=False)
    return inputs[rows], targets[rows]


def _centres(
    n: int, inputs: NDArray[np.float32], targets: NDArray[np.float32], generator: np.random.Generator
) -> Prototypes:
    from sklearn.cluster import KMeans  # a second of import that other ways do not pay

    clusters = KMeans(n, n_init=1, random_state=int(generator.integers(2**31))).fit(inputs)
    means = [targets[clusters.labels_ == label].mean(0, dtype=np.float64) for label in range(n)]
    return clusters.cluster_centers_, np.stack(means)
