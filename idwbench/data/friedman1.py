"""Friedman 1: ten features, of which five matter (Friedman 1991, Multivariate adaptive regression splines)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from idwbench.data.preparation import RawData, RawSplit
from idwbench.data.splits import HOLDOUT_STREAM, random_stream
from idwbench.runs.datasets import Friedman1Config

__all__ = ["load_friedman1"]


def load_friedman1(config: Friedman1Config, folder: Path) -> RawData:
    """Return samples of ``sklearn.datasets.make_friedman1``, train and test from one generator; inputs standardised.

    y = 10 sin(π x₁ x₂) + 20 (x₃ − ½)² + 10 x₄ + 5 x₅ + noise · N(0, 1). The holdout comes from a separate generator
    and has no noise, so its error is the distance to the true function.
    """
    random = np.random.RandomState(config.seed)
    train = _draw(config.train_size, config.noise, random)
    test = _draw(config.test_size, config.noise, random)
    holdout = None
    if config.holdout_size:
        holdout = _draw(config.holdout_size, 0.0, random_stream(config.seed, HOLDOUT_STREAM))
    return RawData(train, test, holdout, scaling="features")


def _draw(size: int, noise: float, random: np.random.RandomState) -> RawSplit:
    from sklearn.datasets import make_friedman1

    inputs, targets = make_friedman1(size, n_features=10, noise=noise, random_state=random)
    return RawSplit(inputs, targets[:, np.newaxis])
