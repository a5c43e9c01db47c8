"""Frozen values that the results database hands out; no row of it leaves the store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from idwbench.config import RunConfig

__all__ = ["RunState", "StoredRun", "SweepStatus"]

RunState = Literal["planned", "running", "complete", "diverged", "failed"]


@dataclass(frozen=True)
class StoredRun:
    """One run as it stands in the database.

    Attributes:
        dataset: `RunConfig.dataset_label`.
        n_features: Columns of keys; None until the run has ended well.
        n_classes: Columns of values; None until the run has ended well.
        diverged_epoch: The epoch after which keys, values or loss were not finite.
        error: One line, or a traceback, of a diverged or failed run.
        seconds: Training time of this run.
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


@dataclass(frozen=True)
class SweepStatus:
    """How many runs of a sweep are in each state; `stale` are running ones whose process is gone."""

    total: int
    planned: int
    running: int
    stale: int
    complete: int
    diverged: int
    failed: int
