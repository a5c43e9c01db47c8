"""`ResultsStore`: every operation on the results database, each in one transaction.

A store holds no open connection and may be used by several threads; another process opens its own. All that it
remembers itself is which runs it was told to train again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from idwbench.config import RunConfig
from idwbench.results import claims, planning, queries, recording
from idwbench.results.connection import Database
from idwbench.results.provenance import own_checkout
from idwbench.results.records import (
    CurvePoint,
    EndedState,
    FinishedRun,
    RunState,
    StoredRun,
    StoredSweep,
    SweepStatus,
)
from idwbench.results.schema import check_schema, upgrade_schema

__all__ = ["ResultsStore"]


class ResultsStore:
    """The results database, at a path or an SQLAlchemy URL.

    Every method raises `ResultsError` if the database cannot be reached, is locked by another process for 30
    seconds, or, in a method that writes, was opened for reading only; further causes stand with the method.
    A method that writes does all of it or nothing.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._reopened: claims.Reopened = {}

    @classmethod
    def open(cls, db: str, *, read_only: bool = False) -> Self:
        """Open a database; for writing, its folder and tables are made or upgraded first.

        Args:
            db: The path of an SQLite file, or a URL (``sqlite:///…``, ``postgresql://…``).
            read_only: Nothing is created, upgraded or written.

        Raises:
            ResultsError: nothing to read there, not a database or another program's, tables older (when reading) or
                newer than known, an unsupported kind of database, or its driver is missing.
        """
        database = Database.at(db, read_only=read_only)
        if read_only:
            check_schema(database)
        else:
            upgrade_schema(database)
        return cls(database)

    def plan(self, configs: Sequence[RunConfig]) -> list[str]:
        """Add the missing runs as planned, without a sweep, and return all run keys, each once, in order."""
        with self._database.write() as connection:
            return planning.plan_runs(connection, configs)

    def register_sweep(self, name: str, description: str, spec_text: str, configs: Sequence[RunConfig]) -> list[str]:
        """Store a sweep and its plan, with missing runs as planned, and return its run keys in order.

        A sweep that is there gets the new description, text and plan, also if that is about another data set; runs
        that left the plan stay.
        """
        with self._database.write() as connection:
            return planning.register_sweep(connection, name, description, spec_text, configs)

    def pending(self, run_keys: Sequence[str]) -> list[str]:
        """Return those that are planned, reset or have lost their process, in order; unknown keys are left out."""
        with self._database.read() as connection:
            return claims.pending_runs(connection, run_keys, self._reopened)

    def claim(self, run_keys: Sequence[str]) -> list[str]:
        """Make this process the one that trains the pending ones of `run_keys`, and return these in order.

        Of two processes that claim one run at once, one gets it. Runs that are not returned are another's or done.
        """
        with self._database.write() as connection:
            return claims.claim_runs(connection, run_keys, self._reopened)

    def heartbeat(self, run_keys: Sequence[str]) -> None:
        """Note that this process still trains them; without a note for 10 minutes, other hosts take them over."""
        with self._database.write() as connection:
            claims.heartbeat_runs(connection, run_keys)

    def release(self, run_keys: Sequence[str]) -> None:
        """Undo the claim of what this process has not finished: planned again, or as it had ended before a `reset`.

        Other runs stay as they are.
        """
        with self._database.write() as connection:
            claims.release_runs(connection, run_keys)

    def reset(self, run_keys: Sequence[str], states: Collection[EndedState]) -> list[str]:
        """Let this store claim again the ones that ended in `states`, and return these in order.

        The database does not change: a run keeps its state until it is claimed, and its result until `finish` brings a
        new one. Whoever opens the database otherwise finds nothing to do. A run that ends meanwhile, here or in another
        process, is done.
        """
        with self._database.read() as connection:
            ended = claims.ended_runs(connection, run_keys, states)
        self._reopened.update(ended)
        return list(ended)

    def finish(self, results: Sequence[FinishedRun], data_sha256: str | None = None) -> list[str]:
        """Write states, metrics, curves and tensors of finished runs, and return the keys that were written.

        A run that nobody planned is added. One that is complete or diverged already keeps the result it has (a run
        key fixes what comes out) unless it was `reset`; one that was taken over or released meanwhile takes the result
        that comes first. The commit of the checkout that this program runs from is noted too.

        Args:
            results: What an engine gave.
            data_sha256: Checksum of the data set they share.
        """
        git = own_checkout()  # asks git once a process, and not while others wait for the lock
        with self._database.write() as connection:
            return recording.finish_runs(connection, results, data_sha256, git, self._reopened)

    def fail(self, run_keys: Sequence[str], error_text: str) -> None:
        """Record that runs which this process claimed could not be trained, and why; other runs stay as they are.

        One that was complete or diverged before a `reset` is so again, with the result it had and this error.
        """
        with self._database.write() as connection:
            claims.fail_runs(connection, run_keys, error_text)
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
        """Return the run with that key, or the one whose key begins so.

        Raises:
            ResultsError: no run has such a key, or several have.
        """
        with self._database.read() as connection:
            return queries.find_run(connection, run_key)

    def load_curve(self, run_key: str) -> list[CurvePoint]:
        """Return the learning curve of a run, by epoch; empty if it has none.

        Raises:
            ResultsError: no run has that key.
        """
        with self._database.read() as connection:
            return queries.load_curve(connection, run_key)

    def load_tensors(self, run_key: str) -> dict[str, NDArray[np.generic]]:
        """Return ``keys`` (prototypes, features) and ``values`` (prototypes, classes); empty if it has none.

        Raises:
            ResultsError: no run has that key, it is complete but lacks one of them, or bytes cannot be read.
        """
        with self._database.read() as connection:
            return queries.load_tensors(connection, run_key)

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
