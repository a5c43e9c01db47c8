"""Dataclasses that the results database returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol, get_args

from idwbench.errors import last_line
from idwbench.runs.config import RunConfig
from idwbench.runs.metrics import Metrics
from idwbench.runs.results import FinishedState

__all__ = [
    "ATTEMPT_STATES",
    "RESULT_STATES",
    "RUN_STATES",
    "Attempt",
    "AttemptState",
    "EndedState",
    "FailedRun",
    "MeasuredRun",
    "ReportedRun",
    "RunState",
    "StoredRun",
    "StoredSweep",
    "SweepStatus",
]

RunState = Literal["planned", "running", "complete", "diverged", "failed"]
EndedState = Literal["complete", "diverged", "failed"]
RUN_STATES: tuple[RunState, ...] = get_args(RunState)
AttemptState = Literal["running", "complete", "diverged", "failed", "released", "lost"]
ATTEMPT_STATES: tuple[AttemptState, ...] = get_args(AttemptState)
# States in which a run has a result, which it keeps after a failure.
RESULT_STATES: tuple[FinishedState, ...] = get_args(FinishedState)


class ReportedRun(Protocol):
    """What reports need of a stored run: a `StoredRun` or a `MeasuredRun`."""

    @property
    def run_key(self) -> str:
        """The key."""

    @property
    def setting(self) -> RunConfig:
        """A run with the same data set, model and protocol, whose seed may be another."""

    @property
    def seed(self) -> int:
        """The seed."""

    @property
    def config(self) -> RunConfig:
        """The configuration."""

    @property
    def dataset(self) -> str:
        """`RunConfig.dataset_label`."""

    @property
    def state(self) -> RunState:
        """State of the result; a run that has one keeps it while it is trained again."""

    @property
    def metrics(self) -> Metrics:
        """By split and name; empty if the run is not complete."""

    @property
    def n_parameters(self) -> int | None:
        """Number of learned parameters, or None."""

    def metric(self, name: str, split: str = "test") -> float | None:
        """Return a metric of a split, or None."""


class MeasuredRun(NamedTuple):
    """A `ReportedRun` without provenance; runs of one setting share an object."""

    run_key: str
    setting: RunConfig
    seed: int
    dataset: str
    state: RunState
    metrics: Metrics
    n_parameters: int | None

    @property
    def config(self) -> RunConfig:
        """The configuration."""
        return self.setting if self.setting.seed == self.seed else self.setting.with_seed(self.seed)

    def metric(self, name: str, split: str = "test") -> float | None:
        """Return a metric of a split, or None."""
        return self.metrics.get((split, name))


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A stored run.

    Attributes:
        dataset: `RunConfig.dataset_label`.
        state: That of the result; a run that has one keeps it while it is trained again.
        metrics: By split and name; empty if the run is not complete.
        n_parameters: Number of learned parameters, or None.
        diverged_epoch: The epoch after which arrays or loss were not finite, or None.
        error: One line, or the traceback of the last failure.
        seconds: Training time.
        attempt: Number of times the run was started.
        data_sha256: Checksum of the training data.
        versions: Versions of Python and packages by name.
        git: Commit of the package, whether its files were changed, and the SHA-256 of the changes; None if it was
            installed.
        cpu: Model of the processor, and the instruction set that the engine used.
        platform: Operating system, processor architecture and C library.
        durations: Seconds of ``set_up``, ``training`` and ``metrics``, as far as they were measured.
        retraining: Whether the run was started again, and the new result is not stored yet.
    """

    run_key: str
    config: RunConfig
    dataset: str
    state: RunState
    metrics: Metrics = field(default_factory=dict)
    n_parameters: int | None = None
    diverged_epoch: int | None = None
    error: str | None = None
    engine: str | None = None
    device: str | None = None
    threads: int | None = None
    host: str | None = None
    seconds: float | None = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    attempt: int = 0
    data_sha256: str | None = None
    versions: Mapping[str, str] | None = None
    git: Mapping[str, Any] | None = None
    cpu: Mapping[str, str] | None = None
    platform: str | None = None
    durations: Mapping[str, float] | None = None
    retraining: bool = False

    @property
    def setting(self) -> RunConfig:
        """The configuration, see `ReportedRun`."""
        return self.config

    @property
    def seed(self) -> int:
        """The seed."""
        return self.config.seed

    @property
    def label(self) -> str:
        """Data set and model."""
        return f"{self.dataset} · {self.config.model.label}"

    def metric(self, name: str, split: str = "test") -> float | None:
        """Return a metric of a split, or None."""
        return self.metrics.get((split, name))


@dataclass(frozen=True)
class FailedRun:
    """A run whose last attempt failed; `error` is the last line of the message."""

    run_key: str
    label: str
    seed: int
    error: str
    ended_at: datetime | None

    @classmethod
    def of(cls, run: StoredRun) -> FailedRun:
        """Return what is shown of a stored run that failed."""
        return cls(run.run_key, run.label, run.seed, last_line(run.error), run.finished_at)


@dataclass(frozen=True)
class Attempt:
    """One start of a run.

    Attributes:
        number: From 1.
        state: How it ended: with a result (``complete``, ``diverged``), by an error (``failed``), by an interruption
            (``released``), or with its process (``lost``).
        error: The traceback of a failure, or None.
        host: The computer; with `pid` the process that leased the run.
        ended_at: None while it is running; of a lost attempt, when its process was last known to run.
        seconds: Training time of an attempt with a result, or None.
    """

    number: int
    state: AttemptState
    error: str | None
    host: str | None
    pid: int | None
    started_at: datetime | None
    ended_at: datetime | None
    seconds: float | None


@dataclass(frozen=True)
class SweepStatus:
    """Number of runs of a sweep in each state; `stale` runs have lost their process and are not in `running`."""

    total: int
    planned: int
    running: int
    stale: int
    complete: int
    diverged: int
    failed: int


@dataclass(frozen=True)
class StoredSweep:
    """A sweep as last registered; `spec` is the text of its file."""

    name: str
    description: str
    spec: str
    created_at: datetime
    updated_at: datetime
