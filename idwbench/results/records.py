"""Frozen values that the results database returns; no row of a table leaves it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, get_args

from idwbench.runs.config import RunConfig
from idwbench.runs.metrics import Metrics
from idwbench.runs.results import FinishedState

__all__ = ["RESULT_STATES", "RUN_STATES", "EndedState", "RunState", "StoredRun", "StoredSweep", "SweepStatus"]

RunState = Literal["planned", "running", "complete", "diverged", "failed"]
EndedState = Literal["complete", "diverged", "failed"]
RUN_STATES: tuple[RunState, ...] = get_args(RunState)
# Those in which a run has a result that a failure does not take away.
RESULT_STATES: tuple[FinishedState, ...] = get_args(FinishedState)


@dataclass(frozen=True)
class StoredRun:
    """One run as it is stored.

    Attributes:
        dataset: `RunConfig.dataset_label`.
        metrics: By split and name, as `idwbench.runs.metrics` defines them; empty if the run has no result.
        n_parameters: Number of learned numbers; None if the run has no result.
        diverged_epoch: The epoch after which arrays or loss were not finite.
        error: One line, or a traceback, of a diverged or failed run; of a run that kept its result, why training it
            again failed.
        seconds: Training time of this run.
        attempt: How often the run was started.
        data_sha256: Checksum of the data it was trained on.
        versions: Python and the packages that matter, by name, as they were at the end of the run.
        git: Commit of the checkout that trained it, and whether that was changed; None if it was no checkout.
        cpu: Model of the processor that trained it, and the instruction set that its engine used.
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
    started_at: datetime | None = None
    finished_at: datetime | None = None
    attempt: int = 0
    data_sha256: str | None = None
    versions: Mapping[str, str] | None = None
    git: Mapping[str, Any] | None = None
    cpu: Mapping[str, str] | None = None

    def metric(self, name: str, split: str = "test") -> float | None:
        """Return a metric of a split, or None if the run has none of that name."""
        return self.metrics.get((split, name))


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
