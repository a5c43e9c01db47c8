"""How keys and values begin."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from idwbench.methods import Method

__all__ = ["Moments", "feature_moments", "initial_prototypes"]

Moments = tuple[NDArray[np.float64], NDArray[np.float64]]


def feature_moments(inputs: NDArray[np.float32]) -> Moments:
    """Return mean and standard deviation (n − 1) of each feature; in blocks, as float64 doubles the memory."""
    blocks = [inputs[:, start : start + 64] for start in range(0, inputs.shape[1], 64)]
    means = [block.mean(0, dtype=np.float64) for block in blocks]
    stds = [block.std(0, ddof=1, dtype=np.float64) for block in blocks]
    return np.concatenate(means), np.concatenate(stds)


def initial_prototypes(
    method: Method,
    n_prototypes: int,
    n_classes: int,
    train_mean: NDArray[np.floating],
    train_std: NDArray[np.floating],
    generator: np.random.Generator,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return initial keys (prototypes, features) and values (prototypes, classes).

    ``data``: keys ~ N(mean, (0.1 std)²) per feature, values zero. ``kaiming``: each uniform in ±√(6/columns), as
    `torch.nn.init.kaiming_uniform_` bounds a ReLU layer (the authors' code for arXiv 2310.18805).

    Args:
        method: Says which of the two it is.
        n_prototypes: Rows of both.
        n_classes: Columns of the values.
        train_mean: Mean of each feature of the training inputs, (features,).
        train_std: Their standard deviation with n − 1, (features,).
        generator: The run's; keys are drawn first.
    """
    n_features = len(train_mean)
    if method.initialisation == "data":
        keys = generator.normal(train_mean, 0.1 * train_std, size=(n_prototypes, n_features))
        values = np.zeros((n_prototypes, n_classes))
    else:
        keys = _kaiming_uniform(n_prototypes, n_features, generator)
        values = _kaiming_uniform(n_prototypes, n_classes, generator)
    return keys.astype(np.float32), values.astype(np.float32)


def _kaiming_uniform(rows: int, columns: int, generator: np.random.Generator) -> NDArray[np.float64]:
    bound = math.sqrt(6 / columns)
    return generator.uniform(-bound, bound, size=(rows, columns))
