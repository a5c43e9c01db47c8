"""Blobs: one Gaussian for each class, around centres that are drawn too."""

from pathlib import Path

import numpy as np

from idwbench.data.preparation import RawData, RawSplit, draw_splits
from idwbench.runs.datasets import BlobsConfig

__all__ = ["load_blobs"]


def load_blobs(config: BlobsConfig, folder: Path) -> RawData:
    """Return points of ``sklearn.datasets.make_blobs`` around centres that are uniform in [−10, 10]; standardised."""
    centres = np.random.RandomState(config.seed).uniform(-10, 10, (config.classes, config.features))

    def draw(size: int, noise: float, random: np.random.RandomState) -> RawSplit:
        from sklearn.datasets import make_blobs

        inputs, labels, *_ = make_blobs(size, centers=centres, cluster_std=noise, random_state=random)
        return RawSplit(inputs, labels)

    sizes = (config.train_size, config.test_size, config.holdout_size)
    splits = draw_splits(draw, sizes, config.seed, config.spread, holdout_noise=config.spread)
    return RawData(*splits, class_names=tuple(map(str, range(config.classes))), scaling="features")
