"""The tidy table of runs on which all reports stand: a row for each run, what groups it and its metrics as columns.

It is the table of `idwbench.results.store.Results.run_table` with ``kind``, numbers of ``data``, ``model`` and
``protocol`` that equal ones share, and ``row``, the number of the row of a report that runs with these share.

Spread is over seeds of runs, or of the data: runs of one setting on data sets that differ only in their seed, with one
run on each, are *replicates*, since each data set is a new split or a new sample. They have ``data_seeds``, the column
``data`` leaves out their seed, and ``replicate`` is the seed of the data; of all others it is that of the run. A run
that nothing random affects but its data, such as kernel regression, has the same result for all seeds: it counts once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import pandas

from idwbench.errors import ConfigError, did_you_mean
from idwbench.report.labels import count_label, flat_settings
from idwbench.report.statistics import SPLITS, Statistic, present_splits, statistic
from idwbench.results.records import RESULT_STATES, StoredRun
from idwbench.runs.config import RunConfig
from idwbench.runs.kinds.models import ModelConfig
from idwbench.runs.metrics import HEADLINES, METRICS, QUALITY_METRICS

__all__ = [
    "Row",
    "Runs",
    "check_metric",
    "chosen_split",
    "metric_names",
    "one_metric",
    "rows",
    "run_notes",
    "run_table",
    "with_metric",
]

# A table of runs, or records of them.
Runs: TypeAlias = pandas.DataFrame | Iterable[StoredRun]

# Their runs have the same metrics, so that one that lacks a metric can be measured.
_NETWORKS = {"prototypes", "baseline"}


@dataclass(frozen=True)
class Row:
    """Runs that differ only in the seed, or in that of the data where these are replicates.

    Attributes:
        number: The number of the row in its table.
        config: The settings of the runs, with any of their seeds.
        model: The model.
        parameters_label: Its label in tables, with the checksum of a plugin where two versions of a method differ.
        data: The number of the data, which rows on the same data share.
        data_seeds: The seeds of the data that are replicates; empty if seeds of runs are.
        run_keys: The keys of the complete runs.
        n: Number of complete runs.
        n_diverged: Number of diverged runs, which are in no statistic.
        n_parameters: Number of learned parameters; None if no run is complete.
        statistics: A metric by split, over the complete runs.
        table: The table of the runs, in which they have the number.
    """

    number: int
    config: RunConfig
    model: ModelConfig
    parameters_label: str
    data: int
    data_seeds: tuple[int, ...]
    run_keys: tuple[str, ...]
    n: int
    n_diverged: int
    n_parameters: int | None
    statistics: Mapping[str, Statistic]
    table: pandas.DataFrame = field(repr=False, compare=False)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All settings but the seed by name, see `flat_settings`."""
        settings = flat_settings(self.config)
        return {name: value for name, value in settings.items() if not (self.data_seeds and name == "dataset_seed")}

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
    settings = runs.drop_duplicates("setting").set_index("setting").config
    facts: dict[str, Any] = {
        "kind": [config.model.kind for config in settings],
        "headline": [HEADLINES[config.dataset.task].name for config in settings],
        "versions": [(config.model.method, config.model.plugin_sha256) for config in settings],
        "is_deterministic": [config.model.is_deterministic for config in settings],
        "data_seed": [config.dataset.seed for config in settings],
        "data_without_seed": [{**dict(config.dataset), "path": None, "seed": None} for config in settings],
        "model": [dict(config.model) for config in settings],
        "protocol": [dict(config.protocol) for config in settings],
    }
    for name in ("data_without_seed", "model", "protocol"):  # numbers, in place of texts that the table would repeat
        texts = [json.dumps(content, sort_keys=True, default=str) for content in facts[name]]
        facts[name] = pandas.factorize(pandas.Series(texts, dtype=object))[0]
    types = {"is_deterministic": bool, "data_seed": int}
    table = runs.join(pandas.DataFrame(facts, index=settings.index).astype(types), on="setting")
    if table.is_deterministic.any():
        result = table.run_key.where(~table.is_deterministic, table.setting.astype(str))
        order = table.assign(result=result, lacks=table.state != "complete").sort_values(["lacks", "seed"])
        table = table.loc[order.drop_duplicates("result").index.sort_values()]
    seeds = table.groupby("data_without_seed").data_seed.unique().map(lambda own: tuple(sorted(own.tolist())))
    runs_on_one = table[~table.is_deterministic].groupby(["data_without_seed", "model", "protocol", "data_seed"]).seed
    repeated = runs_on_one.nunique()[lambda n: n > 1].index.get_level_values(0)
    seeds = seeds.where((seeds.map(len) > 1) & ~seeds.index.isin(repeated), None)
    table["data_seeds"] = table.data_without_seed.map(seeds).map(lambda own: own or ()).astype(object)
    is_pooled = table.data_seeds.astype(bool)
    table["data"] = table.groupby(["data_without_seed", table.data_seed.mask(is_pooled, -1)], sort=False).ngroup()
    table["replicate"] = table.data_seed.where(is_pooled, table.seed)
    table["row"] = table.groupby(["data", "model", "protocol"], sort=False).ngroup()
    return table


