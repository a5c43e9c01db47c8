"""A training repeated step by step, and `key_history`: which training samples moved the keys of a stored run.

The coefficients of early gradients depend on later steps. So the steps are taken twice: forwards, with snapshots of the
optimizer; then in chunks from the last to the first, each from its snapshot. With T steps there are about √T snapshots
and √T steps in a chunk.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.dual.coefficients import BackwardCoefficients
from idwbench.dual.key_history import KeyHistory, StepBatches, adam_step_sizes, clip_factors, directional_gradients
from idwbench.errors import TrainingError
from idwbench.results.records import StoredRun
from idwbench.runs.config import RunConfig
from idwbench.runs.protocol import learning_rate
from idwbench.training import fused_engine
from idwbench.training.engine import batch_order
from idwbench.training.kernel_runs import KernelRun
from idwbench.training.threads import limited_threads
from idwbench.training.torch_engine import TorchStack, resolve_device

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["AbstractReplay", "Prototypes", "Snapshot", "Steps", "key_history", "replay_keys", "run_replay"]

# Largest difference of a repeated key from the stored one, as a part of its movement.
TOLERANCE = 1e-3
# Bytes of snapshots, chunks and shares.
MEMORY = 2**31
# Numbers of the coefficients of some steps, (steps, prototypes, features): 2 MB, which stay in the cache.
_BLOCK_NUMBERS = 2**18
_NUMBERS = "numbers"

# Arrays or tensors by name.
Snapshot = Mapping[str, Any]
OnStep = Callable[[int, int], None]


class Steps(NamedTuple):
    """Consecutive steps of one epoch with batches of one size.

    Attributes:
        first: The first step, from 0.
        rows: Rows of the training data, (steps, batch).
        rate: The learning rate.
    """

    first: int
    rows: NDArray[np.int64]
    rate: float


class Prototypes(NamedTuple):
    """Copies of keys and values, and of what Adam divides the steps of keys by, squared (None for SGD)."""

    keys: NDArray[np.float32]
    values: NDArray[np.float32]
    squares: NDArray[np.float32] | None


class AbstractReplay(ABC):
    """Repeats the steps of a run; begins at its initial prototypes.

    Attributes:
        n_steps: Number of steps of the run.
    """

    def __init__(self, config: RunConfig, dataset: Dataset, generator: np.random.Generator) -> None:
        self.config, self.protocol, self.dataset = config, config.protocol, dataset
        n_train, epochs = len(dataset.train), self.protocol.epochs
        self.orders = np.empty((epochs, n_train), np.uint32)
        for order in self.orders:
            order[:] = batch_order(generator, n_train)
        self.steps_of_epoch = math.ceil(n_train / self.protocol.batch_size)
        self.n_steps = epochs * self.steps_of_epoch
        self._most = max(1, _BLOCK_NUMBERS // (config.network.prototypes * dataset.n_features))

    def steps(self, first: int, last: int) -> Iterator[Steps]:
        """Yield the steps from `first` to `last` (exclusive) in order, some at a time."""
        size, n_train = self.protocol.batch_size, len(self.dataset.train)
        n_full = n_train // size
        while first < last:
            epoch, step = divmod(first, self.steps_of_epoch)
            order, rate = self.orders[epoch].astype(np.int64), learning_rate(self.protocol, epoch)
            if step < n_full:
                n = min(n_full - step, last - first, self._most)
                rows = order[step * size : (step + n) * size].reshape(n, size)
            else:
                rows = order[None, step * size :]
            yield Steps(first, rows, rate)
            first += len(rows)

    @abstractmethod
    def take(self, steps: Steps) -> None:
        """Take steps; the model must be where they begin."""

    @abstractmethod
    def prototypes(self) -> Prototypes:
        """Return the present prototypes."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Return a copy of parameters and the state of the optimizer, by name."""

    @abstractmethod
    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot."""


class _FusedReplay(AbstractReplay):
    """Repeats a run of the fused engine: the same kernel, called for some batches instead of whole epochs."""

    def __init__(self, config: RunConfig, dataset: Dataset) -> None:
        fused_engine.prepare()
        self._run = KernelRun(config, dataset, dataset.moments)
        super().__init__(config, dataset, self._run.generator)

    def take(self, steps: Steps) -> None:
        self._run.take_steps(steps.rows, steps.rate, steps.first)

    def prototypes(self) -> Prototypes:
        keys, values = self._run.keys[0], self._run.values[0]
        rows = keys.transpose(0, 2, 1) if self._run.narrow else keys
        squares = None if self.protocol.optimizer == "sgd" else np.array(rows[3], order="C")
        return Prototypes(np.array(rows[0], order="C"), np.array(values[0].T, order="C"), squares)

    def snapshot(self) -> Snapshot:
        return {"keys": self._run.keys[0].copy(), "values": self._run.values[0].copy()}

    def restore(self, snapshot: Snapshot) -> None:
        self._run.keys[0][:] = snapshot["keys"]
        self._run.values[0][:] = snapshot["values"]


class _TorchReplay(AbstractReplay):
    """Repeats a run of the torch engine."""

    def __init__(self, config: RunConfig, dataset: Dataset, device: str) -> None:
        self._stack = TorchStack([config], dataset, dataset.moments, resolve_device(device))
        super().__init__(config, dataset, self._stack.generators[0])

    def take(self, steps: Steps) -> None:
        for rows in torch.from_numpy(steps.rows).to(self._stack.device):
            self._stack.step(rows, steps.rate)

    def prototypes(self) -> Prototypes:
        stack = self._stack
        keys, values = (tensor.detach().cpu().numpy().copy() for tensor in (stack.keys, stack.values))
        state = stack.optimizer_step.state
        squares = state.get("largest", state.get("squares"))
        if squares is None:
            return Prototypes(keys, values, None)
        return Prototypes(keys, values, squares[0, : keys.size].view(keys.shape).cpu().numpy().copy())

    def snapshot(self) -> Snapshot:
        held = {_NUMBERS: self._stack.numbers, **self._stack.optimizer_step.state}
        return {name: tensor.clone() for name, tensor in held.items()}

    @torch.no_grad()
    def restore(self, snapshot: Snapshot) -> None:
        self._stack.numbers.copy_(snapshot[_NUMBERS])
        state = {name: tensor.clone() for name, tensor in snapshot.items() if name != _NUMBERS}
        self._stack.optimizer_step.state = state


def run_replay(config: RunConfig, dataset: Dataset, engine: str, device: str) -> AbstractReplay:
    """Return the replay of a run with the engine that trained it.

    Raises:
        ConfigError: this machine does not have the device.
    """
    return _FusedReplay(config, dataset) if engine == "fused" else _TorchReplay(config, dataset, device)


def key_history(
    results: Results,
    run_key: str,
    *,
    data_dir: Path | None = None,
    memory: int = MEMORY,
    on_step: OnStep = lambda done, total: None,
) -> KeyHistory:
    """Return the share of each training sample in the movement of each key of a stored prototype network.

    The training is repeated twice with the engine of the run, which gives the same bytes on the same machine.

    Args:
        results: The database.
        run_key: The key of the run, or its beginning.
        data_dir: Folder of the image archives.
        memory: Largest number of bytes for snapshots, chunks and shares.
        on_step: Called with the number of steps taken so far and in all.

    Raises:
        ResultsError: no such run, or several.
        TrainingError: the run has no learned keys, diverged, or the repeated training does not arrive at its keys.
        ConfigError: this machine does not have the device of the run.
        DatasetError: the data cannot be loaded.
    """
    run = results.find_run(run_key)
    _check_run(run)
    dataset = load_dataset(run.config.dataset, data_dir)
    if run.data_sha256 not in (None, dataset.sha256):
        raise TrainingError(f"run {run.run_key[:12]} was trained on other data: the data set has changed")
    stored = results.load_arrays(run.run_key)
    keys, values = (np.asarray(stored[name], np.float32) for name in ("keys", "values"))
    with limited_threads(run.threads or 1):
        replay = run_replay(run.config, dataset, run.engine or "", run.device or "cpu")
        return replay_keys(replay, keys, values, memory=memory, on_step=on_step)


def replay_keys(
    replay: AbstractReplay,
    keys: NDArray[np.float32],
    values: NDArray[np.float32],
    *,
    memory: int = MEMORY,
    on_step: OnStep = lambda done, total: None,
) -> KeyHistory:
    """Return the history of keys whose training `replay` repeats; it raises as `key_history`."""
    chunks = _plan_chunks(replay, memory)
    initial = replay.prototypes().keys
    snapshots = []
    for first, last in chunks:
        snapshots.append(replay.snapshot())
        for steps in replay.steps(first, last):
            replay.take(steps)
        on_step(last, 2 * replay.n_steps)
    is_exact = _check_arrival(replay.prototypes(), keys, values, initial)
    accumulator = _Accumulator(replay, initial)
    for first, last in reversed(chunks):
        for steps, trajectory in reversed(_trajectories(replay, snapshots.pop(), first, last)):
            accumulator.add(steps, trajectory)
        on_step(2 * replay.n_steps - first, 2 * replay.n_steps)
    return accumulator.history(values, is_exact)


def _check_run(run: StoredRun) -> None:
    name, kind = f"run {run.run_key[:12]}", run.config.model.kind
    if kind != "prototypes":
        raise TrainingError(f"{name} is of kind '{kind}': expected a run of kind 'prototypes'")
    if run.config.network.key_bounds != "none":
        problem = f"{name} has key_bounds '{run.config.network.key_bounds}': its keys are no sum of steps"
        raise TrainingError(problem, hint="train it with key_bounds: none")
    for setting in ("label_smoothing", "key_penalty"):
        if factor := getattr(run.config.network, setting):
            problem = f"{name} has {setting} {factor:g}, whose steps no history attributes"
            raise TrainingError(problem, hint=f"train it with {setting}: 0")
    if run.config.network.slope_rank:
        problem = f"{name} learned slopes of its values too, which move with the keys"
        raise TrainingError(problem, hint="train it with slope_rank: 0")
    if learned := run.config.network.method_record.learned:
        problem = f"{name} learned {', '.join(one.name for one in learned)} too, which move with the keys"
        raise TrainingError(problem, hint="the history is that of methods whose keys and values alone are learned")
    if run.state != "complete":
        epoch = f" in epoch {run.diverged_epoch}" if run.diverged_epoch else ""
        raise TrainingError(f"{name} is {run.state}{epoch}: it has no keys")


def _check_arrival(
    arrived: Prototypes, keys: NDArray[np.float32], values: NDArray[np.float32], initial: NDArray[np.float32]
) -> bool:
    """Return whether the repeated training arrived at the stored bytes; an error if it arrived elsewhere."""
    if np.array_equal(arrived.keys, keys) and np.array_equal(arrived.values, values):
        return True
    moved = np.linalg.norm(keys.astype(np.float64) - initial, axis=1)
    missed = np.linalg.norm(keys.astype(np.float64) - arrived.keys, axis=1)
    worst = float(np.max(missed / np.maximum(moved, np.finfo(np.float32).tiny)))
    if not worst <= TOLERANCE:
        problem = f"the repeated training ends {worst:.1e} of a key's movement from the stored keys"
        hint = "another processor or version rounds differently: train the run again on this machine"
        raise TrainingError(f"{problem}, expected at most {TOLERANCE:g}", hint=hint)
    return False


def _plan_chunks(replay: AbstractReplay, memory: int) -> list[tuple[int, int]]:
    """Return the first step of each of about √T chunks, and the step after its last.

    Raises:
        TrainingError: they need more memory.
    """
    now = replay.prototypes()
    n_state = sum(math.prod(array.shape) for array in replay.snapshot().values())
    n_of_step = sum(array.size for array in now if array is not None)
    length = max(1, round(math.sqrt(replay.n_steps * n_state / n_of_step)))
    needed = 4 * length * n_of_step + 4 * math.ceil(replay.n_steps / length) * n_state
    needed += 8 * len(replay.dataset.train) * len(now.keys) + replay.orders.nbytes
    if needed > memory:
        problem = f"{replay.n_steps:,} steps of {len(now.keys)} prototypes need {needed / 2**30:.1f} GiB"
        raise TrainingError(f"{problem}, expected at most {memory / 2**30:.1f} GiB of memory")
    return [*pairwise((*range(0, replay.n_steps, length), replay.n_steps))]


def _trajectories(
    replay: AbstractReplay, snapshot: Snapshot, first: int, last: int
) -> list[tuple[Steps, list[Prototypes]]]:
    """Take steps again from a snapshot; return them with the prototypes before each and after the last of some."""
    replay.restore(snapshot)
    now, taken = replay.prototypes(), []
    for steps in replay.steps(first, last):
        trajectory = [now]
        for number, rows in enumerate(steps.rows):
            replay.take(Steps(steps.first + number, rows[None], steps.rate))
            trajectory.append(replay.prototypes())
        now = trajectory[-1]
        taken.append((steps, trajectory))
    return taken


class _Accumulator:
    """Adds up shares from the last step to the first."""

    def __init__(self, replay: AbstractReplay, initial: NDArray[np.float32]) -> None:
        self.dataset: Dataset = replay.dataset
        self.model, self.protocol = replay.config.network, replay.protocol
        self.initial, self.keys = initial, replay.prototypes().keys
        self.movement = self.keys.astype(np.float64) - initial
        norms = (self.movement**2).sum(1, keepdims=True)
        self.directions = self.movement / np.where(norms > 0, norms, 1.0)
        self.coefficients = BackwardCoefficients.of(self.protocol)
        self.shares = np.zeros((len(self.dataset.train), len(initial)))
        n_classes = len(self.dataset.class_names) or 1
        self.class_shares = np.zeros((self.protocol.epochs, n_classes, len(initial)))
        self.steps_of_epoch = replay.steps_of_epoch

    def add(self, steps: Steps, trajectory: list[Prototypes]) -> None:
        """Add the shares of some steps, from the last to the first, with the prototypes before each and at the end."""
        train, rows = self.dataset.train, steps.rows
        keys, values = zip(*((now.keys, now.values) for now in trajectory[:-1]), strict=True)
        batches = StepBatches(train.inputs[rows], train.targets[rows], np.stack(keys), np.stack(values))
        method, parameters = self.model.method_record, self.model.parameters
        clips = np.ones(len(rows))
        if self.protocol.gradient_clip:
            clips = clip_factors(method, parameters, batches, self.protocol.gradient_clip)
        rates = np.full(len(rows), steps.rate)
        squares = [now.squares for now in trajectory[1:] if now.squares is not None]
        sizes = adam_step_sizes(rates, np.stack(squares), steps.first) if squares else rates.reshape(-1, 1, 1)
        coefficients = self.coefficients.earlier(sizes, clips)
        shares = directional_gradients(method, parameters, batches, coefficients * self.directions)
        for rows_of_step, step_shares in zip(rows, shares, strict=True):
            self.shares[rows_of_step] += step_shares  # the rows of a batch are distinct
        labels = train.labels[rows].ravel() if self.dataset.class_names else np.zeros(rows.size, np.int64)
        members = labels == np.arange(self.class_shares.shape[1])[:, None]
        self.class_shares[steps.first // self.steps_of_epoch] += members @ shares.reshape(rows.size, -1)

    def history(self, values: NDArray[np.float32], is_exact: bool) -> KeyHistory:
        """Return the history after the first step was added."""
        initial_share = ((self.coefficients.factor - 1) * self.initial * self.directions).sum(1)
        has_moved = (self.movement != 0).any(1)
        return KeyHistory(
            initial=self.initial,
            keys=self.keys,
            values=values,
            shares=self.shares,
            class_shares=self.class_shares,
            initial_share=initial_share,
            remainder=has_moved - self.shares.sum(0) - initial_share,
            is_exact=is_exact,
        )
