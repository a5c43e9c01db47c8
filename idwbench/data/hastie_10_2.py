"""Hastie 10.2: ten normal features, and whether the sum of their squares is above its median."""

from pathlib import Path

import numpy as np

from idwbench.data.preparation import RawData, RawSplit, draw_splits
from idwbench.runs.datasets import Hastie102Config

__all__ = ["load_hastie_10_2"]


def load_hastie_10_2(config: Hastie102Config, folder: Path) -> RawData:
    """Return samples of ``sklearn.datasets.make_hastie_10_2``, not scaled; the class ``outer`` has Σ x² > 9.34."""
    sizes = (config.train_size, config.test_size, config.holdout_size)
    return RawData(*draw_splits(_draw, sizes, config.seed, 0.0, holdout_noise=0.0), class_names=("inner", "outer"))


def _draw(size: int, noise: float, random: np.random.RandomState) -> RawSplit:
    from sklearn.datasets import make_hastie_10_2

    inputs, signs = make_hastie_10_2(size, random_state=random)
    return RawSplit(inputs, (signs > 0).astype(np.int64))
