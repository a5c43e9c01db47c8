"""Dataclasses that the results database returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, get_args

import idwbench
from idwbench.errors import last_line
from idwbench.runs.config import RunConfig
from idwbench.runs.metrics import Metrics
from idwbench.runs.results import FinishedState

__all__ = ["RESULT_STATES", "RUN_STATES", "EndedState", "RunState", "StoredRun", "StoredSweep", "SweepStatus"]

RunState = Literal["planned", "running", "complete", "diverged", "failed"]
EndedState = Literal["complete", "diverged", "failed"]
RUN_STATES: tuple[RunState, ...] = get_args(RunState)
# States in which a run has a result, which it keeps after a failure.
RESULT_STATES: tuple[FinishedState, ...] = get_args(FinishedState)


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
        git: Commit of the package, whether its files were changed, and if so how many and the SHA-256 of the changes;
            None if it was installed.
        cpu: Model of the processor, and the instruction set that the engine used.
        platform: Operating system, processor architecture and C library.
        durations: Seconds of ``set_up``, ``training`` and ``metrics``, as far as they were measured.
        tags: The user's own words, joined by commas, or None.
        note: A line of the user, or None.
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
    tags: str | None = None
    note: str | None = None
    retraining: bool = False

    @property
    def seed(self) -> int:
        """The seed."""
        return self.config.seed

    @property
    def label(self) -> str:
        """Data set and model."""
        return f"{self.dataset} · {self.config.model.label}"

    @property
    def reason(self) -> str:
        """The last line of the error, which may be empty."""
        return last_line(self.error)

    def metric(self, name: str, split: str = "test") -> float | None:
        """Return a metric of a split, or None."""
        return self.metrics.get((split, name))

    def _repr_html_(self) -> str:
        return idwbench.html(self)


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

    @property
    def ended(self) -> int:
        """Number of runs that have ended."""
        return self.complete + self.diverged + self.failed

    @property
    def to_do(self) -> int:
        """Number of runs that have not."""
        return self.total - self.ended


@dataclass(frozen=True)
class StoredSweep:
    """A sweep as last registered; `spec` is the text of its file."""

    name: str
    description: str
    spec: str
    created_at: datetime
    updated_at: datetime
