"""The reference engine: autograd and the optimizers of torch, for all methods and devices, with stacks of runs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from idwbench.attention.forward import prototype_logits
from idwbench.attention.scores import get_method
from idwbench.data.dataset import Dataset, FeatureMoments
from idwbench.errors import ConfigError, did_you_mean, first_line
from idwbench.models.initialisation import check_prototypes, initial_prototypes, key_bounds
from idwbench.models.modules import stacked_outputs
from idwbench.runs.config import RunConfig
from idwbench.runs.metrics import HEADLINES
from idwbench.runs.protocol import learning_rate
from idwbench.runs.results import CurvePoint, RunResult
from idwbench.training.engine import Context, Engine, Fitted, batch_order, check_stack, run_result
from idwbench.training.optimizers import OptimizerStep, clip_gradients

__all__ = ["ENGINES", "TorchStack", "resolve_device", "sample_losses", "torch_environment"]

DEVICES = ("cpu", "cuda", "mps", "xpu")
# Maximum size of the differences of one step (runs, batch, prototypes, features): 128 MB in float32.
STEP_NUMBERS = 2**25
MAX_STACK = 1024
# Maximum size of the outputs of runs that are evaluated together: 64 MB.
OUTPUT_NUMBERS = 2**24
# The parameters of a run are padded to a multiple of this: vectorised loops treat the last numbers of an array
# differently, and a run must not depend on its stack.
ALIGNMENT = 64


def resolve_device(name: str) -> torch.device:
    """Return the device of that name.

    Raises:
        ConfigError: torch or this machine does not have it.
    """
    if name.partition(":")[0] not in DEVICES:
        raise ConfigError(f"'{name}' is not available here", location=("device",), hint=did_you_mean(name, DEVICES))
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ConfigError(f"'{name}' is not available here ({first_line(error)})", location=("device",)) from None
    return device


def torch_environment(device: torch.device) -> tuple[str, int, str]:
    """Return the device, the number of threads and the instruction set of torch."""
    instruction_set = torch.backends.cpu.get_cpu_capability() if device.type == "cpu" else ""
    return str(device), torch.get_num_threads(), instruction_set


def _max_stack(config: RunConfig, dataset: Dataset) -> int:
    """Return the number of runs that fit into `STEP_NUMBERS`."""
    numbers = config.protocol.batch_size * config.model.prototypes * dataset.n_features
    return int(np.clip(STEP_NUMBERS // numbers, 1, MAX_STACK))


def _train(configs: Sequence[RunConfig], dataset: Dataset, context: Context) -> list[RunResult]:
    """Train runs of one stack together and return their results in order."""
    started = time.perf_counter()
    stack = TorchStack(configs, dataset, dataset.moments, resolve_device(context.device))
    for epoch in range(configs[0].protocol.epochs):
        stack.train_epoch(epoch)
        context.on_epoch(epoch + 1)
        if all(stack.diverged):
            break
    return stack.results(started)


ENGINES = {"torch": Engine("torch", _train, _max_stack, check_prototypes)}


class TorchStack:
    """Runs that train together.

    Keys (runs, prototypes, features) and values (runs, prototypes, outputs) are views of `numbers` (runs, length), the
    one parameter of the optimizer. A single run has no axis of runs, which saves a tenth of its time.

    Raises:
        ValueError: the stack keys differ.
    """

    def __init__(
        self, configs: Sequence[RunConfig], dataset: Dataset, moments: FeatureMoments, device: torch.device
    ) -> None:
        check_stack(configs)
        self.configs, self.dataset, self.device = configs, dataset, device
        self.protocol = configs[0].protocol
        self.method = get_method(configs[0].model.method)
        self.parameters = _stack_parameters(configs, device)
        self.generators = [np.random.default_rng(config.seed) for config in configs]
        self._place_prototypes(moments)
        self.optimizer_step = OptimizerStep(self.protocol, self.numbers, self.gradients)
        bounds = key_bounds(configs[0].network, dataset)
        self.bounds = None if bounds is None else [torch.from_numpy(bound).to(device) for bound in bounds]
        self.inputs = {name: torch.from_numpy(split.inputs).to(device) for name, split in dataset.splits.items()}
        self.targets = torch.from_numpy(dataset.train.targets).to(device)
        self.curves: list[list[CurvePoint]] = [[] for _ in configs]
        self.diverged: list[int | None] = [None for _ in configs]

    def _place_prototypes(self, moments: FeatureMoments) -> None:
        pairs = [
            initial_prototypes(config.network, self.dataset, moments, generator)
            for config, generator in zip(self.configs, self.generators, strict=True)
        ]
        keys, values = (torch.from_numpy(np.stack(arrays)) for arrays in zip(*pairs, strict=True))
        n_keys, n_values = keys[0].numel(), values[0].numel()
        self.n_parameters = n_keys + n_values
        self.padding = torch.zeros(len(pairs), -self.n_parameters % ALIGNMENT, device=self.device)
        flat = torch.cat([keys.flatten(1).to(self.device), values.flatten(1).to(self.device), self.padding], 1)
        self.keys = self._squeezed(flat[:, :n_keys].view(keys.shape)).requires_grad_()
        self.values = self._squeezed(flat[:, n_keys : self.n_parameters].view(values.shape)).requires_grad_()
        self.numbers = flat
        self.gradients = torch.zeros_like(flat)

    def _squeezed(self, tensor: Tensor) -> Tensor:
        """Return a tensor (runs, …), without the axis of runs for a single run."""
        return tensor[0] if len(self.configs) == 1 else tensor

    def train_epoch(self, epoch: int) -> None:
        """Train every run for one epoch, and evaluate."""
        rate = learning_rate(self.protocol, epoch)
        n_train = len(self.dataset.train)
        orders = np.stack([batch_order(generator, n_train) for generator in self.generators])
        order = self._squeezed(torch.from_numpy(orders).to(self.device))
        losses = [self.step(batch, rate) for batch in torch.split(order, self.protocol.batch_size, dim=-1)]
        self._record(epoch, rate, torch.cat(losses, -1).view(len(orders), n_train).sum(1) / n_train)

    def step(self, rows: Tensor, rate: float) -> Float[Tensor, "*runs batch"]:
        """Take one step at a rate on rows (runs, batch) of the training data and return the loss of each."""
        flat_rows = rows.flatten()
        inputs = self.inputs["train"].index_select(0, flat_rows).view(*rows.shape, -1)
        targets = self.targets.index_select(0, flat_rows)
        outputs = prototype_logits(self.method, self.parameters, inputs, self.keys, self.values)
        losses = sample_losses(outputs.view(len(flat_rows), -1), targets)
        # The mean over the batch and the sum over runs: each run gets its own gradient.
        gradients = torch.autograd.grad(losses, (self.keys, self.values), torch.full_like(losses, 1 / rows.shape[-1]))
        run_rows = [gradient.reshape(len(self.gradients), -1) for gradient in gradients]
        torch.cat([*run_rows, self.padding], 1, out=self.gradients)
        clip_gradients(self.protocol, self.gradients)
        self.optimizer_step(rate)
        if self.bounds is not None:
            self.keys.detach().clamp_(*self.bounds)
        return losses.detach().view(rows.shape)

    def _record(self, epoch: int, rate: float, losses: Tensor) -> None:
        finite = (losses.isfinite() & self.numbers.isfinite().all(1)).tolist()
        for run, is_finite in enumerate(finite):
            if self.diverged[run] is None and not is_finite:
                self.diverged[run] = epoch + 1
        headline = HEADLINES[self.dataset.task].name
        watched = [self._metrics(split) for split in self.dataset.splits if split in ("test", "validation")]
        for run, (loss, metrics) in enumerate(zip(losses.tolist(), zip(*watched, strict=True), strict=True)):
            if self.diverged[run] is None:
                values = {("train", "learning_rate"): rate, ("train", "loss"): loss}
                for split in metrics:
                    values |= {key: value for key, value in split.items() if key[1] == headline}
                self.curves[run].append(CurvePoint(epoch + 1, values))

    def _metrics(self, split: str) -> list[dict[tuple[str, str], float]]:
        """Return the metrics of each run on a split; empty for diverged runs."""
        return [
            self.dataset.metrics(split, outputs) if diverged is None else {}
            for diverged, outputs in zip(self.diverged, self._outputs(self.inputs[split]), strict=True)
        ]

    def _outputs(self, inputs: Tensor) -> Iterator[NDArray[np.float32]]:
        """Yield the outputs (n, outputs) of each run."""
        together = max(1, OUTPUT_NUMBERS // (len(inputs) * self.dataset.n_outputs))
        keys = self.keys.view(len(self.configs), *self.keys.shape[-2:])
        values = self.values.view(len(self.configs), *self.values.shape[-2:])
        for first in range(0, len(self.configs), together):
            runs = slice(first, first + together)
            parameters = {name: v[runs] if isinstance(v, Tensor) else v for name, v in self.parameters.items()}
            outputs = stacked_outputs(self.method, parameters, inputs, keys[runs], values[runs])
            yield from outputs.cpu().numpy()

    def _arrays(self, run: int) -> dict[str, NDArray[np.float32]]:
        prototypes = self.configs[run].model.prototypes
        n_keys = prototypes * self.dataset.n_features
        numbers = self.numbers[run, : self.n_parameters].detach().cpu().numpy().copy()
        return {"keys": numbers[:n_keys].reshape(prototypes, -1), "values": numbers[n_keys:].reshape(prototypes, -1)}

    def results(self, started: float) -> list[RunResult]:
        """Return the results of the runs; `started` is the `time.perf_counter` at the start."""
        metrics = [self._metrics(split) for split in self.dataset.splits]
        seconds = (time.perf_counter() - started) / len(self.configs)
        environment = torch_environment(self.device)
        results = []
        for run, config in enumerate(self.configs):
            run_metrics = {key: value for split in metrics for key, value in split[run].items()}
            curve, diverged = tuple(self.curves[run]), self.diverged[run]
            fitted = Fitted(run_metrics, self._arrays(run), self.n_parameters, curve, diverged)
            results.append(run_result(config, fitted, "torch", seconds, environment))
        return results


def sample_losses(outputs: Float[Tensor, "n outputs"], targets: Tensor) -> Float[Tensor, " n"]:
    """Return the cross-entropy of logits and labels (n,), or the squared error of numbers (n, outputs)."""
    if targets.ndim == 1:
        return functional.cross_entropy(outputs, targets, reduction="none")
    return functional.mse_loss(outputs, targets, reduction="none").mean(1)


def _stack_parameters(configs: Sequence[RunConfig], device: torch.device) -> dict[str, float | str | Tensor]:
    """Return common parameters unchanged, and others as (runs, 1, 1), which broadcasts against scores."""
    stacked: dict[str, float | str | Tensor] = dict(configs[0].model.parameters)
    for name, first in configs[0].model.parameters.items():
        given = [config.model.parameters[name] for config in configs]
        if any(value != first for value in given):
            stacked[name] = torch.tensor(given, dtype=torch.float32, device=device)[:, None, None]
    return stacked
