"""The tidy table of runs on which all reports stand: a row for each run, what groups it and its metrics as columns.

Columns are ``run``, ``run_key``, ``state``, ``seed``, ``kind``, identities of ``data``, ``model`` and ``protocol``, the
number of the ``setting`` that runs with these share, and ``(split, metric)`` for each metric. A metric that a run has
not is NaN, and one that is no number is infinite.

Spread is over seeds of runs, or of the data: runs of one setting on data sets that differ only in their seed, with one
run on each, are *replicates*, since each data set is a new split or a new sample. They have ``is_pooled``, the column
``data`` leaves out their seed, and ``replicate`` is the seed of the data; of all others it is that of the run. A run
that nothing random affects but its data, such as kernel regression, has the same result for all seeds: it counts once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas

from idwbench.report.labels import count_label
from idwbench.report.settings import flat_settings, ordered_parameters
from idwbench.report.statistics import SPLITS, Statistic, statistic
from idwbench.results.records import RESULT_STATES, StoredRun
from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import DatasetConfig
from idwbench.runs.kinds.models import ModelConfig

__all__ = ["Row", "data_seed", "ended", "has_metric", "replication_notes", "rows", "run_table", "statistics"]

_FACTS = ("kind", "is_deterministic", "data", "data_without_seed", "data_seed", "model", "protocol")


@dataclass(frozen=True)
class Row:
    """Runs that differ only in the seed, or in that of the data where these are replicates.

    Attributes:
        setting: The number of the setting.
        runs: Complete and diverged runs.
        data: The identity of the data.
        data_seeds: The seeds of the data that are replicates; empty if seeds of runs are.
        statistics: A metric by split, over the complete runs.
    """

    setting: int
    runs: tuple[StoredRun, ...]
    data: str
    data_seeds: tuple[int, ...]
    statistics: Mapping[str, Statistic]

    @property
    def config(self) -> RunConfig:
        """The settings of the runs, with any of their seeds."""
        return self.runs[0].setting

    @cached_property
    def model(self) -> ModelConfig:
        """The model, with parameters in the order of its method."""
        model = self.config.model
        ordered = ordered_parameters(model)
        return model if [*ordered] == [*model.parameters] else model.replace_parameters(ordered)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All settings but the seed by name, see `flat_settings`."""
        settings = flat_settings(self.runs[0])
        return {name: value for name, value in settings.items() if not (self.data_seeds and name == "dataset_seed")}

    @cached_property
    def complete(self) -> tuple[StoredRun, ...]:
        """The complete runs."""
        return tuple(run for run in self.runs if run.state == "complete")

    @property
    def n(self) -> int:
        """Number of complete runs."""
        return len(self.complete)

    @property
    def n_diverged(self) -> int:
        """Number of diverged runs, which are in no statistic."""
        return len(self.runs) - len(self.complete)

    @property
    def n_parameters(self) -> int | None:
        """Number of learned parameters; None if no run is complete."""
        return next((run.n_parameters for run in self.complete if run.n_parameters is not None), None)


def run_table(runs: Iterable[StoredRun]) -> pandas.DataFrame:
    """Return the table of runs in any state; a run that is given twice counts once.

    Of runs that differ only in a seed without effect the first complete one is kept.
    """
    facts: dict[str, tuple[Any, ...]] = {}
    distinct = {run.run_key: run for run in runs}
    keys = [run.setting.setting_key for run in distinct.values()]
    for key, run in zip(keys, distinct.values(), strict=True):
        if key not in facts:
            facts[key] = _facts(run.setting)
    table = pandas.DataFrame([facts[key] for key in keys], columns=[*_FACTS]).astype({"is_deterministic": bool})
    table["run"] = pandas.Series([*distinct.values()], dtype=object)
    table["run_key"] = [*distinct]
    table["state"] = [run.state for run in distinct.values()]
    table["seed"] = [run.seed for run in distinct.values()]
    if table.is_deterministic.any():
        table["result"] = pandas.Series(keys, dtype=object).where(table.is_deterministic, table.run_key)
        table["lacks"] = table.state != "complete"
        table = table.sort_values(["lacks", "seed"], kind="stable").drop_duplicates("result").sort_index()
    table["data_seeds"] = _replicates(table)
    is_pooled = table.data_seeds.astype(bool)
    table["data"] = table.data_without_seed.where(is_pooled, table.data)
    table["replicate"] = table.data_seed.where(is_pooled, table.seed)
    table["setting"] = table.groupby(["data", "model", "protocol"], sort=False).ngroup()
    return pandas.concat([table, _metrics(table)], axis=1)


def _facts(config: RunConfig) -> tuple[Any, ...]:
    dataset, model = config.dataset, config.model
    data = dataset.identity("path"), dataset.identity("path", "seed"), data_seed(dataset)
    return (model.kind, model.is_deterministic, *data, model.identity(), config.protocol.identity())


