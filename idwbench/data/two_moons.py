"""Two Moons: two interleaved half circles, drawn as the authors' code draws them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from idwbench.data.preparation import RawData, RawSplit
from idwbench.data.splits import HOLDOUT_STREAM, random_stream
from idwbench.runs.datasets import TwoMoonsConfig

__all__ = ["load_two_moons"]


def load_two_moons(config: TwoMoonsConfig, folder: Path) -> RawData:
    """Return train and test drawn in this order from one generator, and a holdout from a separate one.

    The points keep their own units. The holdout is the same whatever the sizes of train and test are.
    """
    random = np.random.RandomState(config.seed)
    train = _draw(config.train_per_class, config.noise, random)
    test = _draw(config.test_per_class, config.noise, random)
    holdout = None
    if config.holdout_per_class:
        holdout = _draw(config.holdout_per_class, config.noise, random_stream(config.seed, HOLDOUT_STREAM))
    return RawData(train, test, holdout, class_names=("upper", "lower"))


def _draw(per_class: int, noise: float, random: np.random.RandomState) -> RawSplit:
    """Return the points of ``sklearn.datasets.make_moons``, not shuffled, without importing scikit-learn."""
    angles = np.linspace(0, np.pi, per_class)
    upper = np.column_stack([np.cos(angles), np.sin(angles)])
    lower = np.column_stack([1 - np.cos(angles), 1 - np.sin(angles) - 0.5])
    points = np.concatenate([upper, lower])
    points += random.normal(scale=noise, size=points.shape)
    return RawSplit(points, np.repeat([0, 1], per_class))
