"""The data and runs that are measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from idwbench.data.dataset import Dataset, Scaling, Split
from idwbench.data.loading import load_dataset
from idwbench.errors import DatasetError
from idwbench.runs.config import RunConfig, run_config
from idwbench.runs.datasets import TwoMoonsConfig, parse_dataset

__all__ = ["METHODS", "blobs", "cut", "mnist", "run"]

METHODS = ("idw", "fc_relu", "scaled_dot", "neg_dist", "gaussian", "inv_dist")


def blobs(n_train: int, n_features: int, n_classes: int = 10, n_test: int = 1000) -> Dataset:
    """Return Gaussian blobs of any shape."""
    generator = np.random.default_rng(0)
    centres = generator.normal(size=(n_classes, n_features))

    def split(n: int) -> Split:
        labels = np.arange(n) % n_classes
        inputs = centres[labels] + generator.normal(size=(n, n_features))
        return Split(inputs.astype(np.float32), labels)

    names = tuple(map(str, range(n_classes)))
    return Dataset(
        config=TwoMoonsConfig(),
        train=split(n_train),
        test=split(n_test),
        holdout=None,
        scaling=Scaling.identity(),
        image_shape=None,
        class_names=names,
        sha256="",
    )


def mnist() -> tuple[Dataset, str]:
    """Return MNIST, or blobs of its shape if the archives are not at hand, and which of the two it is."""
    try:
        return load_dataset(parse_dataset("mnist")), "MNIST"
    except DatasetError:
        return blobs(60_000, 784, n_test=10_000), "random data of MNIST's shape (no archives found)"


def cut(dataset: Dataset, n_train: int) -> Dataset:
    """Return the data set with its first training inputs only, and one input to test."""
    return replace(dataset, train=_first(dataset.train, n_train), test=_first(dataset.test, 1))


def _first(split: Split, n: int) -> Split:
    return Split(split.inputs[:n], split.targets[:n])


def run(dataset: Dataset, method: str = "idw", prototypes: int = 20, seed: int = 0, **protocol: float) -> RunConfig:
    """Return a run by the paper's MNIST protocol, with changes."""
    paper = {"epochs": 50, "batch_size": 4, "learning_rate": 0.001}
    return run_config(dataset.config, method=method, prototypes=prototypes, seed=seed, **{**paper, **protocol})
