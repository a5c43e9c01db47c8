"""Data sets whose corners are the ones that break distance methods."""

import numpy as np

from idwbench.data.dataset import Dataset, Scaling, Split
from idwbench.runs.datasets import parse_dataset


def make_dataset(n_train=23, n_features=3, n_classes=3, *, seed=0, constant_feature=True, validation=False):
    """Return blobs with a constant feature and a training size that no batch size divides."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(n_classes, n_features)) * 2

    def split(n):
        labels = np.arange(n) % n_classes
        inputs = centres[labels] + 0.3 * generator.normal(size=(n, n_features))
        if constant_feature:
            inputs[:, -1] = 0.5
        return Split(np.ascontiguousarray(inputs, dtype=np.float32), labels.astype(np.int64))

    names = tuple("abcdefghij"[:n_classes])
    splits = {"train": split(n_train), "test": split(11), "holdout": split(50)}
    return _dataset("two_moons", **splits, validation=split(7) if validation else None, class_names=names)


def make_regression(n_train=23, n_features=3, n_targets=2):
    """Return a smooth function of the inputs, its targets scaled."""
    generator = np.random.default_rng(0)
    slopes = generator.normal(size=(n_features, n_targets))
    scaling = Scaling(np.full(n_targets, 5.0), np.full(n_targets, 3.0))

    def split(n):
        inputs = generator.normal(size=(n, n_features)).astype(np.float32)
        return Split(inputs, np.tanh(inputs @ slopes).astype(np.float32))

    splits = {"train": split(n_train), "test": split(11), "validation": split(7)}
    return _dataset("sine", **splits, holdout=None, class_names=(), target_scaling=scaling)


def _dataset(name, **parts):
    config = parse_dataset(name)
    return Dataset(config=config, scaling=Scaling.identity(), image_shape=None, sha256="0" * 64, **parts)
