"""Two Moons: two interleaved half circles, as in the authors' code."""

from pathlib import Path

import numpy as np

from idwbench.data.preparation import RawData, RawSplit, draw_splits
from idwbench.runs.datasets import TwoMoonsConfig

__all__ = ["load_two_moons"]


def load_two_moons(config: TwoMoonsConfig, folder: Path) -> RawData:
    """Return points that are not scaled."""
    sizes = (config.train_per_class, config.test_per_class, config.holdout_per_class)
    splits = draw_splits(_draw, sizes, config.seed, config.noise, holdout_noise=config.noise)
    return RawData(*splits, class_names=("upper", "lower"))


def _draw(per_class: int, noise: float, random: np.random.RandomState) -> RawSplit:
    """Return the points of ``sklearn.datasets.make_moons``, not shuffled, without importing scikit-learn."""
    angles = np.linspace(0, np.pi, per_class)
    upper = np.column_stack([np.cos(angles), np.sin(angles)])
    lower = np.column_stack([1 - np.cos(angles), 1 - np.sin(angles) - 0.5])
    points = np.concatenate([upper, lower])
    points += random.normal(scale=noise, size=points.shape)
    return RawSplit(points, np.repeat([0, 1], per_class))
