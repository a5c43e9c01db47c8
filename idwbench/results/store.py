"""`Results`: the operations on the results database, each in one transaction."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

import idwbench
from idwbench.errors import OutputError
from idwbench.results import frame, leases, reading, recording, sweeps
from idwbench.results.database import Database
from idwbench.results.provenance import Provenance, collect_provenance
from idwbench.results.records import EndedState
from idwbench.results.schema import check_schema, upgrade_schema
from idwbench.runs.results import RunResult

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

    from idwbench.notebooks import Run
    from idwbench.report.reports import Report

__all__ = ["Results", "results_to_read"]

_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")


def _operation(
    work: Callable[Concatenate[Connection, _Arguments], _Answer], *, writes: bool = False
) -> Callable[Concatenate[Results, _Arguments], _Answer]:
    """Return the method that calls a function in a transaction."""

    @wraps(work)
    def method(self: Results, /, *arguments: _Arguments.args, **options: _Arguments.kwargs) -> _Answer:
        if writes:
            return self._database.transact(work, *arguments, **options)
        with self._database.read() as connection:
            return work(connection, *arguments, **options)

    return method


class Results:
    """The results database, at a path or an SQLAlchemy URL; thread-safe, without open connections.

    A run is identified by its key, the SHA-256 of its configuration. To read, use `to_frame` (a pandas table with one
    row for each run), `find_runs` and `find_run` (records of runs), `load_curve` and `load_arrays`. A process that
    trains plans runs (`plan`, `register_sweep`), leases them, so that no other process trains them (`lease`, `renew`,
    `release`), and stores what came out (`finish`, `fail`); `idwbench.train` and `idwbench.run_sweep` do all of this.

    Every method raises `ResultsError` if the database cannot be reached, is locked for 30 seconds by another process,
    or is read-only and the method writes. Writes are atomic.

    Args:
        db: The path of an SQLite file, or a URL (``sqlite:///…``, ``postgresql://…``).
        read_only: Whether the database is only read. Otherwise its folder and its tables are created or upgraded.

    Raises:
        ResultsError: not a supported database, of another program or with newer tables; with `read_only`, also if it
            does not exist or has older tables.

    Example:
        >>> from idwbench import Results
        >>> results = Results("results/idwbench.db", read_only=True)  # doctest: +SKIP
        >>> results.to_frame(where="method == 'idw' and prototypes >= 16")  # doctest: +SKIP
        >>> results.leaderboard("two_moons")  # doctest: +SKIP
        >>> [run.metric("accuracy", "test") for run in results.find_runs(sweep="two_moons")]  # doctest: +SKIP
    """

    def __init__(self, db: str | PathLike[str], *, read_only: bool = False) -> None:
        """Open the database."""
        self._database = Database.at(fspath(db), read_only=read_only)
        self._reopened: leases.Reopened = {}
        if read_only:
            check_schema(self._database)
        else:
            upgrade_schema(self._database)

    find_run = _operation(reading.find_run)
    find_runs = _operation(reading.find_runs)
    load_runs = _operation(reading.load_runs)
    sweeps_of = _operation(reading.sweeps_of)
    load_curve = _operation(reading.load_curve)
    load_arrays = _operation(reading.load_arrays)
    array_facts = _operation(reading.array_facts)
    run_states = _operation(leases.run_states)
    sweep_status = _operation(sweeps.sweep_status)
    sweep_progress = _operation(sweeps.sweep_progress)
    list_sweeps = _operation(sweeps.list_sweeps)
    names = _operation(reading.names)
    is_search = _operation(reading.is_search)
    run_table = _operation(frame.run_table)

    plan = _operation(sweeps.plan_runs, writes=True)
    register_sweep = _operation(sweeps.register_sweep, writes=True)
    renew = _operation(leases.renew_leases, writes=True)
    release = _operation(leases.release_runs, writes=True)
    add_metrics = _operation(recording.add_metrics, writes=True)
    tag = _operation(recording.tag_runs, writes=True)
    note = _operation(recording.note_runs, writes=True)

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

    def pending(self, run_keys: Sequence[str]) -> list[str]:
        """Return the runs of `run_keys` that are planned, reset or stale, in order."""
        with self._database.read() as connection:
            return leases.pending_runs(connection, run_keys, self._reopened)

    def lease(self, run_keys: Sequence[str]) -> list[str]:
        """Lease the pending runs of `run_keys` to this process and return them in order."""
        return self._database.transact(leases.lease_runs, run_keys, self._reopened)

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
        return self._database.transact(recording.finish_runs, results, data_sha256, provenance, self._reopened)

    def fail(self, run_keys: Sequence[str], error_text: str) -> None:
        """Record an error for runs leased by this process; runs with a result keep it and their state."""
        self._database.transact(leases.fail_runs, run_keys, error_text)
        for key in run_keys:
            self._reopened.pop(key, None)

    def remove_runs(self, run_keys: Sequence[str]) -> recording.Removal:
        """Remove runs with all that is stored of them, their recordings and checkpoints, and return what was done.

        Runs in the plan of a sweep stay there and are planned again, so that the sweep does not seem complete.

        Raises:
            ResultsError: no run has one of the keys, or a process trains one of the runs; then none is removed.
            OutputError: the runs were removed, but a file was not.
        """
        with self._database.write() as connection:
            removal = recording.remove_runs(connection, run_keys)
        gone = {*removal.removed, *removal.planned}
        for folder in (self.recording_folder, self.checkpoint_folder):
            for path in sorted(folder.iterdir()) if folder is not None and folder.is_dir() else ():
                if path.name.partition(".")[0] in gone:
                    _delete(path)
        return removal

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
        return frame.with_settings(self.run_table(sweep=sweep, dataset=dataset, where=where, states=states))

    def table(self, name: str | None = None, **options: Any) -> Report:
        """Return the tables of a sweep or data set, see `idwbench.table`."""
        return idwbench.table(self, name, **options)

    def leaderboard(self, name: str | None = None, **options: Any) -> Report:
        """Return the settings of a sweep or data set, best first, see `idwbench.leaderboard`."""
        return idwbench.leaderboard(self, name, **options)

    def figure(self, figure: str, name: str | None = None, **options: Any) -> Figure:
        """Return a figure of a sweep or data set, see `idwbench.draw_figure`."""
        return idwbench.draw_figure(self, figure, name, **options)

    def run(self, run_key: str) -> Run:
        """Return the run with this key or beginning of a key, with its model; raises as `find_run`."""
        return idwbench.find_run(self, run_key)

    def _repr_html_(self) -> str:
        return idwbench.html(self)


def _delete(path: Path) -> None:
    try:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"cannot be deleted ({error.strerror or error}); the run was removed", file=path) from None


def results_to_read(results: Results | str | PathLike[str]) -> Results:
    """Return a database as it is, or that of a path or URL, opened to read; raises `ResultsError` like `Results`."""
    return results if isinstance(results, Results) else Results(results, read_only=True)
