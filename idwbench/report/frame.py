"""The tidy table of runs on which all reports stand: a row for each run, what groups it and its metrics as columns.

It is the table of `idwbench.results.store.Results.run_table` with ``kind``, identities of ``data``, ``model`` and
``protocol``, and ``row``, the number of the row of a report that runs with these share.

Spread is over seeds of runs, or of the data: runs of one setting on data sets that differ only in their seed, with one
run on each, are *replicates*, since each data set is a new split or a new sample. They have ``data_seeds``, the column
``data`` leaves out their seed, and ``replicate`` is the seed of the data; of all others it is that of the run. A run
that nothing random affects but its data, such as kernel regression, has the same result for all seeds: it counts once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import pandas

from idwbench.report.labels import count_label
from idwbench.report.settings import flat_settings, ordered_parameters
from idwbench.report.statistics import SPLITS, Statistic, statistic
from idwbench.results.records import RESULT_STATES, StoredRun
from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import DatasetConfig
from idwbench.runs.kinds.models import ModelConfig
from idwbench.runs.protocol import Protocol

__all__ = [
    "Row",
    "Runs",
    "data_seed",
    "ended",
    "measured",
    "metric_names",
    "replication_notes",
    "rows",
    "run_table",
    "statistics",
]

# A table of runs, or records of them.
Runs: TypeAlias = pandas.DataFrame | Iterable[StoredRun]

_FACTS = ["kind", "is_deterministic", "data", "data_without_seed", "data_seed", "model", "protocol"]


@dataclass(frozen=True)
class Row:
    """Runs that differ only in the seed, or in that of the data where these are replicates.

    Attributes:
        number: The number of the row in its table.
        config: The settings of the runs, with any of their seeds.
        data: The identity of the data.
        data_seeds: The seeds of the data that are replicates; empty if seeds of runs are.
        run_keys: The keys of the complete runs.
        n_diverged: Number of diverged runs, which are in no statistic.
        n_parameters: Number of learned parameters; None if no run is complete.
        statistics: A metric by split, over the complete runs.
        table: The table of the runs, in which they have the number.
    """

    number: int
    config: RunConfig
    data: str
    data_seeds: tuple[int, ...]
    run_keys: tuple[str, ...]
    n_diverged: int
    n_parameters: int | None
    statistics: Mapping[str, Statistic]
    table: pandas.DataFrame = field(repr=False, compare=False)

    @cached_property
    def model(self) -> ModelConfig:
        """The model, with parameters in the order of its method."""
        model = self.config.model
        ordered = ordered_parameters(model)
        return model if [*ordered] == [*model.parameters] else model.replace_parameters(ordered)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All settings but the seed by name, see `flat_settings`."""
        settings = flat_settings(self.config)
        return {name: value for name, value in settings.items() if not (self.data_seeds and name == "dataset_seed")}

    @property
    def n(self) -> int:
        """Number of complete runs."""
        return len(self.run_keys)

    @cached_property
    def complete(self) -> tuple[StoredRun, ...]:
        """The complete runs, with their settings and metrics."""
        from idwbench.results.frame import records  # loads SQLAlchemy

        return tuple(records(self.table[(self.table.row == self.number) & (self.table.state == "complete")]))


def run_table(runs: Runs) -> pandas.DataFrame:
    """Return the table of runs in any state; a run that is given twice counts once.

    Of runs that differ only in a seed without effect the first complete one is kept.
    """
    if not isinstance(runs, pandas.DataFrame):
        from idwbench.results.frame import runs_frame  # loads SQLAlchemy

        runs = runs_frame(runs)
    settings = runs.drop_duplicates("setting")
    facts = pandas.DataFrame(map(_facts, settings.config), columns=_FACTS, index=settings.setting)
    table = runs.join(facts.astype({"is_deterministic": bool, "data_seed": int}), on="setting")
    if table.is_deterministic.any():
        result = table.run_key.where(~table.is_deterministic, table.setting.astype(str))
        order = table.assign(result=result, lacks=table.state != "complete").sort_values(["lacks", "seed"])
        table = table.loc[order.drop_duplicates("result").index.sort_values()]
    table["data_seeds"] = _replicates(table)
    is_pooled = table.data_seeds.astype(bool)
    table["data"] = table.data_without_seed.where(is_pooled, table.data)
    table["replicate"] = table.data_seed.where(is_pooled, table.seed)
    table["row"] = table.groupby(["data", "model", "protocol"], sort=False).ngroup()
    return table


def _facts(config: RunConfig) -> tuple[Any, ...]:
    model = config.model
    return (model.kind, model.is_deterministic, *_data(config.dataset), model.identity(), _protocol(config.protocol))


