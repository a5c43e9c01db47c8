"""Tables and leaderboards of stored runs by sweep or data set, method and prototypes; without torch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial

import pandas

from idwbench.errors import ConfigError, did_you_mean
from idwbench.report.frame import Runs
from idwbench.report.leaderboard import leaderboard as ranking
from idwbench.report.render import html_table, render
from idwbench.report.studies import dual_form, memory_tables, repair_tables
from idwbench.report.summaries import by_dataset as side_by_side
from idwbench.report.summaries import section_tables, summarise
from idwbench.report.tables import Table
from idwbench.results.store import Results
from idwbench.runs.kinds.models import MODELS
from idwbench.runs.metrics import HEADLINES

__all__ = ["Report", "leaderboard", "select_runs", "table"]


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
    results: Results | Runs,
    name: str | None = None,
    *,
    metric: str | None = None,
    split: str | None = None,
    by_dataset: bool = False,
    capacity: bool = False,
    intervals: bool = False,
    methods: Sequence[str] = (),
    prototypes: Sequence[int] = (),
) -> Report:
    """Return the tables of a sweep or data set, with mean ± sample standard deviation over seeds.

    Multilayer perceptrons alone have the tables of the dual form; runs that compare patches, or study the memory of a
    perceptron, have tables of these, unless a metric is given. The table of a search is its leaderboard.

    Args:
        results: The database, or runs of it, from which nothing is selected.
        name: The sweep or data set; it may be left out if the database has a single data set.
        metric: The metric, by default that of the task.
        split: The split that a table by data set shows.
        by_dataset: Whether a table has a column for each data set.
        capacity: Whether the tables are those of how many items hash tables recall, and how fast it grows.
        intervals: Whether to compute 95 % intervals of the means.
        methods: Only these methods.
        prototypes: Only these numbers of prototypes.

    Raises:
        ConfigError: unknown name, method or metric, or no run is left.
    """
    runs: Runs = results
    if isinstance(results, Results):
        runs = select_runs(results, name, methods, prototypes, metric=metric)
        if not by_dataset and not capacity and results.is_search(name):
            return Report((ranking(runs, metric, split=split, intervals=intervals),))
    if capacity:
        from idwbench.report.lookups import capacity_tables

        return Report(capacity_tables(runs))
    if by_dataset:
        return Report(side_by_side(summarise(runs, metric), split))
    models = [one.model for one in (runs.config if isinstance(runs, pandas.DataFrame) else (r.config for r in runs))]
    kinds = {model.kind for model in models}
    for are_theirs, tables in (
        (kinds <= {"mlp"} and not intervals, dual_form),
        ("memory_study" in kinds, memory_tables),
        (any(getattr(model, "compare", False) for model in models), repair_tables),
    ):
        if are_theirs and not metric:
            return Report(tables(runs))
    return Report(section_tables(summarise(runs, metric, intervals=intervals)))


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
        split: The split to sort by, by default ``validation`` where all rows with the metric have it, else ``test``.
        top: Number of rows; None for all. Marks, tests and counts are those of all rows.
        best_over: Settings of the model or the protocol: of their values only those with the best validation metric are
            shown, for each combination of the other settings.
        intervals: As for `table`.
        methods: As for `table`.
        prototypes: As for `table`.

    Raises:
        ConfigError: unknown name, method, metric or setting, or no run is left.
    """
    runs = select_runs(results, name, methods, prototypes, metric=metric, setting="leaderboard")
    return Report((ranking(runs, metric, split=split, top=top, best_over=best_over, intervals=intervals),))


def select_runs(
    results: Results,
    name: str | None = None,
    methods: Collection[str] = (),
    prototypes: Collection[int] = (),
    *,
    metric: str | None = None,
    setting: str = "table",
) -> pandas.DataFrame:
    """Return the runs of a sweep or data set; without a name, of the only data set.

    A name that a sweep and a data set share means the sweep. Empty `methods` and `prototypes` select all.

    Args:
        results: The database.
        name: The sweep or data set.
        methods: Names of methods.
        prototypes: Numbers of prototypes.
        metric: That of a table. Other metrics are not read where each complete run has it, or that of its task.
        setting: The location of errors about the name.

    Raises:
        ConfigError: unknown name, or no run is left; `location` is ``(setting,)`` or ``("method",)``.
    """
    is_sweep = results.is_search(name) is not None
    if not is_sweep:  # nothing else asks for the data sets of all runs
        sweeps, datasets = results.names()
        known = {*datasets, *sweeps}
        if name is None and len(datasets) != 1:
            hint = f"one of: {', '.join(sorted(known))}" if known else "nothing is stored"
            raise ConfigError("the name of a sweep or data set is missing", location=(setting,), hint=hint)
        name = datasets[0] if name is None else name
        if name not in known:
            problem = f"'{name}' is a kind of model" if name in MODELS else f"nothing is called '{name}'"
            raise ConfigError(problem, location=(setting,), hint=did_you_mean(name, known))
        is_sweep = name in sweeps
    place = {"sweep" if is_sweep else "dataset": name}
    headlines = {headline.name for headline in HEADLINES.values()}
    wanted = {metric} if metric else headlines
    read = partial(results.run_table, facts=("n_parameters",), **place)
    table = read(metrics=headlines | wanted)
    pairs = [pair for pair in table.columns if isinstance(pair, tuple) and pair[1] in wanted]
    models = table.drop_duplicates("setting").set_index("setting").config.map(lambda config: config.model)
    is_study = any(model.kind in ("mlp", "memory_study") or getattr(model, "compare", False) for model in models)
    if (is_study and not metric) or table.loc[table.state == "complete", pairs].isna().all(axis=1).any():
        table = read()  # messages name all metrics, and tables of studies have many
    present = {model.method for model in models}
    for method in methods:
        if method not in present:
            hint = did_you_mean(method, present)
            raise ConfigError(f"no run of {name} has the method '{method}'", location=("method",), hint=hint)
    chosen = [
        (not methods or model.method in methods) and (not prototypes or model.prototypes in prototypes)
        for model in models
    ]
    table = table[table.setting.isin(models.index[chosen])]
    if table.empty:
        raise ConfigError(f"no runs of {name} have that method and number of prototypes", location=(setting,))
    return table
