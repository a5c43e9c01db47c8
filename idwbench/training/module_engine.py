"""The base class of engines that train a torch module for each run, with checkpoints."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from idwbench.data.dataset import Dataset
from idwbench.dual.facts import RecordingFacts
from idwbench.dual.recordings import Recordings
from idwbench.runs.config import RunConfig
from idwbench.runs.metrics import Metrics
from idwbench.runs.results import RunResult
from idwbench.training.checkpoints import Checkpoints
from idwbench.training.engine import AbstractEngine
from idwbench.training.module_training import Trained
from idwbench.training.torch_engine import resolve_device

__all__ = ["ModuleEngine", "recording_facts"]


class ModuleEngine(AbstractEngine):
    """Trains runs one after the other.

    Args:
        device: Name of the device.
        checkpoints: Where interrupted trainings are kept.
        recordings: Where recorded trainings are kept.
    """

    name = "torch"

    def __init__(
        self, device: str = "cpu", checkpoints: Checkpoints | None = None, recordings: Recordings | None = None
    ) -> None:
        self.device = resolve_device(device)
        self.checkpoints, self.recordings = checkpoints or Checkpoints(), recordings or Recordings()

    def max_stack(self, config: RunConfig, dataset: Dataset) -> int:
        """Return 1: each run is stored when it ends."""
        return 1

    def train(
        self, configs: Sequence[RunConfig], dataset: Dataset, on_epoch: Callable[[int], None] = lambda epoch: None
    ) -> list[RunResult]:
        """Train runs and return their results in order; an interrupted run continues from its checkpoint.

        Raises:
            ConfigError: the data does not support a run, see `check`.
        """
        return [self.train_one(config, dataset, on_epoch) for config in configs]

    @abstractmethod
    def train_one(self, config: RunConfig, dataset: Dataset, on_epoch: Callable[[int], None]) -> RunResult:
        """Train one run and return its result."""

    def stored(self, configs: Sequence[RunConfig]) -> None:
        """Delete the checkpoints of runs."""
        self.checkpoints.delete(configs)

    def result(
        self,
        config: RunConfig,
        module: nn.Module,
        trained: Trained,
        metrics: Metrics,
        arrays: Mapping[str, NDArray[np.generic]],
    ) -> RunResult:
        """Return the result of a training, with its costs; a diverged run has no metrics and arrays."""
        complete = trained.diverged_epoch is None
        costs = {
            ("train", "seconds_per_step"): trained.seconds_per_step,
            ("train", "activation_memory"): trained.activation_memory,
        }
        return RunResult(
            config=config,
            state="complete" if complete else "diverged",
            curve=trained.curve,
            metrics={**metrics, **costs} if complete else {},
            arrays=arrays,
            n_parameters=sum(parameter.numel() for parameter in module.parameters()) if complete else None,
            diverged_epoch=trained.diverged_epoch,
            seconds=trained.seconds,
            engine=self.name,
            device=str(self.device),
            threads=torch.get_num_threads(),
            instruction_set=torch.backends.cpu.get_cpu_capability() if self.device.type == "cpu" else "",
        )


def recording_facts(config: RunConfig, dataset: Dataset) -> RecordingFacts:
    """Return what the recording of a run says of its training."""
    protocol = config.protocol
    return RecordingFacts(config.run_key, dataset.sha256, protocol.optimizer, protocol.momentum, protocol.weight_decay)
