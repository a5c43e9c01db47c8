"""Repeats the steps of the fused engine: the same kernel, called for some batches instead of whole epochs."""

from __future__ import annotations

import numpy as np

from idwbench.data.dataset import Dataset
from idwbench.runs.config import RunConfig
from idwbench.training.fused_engine import FusedEngine
from idwbench.training.kernel_runs import KernelRun
from idwbench.training.step_replay import AbstractReplay, Prototypes, Snapshot, Steps

__all__ = ["FusedReplay"]


class FusedReplay(AbstractReplay):
    """Repeats a run of the fused engine."""

    def __init__(self, config: RunConfig, dataset: Dataset) -> None:
        FusedEngine.prepare()
        self._run = KernelRun(config, dataset, dataset.moments)
        super().__init__(config, dataset, self._run.generator)

    def take(self, steps: Steps) -> None:
        """Take steps in one call: for the kernel each batch is an epoch."""
        self._run.take_steps(steps.rows, steps.rate, steps.first)

    def prototypes(self) -> Prototypes:
        """Return the present prototypes."""
        keys, values = self._run.state.keys, self._run.state.values
        rows = keys.transpose(0, 2, 1) if self._run.state.narrow else keys
        squares = None if self.protocol.optimizer == "sgd" else np.array(rows[3], order="C")
        return Prototypes(np.array(rows[0], order="C"), np.array(values[0].T, order="C"), squares)

    def snapshot(self) -> Snapshot:
        """Return a copy of parameters and the state of the optimizer, by name."""
        return {"keys": self._run.state.keys.copy(), "values": self._run.state.values.copy()}

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot."""
        self._run.state.keys[:] = snapshot["keys"]
        self._run.state.values[:] = snapshot["values"]
