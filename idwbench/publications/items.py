"""What a publication is: figures, tables and claims that are made of stored runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from idwbench.claims.definitions import Origin
from idwbench.errors import ResultsError
from idwbench.report.frame import data_seed
from idwbench.results.records import RESULT_STATES, StoredRun
from idwbench.results.store import Results

__all__ = ["Find", "Item", "Publication", "SweepRuns", "find_sweeps"]


@dataclass(frozen=True)
class Item:
    """One figure or table.

    Attributes:
        name: Its file, without suffix.
        caption: Its caption.
        sweep: The name of the sweep that trains its runs; None for a figure of formulas.
        figure: The name of the figure; None for a table.
        metric: The metric of a table; None for the headline metric.
        by_dataset: Whether a table has a column for each data set.
        ranked: The split that a leaderboard is sorted by; None for a table by method.
        best_over: Settings of which a leaderboard shows the values with the best validation metric.
    """

    name: str
    caption: str
    sweep: str | None
    figure: str | None = None
    metric: str | None = None
    by_dataset: bool = False
    ranked: str | None = None
    best_over: tuple[str, ...] = ()

    def paths(self, folder: Path, figure_format: str) -> list[Path]:
        """Return the files of the figure or table."""
        return [folder / f"{self.name}.{suffix}" for suffix in ([figure_format] if self.figure else ["md", "csv"])]


@dataclass(frozen=True)
class SweepRuns:
    """The runs of one sweep in a database.

    Attributes:
        file: The sweep file, relative to the repository.
        stored: Complete and diverged runs.
        planned: Number of runs that belong to the sweep; 0 if that is not known.
        missing: Number of them that have no result.
    """

    file: str
    stored: Sequence[StoredRun]
    planned: int
    missing: int

    @property
    def seeds(self) -> int:
        """Number of different seeds, those of the data included."""
        return len({(data_seed(run.config.dataset), run.config.seed) for run in self.stored})


Find = Callable[[Results, Sequence[StoredRun] | None], Mapping[str, SweepRuns]]


def find_sweeps(files: Sequence[str]) -> Find:
    """Return a function that finds the runs of sweep files by the name of the sweep, which is the stem of the file."""

    def find(results: Results, finished: Sequence[StoredRun] | None) -> dict[str, SweepRuns]:
        return {PurePosixPath(file).stem: _sweep_runs(results, file) for file in files}

    return find


def _sweep_runs(results: Results, file: str) -> SweepRuns:
    try:
        runs = results.find_runs(sweep=PurePosixPath(file).stem)
    except ResultsError:  # no sweep of that name
        return SweepRuns(file, (), 0, 0)
    stored = [run for run in runs if run.state in RESULT_STATES]
    return SweepRuns(file, stored, len(runs), len(runs) - len(stored))


@dataclass(frozen=True)
class Publication:
    """Figures, tables and claims, written together by `idwbench.publications.folder.write_publication`.

    Attributes:
        name: Its name.
        title: The title of its page.
        items: Figures and tables, in the order of the page.
        claims: The origin of its claims; None if it has none.
        find: Returns its runs in a database, by the name of the sweep. It is given all finished runs of the data sets
            of the paper if they have been read, or None.
    """

    name: str
    title: str
    items: tuple[Item, ...]
    claims: Origin | None
    find: Find
