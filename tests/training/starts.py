"""Runs that start from random values; without torch, so that an interpreter of its own starts quickly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from blob_data import make_dataset, make_regression

from idwbench.attention.scores import METHODS
from idwbench.runs.config import run_config


def random_prototypes(model, dataset, moments, generator):
    """Stand in for `initial_prototypes`, with values that are not zero.

    With values of zero the first gradients of keys would be rounding errors alone, which Adam scales to the size of its
    step, so that no two programs need agree.
    """
    keys = moments[0] + moments[1] * generator.normal(size=(model.prototypes, dataset.n_features))
    return keys.astype(np.float32), generator.normal(size=(model.prototypes, dataset.n_outputs)).astype(np.float32)


def small_runs():
    """Yield every method, and a regression with some options, on a handful of points."""
    settings = {"prototypes": 3, "epochs": 1, "batch_size": 5, "learning_rate": 0.01}
    blobs, wide = replace(make_dataset(6), holdout=None), make_regression(9, 17, 1)
    for method in METHODS:
        yield run_config(blobs.config, method=method, **settings), blobs
    options = {"optimizer": "sgd", "momentum": 0.5, "weight_decay": 0.1, "gradient_clip": 0.1}
    yield run_config(wide.config, method="idw", **settings, **options), wide
    yield run_config(wide.config, method="cosine", **settings, optimizer="adam", gradient_clip=0.1), wide
