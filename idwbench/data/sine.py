"""Sine: a noisy sine of one variable, the smallest regression."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from idwbench.data.preparation import RawData, RawSplit
from idwbench.data.splits import HOLDOUT_STREAM, random_stream
from idwbench.runs.datasets import SineConfig

__all__ = ["load_sine"]


def load_sine(config: SineConfig, folder: Path) -> RawData:
    """Return x uniform in [−π, π] and y = sin x + noise · N(0, 1), train and test from one generator.

    The holdout comes from a separate generator and has no noise, so its error is the distance to the true function.
    """
    random = np.random.RandomState(config.seed)
    train = _draw(config.train_size, config.noise, random)
    test = _draw(config.test_size, config.noise, random)
    holdout = None
    if config.holdout_size:
        holdout = _draw(config.holdout_size, 0.0, random_stream(config.seed, HOLDOUT_STREAM))
    return RawData(train, test, holdout)


def _draw(size: int, noise: float, random: np.random.RandomState) -> RawSplit:
    inputs = random.uniform(-np.pi, np.pi, (size, 1))
    return RawSplit(inputs, np.sin(inputs) + noise * random.normal(size=(size, 1)))
