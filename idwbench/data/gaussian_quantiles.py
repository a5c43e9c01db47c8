"""Gaussian quantiles: normal points, with classes of equal size by the distance to the origin."""

from pathlib import Path

import numpy as np

from idwbench.data.dataset import Scaling
from idwbench.data.preparation import RawData
from idwbench.data.shipped import cut_sample
from idwbench.runs.datasets import GaussianQuantilesConfig

__all__ = ["load_gaussian_quantiles"]


def load_gaussian_quantiles(config: GaussianQuantilesConfig, folder: Path) -> RawData:
    """Return points of ``sklearn.datasets.make_gaussian_quantiles``, which are not scaled."""
    from sklearn.datasets import make_gaussian_quantiles

    sizes = (config.train_size, config.test_size, config.holdout_size)
    inputs, labels = make_gaussian_quantiles(
        n_samples=sum(sizes),
        n_features=config.features,
        n_classes=config.classes,
        random_state=np.random.RandomState(config.seed),
    )
    # The bounds between the classes are quantiles of the whole sample.
    return cut_sample(inputs, labels, sizes, tuple(map(str, range(config.classes))), Scaling.identity())
