"""`Results`: every operation on the results database, each in one transaction.

It holds no open connection and may be used by several threads; another process opens its own. The only state that it
keeps itself is which runs are to be trained again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from idwbench.results import leases, planning, queries, recording
from idwbench.results.connection import Database
from idwbench.results.provenance import own_checkout
from idwbench.results.records import EndedState, RunState, StoredRun, StoredSweep, SweepStatus
from idwbench.results.schema import check_schema, upgrade_schema
from idwbench.runs.config import RunConfig
from idwbench.runs.results import CurvePoint, RunResult

if TYPE_CHECKING:
    import pandas

__all__ = ["Results"]


class Results:
    """The results database, at a path or an SQLAlchemy URL.

    Every method raises `ResultsError` if the database cannot be reached, if another process keeps it locked for 30
    seconds, or, in a method that writes, if it was opened read-only; further causes stand with the method. Every
    method that writes is atomic.
    """

    def __init__(self, db: str | PathLike[str], *, read_only: bool = False) -> None:
        """Open a database; for writing, its folder and tables are created or upgraded first.

        Args:
            db: The path of an SQLite file, or a URL (``sqlite:///…``, ``postgresql://…``).
            read_only: Nothing is created, upgraded or written.

        Raises:
            ResultsError: no results there (read-only), not a database or that of another program, tables older
                (read-only) or newer than known, an unsupported kind of database, or its driver is missing.
        """
        self._database = Database.at(fspath(db), read_only=read_only)
        self._reopened: leases.Reopened = {}
        if read_only:
            check_schema(self._database)
        else:
            upgrade_schema(self._database)

    def plan(self, configs: Sequence[RunConfig]) -> list[str]:
        """Add the missing runs as planned, without a sweep, and return all run keys, each once, in order."""
        with self._database.write() as connection:
            return planning.plan_runs(connection, configs)

    def register_sweep(self, name: str, description: str, spec_text: str, configs: Sequence[RunConfig]) -> list[str]:
        """Store a sweep and its plan, add missing runs as planned, and return its run keys in order.

        A stored sweep of that name gets the new description, text and plan, also if the plan is on another data set;
        runs that leave the plan stay stored.
        """
        with self._database.write() as connection:
            return planning.register_sweep(connection, name, description, spec_text, configs)

    def pending(self, run_keys: Sequence[str]) -> list[str]:
        """Return the runs that are planned, reset or have lost their process, in order, without unknown keys."""
        with self._database.read() as connection:
            return leases.pending_runs(connection, run_keys, self._reopened)

    def lease(self, run_keys: Sequence[str]) -> list[str]:
        """Lease the pending runs among `run_keys` to this process, and return these in order.

        A run is leased to one process at a time. The other runs are done, or leased to another process.
        """
        with self._database.write() as connection:
            return leases.lease_runs(connection, run_keys, self._reopened)

    def renew(self, run_keys: Sequence[str]) -> None:
        """Renew leases of this process; other hosts may take over a run whose lease is 10 minutes old."""
        with self._database.write() as connection:
            leases.renew_leases(connection, run_keys)

    def release(self, run_keys: Sequence[str]) -> None:
        """End leases of this process: the runs are planned again, or as they had ended before a `reset`.

        Runs that this process does not hold stay as they are.
        """
        with self._database.write() as connection:
            leases.release_runs(connection, run_keys)

    def reset(self, run_keys: Sequence[str], states: Collection[EndedState]) -> list[str]:
        """Let this object lease the runs that ended in `states` once more, and return these in order.

        The database does not change: a run keeps its state until it is leased, and its result until `finish` replaces
        it. For other processes nothing is pending. A run that ends again, here or in another process, is done.
        """
        with self._database.read() as connection:
            ended = leases.ended_runs(connection, run_keys, states)
        self._reopened.update(ended)
        return list(ended)

    def finish(self, results: Sequence[RunResult], data_sha256: str | None = None) -> list[str]:
        """Write states, metrics, curves and arrays of finished runs, and return the keys that were written.

        A run that was not planned is added. One that is complete or diverged already keeps its result, unless it was
        `reset`: a run key determines the result. Of a run that was taken over or released, the first result counts.
        Versions of packages, the commit that this package runs from and the processor are recorded too.

        Args:
            results: What an engine returned.
            data_sha256: Checksum of the data set they share.
        """
        git = own_checkout()  # before the transaction: git may be slow, and others wait for the lock
        with self._database.write() as connection:
            return recording.finish_runs(connection, results, data_sha256, git, self._reopened)

    def fail(self, run_keys: Sequence[str], error_text: str) -> None:
        """Record why runs that this process leased could not be trained; other runs stay as they are.

        A run that was complete or diverged before a `reset` is so again, with its result and this error.
        """
        with self._database.write() as connection:
            leases.fail_runs(connection, run_keys, error_text)
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
        """Return the runs that meet all conditions, in the order of the sweep or else of planning.

        Raises:
            ResultsError: no sweep has that name.
        """
        with self._database.read() as connection:
            return queries.find_runs(connection, dataset, sweep, states, methods)

    def find_run(self, run_key: str) -> StoredRun:
        """Return the run with that key, or the one whose key begins with it.

        Raises:
            ResultsError: no run has such a key, or several have.
        """
        with self._database.read() as connection:
            return queries.find_run(connection, run_key)

    def load_curve(self, run_key: str) -> list[CurvePoint]:
        """Return the learning curve of a run, by epoch; empty if it has none. Values that were not finite are NaN.

        Raises:
            ResultsError: no run has that key.
        """
        with self._database.read() as connection:
            return queries.load_curve(connection, run_key)

    def load_arrays(self, run_key: str) -> dict[str, NDArray[np.generic]]:
        """Return the arrays of a run by name, such as ``keys`` (prototypes, features) and ``values``; {} if none.

        Raises:
            ResultsError: no run has that key, it is complete but lacks an array of its model, or bytes cannot be read.
        """
        with self._database.read() as connection:
            return queries.load_arrays(connection, run_key)

    def to_frame(self, *, sweep: str | None = None, dataset: str | None = None) -> pandas.DataFrame:
        """Return a table with one row for each run: its settings, its state and its metrics.

        Columns: ``run_key``, ``dataset`` (label), the settings of the data set (``dataset_noise``, …), ``model`` (kind)
        with its settings and the parameters of its method, the settings of the protocol, ``seed``, ``state``, one
        column for each metric (``test_accuracy``, …), and what else `StoredRun` holds in single values. A value that a
        run does not have is missing.

        Raises:
            ResultsError: no sweep has that name.
        """
        from idwbench.results.frame import runs_frame

        return runs_frame(self.find_runs(sweep=sweep, dataset=dataset))

    def sweep_status(self, name: str) -> SweepStatus:
        """Return how many runs of a sweep are in each state; writes nothing.

        Raises:
            ResultsError: no sweep has that name.
        """
        with self._database.read() as connection:
            return queries.sweep_status(connection, name)

    def list_sweeps(self) -> list[StoredSweep]:
        """Return all sweeps by name."""
        with self._database.read() as connection:
            return queries.list_sweeps(connection)

    def dataset_labels(self) -> list[str]:
        """Return the labels of all data sets that runs were planned on, sorted."""
        with self._database.read() as connection:
            return queries.dataset_labels(connection)
