"""Frozen values that cross the border of the results database; no row of it leaves the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from idwbench.config import RunConfig

__all__ = [
    "RESULT_STATES",
    "RUN_STATES",
    "CurvePoint",
    "EndedState",
    "FinishedEpoch",
    "FinishedRun",
    "RunState",
    "StoredRun",
    "StoredSweep",
    "SweepStatus",
]

RunState = Literal["planned", "running", "complete", "diverged", "failed"]
EndedState = Literal["complete", "diverged", "failed"]
RUN_STATES: tuple[RunState, ...] = ("planned", "running", "complete", "diverged", "failed")
# Those in which a run has a result that a failure does not take away.
RESULT_STATES: tuple[RunState, ...] = ("complete", "diverged")


@dataclass(frozen=True)
class StoredRun:
    """One run as it stands in the database.

    Attributes:
        dataset: `RunConfig.dataset_label`.
        n_features: Columns of keys; None until the run has ended well.
        n_classes: Columns of values; None until the run has ended well.
        diverged_epoch: The epoch after which keys, values or loss were not finite.
        error: One line, or a traceback, of a diverged or failed run; of one that kept its result, why training it
            again failed.
        seconds: Training time of this run.
        attempt: How often the run was started.
        data_sha256: Checksum of the data it was trained on.
        versions: Python and the packages that matter, by name, as they were at the end of the run.
        git: Commit of the checkout that trained it, and whether that was changed; None if it was no checkout.
    """

    run_key: str
    config: RunConfig
    dataset: str
    state: RunState
    train_accuracy: float | None
    test_accuracy: float | None
    holdout_accuracy: float | None
    n_features: int | None
    n_classes: int | None
    diverged_epoch: int | None
    error: str | None
    engine: str | None
    device: str | None
    threads: int | None
    host: str | None
    seconds: float | None
    started_at: datetime | None
    finished_at: datetime | None
    attempt: int = 0
    data_sha256: str | None = None
    versions: Mapping[str, str] | None = None
    git: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class SweepStatus:
    """How many runs of a sweep are in each state; `stale` are running ones whose process is gone.

    A run is counted once: `running` holds the live ones only, so that the states add up to `total`.
    """

    total: int
    planned: int
    running: int
    stale: int
    complete: int
    diverged: int
    failed: int


@dataclass(frozen=True)
class StoredSweep:
    """One sweep as it was last registered; `spec` is the text of its file."""

    name: str
    description: str
    spec: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class CurvePoint:
    """One epoch of a stored learning curve; `train_loss` is NaN where it was not finite."""

    epoch: int
    learning_rate: float
    train_loss: float
    test_accuracy: float


class FinishedEpoch(Protocol):
    """What the store reads of one epoch; an engine's metrics have this shape."""

    @property
    def epoch(self) -> int:
        """From 1."""

    @property
    def learning_rate(self) -> float:
        """Used throughout the epoch."""

    @property
    def train_loss(self) -> float:
        """Mean cross-entropy in nats; may be not finite."""

    @property
    def test_accuracy(self) -> float:
        """From 0 to 1."""


class FinishedRun(Protocol):
    """What the store reads of a finished training; an engine's result has this shape."""

    @property
    def config(self) -> RunConfig:
        """What was trained."""

    @property
    def state(self) -> Literal["complete", "diverged"]:
        """How it ended."""

    @property
    def keys(self) -> NDArray[np.float32] | None:
        """(prototypes, features), or None if it diverged."""

    @property
    def values(self) -> NDArray[np.float32] | None:
        """(prototypes, classes), or None if it diverged."""

    @property
    def curve(self) -> Sequence[FinishedEpoch]:
        """One entry an epoch."""

    @property
    def train_accuracy(self) -> float | None:
        """From 0 to 1."""

    @property
    def test_accuracy(self) -> float | None:
        """From 0 to 1."""

    @property
    def holdout_accuracy(self) -> float | None:
        """From 0 to 1; None without a holdout split."""

    @property
    def diverged_epoch(self) -> int | None:
        """The epoch after which something was not finite."""

    @property
    def seconds(self) -> float:
        """Training time of this run."""

    @property
    def engine(self) -> str:
        """Name of the engine."""

    @property
    def device(self) -> str:
        """Name of the device."""

    @property
    def threads(self) -> int:
        """Threads the engine was given."""
