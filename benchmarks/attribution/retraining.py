"""Networks trained on parts of the training data, as idwbench trains runs of kind ``mlp``."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from benchmarks.attribution.sizes import Size
from idwbench.data.dataset import Dataset
from idwbench.models.perceptron import MultilayerPerceptron, initial_mlp
from idwbench.runs.config import RunConfig, run_config
from idwbench.training.module_training import ModuleTraining, shuffled_batches

__all__ = ["configuration", "logits_of_retrained", "retrained", "training"]

Part = tuple[NDArray[np.int64], int]


def configuration(dataset: Dataset, size: Size, seed: int = 0, **settings: Any) -> RunConfig:
    """Return the run whose training is recorded, and by whose protocol the others are trained."""
    return run_config(
        dataset.config,
        kind="mlp",
        seed=seed,
        width=size.width,
        depth=size.depth,
        epochs=size.epochs,
        batch_size=size.batch_size,
        learning_rate=size.learning_rate,
        optimizer="sgd",
        schedule="constant",
        momentum=0.9,
        gradient_clip=1.0,
        **settings,
    )


def training(
    network: MultilayerPerceptron,
    config: RunConfig,
    dataset: Dataset,
    rows: NDArray[np.int64],
    generator: np.random.Generator,
    **options: Any,
) -> ModuleTraining:
    """Return the training of a network by the protocol of a run on some rows, for as many epochs."""
    inputs, labels = torch.from_numpy(dataset.train.inputs[rows]), torch.from_numpy(dataset.train.labels[rows])

    def losses(batch: NDArray[np.int64]) -> torch.Tensor:
        where = torch.from_numpy(batch)
        return functional.cross_entropy(network(inputs[where]), labels[where], reduction="none")

    batches = shuffled_batches(len(rows), config.protocol.batch_size)
    return ModuleTraining(network, config.protocol, losses, batches, generator, **options)


def retrained(config: RunConfig, dataset: Dataset, rows: NDArray[np.int64], seed: int) -> MultilayerPerceptron:
    """Return a network that is trained on some rows; with all rows and the run's seed it is the network of the run."""
    generator = np.random.default_rng(seed)
    network = initial_mlp(config.model, dataset, generator)
    training(network, config, dataset, rows, generator).train()
    return network


def logits_of_retrained(
    config: RunConfig, dataset: Dataset, parts: Iterable[Part], queries: NDArray[np.float32], work: str
) -> NDArray[np.float32]:
    """Return the logits (parts, queries, classes) of networks that are trained on parts of the data.

    Args:
        config: The protocol.
        dataset: The whole data.
        parts: The rows and the seed of each training.
        queries: Inputs (queries, features).
        work: What is printed on stderr beside the number of trainings.
    """
    found = []
    for rows, seed in parts:
        found.append(retrained(config, dataset, rows, seed).outputs(queries))
        print(f"\r{work}: {len(found)} networks", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return np.stack(found)