def metric_names(table: pandas.DataFrame) -> set[str]:
    """Return the names of the metrics that some run of a table has on some split."""
    pairs = [column for column in table.columns if isinstance(column, tuple)]
    return {pair[1] for pair in pairs if table[pair].notna().any()}


def check_metric(table: pandas.DataFrame, metric: str) -> None:
    """Check that some runs have a metric, or that it is the headline metric of a task.

    Raises:
        ConfigError: no run has it; the message says whether it is a known metric and how many runs lack it.
    """
    known = metric_names(table) | {*table.headline}
    if metric in known:
        return
    if metric not in METRICS:
        hint = did_you_mean(metric, known | set(METRICS))
        raise ConfigError(f"no run has a metric '{metric}'", location=("metric",), hint=hint)
    n = int((table.state == "complete").sum())
    hint = f"they have: {', '.join(sorted(known))}"
    hint += "; `measure_runs` measures those with prototypes" if metric in QUALITY_METRICS else ""
    lack = "the only complete run lacks" if n == 1 else f"all {n:,} complete runs lack"
    raise ConfigError(f"{lack} the metric '{metric}'", location=("metric",), hint=hint)


def one_metric(names: Iterable[str]) -> str:
    """Return the metric that all runs of a table have.

    Raises:
        ConfigError: there are several, or none.
    """
    known = sorted({*names})
    if len(known) != 1:
        problem = "the tasks of these runs have different metrics; give one" if known else "there are no runs"
        raise ConfigError(problem, location=("metric",), hint=f"one of: {', '.join(known)}" if known else "")
    return known[0]


def chosen_split(rows: Iterable[Row], metric: str, split: str | None) -> str:
    """Return the split that is given, or validation if all rows with a test part have it, or the first other one.

    Raises:
        ConfigError: no row has the metric on that split.
    """
    measured = [row.statistics for row in rows]
    splits = present_splits(measured) or SPLITS
    if split is not None and split not in splits:
        problem = f"no run has {metric} on a split '{split}'"
        raise ConfigError(problem, location=("split",), hint=did_you_mean(split, splits))
    is_partial = splits[0] == "validation" and any("test" in one and "validation" not in one for one in measured)
    return split or splits[is_partial]


def with_metric(table: pandas.DataFrame, metric: str) -> pandas.DataFrame:
    """Return a table with columns on a metric: ``lacks_metric``, ``kind_lacks_metric`` and ``is_shown``.

    Prototype networks and baselines have the same metrics: those that lack one were trained before it existed. Shown
    are runs of kinds with the metric that ended, in rows with the metric or of prototype networks.
    """
    pairs = [column for column in table.columns if isinstance(column, tuple) and column[1] == metric]
    lacks = table[pairs].isna().all(axis=1)
    kinds = {*table.kind[~lacks]}
    kinds |= _NETWORKS if not kinds or kinds & _NETWORKS else set()
    has_row = (table.kind == "prototypes") | (~lacks).groupby(table.row).transform("any")
    of_kind = table.kind.isin(kinds)
    is_shown = of_kind & has_row & table.state.isin(RESULT_STATES)
    return table.assign(lacks_metric=lacks, kind_lacks_metric=~of_kind, is_shown=is_shown)


