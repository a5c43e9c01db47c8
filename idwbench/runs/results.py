"""What a run gave: a curve, named metrics, named arrays, and how and where it was trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from idwbench.runs.config import RunConfig
from idwbench.runs.metrics import Metrics

__all__ = ["CurvePoint", "FinishedState", "RunResult"]

FinishedState = Literal["complete", "diverged"]


@dataclass(frozen=True)
class CurvePoint:
    """One epoch of a learning curve.

    Attributes:
        epoch: From 1.
        values: By split and name: ``("train", "learning_rate")``; ``("train", "loss")``, the mean over the epoch's
            batches, weighted by their size, in nats or squared units; the headline metric of ``test`` and, if there is
            one, ``validation``, after the epoch.
    """

    epoch: int
    values: Metrics


@dataclass(frozen=True)
class RunResult:
    """What one training gave; of a diverged run the curve up to the epoch, and no arrays or metrics.

    Attributes:
        curve: One point for each finished epoch.
        metrics: By split and name, as `idwbench.runs.metrics` defines them.
        arrays: By name; of a prototype network ``keys`` (prototypes, features), scaled like the inputs, and ``values``
            (prototypes, outputs).
        n_parameters: Number of learned numbers; None if the run diverged.
        seconds: Wall-clock time of this run; in a stack, that of the stack divided by its runs.
    """

    config: RunConfig
    state: FinishedState
    curve: tuple[CurvePoint, ...]
    metrics: Metrics
    arrays: Mapping[str, NDArray[np.generic]]
    n_parameters: int | None
    diverged_epoch: int | None
    seconds: float
    engine: str
    device: str
    threads: int
    instruction_set: str = field(default="")

    def metric(self, name: str, split: str = "test") -> float | None:
        """Return a metric of a split, or None if the run has none of that name."""
        return self.metrics.get((split, name))
