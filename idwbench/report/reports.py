"""Tables and leaderboards of a sweep or data set in one call; without torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas

from idwbench.report.leaderboard import leaderboard as ranking
from idwbench.report.render import html_table, render
from idwbench.report.selection import report_tables, select_runs
from idwbench.report.tables import Table
from idwbench.results.store import Results

__all__ = ["Report", "leaderboard", "table"]


@dataclass(frozen=True)
class Report:
    """Tables of stored runs, as `idwbench report` prints them; a notebook shows them as HTML."""

    tables: tuple[Table, ...]

    def to_frame(self) -> pandas.DataFrame:
        """Return the rows of all tables as pandas data, with full precision and a column for each setting."""
        return pandas.DataFrame([one.flat(record) for one in self.tables for record in one.records()])

    def render(self, table_format: str = "rich") -> str:
        """Return the tables as text; formats as in `idwbench.report.render.render`."""
        return render(self.tables, table_format)

    def __str__(self) -> str:
        return self.render()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "".join(map(html_table, self.tables))


def table(
    results: Results,
    name: str | None = None,
    *,
    metric: str | None = None,
    split: str | None = None,
    by_dataset: bool = False,
    intervals: bool = False,
    methods: Sequence[str] = (),
    prototypes: Sequence[int] = (),
) -> Report:
    """Return the tables of a sweep or data set, with mean ± sample standard deviation over seeds.

    Args:
        results: The database.
        name: The sweep or data set; it may be left out if the database has a single data set.
        metric: The metric, by default that of the task.
        split: The split that a table by data set shows.
        by_dataset: Whether a table has a column for each data set.
        intervals: Whether to compute 95 % intervals of the means.
        methods: Only these methods.
        prototypes: Only these numbers of prototypes.

    Raises:
        ConfigError: unknown name, method or metric, or no run is left.
    """
    runs = select_runs(results, name, methods, prototypes, metric=metric)
    return Report(tuple(report_tables(runs, metric, split, by_dataset=by_dataset, intervals=intervals)))


def leaderboard(
    results: Results,
    name: str | None = None,
    *,
    metric: str | None = None,
    split: str | None = None,
    top: int | None = None,
    best_over: Sequence[str] = (),
    intervals: bool = False,
    methods: Sequence[str] = (),
    prototypes: Sequence[int] = (),
) -> Report:
    """Return the settings of a sweep or data set in one list, best first.

    Args:
        results: The database.
        name: As for `table`.
        metric: The metric, by default that of the task.
        split: The split that the list is sorted by.
        top: Number of rows.
        best_over: Settings of which the values with the best validation metric are shown.
        intervals: As for `table`.
        methods: As for `table`.
        prototypes: As for `table`.

    Raises:
        ConfigError: unknown name, method, metric or setting, or no run is left.
    """
    runs = select_runs(results, name, methods, prototypes, metric=metric, setting="leaderboard")
    return Report((ranking(runs, metric, split=split, top=top, best_over=best_over, intervals=intervals),))
