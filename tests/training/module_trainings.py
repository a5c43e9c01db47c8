"""Trainings of a small module that can be stopped; run as a program, one that is killed from outside."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from idwbench.runs.protocol import Protocol
from idwbench.training.checkpoints import CheckpointFile
from idwbench.training.module_training import ModuleTraining, shuffled_batches

N_TRAIN = 27
CHILD_MARK = "in the second epoch"


class Interrupted(Exception):
    pass


class Counting(nn.Module):
    """A module with a buffer that changes in training and acts on the outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3))
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, inputs: Tensor) -> Tensor:
        if self.training and torch.is_grad_enabled():
            self.mean = self.mean * 0.9 + 0.1 * inputs.detach().mean(0).to(self.mean)
        return self.layers(inputs)


@dataclass
class Made:
    module: nn.Module
    protocol: Protocol
    inputs: Tensor
    labels: Tensor
    stop_after: int | None
    wait_after: int | None = None
    steps: int = 0

    def losses(self, rows: np.ndarray) -> Tensor:
        where = torch.from_numpy(rows)
        found = functional.cross_entropy(self.module(self.inputs[where]), self.labels[where], reduction="none")
        return found

    def batches(self, generator: np.random.Generator, epoch: int):
        return shuffled_batches(N_TRAIN, self.protocol.batch_size)(generator, epoch)

    def training(self, path: Path | None = None, **options) -> ModuleTraining:
        file = None if path is None else CheckpointFile(path, "a test", self.unexpected)
        generator = np.random.default_rng(5)
        training = ModuleTraining(
            self.module, self.protocol, self.losses, self.batches, generator, checkpoint=file, **options
        )
        take = training._step

        def step(batch, rate) -> None:
            self.steps += 1
            if self.steps == self.stop_after:
                raise Interrupted
            if self.steps == self.wait_after:
                print(CHILD_MARK, flush=True)
                time.sleep(600)
            take(batch, rate)

        training._step = step
        return training

    @staticmethod
    def unexpected(line: str) -> None:
        raise AssertionError(line)


def make_training(protocol: Protocol, stop_after: int | None = None, wait_after: int | None = None) -> Made:
    generator = torch.Generator().manual_seed(1)
    with torch.device("meta"):
        module: nn.Module = Counting()
    module = module.to_empty(device="cpu")
    module.mean.zero_()
    for parameter in module.parameters():
        nn.init.uniform_(parameter, -0.5, 0.5, generator=generator)
    inputs = torch.randn(N_TRAIN, 3, generator=generator)
    return Made(module, protocol, inputs, torch.arange(N_TRAIN) % 3, stop_after, wait_after)


def state_bytes(module: nn.Module) -> dict[str, bytes]:
    return {name: tensor.detach().numpy().tobytes() for name, tensor in module.state_dict().items()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    protocol = Protocol(epochs=3, batch_size=8, learning_rate=0.05)
    make_training(protocol, wait_after=7).training(Path(sys.argv[1]), checkpoint_seconds=0).train()
