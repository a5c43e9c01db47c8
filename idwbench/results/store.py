"""`Results`: the operations on the results database, each in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from idwbench.results import attempts, leases, listing, planning, queries, recording, removal, run_queries, states
from idwbench.results.connection import Database
from idwbench.results.filters import Condition, parse_filters
from idwbench.results.listing import ArrayFacts, ListedState, RunRow
from idwbench.results.provenance import Provenance, collect_provenance
from idwbench.results.records import (
    Attempt,
    EndedState,
    MeasuredRun,
    RunState,
    StoredRun,
    StoredSweep,
    SweepStatus,
)
from idwbench.results.schema import check_schema, upgrade_schema
from idwbench.results.states import StoredState
from idwbench.runs.config import RunConfig
from idwbench.runs.metrics import Metrics
from idwbench.runs.results import CurvePoint, RunResult

if TYPE_CHECKING:
    import numpy as np
    import pandas
    from numpy.typing import NDArray

    from idwbench.results.frame import RunTable
    from idwbench.results.progress import SweepProgress

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
    ) -> list[StoredRun]:
        """Return the runs that meet all conditions, in the order of the sweep or of planning.

        Raises:
            ResultsError: no sweep has that name.
        """
        with self._database.read() as connection:
            return run_queries.find_runs(connection, dataset, sweep, states, methods)

    def find_reported_runs(
        self, *, dataset: str | None = None, sweep: str | None = None, metric: str | None = None
    ) -> list[MeasuredRun]:
        """Return the runs of a data set or a sweep without their provenance, in the order of `find_runs`.

        They have the main metrics of their tasks and `metric`; kinds of runs that lack it have all of theirs.

        Raises:
            ResultsError: no sweep has that name.
        """
        with self._database.read() as connection:
            return run_queries.find_reported_runs(connection, dataset, sweep, metric)

    def find_run(self, run_key: str) -> StoredRun:
        """Return the run whose key starts with `run_key`.

        Raises:
            ResultsError: no such run, or several.
        """
        with self._database.read() as connection:
            return run_queries.find_run(connection, run_key)

    def attempts(self, run_key: str) -> list[Attempt]:
        """Return the attempts at a run, in order.

        Raises:
            ResultsError: no run has that key.
        """
        with self._database.read() as connection:
            return attempts.load_attempts(connection, run_key, datetime.now(UTC))

    def load_changes(self, run_key: str) -> str | None:
        """Return how the checkout that trained a run differed from its commit; None if it did not.

        Raises:
            ResultsError: no run has that key.
        """
        with self._database.read() as connection:
            return queries.load_changes(connection, run_key)

    def load_curve(self, run_key: str) -> list[CurvePoint]:
        """Return the learning curve of a run, which may be empty; values that were not finite are NaN.

        Raises:
            ResultsError: no run has that key.
        """
        with self._database.read() as connection:
            return queries.load_curve(connection, run_key)

    def load_curves(self, run_keys: Sequence[str]) -> dict[str, list[CurvePoint]]:
        """Return the learning curves of many runs by run key, as `load_curve`; those of unknown runs are empty."""
        with self._database.read() as connection:
            return queries.load_curves(connection, run_keys)

    def load_arrays(self, run_key: str) -> dict[str, NDArray[np.generic]]:
        """Return the arrays of a run by name, such as ``keys`` (prototypes, features) and ``values``.

        Raises:
            ResultsError: no run has that key, or an array is missing or cannot be read.
        """
        with self._database.read() as connection:
            return queries.load_arrays(connection, run_key)

    def load_runs(self, run_keys: Sequence[str]) -> list[StoredRun]:
        """Return the runs with these keys, in their order.

        Raises:
            ResultsError: no run has one of the keys.
        """
        with self._database.read() as connection:
            return run_queries.load_runs(connection, run_keys)

    def list_runs(
        self,
        where: Sequence[str | Condition] = (),
        *,
        sweep: str | None = None,
        states: Collection[ListedState] | None = None,
        limit: int | None = None,
    ) -> list[RunRow]:
        """Return light rows of the first `limit` runs that meet all conditions, in the order of the sweep or planning.

        Args:
            where: Comparisons of columns of `to_frame`, such as ``method=idw,neg_dist``, ``prototypes>=16``,
                ``test_accuracy>0.95`` or ``finished_at>=2026-01-31``.
            sweep: Only runs in the plan of this sweep.
            states: Only runs in one of these states; ``stale`` runs have lost their process, ``retraining`` runs have
                a result and are being trained again.
            limit: The largest number of runs.

        Raises:
            ConfigError: unknown column, a value of the wrong type, or a word that no run has.
            ResultsError: no sweep has that name.
        """
        conditions = parse_filters(where)
        with self._database.read() as connection:
            return listing.list_runs(connection, conditions, sweep, states, limit)

    def array_facts(self, run_key: str) -> dict[str, ArrayFacts]:
        """Return type and shape of the arrays of a run by name, without reading them.

        Raises:
            ResultsError: no run has that key.
        """
        with self._database.read() as connection:
            return listing.array_facts(connection, run_key)

    def sweeps_of(self, run_key: str) -> list[str]:
        """Return the names of the sweeps whose plan has a run.

        Raises:
            ResultsError: no run has that key.
        """
        with self._database.read() as connection:
            return listing.sweeps_of(connection, run_key)

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

    def to_frame(self, *, sweep: str | None = None, dataset: str | None = None) -> pandas.DataFrame:
        """Return a table with one row for each run.

        Columns: ``run_key``, ``dataset`` (label), ``setting`` (equal for runs that differ in their seed alone), the
        settings of the data set (``dataset_noise``, …), ``model`` (kind), ``label`` (of the model), ``method``, the
        settings and parameters of the model, the settings of the protocol, ``seed``, ``state`` (of the result),
        ``retraining``, ``stale`` (whether its process ended without a result), the metrics (``test_accuracy``, …), and
        the scalar attributes of `StoredRun`.

        Raises:
            ResultsError: no sweep has that name, or a row cannot be read.
        """
        return self.run_table(sweep=sweep, dataset=dataset).frame

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
            return states.run_states(connection, run_keys)

    def metric_values(self, run_keys: Sequence[str], name: str, split: str = "test") -> dict[str, float]:
        """Return one metric of the runs of `run_keys` that have it, by run key."""
        with self._database.read() as connection:
            return states.metric_values(connection, run_keys, name, split)

    def sweep_status(self, name: str) -> SweepStatus:
        """Return the number of runs of a sweep in each state.

        Raises:
            ResultsError: no sweep has that name.
        """
        with self._database.read() as connection:
            return queries.sweep_status(connection, name)

    def sweep_progress(self, name: str, now: datetime | None = None) -> SweepProgress:
        """Return how far a sweep is at `now`: states, rate, time left, processes that train, and the last failures.

        Raises:
            ResultsError: no sweep has that name.
        """
        from idwbench.results.progress import sweep_progress

        with self._database.read() as connection:
            return sweep_progress(connection, name, now or datetime.now(UTC))

    def list_sweeps(self) -> list[StoredSweep]:
        """Return all sweeps by name."""
        with self._database.read() as connection:
            return queries.list_sweeps(connection)

    def dataset_labels(self) -> list[str]:
        """Return the labels of the data sets of all runs, sorted."""
        with self._database.read() as connection:
            return queries.dataset_labels(connection)


def results_to_read(results: Results | str | PathLike[str]) -> Results:
    """Return a database as it is, or that of a path or URL, opened to read; raises `ResultsError` like `Results`."""
    return results if isinstance(results, Results) else Results(results, read_only=True)