@lru_cache  # few data sets and protocols are shared by many settings
def _data(dataset: DatasetConfig) -> tuple[str, str, int]:
    return dataset.identity("path"), dataset.identity("path", "seed"), data_seed(dataset)


@lru_cache
def _protocol(protocol: Protocol) -> str:
    return protocol.identity()


def _replicates(table: pandas.DataFrame) -> pandas.Series[Any]:
    """Return for each run the seeds of the data that are replicates; empty if they are not."""
    random = table[~table.is_deterministic]
    runs = random.groupby(["data_without_seed", "model", "protocol", "data_seed"]).seed.nunique()
    repeated = {*runs.index.get_level_values(0)[runs > 1]}
    seeds = table.groupby("data_without_seed").data_seed.unique()
    pooled = {
        data: tuple(sorted(found.tolist())) if len(found) > 1 and data not in repeated else ()
        for data, found in seeds.items()
    }
    return table.data_without_seed.map(pooled).astype(object)


def data_seed(dataset: DatasetConfig) -> int:
    """Return the seed of a data set, 0 if it has none."""
    return int(getattr(dataset, "seed", 0))


def metric_names(table: pandas.DataFrame) -> set[str]:
    """Return the names of the metrics that some run of a table has on some split."""
    pairs = [column for column in table.columns if isinstance(column, tuple)]
    return {pair[1] for pair in pairs if table[pair].notna().any()}


def measured(table: pandas.DataFrame, metric: str) -> pandas.DataFrame:
    """Return a metric by split, in the order of `SPLITS`."""
    splits = [column[0] for column in table.columns if isinstance(column, tuple) and column[1] == metric]
    splits.sort(key=lambda split: (SPLITS.index(split) if split in SPLITS else len(SPLITS), split))
    return pandas.DataFrame({split: table[split, metric] for split in splits}, index=table.index)


def ended(table: pandas.DataFrame) -> pandas.DataFrame:
    """Return the complete and diverged runs."""
    return table[table.state.isin(RESULT_STATES)]


def statistics(table: pandas.DataFrame, metric: str) -> dict[int, dict[str, Statistic]]:
    """Return the statistics of a metric of complete runs by row and split."""
    found: dict[int, dict[str, Statistic]] = defaultdict(dict)
    complete = table[table.state == "complete"]
    for split, values in measured(complete, metric).items():
        by_row: dict[int, dict[int, float]] = defaultdict(dict)
        for row, seed, value in zip(complete.row.tolist(), complete.replicate.tolist(), values.tolist(), strict=True):
            by_row[row][seed] = value
        for row, by_seed in by_row.items():
            if (one := statistic(by_seed)) is not None:
                found[row][str(split)] = one
    return found


def rows(table: pandas.DataFrame, metric: str) -> list[Row]:
    """Return the complete and diverged runs by row, in the order of the first run of each."""
    table = ended(table)
    complete = table[table.state == "complete"]
    by_split = statistics(table, metric)
    keys: dict[int, list[str]] = defaultdict(list)
    for row, key in zip(complete.row.tolist(), complete.run_key.tolist(), strict=True):
        keys[row].append(key)
    counts = table.row[table.state == "diverged"].value_counts().to_dict()
    n_parameters = complete.dropna(subset="n_parameters").drop_duplicates("row").set_index("row").n_parameters.to_dict()
    first = table.drop_duplicates("row")
    found = []
    for row, config, data, seeds in zip(first.row, first.config, first.data, first.data_seeds, strict=True):
        facts = tuple(keys[row]), counts.get(row, 0), _whole(n_parameters.get(row)), by_split.get(row, {})
        found.append(Row(row, config, data, seeds, *facts, table))
    return found


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)


def replication_notes(table: pandas.DataFrame) -> Iterator[str]:
    """Yield notes on what the spread is over, where it is not over the seeds of runs."""
    for seeds in sorted({*table.data_seeds} - {()}):
        low, high = min(seeds), max(seeds)
        listed = f"{low} to {high}" if high - low + 1 == len(seeds) else ", ".join(map(str, seeds))
        yield f"Spread and tests: over the {count_label(len(seeds), 'seed')} {listed} of the data."
    alone = table[table.is_deterministic & ~table.data_seeds.astype(bool)].drop_duplicates("model")
    models = [config.model for config in alone.config]
    names = sorted({"kernel regression" if model.kind == "kernel_regression" else model.method for model in models})
    if len(names) == 1:
        yield f"The result of {names[0]} does not depend on the seed; it counts once and has no spread."
    elif names:
        listed = f"{', '.join(names[:-1])} and {names[-1]}"
        yield f"The results of {listed} do not depend on the seed; they count once and have no spread."
