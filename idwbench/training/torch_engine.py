"""The reference engine: autograd and the optimizers of torch, for all methods and devices, with stacks of runs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from idwbench.attention.distances import distances_to_batch
from idwbench.attention.forward import prototype_logits
from idwbench.attention.slopes import SLOPE_ARRAYS
from idwbench.data.dataset import Dataset, FeatureMoments
from idwbench.errors import ConfigError, did_you_mean, first_line
from idwbench.models.initialisation import (
    check_prototypes,
    initial_prototypes,
    initial_slopes,
    key_bounds,
    learned_arrays,
)
from idwbench.models.modules import stacked_outputs
from idwbench.runs.config import RunConfig
from idwbench.runs.kinds.prototypes import PrototypesConfig
from idwbench.runs.metrics import HEADLINES
from idwbench.runs.protocol import learning_rate
from idwbench.runs.results import CurvePoint, RunResult
from idwbench.training.engine import Context, Engine, Fitted, batch_order, check_stack, run_result
from idwbench.training.optimizers import OptimizerStep, clip_gradients

if TYPE_CHECKING:
    from jaxtyping import Float

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
    model = config.network
    of_pair = model.method_record.numbers_of_pair(dataset.n_features, model.parameters)
    numbers = config.protocol.batch_size * model.prototypes * of_pair
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

    Keys (runs, prototypes, features), values (runs, prototypes, outputs), their slopes, and what the score learns are
    views of `numbers` (runs, length), the one parameter of the optimizer. A single run has no axis of runs, which saves
    a tenth of its time.

    Raises:
        ValueError: the stack keys differ.
    """

    def __init__(
        self, configs: Sequence[RunConfig], dataset: Dataset, moments: FeatureMoments, device: torch.device
    ) -> None:
        check_stack(configs)
        self.configs, self.dataset, self.device = configs, dataset, device
        self.protocol = configs[0].protocol
        self.method = configs[0].network.method_record
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
        runs = zip(self.configs, self.generators, strict=True)
        initial = [self._initial_arrays(config.network, moments, generator) for config, generator in runs]
        stacked = {name: torch.from_numpy(np.stack([arrays[name] for arrays in initial])) for name in initial[0]}
        self.n_parameters = sum(part[0].numel() for part in stacked.values())
        self.padding = torch.zeros(len(initial), -self.n_parameters % ALIGNMENT, device=self.device)
        flat = torch.cat([*(part.flatten(1).to(self.device) for part in stacked.values()), self.padding], 1)
        parts = torch.split(flat[:, : self.n_parameters], [part[0].numel() for part in stacked.values()], 1)
        self.arrays = {
            name: self._squeezed(part.view(stacked[name].shape)).requires_grad_()
            for name, part in zip(stacked, parts, strict=True)
        }
        self.keys, self.values = self.arrays["keys"], self.arrays["values"]
        self.numbers = flat
        self.gradients = torch.zeros_like(flat)

    def _initial_arrays(
        self, model: PrototypesConfig, moments: FeatureMoments, generator: np.random.Generator
    ) -> dict[str, NDArray[np.float32]]:
        keys, values = initial_prototypes(model, self.dataset, moments, generator)
        learned = learned_arrays(self.method, model.parameters, keys.shape[1], generator)
        return {"keys": keys, "values": values, **learned, **initial_slopes(model, self.dataset, generator)}

    @property
    def _learned(self) -> dict[str, Tensor]:
        return {one.name: self.arrays[one.name] for one in self.method.learned}

    @property
    def _slopes(self) -> dict[str, Tensor]:
        return {name: self.arrays[name] for name in SLOPE_ARRAYS if name in self.arrays}

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
        arguments = {**self.parameters, **self._learned}
        outputs = prototype_logits(self.method, arguments, inputs, self.keys, self.values, self._slopes)
        network = self.configs[0].network
        losses = sample_losses(outputs.view(len(flat_rows), -1), targets, network.label_smoothing)
        if network.key_penalty:
            is_class = targets.ndim == 1
            of_class = self.values.argmax(-1)[..., None] == targets.view(rows.shape)[..., None, :] if is_class else None
            distances = distances_to_batch(inputs, self.keys, of_class)
            penalties = network.key_penalty * distances.mean(-1, keepdim=True)
            losses = (losses.view(rows.shape) + penalties).flatten()
        # The mean over the batch and the sum over runs: each run gets its own gradient.
        means = torch.full_like(losses, 1 / rows.shape[-1])
        options = {"allow_unused": True, "materialize_grads": True}  # some weightings have no gradient
        gradients = torch.autograd.grad(losses, tuple(self.arrays.values()), means, **options)
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
        keys, values = self._by_run(self.keys), self._by_run(self.values)
        arguments = {**self.parameters, **{name: self._by_run(part) for name, part in self._learned.items()}}
        slopes = {name: self._by_run(part) for name, part in self._slopes.items()}
        for first in range(0, len(self.configs), together):
            runs = slice(first, first + together)
            some_slopes = {name: part[runs] for name, part in slopes.items()}
            some = {name: value[runs] if isinstance(value, Tensor) else value for name, value in arguments.items()}
            outputs = stacked_outputs(self.method, some, inputs, keys[runs], values[runs], some_slopes)
            yield from outputs.cpu().numpy()

    def _by_run(self, tensor: Tensor) -> Tensor:
        """Return a tensor (runs, …), of which a single run has no axis of runs."""
        return tensor[None] if len(self.configs) == 1 else tensor

    def _arrays(self, run: int) -> dict[str, NDArray[np.float32]]:
        parts = {name: self._by_run(part)[run].detach() for name, part in self.arrays.items()}
        return {name: part.cpu().numpy().copy() for name, part in parts.items()}

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


def sample_losses(
    outputs: Float[Tensor, "n outputs"], targets: Tensor, label_smoothing: float = 0.0
) -> Float[Tensor, " n"]:
    """Return the cross-entropy of logits and labels (n,), or the squared error of numbers (n, outputs)."""
    if targets.ndim == 1:
        return functional.cross_entropy(outputs, targets, reduction="none", label_smoothing=label_smoothing)
    return functional.mse_loss(outputs, targets, reduction="none").mean(1)


def _stack_parameters(configs: Sequence[RunConfig], device: torch.device) -> dict[str, float | str | Tensor]:
    """Return common parameters unchanged, and others as (runs, 1, 1), which broadcasts against scores."""
    stacked: dict[str, float | str | Tensor] = dict(configs[0].model.parameters)
    for name, first in configs[0].model.parameters.items():
        given = [config.model.parameters[name] for config in configs]
        if any(value != first for value in given):
            stacked[name] = torch.tensor(given, dtype=torch.float32, device=device)[:, None, None]
    return stacked
