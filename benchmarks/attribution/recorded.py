"""A recorded training, and what each method of attribution reads of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.attribution.retraining import configuration, training
from benchmarks.attribution.sizes import Size
from idwbench.data.dataset import Dataset, Split
from idwbench.dual.recorder import Recorder
from idwbench.dual.recording import Recording, RecordingFacts
from idwbench.models.perceptron import MultilayerPerceptron, initial_mlp
from idwbench.runs.config import RunConfig

__all__ = ["Recorded", "record", "with_flipped_labels", "with_rows"]


@dataclass(frozen=True)
class Recorded:
    """A trained network with the history of its training.

    Attributes:
        config: The run.
        dataset: Its data.
        network: The network after the training.
        recording: The inputs and error signals of its layers.
        checkpoints: State dictionaries of the network in the course of the training.
    """

    config: RunConfig
    dataset: Dataset
    network: MultilayerPerceptron
    recording: Recording
    checkpoints: list[dict[str, Any]]


def record(dataset: Dataset, size: Size, folder: Path, seed: int = 0) -> Recorded:
    """Train a network with a recording in a folder that does not exist yet."""
    config = configuration(dataset, size, seed, record=True)
    generator = np.random.default_rng(seed)
    network = initial_mlp(config.model, dataset, generator)
    states: list[dict[str, Any]] = []

    def keep() -> dict[tuple[str, str], float]:
        states.append({name: tensor.clone() for name, tensor in network.state_dict().items()})
        return {}

    protocol = config.protocol
    facts = RecordingFacts(config.run_key, dataset.sha256, protocol.optimizer, protocol.momentum, protocol.weight_decay)
    rows = np.arange(len(dataset.train))
    recorder = Recorder(
        network.layers,
        folder,
        facts,
        steps=size.epochs * -(-len(rows) // protocol.batch_size),
        slots=size.epochs * len(rows),
        fold={"layer_0": dataset.train.inputs},
    )
    training(network, config, dataset, rows, generator, evaluate=keep, recorder=recorder).train()
    recorder.finish()
    distance = max(1, size.epochs // size.checkpoints)
    return Recorded(config, dataset, network, Recording.open(folder), states[distance - 1 :: distance])


def with_rows(dataset: Dataset, n_rows: int, generator: np.random.Generator) -> Dataset:
    """Return the data with some training rows, chosen at random."""
    rows = generator.permutation(len(dataset.train))[:n_rows]
    return replace(dataset, train=Split(dataset.train.inputs[rows], dataset.train.labels[rows]))


def with_flipped_labels(
    dataset: Dataset, share: float, generator: np.random.Generator
) -> tuple[Dataset, NDArray[np.bool_]]:
    """Return the data with another random label for a share of the training rows, and which rows these are."""
    labels = dataset.train.labels.copy()
    rows = generator.permutation(len(labels))[: round(share * len(labels))]
    labels[rows] = (labels[rows] + generator.integers(1, dataset.n_outputs, len(rows))) % dataset.n_outputs
    return replace(dataset, train=Split(dataset.train.inputs, labels)), labels != dataset.train.labels
