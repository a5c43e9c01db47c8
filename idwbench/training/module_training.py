"""Training of any torch module by a protocol, with checkpoints from which it continues bit-identically.

Below it what the kinds share whose runs are torch modules: checkpoints, recordings, and results.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from idwbench.data.dataset import Dataset
from idwbench.dual.recorder import Recorder, Recordings
from idwbench.dual.recording import RecordingFacts
from idwbench.errors import FullDiskError
from idwbench.runs.config import RunConfig
from idwbench.runs.metrics import Metrics
from idwbench.runs.protocol import Protocol, learning_rate
from idwbench.runs.results import CurvePoint
from idwbench.training.checkpoints import CheckpointFile
from idwbench.training.engine import Check, Context, Engine, Fit, Fitted, one_by_one
from idwbench.training.optimizers import OptimizerStep, clip_gradients, flat_parameters
from idwbench.training.torch_engine import resolve_device, torch_environment

__all__ = [
    "Batches",
    "Losses",
    "Measured",
    "ModuleTraining",
    "Values",
    "activation_memory",
    "checkpoint_file",
    "fit_module",
    "module_engine",
    "run_recorder",
    "shuffled_batches",
]

CHECKPOINT_SECONDS = 60.0
_MIB = 2**20

# Yields the batches of an epoch, counted from 0.
Batches = Callable[[np.random.Generator, int], Iterable[Any]]
Losses = Callable[[Any], Tensor]
Values = dict[tuple[str, str], float]
Measured = tuple[Metrics, Mapping[str, NDArray[np.generic]]]


def shuffled_batches(n_train: int, batch_size: int) -> Batches:
    """Return a function that yields the rows of each batch of one epoch: slices of one permutation."""

    def batches(generator: np.random.Generator, epoch: int = 0) -> Iterator[NDArray[np.int64]]:
        order = generator.permutation(n_train)
        for start in range(0, n_train, batch_size):
            yield order[start : start + batch_size]

    return batches


def activation_memory(module: nn.Module, forward: Callable[[], Tensor]) -> tuple[Tensor, float]:
    """Return the result of `forward`, and the MiB of all tensors that autograd saves in it, without parameters.

    Each storage counts once. The number depends on shapes only, and is the same on every machine. What a recomputed
    part of the forward pass saves later, in the backward pass, is not counted.
    """
    owned = {tensor.untyped_storage().data_ptr() for tensor in [*module.parameters(), *module.buffers()]}
    # Storages are held, so that no address is used twice.
    storages: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in owned:
            storages[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = forward()
    return result, sum(storage.nbytes() for storage in storages.values()) / _MIB


@dataclass
class _Progress:
    """What a checkpoint holds beside parameters, buffers, the optimizer and the generator."""

    epoch: int = 0
    step: int = 0  # of the epoch
    loss_sum: float = 0.0  # of the epoch
    loss_count: int = 0
    seconds: float = 0.0
    activation_memory: float = 0.0
    curve: list[CurvePoint] = field(default_factory=list)
    step_seconds: list[float] = field(default_factory=list)


@dataclass(eq=False)
class ModuleTraining:
    """Trains a module by gradient descent, in place.

    The gradient of a step is that of the mean of the losses of a batch; clipping, weight decay, the optimizer and the
    learning rate of each epoch are those of `idwbench.training.engine`. With the same module, generator and thread
    count the result has the same bytes, also if it was interrupted and continued from a checkpoint.

    Args:
        module: The module, with its initial parameters, on its device.
        protocol: Epochs, optimizer, learning rate and schedule; the batch size is that of `batches`.
        losses: Returns the losses of a batch, a tensor of any shape, one number for each answer.
        batches: Yields the batches of one epoch, with all random choices from the generator that it is given.
        generator: The generator of the run.
        evaluate: Called after each epoch in evaluation mode without gradients; its metrics enter the curve.
        checkpoint: The file of the checkpoint, or None for none.
        checkpoint_seconds: Time between two checkpoints.
        recorder: Records every step, or None. The caller finishes the recording; if the training diverged, it is
            deleted.
        rows: Returns the rows of the training data in a batch, in the order of the recorded layers' inputs; by default
            a batch is its rows.
    """

    module: nn.Module
    protocol: Protocol
    losses: Losses
    batches: Batches
    generator: np.random.Generator
    _: KW_ONLY
    evaluate: Callable[[], Metrics] = dict
    checkpoint: CheckpointFile | None = None
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    recorder: Recorder | None = None
    rows: Callable[[Any], NDArray[np.int64]] = lambda batch: batch

    def __post_init__(self) -> None:
        """Place the parameters in one vector, for the optimizer."""
        self.numbers, self.gradients = flat_parameters(self.module.parameters())
        self.optimizer_step = OptimizerStep(self.protocol, self.numbers, self.gradients)
        self.progress = _Progress()
        self._epoch_start = self.generator.bit_generator.state

    def train(self, on_epoch: Callable[[int], None] = lambda epoch: None) -> Fitted:
        """Train the module, in place, from the checkpoint if there is a usable one.

        The metrics are the costs: ``seconds_per_step``, the median of all steps of processor time on the CPU and of
        wall-clock time on another device, and the MiB of `activation_memory`. There are no arrays.

        `on_epoch` is called with the number of each finished epoch; an exception in it ends the training after a
        checkpoint was written.

        Raises:
            OutputError: a checkpoint or the recording cannot be written.
        """
        try:
            return self._train(on_epoch)
        except BaseException:
            if self.recorder is not None:
                self.recorder.close()
            raise

    def _train(self, on_epoch: Callable[[int], None]) -> Fitted:
        self._started = self._saved = time.monotonic()
        self._resume()
        diverged = None
        while self.progress.epoch < self.protocol.epochs:
            epoch = self.progress.epoch
            if not self._train_epoch(epoch):
                diverged = epoch + 1
                break
            try:
                on_epoch(epoch + 1)
            except BaseException:
                self._save()
                raise
        if diverged is not None and self.recorder is not None:
            self.recorder.discard()
        self.module.eval()
        costs = {
            ("train", "seconds_per_step"): float(np.median(self.progress.step_seconds)),
            ("train", "activation_memory"): self.progress.activation_memory,
        }
        n_parameters = sum(parameter.numel() for parameter in self.module.parameters())
        return Fitted(costs, {}, n_parameters, tuple(self.progress.curve), diverged, self._seconds())

    def _train_epoch(self, epoch: int) -> bool:
        """Train the rest of an epoch, and evaluate; return False if it diverged."""
        progress = self.progress
        rate = learning_rate(self.protocol, epoch)
        self._epoch_start = self.generator.bit_generator.state
        self.module.train()
        for batch in islice(self.batches(self.generator, epoch), progress.step, None):
            self._step(batch, rate)
            if self.checkpoint is not None and time.monotonic() - self._saved >= self.checkpoint_seconds:
                self._save()
        loss = progress.loss_sum / max(1, progress.loss_count)
        if not (math.isfinite(loss) and bool(self.numbers.isfinite().all())):
            return False
        self.module.eval()
        with torch.no_grad():
            measured = self.evaluate()
        values = {("train", "learning_rate"): rate, ("train", "loss"): loss, **measured}
        progress.curve.append(CurvePoint(epoch + 1, values))
        progress.epoch, progress.step, progress.loss_sum, progress.loss_count = epoch + 1, 0, 0.0, 0
        self._epoch_start = self.generator.bit_generator.state
        return True

    def _step(self, batch: Any, rate: float) -> None:
        progress = self.progress
        # Processor time does not count what other programs do meanwhile; a step has one thread on the CPU.
        clock = time.thread_time if self.numbers.device.type == "cpu" else time.perf_counter
        started = clock()
        if self.recorder is not None:
            self.recorder.begin_step(self.rows(batch))
        if progress.activation_memory == 0:  # the first step
            losses, progress.activation_memory = activation_memory(self.module, lambda: self.losses(batch))
        else:
            losses = self.losses(batch)
        self.gradients.zero_()
        losses.mean().backward()  # type: ignore[no-untyped-call]
        clip = clip_gradients(self.protocol, self.gradients)
        self.optimizer_step(rate)
        if self.recorder is not None:
            self.recorder.end_step(rate, 1.0 if clip is None else float(clip), self.optimizer_step.state.get("means"))
        progress.loss_sum += float(losses.detach().sum())
        progress.step_seconds.append(clock() - started)
        progress.loss_count += losses.numel()
        progress.step += 1

    def _seconds(self) -> float:
        return self.progress.seconds + time.monotonic() - self._started

    def _save(self) -> None:
        if self.checkpoint is None:
            return
        progress = self.progress
        if self.recorder is not None:
            self.recorder.flush()
        curve = [[p.epoch, [[*key, float(value)] for key, value in p.values.items()]] for p in progress.curve]
        facts = {
            **vars(progress),
            "generator": self._epoch_start,  # the batches of the epoch are drawn again, and those done are left out
            "seconds": self._seconds(),
            "curve": curve,
            "recording": None if self.recorder is None else self.recorder.position,
        }
        step_seconds = facts.pop("step_seconds")
        tensors = {
            "parameters": self.numbers,
            **{f"buffer.{name}": buffer for name, buffer in self.module.named_buffers()},
            **{f"optimizer.{name}": tensor for name, tensor in self.optimizer_step.state.items()},
        }
        tensors["step_seconds"] = torch.tensor(step_seconds, dtype=torch.float64)
        self.checkpoint.save(tensors, facts)
        self._saved = time.monotonic()

    @torch.no_grad()
    def _resume(self) -> None:
        held = self.checkpoint.load() if self.checkpoint is not None else None
        position = held[1].pop("recording", None) if held is not None else None
        if self.recorder is not None and not (position is not None and self.recorder.resume(position)):
            if held is not None and self.checkpoint is not None:
                problem = "the recording does not reach the checkpoint; the training starts again"
                self.checkpoint.note(f"{self.recorder.folder}: {problem}")
            self.recorder.start()
            return
        if held is None:
            return
        tensors, facts = held
        self.numbers.copy_(tensors["parameters"])
        for name, buffer in self.module.named_buffers():
            buffer.copy_(tensors[f"buffer.{name}"])
        device, prefix = self.numbers.device, "optimizer."
        self.optimizer_step.state = {
            name.removeprefix(prefix): tensor.to(device) for name, tensor in tensors.items() if name.startswith(prefix)
        }
        self.generator.bit_generator.state = facts.pop("generator")
        points = [CurvePoint(epoch, {(a, b): v for a, b, v in values}) for epoch, values in facts.pop("curve")]
        self.progress = _Progress(**facts, curve=points, step_seconds=tensors["step_seconds"].tolist())


def module_engine(fit: Fit, check: Check) -> Engine:
    """Return the engine of a kind whose `fit` calls `fit_module`; each run is stored when it ends."""
    return one_by_one(
        "torch",
        fit,
        check=check,
        environment=lambda context: torch_environment(resolve_device(context.device)),
        stored=_delete_checkpoints,
    )


def checkpoint_file(config: RunConfig, dataset: Dataset, context: Context) -> CheckpointFile | None:
    """Return where the training of a run is kept if it is interrupted."""
    if context.checkpoint_folder is None:
        return None
    identity = f"{config.run_key} {dataset.sha256} {resolve_device(context.device)}"
    return CheckpointFile(context.checkpoint_folder / f"{config.run_key}.pt", identity, context.report)


def _delete_checkpoints(configs: Sequence[RunConfig], context: Context) -> None:
    if context.checkpoint_folder is not None:
        for config in configs:
            CheckpointFile(context.checkpoint_folder / f"{config.run_key}.pt", "").delete()


def fit_module(
    training: ModuleTraining, on_epoch: Callable[[int], None], measure: Callable[[Sequence[CurvePoint]], Measured]
) -> Fitted:
    """Train a module, and add to the costs what `measure` returns for the curve of one that is finite.

    The recording of an interrupted training is kept, to be continued. That of a diverged one is deleted, and one that
    filled the disk before there was a checkpoint, from which it could be continued. A finished one adds the array that
    points to it, and for Adam the largest residual share of a layer.

    Raises:
        FullDiskError: there is no room for a checkpoint or the recording.
        OutputError: a checkpoint or the recording cannot be written.
    """
    recorder = training.recorder
    try:
        fitted = training.train(on_epoch)
        pointer = recorder.finish() if recorder is not None and fitted.diverged_epoch is None else None
    except FullDiskError:
        if recorder is not None and (training.checkpoint is None or not training.checkpoint.path.exists()):
            recorder.discard()
        raise
    if fitted.diverged_epoch is not None:
        return fitted
    metrics, arrays = measure(fitted.curve)
    if recorder is None or pointer is None:
        return replace(fitted, metrics={**metrics, **fitted.metrics}, arrays=arrays)
    layers = recorder.facts.layers.values()
    shares = [layer.residual_share for layer in layers if layer.residual_share is not None]
    largest = {("train", "residual_share"): max(shares)} if shares else {}
    return replace(fitted, metrics={**metrics, **largest, **fitted.metrics}, arrays={**arrays, "recording": pointer})


def run_recorder(config: RunConfig, dataset: Dataset, context: Context, layers: Any, **sizes: Any) -> Recorder:
    """Return the recorder of some layers of a run, see `Recordings.recorder`; its disk space is said."""
    protocol = config.protocol
    facts = RecordingFacts(config.run_key, dataset.sha256, protocol.optimizer, protocol.momentum, protocol.weight_decay)
    return Recordings(context.recording_folder, context.report).recorder(layers, facts, **sizes)
