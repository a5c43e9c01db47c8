"""`Results`: the operations on the results database, each in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from idwbench.results import contents, leases, planning, progress, reading, recording, removal
from idwbench.results.connection import Database
from idwbench.results.contents import ArrayFacts
from idwbench.results.progress import StoredState, SweepProgress
from idwbench.results.provenance import Provenance, collect_provenance
from idwbench.results.records import (
    EndedState,
    RunState,
    StoredRun,
    StoredSweep,
    SweepStatus,
)
from idwbench.results.schema import check_schema, upgrade_schema
from idwbench.runs.config import RunConfig
from idwbench.runs.metrics import Metrics
from idwbench.runs.results import CurvePoint, RunResult

if TYPE_CHECKING:
    import numpy as np
    import pandas
    from numpy.typing import NDArray

    from idwbench.results.frame import RunTable

__all__ = ["Results", "results_to_read"]


class Results:
    """The results database, at a path or an SQLAlchemy URL; thread-safe, without open connections.

    Every method raises `ResultsError` if the database cannot be reached, is locked for 30 seconds by another process,
    or is read-only and the method writes. Writes are atomic.
    """

    def __init__(self, db: str | PathLike[str], *, read_only: bool = False) -> None:
        """Open a database: the path of an SQLite file, or a URL (``sqlite:///…``, ``postgresql://…``).

        Folder and tables are created or upgraded unless `read_only`.

        Raises:
            ResultsError: not a supported database, of another program or with newer tables; with `read_only`, also if
                it does not exist or has older tables.
        """
        self._database = Database.at(fspath(db), read_only=read_only)
        self._reopened: leases.Reopened = {}
        if read_only:
            check_schema(self._database)
        else:
            upgrade_schema(self._database)

    @property
    def checkpoint_folder(self) -> Path | None:
        """The folder for checkpoints of interrupted runs, beside the file of an SQLite database; otherwise None."""
        path = self._database.path
        return None if path is None else path.with_name(f"{path.name}.checkpoints")

    @property
    def recording_folder(self) -> Path | None:
        """The folder for recordings of trainings, beside the file of an SQLite database; otherwise None."""
        path = self._database.path
        return None if path is None else path.with_name(f"{path.name}.recordings")

    def kept_open(self) -> AbstractContextManager[None]:
        """Keep an SQLite file open until the block ends, which makes many small transactions faster."""
        return self._database.kept_open()

    def plan(self, configs: Sequence[RunConfig]) -> list[str]:
        """Add missing runs as planned, without a sweep, and return all run keys, each once, in order."""
        return self._database.transact(planning.plan_runs, configs)

    def register_sweep(self, name: str, description: str, spec_text: str, configs: Sequence[RunConfig]) -> list[str]:
        """Store or replace a sweep and its plan, add missing runs as planned, and return its run keys in order."""
        return self._database.transact(planning.register_sweep, name, description, spec_text, configs)

    def pending(self, run_keys: Sequence[str]) -> list[str]:
        """Return the runs of `run_keys` that are planned, reset or stale, in order."""
        with self._database.read() as connection:
            return leases.pending_runs(connection, run_keys, self._reopened)

    def lease(self, run_keys: Sequence[str]) -> list[str]:
        """Lease the pending runs of `run_keys` to this process and return them in order."""
        return self._database.transact(leases.lease_runs, run_keys, self._reopened)

    def renew(self, run_keys: Sequence[str]) -> None:
        """Renew leases of this process, which expire after 10 minutes for other hosts."""
        self._database.transact(leases.renew_leases, run_keys)

    def release(self, run_keys: Sequence[str]) -> None:
        """End leases of this process; the runs get back their previous state."""
        self._database.transact(leases.release_runs, run_keys)

    def reset(self, run_keys: Sequence[str], states: Collection[EndedState]) -> list[str]:
        """Make runs in one of `states` pending for this object, and return them in order.

        The database does not change: a run keeps its state until it is leased, and its result until `finish`.
        """
        with self._database.read() as connection:
            ended = leases.ended_runs(connection, run_keys, states)
        self._reopened.update(ended)
        return list(ended)

    def finish(
        self, results: Sequence[RunResult], data_sha256: str | None = None, provenance: Provenance | None = None
    ) -> list[str]:
        """Write results and their provenance, and return the keys that were written.

        Missing runs are added. A run that already has a result keeps it unless it was `reset`. `data_sha256` is the
        checksum of the training data, and `provenance` that of the process that trained, by default this one.
        """
        provenance = provenance or collect_provenance()  # before the transaction, since git may be slow
        # All that is written refers to runs that the transaction has read; SQLite would look for the run of each value.
        database = self._database.without_foreign_keys()
        return database.transact(recording.finish_runs, results, data_sha256, provenance, self._reopened)

    def add_metrics(self, metrics: Mapping[str, Metrics]) -> None:
        """Add metrics to complete runs, by run key; metrics that a run already has stay as they are."""
        self._database.transact(recording.add_metrics, metrics)

    def fail(self, run_keys: Sequence[str], error_text: str) -> None:
        """Record an error for runs leased by this process; runs with a result keep it and their state."""
        self._database.transact(leases.fail_runs, run_keys, error_text)
        for key in run_keys:
            self._reopened.pop(key, None)

    def find_runs(
        self,
        *,
        dataset: str | None = None,
        sweep: str | None = None,
        states: Collection[RunState] | None = None,
        methods: Collection[str] | None = None,
        metrics: Collection[str] | None = None,
    ) -> list[StoredRun]:
        """Return the runs that meet all conditions, in the order of the sweep or of planning.

        They have the metrics of the names in `metrics`, or all.

        Raises:
            ResultsError: no sweep has that name.
        """
        with self._database.read() as connection:
            return reading.find_runs(connection, dataset, sweep, states, methods, metrics)

    def find_run(self, run_key: str) -> StoredRun:
        """Return the run whose key starts with `run_key`.

        Raises:
            ResultsError: no such run, or several.
        """
        with self._database.read() as connection:
            return reading.find_run(connection, run_key)

    def load_curve(self, run_key: str) -> list[CurvePoint]:
        """Return the learning curve of a run, which may be empty; values that were not finite are NaN.

        Raises:
            ResultsError: no run has that key.
        """
        with self._database.read() as connection:
            return contents.load_curve(connection, run_key)

    def load_curves(self, run_keys: Sequence[str]) -> dict[str, list[CurvePoint]]:
        """Return the learning curves of many runs by run key, as `load_curve`; those of unknown runs are empty."""
        with self._database.read() as connection:
            return contents.load_curves(connection, run_keys)

    def load_arrays(self, run_key: str) -> dict[str, NDArray[np.generic]]:
        """Return the arrays of a run by name, such as ``keys`` (prototypes, features) and ``values``.

        Raises:
            ResultsError: no run has that key, or an array is missing or cannot be read.
        """
        with self._database.read() as connection:
            return contents.load_arrays(connection, run_key)

    def load_runs(self, run_keys: Sequence[str]) -> list[StoredRun]:
        """Return the runs with these keys, in their order.

        Raises:
            ResultsError: no run has one of the keys.
        """
        with self._database.read() as connection:
            return reading.load_runs(connection, run_keys)

    def array_facts(self, run_key: str) -> dict[str, ArrayFacts]:
        """Return type and shape of the arrays of a run by name, without reading them.

        Raises:
            ResultsError: no run has that key.
        """
        with self._database.read() as connection:
            return contents.array_facts(connection, run_key)

    def sweeps_of(self, run_key: str) -> list[str]:
        """Return the names of the sweeps whose plan has a run.

        Raises:
            ResultsError: no run has that key.
        """
        with self._database.read() as connection:
            return reading.sweeps_of(connection, run_key)

    def remove_runs(self, run_keys: Sequence[str]) -> removal.Removal:
        """Remove runs with all that is stored of them, their recordings and checkpoints, and return what was done.

        Runs in the plan of a sweep stay there and are planned again, so that the sweep does not seem complete.

        Raises:
            ResultsError: no run has one of the keys, or a process trains one of the runs; then none is removed.
            OutputError: the runs were removed, but a file was not.
        """
        with self._database.write() as connection:
            removed = removal.remove_runs(connection, run_keys)
        removal.remove_files((self.recording_folder, self.checkpoint_folder), [*removed.removed, *removed.planned])
        return removed

    def tag(self, run_keys: Sequence[str], tag: str, *, remove: bool = False) -> None:
        """Give runs a tag, or take it from them.

        Raises:
            ConfigError: the tag is empty, or has a comma or a character that is not printed.
            ResultsError: no run has one of the keys.
        """
        self._database.transact(recording.tag_runs, run_keys, tag, remove)

    def note(self, run_keys: Sequence[str], text: str) -> None:
        """Replace the note of runs; an empty text removes it.

        Raises:
            ConfigError: the text has more than one line, or a character that is not printed.
            ResultsError: no run has one of the keys.
        """
        self._database.transact(recording.note_runs, run_keys, text)

    def to_frame(
        self,
        *,
        sweep: str | None = None,
        dataset: str | None = None,
        where: str | None = None,
        states: Collection[str] | None = None,
    ) -> pandas.DataFrame:
        """Return a table with one row for each run, in the order of the sweep or of planning.

        Columns: ``run_key``, ``dataset`` (label), ``setting`` (equal for runs that differ in their seed alone), the
        settings of the data set (``dataset_noise``, …), ``model`` (kind), ``label`` (of the model), ``method``, the
        settings and parameters of the model, the settings of the protocol, ``seed``, ``state`` (of the result),
        ``retraining``, ``stale`` (whether its process ended without a result), the metrics (``test_accuracy``, …), and
        the scalar attributes of `StoredRun`, with its ``tags`` and its ``note``.

        Args:
            sweep: Only runs in the plan of this sweep.
            dataset: Only runs on the data set with this label.
            where: Only runs for which an expression holds, such as ``prototypes == 16 and test_accuracy > 0.95``,
                ``method in ["idw", "neg_dist"]``, ``"best" in tags`` or ``finished_at >= "2026-01-31"``.
            states: Only runs in one of these states; ``stale`` runs lost their process, and ``retraining`` runs have a
                result and are being trained again.

        Raises:
            ConfigError: a wrong expression, an unknown column or state.
            ResultsError: no sweep has that name, or a row cannot be read.
        """
        from idwbench.results.filters import in_states, matching

        frame = self.run_table(sweep=sweep, dataset=dataset).frame
        frame = frame if states is None else in_states(frame, states)
        return (frame if where is None else matching(frame, where)).reset_index(drop=True)

    def run_table(
        self, *, sweep: str | None = None, dataset: str | None = None, metrics: Collection[str] | None = None
    ) -> RunTable:
        """Return the table of `to_frame`, and a configuration for each value of its column ``setting``.

        Args:
            sweep: Only runs in the plan of this sweep, in its order.
            dataset: Only runs on the data set with this label.
            metrics: Names of the metrics that become columns, for all splits; all if None.

        Raises:
            ResultsError: no sweep has that name, or a row cannot be read.
        """
        from idwbench.results.frame import run_table

        with self._database.read() as connection:
            return run_table(connection, dataset, sweep, metrics)

    def run_states(self, run_keys: Sequence[str]) -> dict[str, StoredState]:
        """Return the states of the stored runs among `run_keys`; a running run that lost its process is ``stale``."""
        with self._database.read() as connection:
            return progress.run_states(connection, run_keys)

    def metric_values(self, run_keys: Sequence[str], name: str, split: str = "test") -> dict[str, float]:
        """Return one metric of the runs of `run_keys` that have it, by run key."""
        with self._database.read() as connection:
            return progress.metric_values(connection, run_keys, name, split)

    def sweep_status(self, name: str) -> SweepStatus:
        """Return the number of runs of a sweep in each state.

        Raises:
            ResultsError: no sweep has that name.
        """
        with self._database.read() as connection:
            return progress.sweep_status(connection, name)

    def sweep_progress(self, name: str, now: datetime | None = None) -> SweepProgress:
        """Return how far a sweep is at `now`: states, rate, time left, processes that train, and the last failures.

        Raises:
            ResultsError: no sweep has that name.
        """
        with self._database.read() as connection:
            return progress.sweep_progress(connection, name, now or datetime.now(UTC))

    def list_sweeps(self) -> list[StoredSweep]:
        """Return all sweeps by name."""
        with self._database.read() as connection:
            return progress.list_sweeps(connection)

    def dataset_labels(self) -> list[str]:
        """Return the labels of the data sets of all runs, sorted."""
        with self._database.read() as connection:
            return progress.dataset_labels(connection)


def results_to_read(results: Results | str | PathLike[str]) -> Results:
    """Return a database as it is, or that of a path or URL, opened to read; raises `ResultsError` like `Results`."""
    return results if isinstance(results, Results) else Results(results, read_only=True)