def _replicates(table: pandas.DataFrame) -> pandas.Series[Any]:
    """Return for each run the seeds of the data that are replicates; empty if they are not."""
    seeds = table.groupby("data_without_seed").data_seed.unique()
    random = table[~table.is_deterministic]
    runs = random.groupby(["data_without_seed", "model", "protocol", "data_seed"]).seed.nunique()
    repeated = {*runs.index.get_level_values(0)[runs > 1]}
    is_pooled = {data: len(found) > 1 and data not in repeated for data, found in seeds.items()}
    return table.data_without_seed.map(
        {data: tuple(sorted(seeds[data].tolist())) * is_pooled[data] for data in is_pooled}
    )


def _metrics(table: pandas.DataFrame) -> pandas.DataFrame:
    found = [run.metrics for run in table.run]
    pairs = dict.fromkeys(pair for metrics in found for pair in metrics)
    columns = {pair: [_number(metrics.get(pair)) for metrics in found] for pair in pairs}
    return pandas.DataFrame(dict(enumerate(columns.values())), index=table.index).set_axis(
        pandas.Index([*pairs], tupleize_cols=False), axis=1
    )


def _number(value: float | None) -> float:
    return float("nan") if value is None else value if value == value else float("inf")


def data_seed(dataset: DatasetConfig) -> int:
    """Return the seed of a data set, 0 if it has none."""
    return int(getattr(dataset, "seed", 0))


def has_metric(table: pandas.DataFrame, metric: str) -> pandas.Series[bool]:
    """Return whether runs have a metric on some split."""
    return table[[pair for pair in _pairs(table) if pair[1] == metric]].notna().any(axis=1)


def _pairs(table: pandas.DataFrame) -> list[tuple[str, str]]:
    return [column for column in table.columns if isinstance(column, tuple)]


def ended(table: pandas.DataFrame) -> pandas.DataFrame:
    """Return the complete and diverged runs."""
    return table[table.state.isin(RESULT_STATES)]


def statistics(table: pandas.DataFrame, metric: str) -> dict[int, dict[str, Statistic]]:
    """Return the statistics of a metric of complete runs by setting and split."""
    found: dict[int, dict[str, Statistic]] = defaultdict(dict)
    complete = table[table.state == "complete"]
    splits = [split for split, name in _pairs(table) if name == metric]
    for split in sorted(splits, key=lambda name: (SPLITS.index(name) if name in SPLITS else len(SPLITS), name)):
        values: dict[int, dict[int, float]] = defaultdict(dict)
        columns = (complete[name].tolist() for name in ("setting", "replicate", (split, metric)))
        for setting, seed, value in zip(*columns, strict=True):
            values[setting][seed] = value
        for setting, by_seed in values.items():
            if (one := statistic(by_seed)) is not None:
                found[setting][split] = one
    return found


def rows(table: pandas.DataFrame, metric: str) -> list[Row]:
    """Return the complete and diverged runs by setting, in the order of the first run of each."""
    table = ended(table)
    measured = statistics(table, metric)
    runs: dict[int, list[StoredRun]] = defaultdict(list)
    data: dict[int, tuple[str, tuple[int, ...]]] = {}
    for setting, run, identity, seeds in zip(table.setting, table.run, table.data, table.data_seeds, strict=True):
        runs[setting].append(run)
        data[setting] = identity, seeds
    return [Row(setting, tuple(found), *data[setting], measured.get(setting, {})) for setting, found in runs.items()]


def replication_notes(table: pandas.DataFrame) -> list[str]:
    """Return notes on what the spread is over, where it is not over the seeds of runs."""
    pooled = sorted({*table.data_seeds} - {()})
    notes = [f"Spread and tests: over {_seeds_label(seeds)} of the data." for seeds in pooled]
    alone = table[table.is_deterministic & ~table.data_seeds.astype(bool)].drop_duplicates("model").run
    models = [run.setting.model for run in alone]
    names = sorted({"kernel regression" if model.kind == "kernel_regression" else model.method for model in models})
    if len(names) == 1:
        notes.append(f"The result of {names[0]} does not depend on the seed; it counts once and has no spread.")
    elif names:
        listed = f"{', '.join(names[:-1])} and {names[-1]}"
        notes.append(f"The results of {listed} do not depend on the seed; they count once and have no spread.")
    return notes


def _seeds_label(seeds: Collection[int]) -> str:
    """Return ``the 6 seeds 0 to 5``, or a list if they are not consecutive."""
    low, high = min(seeds), max(seeds)
    listed = f"{low} to {high}" if high - low + 1 == len(seeds) else ", ".join(map(str, seeds))
    return f"the {count_label(len(seeds), 'seed')} {listed}"
