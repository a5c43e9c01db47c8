"""What a publication is: figures, tables and claims that are made of the stored runs of shipped sweeps.

The five are in ``publications.yaml``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path

from idwbench.errors import ResultsError
from idwbench.report.labels import count_label
from idwbench.results.records import RESULT_STATES, StoredRun
from idwbench.results.store import Results
from idwbench.runs.config import RunConfig
from idwbench.sweep.shipped import shipped_sweeps
from idwbench.sweep.spec import plan, read_sweep
from idwbench.sweep.yaml_source import read_yaml

__all__ = ["Item", "Publication", "SweepRuns", "publications"]


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
        capacity: Whether a table is that of the capacities of hash tables.
        ranked: The split that a leaderboard is sorted by; None for a table by method.
        best_over: Settings of which a leaderboard shows the values with the best validation metric.
    """

    name: str
    caption: str
    sweep: str | None = None
    figure: str | None = None
    metric: str | None = None
    by_dataset: bool = False
    capacity: bool = False
    ranked: str | None = None
    best_over: tuple[str, ...] = ()

    def paths(self, folder: Path, figure_format: str) -> list[Path]:
        """Return the files of the figure or table."""
        return [folder / f"{self.name}.{suffix}" for suffix in ([figure_format] if self.figure else ["md", "csv"])]


@dataclass(frozen=True)
class SweepRuns:
    """The runs of one sweep in a database.

    Attributes:
        name: The sweep.
        stored: Complete and diverged runs.
        run_keys: Those of all its runs; empty if they are not known.
    """

    name: str
    stored: Sequence[StoredRun]
    run_keys: frozenset[str]

    @property
    def file(self) -> str:
        """The sweep file, such as ``sweeps/paper/paper_mnist.yaml``."""
        return f"sweeps/{shipped_sweeps()[self.name].as_posix().rpartition('/sweeps/')[2]}"

    @property
    def seeds(self) -> int:
        """Number of different seeds, those of the data included."""
        return len({(run.config.dataset.seed, run.config.seed) for run in self.stored})

    @property
    def problem(self) -> str | None:
        """How many runs have no result, if any."""
        if not self.run_keys:
            return "not in the database"
        missing = len(self.run_keys - {run.run_key for run in self.stored})
        return f"{count_label(missing, 'run')} of {len(self.run_keys)} missing" if missing else None


@dataclass(frozen=True)
class Publication:
    """Figures, tables and claims, written together by `idwbench.publications.folder.write_publication`.

    Attributes:
        name: Its name.
        title: The title of its page.
        items: Figures and tables, in the order of the page.
        sweeps: The names of the shipped sweeps that train its runs, in the order of the page.
        claims: Whether it has claims.
        by_content: Whether a run belongs to a sweep by its settings, and not by the name of the sweep that trained it.
    """

    name: str
    title: str
    items: tuple[Item, ...]
    sweeps: tuple[str, ...]
    claims: bool = False
    by_content: bool = False

    def finished_runs(self, results: Results) -> list[StoredRun]:
        """Return all complete and diverged runs of a database on the data sets of the sweeps, each read once."""
        labels = dict.fromkeys(_planned(name)[0].dataset_label for name in self.sweeps)
        return [run for label in labels for run in results.find_runs(dataset=label, states=RESULT_STATES)]

    def select(self, finished: Iterable[StoredRun]) -> list[StoredRun]:
        """Return those of the `finished_runs` that have settings of a sweep, with any seed."""
        return list({run.run_key: run for name in self.sweeps for run in _selected(finished, name)}.values())

    def find(self, results: Results, finished: Sequence[StoredRun] | None) -> dict[str, SweepRuns]:
        """Return its runs by the name of the sweep; `finished` are the `finished_runs` if they are read already."""
        if not self.by_content:
            return {name: _runs_by_name(results, name) for name in self.sweeps}
        runs = self.finished_runs(results) if finished is None else finished
        return {
            name: SweepRuns(name, _selected(runs, name), frozenset(run.run_key for run in _planned(name)))
            for name in self.sweeps
        }


@cache
def publications() -> dict[str, Publication]:
    """Return the publications by name."""
    with as_file(files("idwbench.publications").joinpath("publications.yaml")) as path:
        content = read_yaml(path).content
    found = {}
    for name, parts in content.items():
        items = tuple(Item(**{**item, "best_over": tuple(item.get("best_over", ()))}) for item in parts["items"])
        found[name] = Publication(name, **{**parts, "items": items, "sweeps": tuple(parts["sweeps"])})
    return found


@cache
def _planned(name: str) -> tuple[RunConfig, ...]:
    """Return the runs that a shipped sweep trains; its data set and its protocol are those of the first."""
    return plan(read_sweep(shipped_sweeps()[name]))


def _selected(runs: Iterable[StoredRun], name: str) -> list[StoredRun]:
    settings = {run.setting_key for run in _planned(name)}
    return [run for run in runs if run.config.setting_key in settings]


def _runs_by_name(results: Results, name: str) -> SweepRuns:
    try:
        runs = results.find_runs(sweep=name)
    except ResultsError:  # no sweep of that name
        runs = []
    stored = [run for run in runs if run.state in RESULT_STATES]
    return SweepRuns(name, stored, frozenset(run.run_key for run in runs))
