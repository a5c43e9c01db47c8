"""Trainings with a recording."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from idwbench.dual.recorder import Recorder
from idwbench.dual.recording import Recording, RecordingFacts
from idwbench.runs.protocol import Protocol
from idwbench.training.checkpoints import CheckpointFile
from idwbench.training.engine import Fitted
from idwbench.training.module_training import ModuleTraining, shuffled_batches

N_TRAIN = 27


class Interrupted(Exception):
    pass


class Mlp(nn.Module):
    """Three linear layers with ReLU, of which the second has no bias."""

    def __init__(self, sizes: tuple[int, int, int, int]) -> None:
        super().__init__()
        self.layer_0 = nn.Linear(sizes[0], sizes[1])
        self.layer_1 = nn.Linear(sizes[1], sizes[2], bias=False)
        self.layer_2 = nn.Linear(sizes[2], sizes[3])

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = functional.relu(self.layer_0(inputs))
        return self.layer_2(functional.relu(self.layer_1(hidden)))

    @property
    def layers(self) -> dict[str, Any]:
        return dict(self.named_children())


@dataclass
class RecordedTraining:
    """A small training of an `Mlp`; `stop_after` steps it raises `Interrupted`."""

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

    def __post_init__(self) -> None:
        generator = np.random.default_rng(3)
        numbers = "float64" if self.dtype == torch.float64 else "float32"
        self.inputs = generator.uniform(0, 1, (self.n_train, self.sizes[0])).astype(numbers)
        self.labels = torch.from_numpy(generator.integers(0, self.sizes[3], self.n_train))
        torch.manual_seed(3)
        self.module = Mlp(self.sizes).to(self.dtype)
        facts = RecordingFacts(
            self.run_key, "data", self.protocol.optimizer, self.protocol.momentum, self.protocol.weight_decay
        )
        self.recorder = Recorder(
            self.module.layers,
            self.folder,
            facts,
            steps=self.protocol.epochs * -(-self.n_train // self.protocol.batch_size),
            slots=self.protocol.epochs * self.slot_rows(np.arange(self.n_train)).size,
            dtype=self.record_dtype,
            fold={"layer_0": self.inputs} if self.fold else {},
        )
        self.taken = 0

    def losses(self, rows: NDArray[np.int64]) -> torch.Tensor:
        if self.taken == self.stop_after:
            raise Interrupted
        self.taken += 1
        outputs = self.module(torch.from_numpy(self.inputs[rows]))
        if self.twice:
            outputs = outputs + self.module(torch.from_numpy(0.5 * self.inputs[rows]))
        return self.loss_scale * functional.cross_entropy(outputs, self.labels[rows], reduction="none")

    def slot_rows(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.concatenate([rows, rows]) if self.twice else rows

    def train(self, checkpoint: CheckpointFile | None = None) -> Fitted:
        training = ModuleTraining(
            self.module,
            self.protocol,
            self.losses,
            shuffled_batches(self.n_train, self.protocol.batch_size),
            np.random.default_rng(5),
            checkpoint=checkpoint,
            checkpoint_seconds=0,
            recorder=self.recorder,
            rows=self.slot_rows,
        )
        return training.train()

    def interrupt(self, checkpoint: CheckpointFile | None = None) -> Self:
        with pytest.raises(Interrupted):
            self.train(checkpoint)
        return self

    def run(self, checkpoint: CheckpointFile | None = None) -> Recording:
        """Train to the end, and open the recording."""
        self.train(checkpoint)
        self.recorder.finish()
        return Recording.open(self.folder)
