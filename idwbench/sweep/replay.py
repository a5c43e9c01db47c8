"""`replay_run`: a stored run, trained again and compared with its stored result."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from idwbench.errors import ResultsError
from idwbench.results import DEFAULT_DATABASE
from idwbench.results.comparison import (
    ArrayDifference,
    array_differences,
    curve_difference,
    differing,
    environment,
)
from idwbench.results.reading import metric_order
from idwbench.results.records import RESULT_STATES, StoredRun
from idwbench.results.store import Results
from idwbench.sweep.execution import train

if TYPE_CHECKING:
    from idwbench.sweep.observer import Observer
    from idwbench.training.engine import EngineName

__all__ = ["Replay", "replay_run"]

# Metrics of the cost of a training, which differ from one to the next.
_COSTS = ("seconds_per_step", "activation_memory", "fit_seconds", "predict_seconds")


@dataclass(frozen=True)
class Replay:
    """A stored run, and the result of its training again.

    Attributes:
        run: The stored run.
        states: The stored state and the new one.
        metrics: Stored and new value of each stored metric, None for a missing one; without those of time and memory.
        curve: Largest difference of the learning curves; None if they have other points.
        arrays: Differences of the arrays by name.
        environment: What differs between the environments, by name: stored and present value.
    """

    run: StoredRun
    states: tuple[str, str]
    metrics: dict[tuple[str, str], tuple[float, float | None]]
    curve: float | None
    arrays: dict[str, ArrayDifference]
    environment: dict[str, tuple[Any, Any]]

    @property
    def identical(self) -> bool:
        """Whether the state, all metrics, the curve and the bytes of all arrays are equal."""
        same = self.states[0] == self.states[1] and self.curve == 0
        same = same and all(stored == new for stored, new in self.metrics.values())
        return same and all(difference.identical for difference in self.arrays.values())


def replay_run(
    run_key: str,
    db: str | PathLike[str] = DEFAULT_DATABASE,
    *,
    data_dir: Path | None = None,
    observer: Observer | None = None,
) -> Replay:
    """Train a stored run again with the engine and on the device that it had, and compare; the database is only read.

    What the run needs, such as the network of a study of patches, is trained again too. The new result, its recording
    and its checkpoints are in a temporary folder, which is deleted.

    Args:
        run_key: The key of the run, or its beginning.
        db: The results database: a path, or an SQLAlchemy URL.
        data_dir: Folder of the image archives.
        observer: Receives the progress.

    Raises:
        ResultsError: no such run, or it has no result.
        IdwbenchError: the data, the device or the plugin of the run is not available, or the training failed.
    """
    results = Results(db, read_only=True)
    run = results.find_run(run_key)
    if run.state not in RESULT_STATES:
        raise ResultsError(f"run {run.run_key[:12]} is {run.state}: it has no result to compare with")
    engine: EngineName = run.engine if run.engine in ("fused", "torch") else "auto"  # type: ignore[assignment]
    with tempfile.TemporaryDirectory(prefix="idwbench-replay-") as folder:
        scratch = Path(folder) / "replay.db"
        new = train(
            run.config, scratch, engine=engine, device=run.device or "cpu", data_dir=data_dir, observer=observer
        )
        again = Results(scratch, read_only=True)
        return Replay(
            run=run,
            states=(run.state, new.state),
            metrics={
                key: (run.metrics[key], new.metrics.get(key))
                for key in sorted(run.metrics, key=metric_order)
                if key[1] not in _COSTS
            },
            curve=curve_difference(results.load_curve(run.run_key), again.load_curve(run.run_key)),
            arrays=array_differences(results.load_arrays(run.run_key), again.load_arrays(run.run_key)),
            environment=differing(environment(run), environment(new)),
        )
