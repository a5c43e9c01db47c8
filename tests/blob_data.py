"""A data set whose corners are the ones that break distance methods."""

from __future__ import annotations

import numpy as np

from idwbench.config import parse_dataset
from idwbench.data.dataset import Dataset, Scaling, Split


def make_dataset(
    n_train: int = 23, n_features: int = 3, n_classes: int = 3, *, seed: int = 0, constant_feature: bool = True
) -> Dataset:
    """Return blobs with a constant feature and a training size that no batch size divides."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(n_classes, n_features)) * 2

    def split(n: int) -> Split:
        labels = np.arange(n) % n_classes
        inputs = centres[labels] + 0.3 * generator.normal(size=(n, n_features))
        if constant_feature:
            inputs[:, -1] = 0.5
        return Split(np.ascontiguousarray(inputs, dtype=np.float32), labels.astype(np.int64))

    return Dataset(
        config=parse_dataset("two_moons"),
        train=split(n_train),
        test=split(11),
        holdout=split(50),
        scaling=Scaling.identity(),
        image_shape=None,
        class_names=tuple("abcdefghij"[:n_classes]),
        sha256="0" * 64,
    )
