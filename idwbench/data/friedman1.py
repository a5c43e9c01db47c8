"""Friedman 1: ten features, five of them relevant (Friedman 1991, Multivariate adaptive regression splines)."""

from pathlib import Path

import numpy as np

from idwbench.data.preparation import RawData, RawSplit, draw_splits
from idwbench.runs.datasets import Friedman1Config

__all__ = ["load_friedman1"]


def load_friedman1(config: Friedman1Config, folder: Path) -> RawData:
    """Return samples of ``sklearn.datasets.make_friedman1``; inputs are standardised, and the holdout has no noise.

    y = 10 sin(π x₁ x₂) + 20 (x₃ − ½)² + 10 x₄ + 5 x₅ + noise · N(0, 1).
    """
    sizes = (config.train_size, config.test_size, config.holdout_size)
    return RawData(*draw_splits(_draw, sizes, config.seed, config.noise, holdout_noise=0.0), scaling="features")


def _draw(size: int, noise: float, random: np.random.RandomState) -> RawSplit:
    from sklearn.datasets import make_friedman1

    inputs, targets = make_friedman1(size, n_features=10, noise=noise, random_state=random)
    return RawSplit(inputs, targets[:, np.newaxis])
