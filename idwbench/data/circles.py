"""Circles: a circle inside another."""

from pathlib import Path

import numpy as np

from idwbench.data.preparation import RawData, RawSplit, draw_splits
from idwbench.runs.datasets import CirclesConfig

__all__ = ["load_circles"]


def load_circles(config: CirclesConfig, folder: Path) -> RawData:
    """Return points of ``sklearn.datasets.make_circles``, which are not scaled."""

    def draw(size: int, noise: float, random: np.random.RandomState) -> RawSplit:
        from sklearn.datasets import make_circles

        return RawSplit(*make_circles(size, noise=noise, factor=config.factor, random_state=random))

    sizes = (config.train_size, config.test_size, config.holdout_size)
    splits = draw_splits(draw, sizes, config.seed, config.noise, holdout_noise=config.noise)
    return RawData(*splits, class_names=("outer", "inner"))
