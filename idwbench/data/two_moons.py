"""Two Moons: two interleaved half circles, drawn as the authors' code draws them."""

from __future__ import annotations

import numpy as np

from idwbench.config import TwoMoonsConfig
from idwbench.data.dataset import Dataset, Scaling, Split, array_sha256

__all__ = ["load_two_moons"]

HOLDOUT_STREAM = 1


def load_two_moons(config: TwoMoonsConfig) -> Dataset:
    """Return train and test drawn in this order from one generator, and a holdout from a stream of its own.

    The points keep their own units. The holdout is the same whatever the sizes of train and test are.
    """
    random = np.random.RandomState(config.seed)
    train = _draw(config.train_per_class, config.noise, random)
    test = _draw(config.test_per_class, config.noise, random)
    holdout = None
    if config.holdout_per_class:
        holdout = _draw(config.holdout_per_class, config.noise, _holdout_random(config.seed))
    splits = [split for split in (train, test, holdout) if split is not None]
    return Dataset(
        config=config,
        train=train,
        test=test,
        holdout=holdout,
        scaling=Scaling.identity(),
        image_shape=None,
        class_names=("upper", "lower"),
        sha256=array_sha256(*(array for split in splits for array in (split.inputs, split.labels))),
    )


def _holdout_random(seed: int) -> np.random.RandomState:
    sequence = np.random.SeedSequence(seed, spawn_key=(HOLDOUT_STREAM,))
    return np.random.RandomState(np.random.MT19937(sequence))


def _draw(per_class: int, noise: float, random: np.random.RandomState) -> Split:
    from sklearn.datasets import make_moons

    points, labels = make_moons((per_class, per_class), shuffle=False, noise=noise, random_state=random)
    return Split(np.ascontiguousarray(points, np.float32), np.ascontiguousarray(labels, np.int64))
