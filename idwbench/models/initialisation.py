"""Initialisation of keys and values."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.attention.records import Initialisation, Method
from idwbench.attention.scores import get_method
from idwbench.attention.slopes import SLOPE_ARRAYS
from idwbench.data.dataset import FeatureMoments, TrainingData
from idwbench.errors import ConfigError
from idwbench.models.kernel_regression import training_values
from idwbench.runs.kinds.baseline import BaselineConfig
from idwbench.runs.kinds.network import NetworkConfig
from idwbench.runs.kinds.prototypes import PrototypesConfig

__all__ = [
    "baseline_prototypes",
    "check_prototypes",
    "initial_prototypes",
    "initial_slopes",
    "key_bounds",
    "learned_arrays",
]

Prototypes = tuple[NDArray[np.float32], NDArray[np.float32]]


def _way(model: PrototypesConfig | NetworkConfig) -> Initialisation:
    """Return the initialisation of a model, or of the head of a network, by default that of its method."""
    if model.initialisation != "default":
        return model.initialisation
    return get_method(model.head if isinstance(model, NetworkConfig) else model.method).initialisation


def check_prototypes(model: PrototypesConfig | NetworkConfig | BaselineConfig, dataset: TrainingData) -> None:
    """Check, without drawing anything, that the data has enough training inputs for the prototypes.

    Raises:
        ConfigError: ``samples``: more prototypes than training inputs; ``kmeans``: than distinct ones. Slopes of a rank
            above the number of features.
    """
    if isinstance(model, PrototypesConfig) and model.slope_rank > dataset.n_features:
        problem = f"expected at most {dataset.n_features}, the number of features, got {model.slope_rank}"
        raise ConfigError(problem, location=("slope_rank",))
    if isinstance(model, BaselineConfig):
        by_class = model.method == "kmeans_per_class"
        _sizes(model.prototypes, dataset, k_means=model.method != "samples", by_class=by_class)
    elif (way := _way(model)) in ("samples", "kmeans"):
        _sizes(model.prototypes, dataset, k_means=way == "kmeans")


def initial_prototypes(
    model: PrototypesConfig | NetworkConfig,
    dataset: TrainingData,
    moments: FeatureMoments,
    generator: np.random.Generator,
) -> Prototypes:
    """Return initial keys (prototypes, features) and values (prototypes, outputs).

    ``mean``: keys ~ N(mean, (0.1 std)²) for each feature of the training data, values zero. ``kaiming``: both uniform
    in ±√(6/columns), as `torch.nn.init.kaiming_uniform_` for a ReLU layer (the authors' code for arXiv 2310.18805).
    ``samples``: keys are training inputs drawn without replacement. ``kmeans``: keys are the centres of k-means
    (scikit-learn's `KMeans`, one start). Both divide the prototypes equally among the classes, as far as these are
    large enough; a regression counts as one class. Values are 1 for the class of the key, or the (mean) target.
    The setting `initial_values` of prototypes replaces the values by zeros, or by random ones as those of ``kaiming``.

    Weights of the training rows are those of ``mean`` and of ``kmeans``, and the odds with which ``samples`` are drawn.

    Args:
        model: Initialisation and number of prototypes.
        dataset: The training data; for the head of a network, the features of its encoder.
        moments: `feature_moments` of the training inputs.
        generator: The generator of the run; keys are drawn first.

    Raises:
        ConfigError: more prototypes than training inputs; for ``kmeans``, than distinct ones, or than clusters that
            k-means can separate.
    """
    way = _way(model)
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
    if isinstance(model, PrototypesConfig) and model.initial_values != "default":
        is_random = model.initial_values == "random"
        values = (
            _kaiming_uniform(model.prototypes, dataset.n_outputs, generator) if is_random else np.zeros_like(values)
        )
    return keys.astype(np.float32), values.astype(np.float32)


def key_bounds(model: PrototypesConfig, dataset: TrainingData) -> Prototypes | None:
    """Return the least and the greatest training input by feature, (features,) each; None if keys have no bounds."""
    inputs = dataset.train.inputs
    return (inputs.min(0), inputs.max(0)) if model.key_bounds == "data" else None


def learned_arrays(
    method: Method, parameters: Mapping[str, Any], n_features: int, generator: np.random.Generator
) -> dict[str, NDArray[np.float32]]:
    """Return initial arrays of a score, uniform in ±√(3/columns): a product with one has the variance of its input."""
    shapes = {one.name: one.shape(n_features, parameters) for one in method.learned}
    bounds = {name: math.sqrt(3 / shape[-1]) for name, shape in shapes.items()}
    return {
        name: generator.uniform(-bounds[name], bounds[name], shape).astype(np.float32) for name, shape in shapes.items()
    }


def initial_slopes(
    model: PrototypesConfig, dataset: TrainingData, generator: np.random.Generator
) -> dict[str, NDArray[np.float32]]:
    """Return the initial `SLOPE_ARRAYS` by name, drawn after keys and values; none without slopes.

    U is zero, so that a training begins at values without a slope; W is uniform in ±√(3/features).
    """
    if not model.slope_rank:
        return {}
    bound, prototypes = math.sqrt(3 / dataset.n_features), (model.slope_rank, model.prototypes)
    inputs = generator.uniform(-bound, bound, (*prototypes, dataset.n_features)).astype(np.float32)
    return dict(zip(SLOPE_ARRAYS, (inputs, np.zeros((*prototypes, dataset.n_outputs), np.float32)), strict=True))


def baseline_prototypes(model: BaselineConfig, dataset: TrainingData, seed: int) -> Prototypes:
    """Return keys and values of a baseline, from all training inputs whatever their class, or class by class.

    Raises:
        ConfigError: as `initial_prototypes`.
    """
    check_prototypes(model, dataset)
    if model.method == "kmeans_per_class":
        return _from_data(model.prototypes, dataset, np.random.default_rng(seed), k_means=True)
    inputs, targets = dataset.train.inputs, training_values(dataset)
    if model.method == "kmeans":
        return _centres(model.prototypes, inputs, targets, seed)
    return _drawn(model.prototypes, inputs, targets, np.random.default_rng(seed))


def _kaiming_uniform(rows: int, columns: int, generator: np.random.Generator) -> NDArray[np.float64]:
    bound = math.sqrt(6 / columns)
    return generator.uniform(-bound, bound, size=(rows, columns))


def _from_data(n: int, dataset: TrainingData, generator: np.random.Generator, *, k_means: bool) -> Prototypes:
    """Return keys and values from the rows of each class in turn, or from all rows of a regression."""
    inputs, targets = dataset.train.inputs, training_values(dataset)
    sizes = _sizes(n, dataset, k_means=k_means)
    which = "" if dataset.task == "regression" else " of one class"
    weights = dataset.train.weights
    parts = [
        _centres(count, inputs[rows], targets[rows], int(generator.integers(2**31)), which, _chosen(weights, rows))
        if k_means
        else _drawn(count, inputs[rows], targets[rows], generator, _chosen(weights, rows))
        for count, rows in zip(_shares(n, sizes, generator), dataset.groups, strict=True)
        if count
    ]
    keys, values = zip(*parts, strict=True)
    return np.concatenate(keys), np.concatenate(values)


def _chosen(weights: NDArray[np.floating] | None, rows: NDArray[np.int64]) -> NDArray[np.float64] | None:
    return None if weights is None else weights[rows].astype(np.float64)


def _sizes(n: int, dataset: TrainingData, *, k_means: bool, by_class: bool = True) -> list[int]:
    """Return how many prototypes each class can give, or all inputs together; an error if that is fewer than `n`."""
    if by_class:
        sizes = dataset.n_distinct_by_group if k_means else [len(rows) for rows in dataset.groups]
    else:
        sizes = [dataset.n_distinct if k_means else len(dataset.train)]
    if n > sum(sizes):
        which = "distinct training inputs" if k_means else "training inputs"
        problem = f"expected at most {sum(sizes)}, the number of {which}, got {n}"
        raise ConfigError(problem, location=("prototypes",), hint="initialisation: mean needs no rows")
    return sizes


def _shares(n: int, sizes: Sequence[int], generator: np.random.Generator) -> list[int]:
    """Divide `n` prototypes equally among the groups, at most its size for each."""
    counts = [0] * len(sizes)
    for group in itertools.cycle(generator.permutation(len(sizes)).tolist()):
        if sum(counts) == n:
            return counts
        counts[group] += counts[group] < sizes[group]
    raise AssertionError("a cycle ends only by its return")


def _drawn(
    n: int,
    inputs: NDArray[np.float32],
    targets: NDArray[np.float32],
    generator: np.random.Generator,
    weights: NDArray[np.float64] | None = None,
) -> Prototypes:
    odds = None if weights is None else weights / weights.sum()
    rows = generator.choice(len(inputs), size=n, replace=False, p=odds)
    return inputs[rows], targets[rows]


def _centres(
    n: int,
    inputs: NDArray[np.float32],
    targets: NDArray[np.float32],
    random_state: int,
    which: str = "",
    weights: NDArray[np.float64] | None = None,
) -> Prototypes:
    """Return the centres of `n` clusters and their mean targets; an error adds `which` to the number of clusters."""
    from sklearn.cluster import KMeans  # its import takes a second
    from threadpoolctl import threadpool_limits

    # Sums split over threads differ in the last bits, and a limit set outside holds for another thread's OpenMP.
    with threadpool_limits(1, user_api="openmp"):
        clusters = KMeans(n, n_init=1, random_state=random_state).fit(inputs, sample_weight=weights)
    if (n_found := len(np.unique(clusters.labels_))) < n:  # float32 cannot tell some inputs apart
        problem = f"expected at most {n_found}{which}, the number of clusters that k-means can separate, got {n}"
        raise ConfigError(problem, location=("prototypes",))
    members = [np.flatnonzero(clusters.labels_ == label) for label in range(n)]
    means = [np.average(targets[rows].astype(np.float64), axis=0, weights=_chosen(weights, rows)) for rows in members]
    return clusters.cluster_centers_.astype(np.float32), np.stack(means).astype(np.float32)
