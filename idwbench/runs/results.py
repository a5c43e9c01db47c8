"""Results of a run: a curve, named metrics and named arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, overload

from idwbench.runs.config import RunConfig
from idwbench.runs.dataset_base import Task
from idwbench.runs.metrics import AT_BEST_EPOCH, HEADLINES, Metrics

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Curve", "CurvePoint", "FinishedState", "RunResult", "best_epoch_metrics"]

FinishedState = Literal["complete", "diverged"]


@dataclass(frozen=True)
class CurvePoint:
    """One epoch of a learning curve.

    Attributes:
        epoch: From 1.
        values: By split and name: learning rate and mean loss of ``train`` (in nats or squared units), and the headline
            metric of ``test`` and ``validation`` after the epoch.
    """

    epoch: int
    values: Metrics


@dataclass(frozen=True, eq=False)
class Curve(Sequence[CurvePoint]):
    """A learning curve whose points have the same names, as numbers; it equals any sequence of the same points.

    Attributes:
        names: Split and name of the values of each point.
        values: Those of the first epoch, then those of the second, and so on.
    """

    names: tuple[tuple[str, str], ...]
    values: Sequence[float]

    def __len__(self) -> int:
        return len(self.values) // len(self.names)

    @overload
    def __getitem__(self, place: int) -> CurvePoint: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[CurvePoint, ...]: ...

    def __getitem__(self, place: int | slice) -> CurvePoint | tuple[CurvePoint, ...]:
        places = range(len(self))[place]
        return tuple(map(self._point, places)) if isinstance(places, range) else self._point(places)

    def _point(self, place: int) -> CurvePoint:
        start = place * len(self.names)
        values = self.values[start : start + len(self.names)]
        return CurvePoint(place + 1, dict(zip(self.names, values, strict=True)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class RunResult:
    """The result of one training; a diverged run has no arrays and metrics.

    Attributes:
        curve: One point for each epoch before divergence.
        metrics: By split and name.
        arrays: By name; of a prototype network ``keys`` (prototypes, features), scaled like the inputs, and ``values``
            (prototypes, outputs).
        n_parameters: Number of learned parameters; None if the run diverged.
        seconds: Wall-clock time of this run; in a stack, that of the stack divided by its runs.
        durations: Seconds of ``set_up``, ``training`` and ``metrics``, as far as they were measured.
    """

    config: RunConfig
    state: FinishedState
    curve: Sequence[CurvePoint]
    metrics: Metrics
    arrays: Mapping[str, NDArray[np.generic]]
    n_parameters: int | None
    diverged_epoch: int | None
    seconds: float
    engine: str
    device: str
    threads: int
    instruction_set: str = field(default="")
    durations: Mapping[str, float] = field(default_factory=dict)

    def metric(self, name: str, split: str = "test") -> float | None:
        """Return a metric of a split, or None."""
        return self.metrics.get((split, name))


def best_epoch_metrics(task: Task, curve: Sequence[CurvePoint]) -> dict[tuple[str, str], float]:
    """Return the epoch with the best headline metric on the validation rows, and the metric on each split after it.

    Of equal values the first epoch is the best. A curve without validation gives nothing.
    """
    headline = HEADLINES[task]
    measured = [(point.values.get(("validation", headline.name)), point) for point in curve]
    known = [(value if headline.higher_is_better else -value, point) for value, point in measured if value is not None]
    if not known:
        return {}
    best = max(known, key=lambda pair: pair[0])[1]
    name = f"{headline.name}{AT_BEST_EPOCH}"
    found = {(split, name): value for (split, other), value in best.values.items() if other == headline.name}
    return {("validation", "best_epoch"): float(best.epoch), **found}
