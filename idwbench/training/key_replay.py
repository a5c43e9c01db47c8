"""`key_history`: which training samples moved the keys of a stored run, by repeating its training.

The coefficients of early gradients depend on later steps. So the steps are taken twice: forwards, with snapshots of the
optimizer; then in chunks from the last to the first, each from its snapshot. With T steps there are about √T snapshots
and √T steps in a chunk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg.cython_blas  # noqa: F401  # the kernels' BLAS, loaded before threads are limited
from numpy.typing import NDArray

from idwbench.attention.scores import get_method
from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.dual.coefficients import BackwardCoefficients, StepRule
from idwbench.dual.directional_gradients import StepBatches, clip_factors, directional_gradients
from idwbench.dual.key_history import KeyHistory, adam_step_sizes
from idwbench.errors import TrainingError
from idwbench.results.records import StoredRun
from idwbench.training.step_replay import AbstractReplay, Prototypes, Snapshot, Steps, step_replay
from idwbench.training.threads import limited_threads

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["key_history", "replay_keys"]

# Largest difference of a repeated key from the stored one, as a part of its movement.
TOLERANCE = 1e-3
# Bytes of snapshots, chunks and shares.
MEMORY = 2**31
# Numbers of the coefficients of some steps, (steps, prototypes, features): 2 MB, which stay in the cache.
_BLOCK_NUMBERS = 2**18

OnStep = Callable[[int, int], None]


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
    with limited_threads(1):
        replay = step_replay(run.config, dataset, run.engine or "", run.device or "cpu")
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
    plan = _Plan.of(replay, memory)
    initial = replay.prototypes().keys
    snapshots = []
    for first, last in pairwise(plan.bounds):
        snapshots.append(replay.snapshot())
        for steps in replay.steps(first, last):
            replay.take(steps)
        on_step(last, 2 * replay.n_steps)
    is_exact = _check_arrival(replay.prototypes(), keys, values, initial)
    accumulator = _Accumulator(replay, initial)
    for first, last in reversed([*pairwise(plan.bounds)]):
        accumulator.add(_Chunk.taken(replay, snapshots.pop(), first, last))
        on_step(2 * replay.n_steps - first, 2 * replay.n_steps)
    return accumulator.history(values, is_exact)


def _check_run(run: StoredRun) -> None:
    name, kind = f"run {run.run_key[:12]}", run.config.model.kind
    if kind != "prototypes":
        raise TrainingError(f"{name} is of kind '{kind}': expected a run of kind 'prototypes'")
    if run.state != "complete":
        epoch = f" in epoch {run.diverged_epoch}" if run.diverged_epoch else ""
        raise TrainingError(f"{name} is {run.state}{epoch}: it has no keys")


def _check_arrival(
    found: Prototypes, keys: NDArray[np.float32], values: NDArray[np.float32], initial: NDArray[np.float32]
) -> bool:
    """Return whether the repeated training arrived at the stored bytes; an error if it arrived elsewhere."""
    if np.array_equal(found.keys, keys) and np.array_equal(found.values, values):
        return True
    moved = np.linalg.norm(keys.astype(np.float64) - initial, axis=1)
    missed = np.linalg.norm(keys.astype(np.float64) - found.keys, axis=1)
    worst = float(np.max(missed / np.maximum(moved, np.finfo(np.float32).tiny)))
    if not worst <= TOLERANCE:
        problem = f"the repeated training ends {worst:.1e} of a key's movement from the stored keys"
        hint = "another processor or version rounds differently: train the run again on this machine"
        raise TrainingError(f"{problem}, expected at most {TOLERANCE:g}", hint=hint)
    return False


@dataclass(frozen=True)
class _Plan:
    """Where chunks of steps begin and end."""

    bounds: tuple[int, ...]

    @classmethod
    def of(cls, replay: AbstractReplay, memory: int) -> _Plan:
        """Return about √T chunks.

        Raises:
            TrainingError: they need more memory.
        """
        now = replay.prototypes()
        state = sum(math.prod(array.shape) for array in replay.snapshot().values())
        of_step = sum(array.size for array in now if array is not None)
        length = max(1, round(math.sqrt(replay.n_steps * state / of_step)))
        needed = 4 * length * of_step + 4 * math.ceil(replay.n_steps / length) * state
        needed += 8 * len(replay.dataset.train) * len(now.keys) + replay.orders.nbytes
        if needed > memory:
            problem = f"{replay.n_steps:,} steps of {len(now.keys)} prototypes need {needed / 2**30:.1f} GiB"
            raise TrainingError(f"{problem}, expected at most {memory / 2**30:.1f} GiB of memory")
        return cls((*range(0, replay.n_steps, length), replay.n_steps))


@dataclass(frozen=True)
class _Chunk:
    """Consecutive steps with the prototypes before each, and the squares after it (None for SGD)."""

    steps: list[Steps]
    keys: NDArray[np.float32]
    values: NDArray[np.float32]
    squares: NDArray[np.float32] | None

    @classmethod
    def taken(cls, replay: AbstractReplay, snapshot: Snapshot, first: int, last: int) -> _Chunk:
        """Take the steps from a snapshot again and keep the prototypes."""
        replay.restore(snapshot)
        before, n = replay.prototypes(), last - first
        keys, values = (np.empty((n, *array.shape), array.dtype) for array in (before.keys, before.values))
        squares = None if before.squares is None else np.empty_like(keys)
        steps = [*replay.steps(first, last)]
        for number, step in enumerate(single for several in steps for single in _singly(several)):
            keys[number], values[number] = before.keys, before.values
            replay.take(step)
            before = replay.prototypes()
            if squares is not None and before.squares is not None:
                squares[number] = before.squares
        return cls(steps, keys, values, squares)


def _singly(steps: Steps) -> Iterator[Steps]:
    for number, rows in enumerate(steps.rows):
        yield Steps(steps.first + number, rows[None], steps.rate)


class _Accumulator:
    """Adds up shares from the last step to the first."""

    def __init__(self, replay: AbstractReplay, initial: NDArray[np.float32]) -> None:
        self.dataset: Dataset = replay.dataset
        self.model, self.protocol = replay.config.network, replay.protocol
        self.initial, self.keys = initial, replay.prototypes().keys
        self.movement = self.keys.astype(np.float64) - initial
        norms = (self.movement**2).sum(1, keepdims=True)
        self.directions = self.movement / np.where(norms > 0, norms, 1.0)
        self.rule = StepRule.of(self.protocol)
        self.coefficients = BackwardCoefficients(self.rule)
        self.shares = np.zeros((len(self.dataset.train), len(initial)))
        n_classes = len(self.dataset.class_names) or 1
        self.class_shares = np.zeros((self.protocol.epochs, n_classes, len(initial)))
        self.steps_of_epoch = replay.steps_of_epoch

    def add(self, chunk: _Chunk) -> None:
        """Add the shares of a chunk; the chunks come from the last to the first."""
        at_once = max(1, _BLOCK_NUMBERS // self.initial.size)
        end = len(chunk.keys)
        for several in reversed(chunk.steps):
            start = end - len(several.rows)
            while end > start:
                begin = max(start, end - at_once)
                self._add_steps(several, chunk, slice(begin, end), begin - start)
                end = begin

    def _add_steps(self, several: Steps, chunk: _Chunk, place: slice, offset: int) -> None:
        n = place.stop - place.start
        rows = several.rows[offset : offset + n]
        train = self.dataset.train
        batches = StepBatches(train.inputs[rows], train.targets[rows], chunk.keys[place], chunk.values[place])
        method, parameters = get_method(self.model.method), self.model.parameters
        clips = np.ones(n)
        if self.protocol.gradient_clip:
            clips = clip_factors(method, parameters, batches, self.protocol.gradient_clip)
        rates = np.full(n, several.rate)
        if chunk.squares is None:
            sizes = rates.reshape(-1, 1, 1)
        else:
            sizes = adam_step_sizes(rates, chunk.squares[place], several.first + offset)
        coefficients = self.coefficients.earlier(sizes, clips)
        found = directional_gradients(method, parameters, batches, coefficients * self.directions)
        for of_step, shares in zip(rows, found, strict=True):
            self.shares[of_step] += shares  # the rows of a batch are distinct
        labels = train.labels[rows].ravel() if self.dataset.class_names else np.zeros(rows.size, np.int64)
        members = labels == np.arange(self.class_shares.shape[1])[:, None]
        self.class_shares[several.first // self.steps_of_epoch] += members @ found.reshape(rows.size, -1)

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
