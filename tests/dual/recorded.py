"""Trainings with a recording."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from idwbench.dual.recorder import Recorder
from idwbench.dual.recording import Recording, RecordingFacts
from idwbench.runs.protocol import Protocol
from idwbench.training.module_training import ModuleTraining, shuffled_batches

N_TRAIN = 27


@dataclass
class RecordedTraining:
    """A small training of three linear layers with ReLU, the second without a bias.

    `stop_after` steps it raises `KeyboardInterrupt`.
    """

    protocol: Protocol
    folder: Path
    dtype: torch.dtype = torch.float64
    record_dtype: str = "float64"
    fold: bool = False
    n_train: int = N_TRAIN
    sizes: tuple[int, int, int, int] = (4, 6, 5, 3)
    stop_after: int | None = None
    run_key: str = "run"
    twice: bool = False  # each batch passes the module twice
    loss_scale: float = 1.0

    def __post_init__(self):
        generator, (n_inputs, first, second, n_outputs) = np.random.default_rng(3), self.sizes
        numbers = "float64" if self.dtype == torch.float64 else "float32"
        self.inputs = generator.uniform(0, 1, (self.n_train, n_inputs)).astype(numbers)
        self.labels = torch.from_numpy(generator.integers(0, n_outputs, self.n_train))
        torch.manual_seed(3)
        layers = [nn.Linear(n_inputs, first), nn.Linear(first, second, bias=False), nn.Linear(second, n_outputs)]
        self.layers = {f"layer_{place}": layer for place, layer in enumerate(layers)}
        self.module = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2]).to(self.dtype)
        p, slots = self.protocol, self.slot_rows(np.arange(self.n_train)).size
        self.recorder = Recorder(
            self.layers,
            self.folder,
            RecordingFacts(self.run_key, "data", p.optimizer, p.momentum, p.weight_decay),
            steps=p.epochs * -(-self.n_train // p.batch_size),
            slots=p.epochs * slots,
            dtype=self.record_dtype,
            fold={"layer_0": self.inputs} if self.fold else {},
        )
        self.taken = 0

    def losses(self, rows):
        if self.taken == self.stop_after:
            raise KeyboardInterrupt
        self.taken += 1
        outputs = self.module(torch.from_numpy(self.inputs[rows]))
        if self.twice:
            outputs = outputs + self.module(torch.from_numpy(0.5 * self.inputs[rows]))
        return self.loss_scale * functional.cross_entropy(outputs, self.labels[rows], reduction="none")

    def slot_rows(self, rows):
        return np.concatenate([rows, rows]) if self.twice else rows

    def train(self, checkpoint=None):
        batches, generator = shuffled_batches(self.n_train, self.protocol.batch_size), np.random.default_rng(5)
        options = {"checkpoint": checkpoint, "checkpoint_seconds": 0, "recorder": self.recorder, "rows": self.slot_rows}
        return ModuleTraining(self.module, self.protocol, self.losses, batches, generator, **options).train()

    def interrupt(self, checkpoint=None):
        with pytest.raises(KeyboardInterrupt):
            self.train(checkpoint)
        return self

    def run(self, checkpoint=None):
        """Train to the end, and open the recording."""
        self.train(checkpoint)
        self.recorder.finish()
        return Recording.open(self.folder)
