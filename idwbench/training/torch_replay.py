"""Repeats the steps of the torch engine."""

from __future__ import annotations

import torch

from idwbench.data.dataset import Dataset
from idwbench.runs.config import RunConfig
from idwbench.training.step_replay import AbstractReplay, Prototypes, Snapshot, Steps
from idwbench.training.torch_engine import Stack, resolve_device

__all__ = ["TorchReplay"]

_NUMBERS = "numbers"


class TorchReplay(AbstractReplay):
    """Repeats a run of the torch engine."""

    def __init__(self, config: RunConfig, dataset: Dataset, device: str) -> None:
        self._stack = Stack([config], dataset, dataset.moments, resolve_device(device))
        super().__init__(config, dataset, self._stack.generators[0])

    def take(self, steps: Steps) -> None:
        """Take steps, one after the other."""
        for rows in torch.from_numpy(steps.rows).to(self._stack.device):
            self._stack.step(rows, steps.rate)

    def prototypes(self) -> Prototypes:
        """Return the present prototypes."""
        stack = self._stack
        keys, values = (tensor.detach().cpu().numpy().copy() for tensor in (stack.keys, stack.values))
        state = stack.optimizer_step.state
        squares = state.get("largest", state.get("squares"))
        if squares is None:
            return Prototypes(keys, values, None)
        return Prototypes(keys, values, squares[0, : keys.size].view(keys.shape).cpu().numpy().copy())

    def snapshot(self) -> Snapshot:
        """Return a copy of parameters and the state of the optimizer, by name."""
        held = {_NUMBERS: self._stack.numbers, **self._stack.optimizer_step.state}
        return {name: tensor.clone() for name, tensor in held.items()}

    @torch.no_grad()
    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot."""
        self._stack.numbers.copy_(snapshot[_NUMBERS])
        state = {name: tensor.clone() for name, tensor in snapshot.items() if name != _NUMBERS}
        self._stack.optimizer_step.state = state
