"""The reference engine: autograd and `torch.optim`, any method, any device, runs stacked on a leading axis."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from idwbench.config import RunConfig
from idwbench.data.dataset import Dataset, Split
from idwbench.engine.base import (
    AbstractEngine,
    EpochMetrics,
    RunResult,
    batch_order,
    check_stack,
    learning_rate,
)
from idwbench.errors import ConfigError
from idwbench.initialisation import feature_moments, initial_prototypes
from idwbench.methods import Method, get_method
from idwbench.model import predict_labels
from idwbench.scores import prototype_logits

__all__ = ["Stack", "TorchEngine", "resolve_device"]

# The differences of one step (runs, batch, prototypes, features) hold at most this many numbers: 128 MB in float32.
STEP_NUMBERS = 2**25
MAX_STACK = 1024


def resolve_device(name: str) -> torch.device:
    """Return the device of that name.

    Raises:
        ConfigError: torch does not know it, or this machine does not have it.
    """
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"--device {name}: not available here ({reason})") from None
    return device


class TorchEngine(AbstractEngine):
    """Trains stacks of runs in PyTorch."""

    name = "torch"

    def __init__(self, device: str = "cpu") -> None:
        self.device = resolve_device(device)

    def max_stack(self, config: RunConfig, dataset: Dataset) -> int:
        """Return how many runs fit the memory that one step may take."""
        numbers = config.protocol.batch_size * config.prototypes * dataset.n_features
        return int(np.clip(STEP_NUMBERS // numbers, 1, MAX_STACK))

    def stack(self, configs: Sequence[RunConfig], dataset: Dataset) -> Stack:
        """Return runs before their first step.

        Raises:
            ValueError: their stack keys differ.
        """
        check_stack(configs)
        return Stack(configs, dataset, self.device)

    def train(
        self,
        configs: Sequence[RunConfig],
        dataset: Dataset,
        on_epoch: Callable[[int], None] = lambda epoch: None,
    ) -> list[RunResult]:
        """Train runs of one stack and return their results in order."""
        started = time.perf_counter()
        stack = self.stack(configs, dataset)
        for epoch in range(configs[0].protocol.epochs):
            stack.train_epoch(epoch)
            on_epoch(epoch + 1)
            if all(stack.diverged):
                break
        seconds = (time.perf_counter() - started) / len(configs)
        return stack.results(self.name, seconds)


class Stack:
    """Runs that train together: keys (runs, prototypes, features), values (runs, prototypes, classes)."""

    def __init__(self, configs: Sequence[RunConfig], dataset: Dataset, device: torch.device) -> None:
        self.configs, self.dataset, self.device = configs, dataset, device
        self.protocol = configs[0].protocol
        self.method: Method = get_method(configs[0].method)
        self.parameters = _stack_parameters(configs, device)
        self.generators = [np.random.default_rng(config.seed) for config in configs]
        keys, values = self._initial()
        self.keys, self.values = nn.Parameter(keys), nn.Parameter(values)
        self.optimizer = torch.optim.Adam([self.keys, self.values], lr=self.protocol.learning_rate, amsgrad=True)
        self.inputs = torch.from_numpy(dataset.train.inputs).to(device)
        self.labels = torch.from_numpy(dataset.train.labels).to(device)
        self.test_inputs = torch.from_numpy(dataset.test.inputs).to(device)
        self.curves: list[list[EpochMetrics]] = [[] for _ in configs]
        self.diverged: list[int | None] = [None for _ in configs]

    def _initial(self) -> tuple[Tensor, Tensor]:
        moments = feature_moments(self.dataset.train.inputs)
        pairs = [
            initial_prototypes(self.method, config.prototypes, self.dataset.n_classes, *moments, generator)
            for config, generator in zip(self.configs, self.generators, strict=True)
        ]
        keys, values = (torch.from_numpy(np.stack(arrays)) for arrays in zip(*pairs, strict=True))
        return keys.to(self.device), values.to(self.device)

    def train_epoch(self, epoch: int) -> None:
        """Take every run through its own order of the training data once, and test."""
        rate = learning_rate(self.protocol, epoch)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        n_train = len(self.labels)
        orders = np.stack([batch_order(generator, n_train) for generator in self.generators])
        order = torch.from_numpy(orders).to(self.device)
        losses = torch.zeros(len(self.configs), device=self.device)
        for batch in torch.split(order, self.protocol.batch_size, dim=1):
            losses += self.step(self.inputs[batch], self.labels[batch])
        self._record(epoch, rate, losses / n_train)

    def step(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Take one step on inputs (runs, batch, features) and return the summed cross-entropy of each run."""
        logits = prototype_logits(self.method, self.parameters, inputs, self.keys, self.values)
        losses = nn.functional.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
        self.optimizer.zero_grad()
        # The mean over a run's batch, the sum over runs: each run gets the gradient it would get alone.
        torch.autograd.backward(losses.mean(1).sum())
        self.optimizer.step()
        return losses.detach().sum(1)

    def _record(self, epoch: int, rate: float, losses: Tensor) -> None:
        finite = losses.isfinite() & self.keys.isfinite().all(-1).all(-1) & self.values.isfinite().all(-1).all(-1)
        accuracies = self._accuracies(self.test_inputs, self.dataset.test)
        for run, (loss, is_finite) in enumerate(zip(losses.tolist(), finite.tolist(), strict=True)):
            if self.diverged[run] is not None:
                continue
            if not is_finite:
                self.diverged[run] = epoch + 1
                continue
            self.curves[run].append(EpochMetrics(epoch + 1, rate, loss, accuracies[run]))

    def _accuracies(self, inputs: Tensor, split: Split) -> list[float]:
        predicted = predict_labels(self.method, self.parameters, inputs, self.keys.detach(), self.values.detach())
        return [float(right) for right in (predicted.cpu().numpy() == split.labels).mean(1)]

    def results(self, engine: str, seconds: float) -> list[RunResult]:
        """Return how the runs ended; `seconds` is what each took."""
        train = self._accuracies(self.inputs, self.dataset.train)
        holdout = self.dataset.holdout
        fresh = self._accuracies(torch.from_numpy(holdout.inputs).to(self.device), holdout) if holdout else None
        keys, values = self.keys.detach().cpu().numpy(), self.values.detach().cpu().numpy()
        results = []
        for run, config in enumerate(self.configs):
            epoch = self.diverged[run]
            complete = epoch is None
            results.append(
                RunResult(
                    config=config,
                    state="complete" if complete else "diverged",
                    keys=keys[run].copy() if complete else None,
                    values=values[run].copy() if complete else None,
                    curve=tuple(self.curves[run]),
                    train_accuracy=train[run] if complete else None,
                    test_accuracy=self.curves[run][-1].test_accuracy if complete else None,
                    holdout_accuracy=fresh[run] if complete and fresh is not None else None,
                    diverged_epoch=epoch,
                    seconds=seconds,
                    engine=engine,
                    device=str(self.device),
                    threads=torch.get_num_threads(),
                )
            )
        return results


def _stack_parameters(configs: Sequence[RunConfig], device: torch.device) -> dict[str, str | Tensor]:
    """Return words as they are and numbers as (runs, 1, 1), ready to broadcast against scores."""
    stacked: dict[str, str | Tensor] = {}
    for name, value in configs[0].parameters.items():
        if isinstance(value, str):
            stacked[name] = value
        else:
            numbers = [config.parameters[name] for config in configs]
            stacked[name] = torch.tensor(numbers, dtype=torch.float32, device=device)[:, None, None]
    return stacked
