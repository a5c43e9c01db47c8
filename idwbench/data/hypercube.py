"""Hypercube: classes of Gaussian clusters at the vertices of a hypercube, with features that say nothing."""

from pathlib import Path

import numpy as np

from idwbench.data.preparation import RawData
from idwbench.data.shipped import cut_sample
from idwbench.runs.datasets import HypercubeConfig

__all__ = ["load_hypercube"]


def load_hypercube(config: HypercubeConfig, folder: Path) -> RawData:
    """Return samples of ``sklearn.datasets.make_classification`` with two clusters in each class; standardised."""
    from sklearn.datasets import make_classification

    sizes = (config.train_size, config.test_size, config.holdout_size)
    inputs, labels = make_classification(
        sum(sizes),
        n_features=config.features,
        n_informative=config.informative,
        n_redundant=0,
        n_classes=config.classes,
        flip_y=config.flipped,
        random_state=np.random.RandomState(config.seed),
    )
    # The vertices of the classes belong to the sample.
    return cut_sample(inputs, labels, sizes, tuple(map(str, range(config.classes))), "features")