def rows(table: pandas.DataFrame, metric: str) -> list[Row]:
    """Return the complete and diverged runs by row, in the order of the first run of each."""
    table = table[table.state.isin(RESULT_STATES)]
    splits = [column[0] for column in table.columns if isinstance(column, tuple) and column[1] == metric]
    splits.sort(key=lambda split: (SPLITS.index(split) if split in SPLITS else len(SPLITS), split))
    values = {split: table[split, metric].to_numpy() for split in splits}
    names = ("config", "data", "data_seeds", "run_key", "replicate", "n_parameters")
    configs, data, data_seeds, keys, replicates, sizes = (table[name].to_numpy() for name in names)
    is_complete = (table.state == "complete").to_numpy()
    places = table.groupby("row").indices
    methods = [method for method, _ in table.versions.unique()]
    every = []
    for number, own in sorted(places.items(), key=lambda item: int(item[1][0])):
        first, complete = own[0], own[is_complete[own]]
        seeds = replicates[complete].tolist()
        by_seed = {split: dict(zip(seeds, column[complete].tolist(), strict=True)) for split, column in values.items()}
        n_parameters = next((int(size) for size in sizes[complete] if not pandas.isna(size)), None)
        facts = (int(data[first]), data_seeds[first], tuple(keys[complete]), len(complete), len(own) - len(complete))
        statistics = {split: one for split, by in by_seed.items() if (one := statistic(by)) is not None}
        config: RunConfig = configs[first]
        model = config.model
        label = model.versioned_label if methods.count(model.method) > 1 else model.parameters_label
        every.append(Row(int(number), config, model, label, *facts, n_parameters, statistics, table))
    return every


def run_notes(rows: Sequence[Row], table: pandas.DataFrame, metric: str, *, seeds: bool = True) -> Iterator[str]:
    """Yield notes on what the spread is over, where it is not over the seeds of runs, and on runs that rows lack.

    Args:
        rows: The rows that are shown.
        table: All runs, from `with_metric`.
        metric: The name of the metric.
        seeds: Whether to note that rows have fewer runs than others.
    """
    shown = table[table.is_shown]
    for replicates in sorted({*shown.data_seeds} - {()}):
        low, high = min(replicates), max(replicates)
        listed = f"{low} to {high}" if high - low + 1 == len(replicates) else ", ".join(map(str, replicates))
        yield f"Spread and tests: over the {count_label(len(replicates), 'seed')} {listed} of the data."
    alone = shown[shown.is_deterministic & ~shown.data_seeds.astype(bool)].drop_duplicates("model")
    models = [config.model for config in alone.config]
    names = sorted({"kernel regression" if model.kind == "kernel_regression" else model.method for model in models})
    if len(names) == 1:
        yield f"The result of {names[0]} does not depend on the seed; it counts once and has no spread."
    elif names:
        listed = f"{', '.join(names[:-1])} and {names[-1]}"
        yield f"The results of {listed} do not depend on the seed; they count once and have no spread."
    most = max((row.n for row in rows), default=0)
    if seeds and (fewer := sum(0 < row.n < most for row in rows)):
        yield f"{count_label(fewer, 'row')} of {len(rows):,} with fewer than {most:,} seeds; see n."
    if any(row.n == 1 for row in rows):
        yield "n = 1: no spread."
    states = table.state.value_counts()
    for n, text in (
        (sum(row.n_diverged for row in rows), "diverged; not in the means."),
        (states.get("failed", 0), "failed; not shown."),
        (states.get("planned", 0) + states.get("running", 0), "not finished; not shown."),
    ):
        if n:
            yield f"{count_label(n, 'run')} {text}"
    if n := (table.lacks_metric & ~table.kind_lacks_metric & (table.state == "complete")).sum():
        yield f"{count_label(n, 'complete run')} without the metric '{metric}'; not in the means."
    others = table[table.kind_lacks_metric]
    for kind, left_out in others.groupby("kind"):
        names = sorted(metric_names(left_out)) if len(others) == len(table) else []
        note = f"{count_label(len(left_out), 'run')} of kind {kind}, which has no metric '{metric}'; not shown."
        yield f"{note} Its metrics: {', '.join(names)}." if names else note
