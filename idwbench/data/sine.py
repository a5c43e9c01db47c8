"""Sine: a noisy sine of one variable, the smallest regression."""

from pathlib import Path

import numpy as np

from idwbench.data.preparation import RawData, RawSplit, draw_splits
from idwbench.runs.datasets import SineConfig

__all__ = ["load_sine"]


def load_sine(config: SineConfig, folder: Path) -> RawData:
    """Return x uniform in [−π, π] and y = sin x + noise · N(0, 1); the holdout has no noise."""
    sizes = (config.train_size, config.test_size, config.holdout_size)
    return RawData(*draw_splits(_draw, sizes, config.seed, config.noise, holdout_noise=0.0))


def _draw(size: int, noise: float, random: np.random.RandomState) -> RawSplit:
    inputs = random.uniform(-np.pi, np.pi, (size, 1))
    return RawSplit(inputs, np.sin(inputs) + noise * random.normal(size=(size, 1)))
