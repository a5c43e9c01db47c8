"""The tidy table of runs that reports, figures and filters stand on: a row for each run, a column for each quantity."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from idwbench.results.leases import stale_keys
from idwbench.results.reading import read_columns, stored_runs
from idwbench.results.records import StoredRun
from idwbench.results.tables import runs
from idwbench.runs.config import RunConfig
from idwbench.runs.metrics import metric_order

if TYPE_CHECKING:
    import pandas

__all__ = ["FACTS", "records", "run_table", "runs_frame", "with_settings"]

FACTS = (
    *("n_parameters", "diverged_epoch", "error", "tags", "note", "seconds", "engine", "device", "threads", "host"),
    *("attempt", "created_at", "started_at", "finished_at"),
)
_COLUMNS = ("run_key", "dataset", "seed", "state", "retraining")
_SHORT = 12


def run_table(
    connection: Connection,
    *,
    sweep: str | None = None,
    dataset: str | None = None,
    where: str | None = None,
    states: Collection[str] | None = None,
    metrics: Collection[str] | None = None,
    facts: Collection[str] = FACTS,
    split: str | None = None,
) -> pandas.DataFrame:
    """Return a table with one row for each run, in the order of the sweep or of planning.

    Columns: ``run_key``, ``dataset`` (label), ``config`` (a `RunConfig`: one object for all runs that differ in the
    seed alone), ``setting`` (the number of that object), ``seed``, ``state``, ``retraining``, ``stale``,
    ``(split, name)`` for each metric, and the scalar attributes of `StoredRun`.

    Runs are selected as by `Results.to_frame`, which raises the same errors. The names in `metrics` and `facts` become
    columns, all metrics if None; metrics on all splits, or on that of `split`.
    """
    of_dataset = [] if dataset is None else [runs.c.dataset == dataset]
    columns = read_columns(connection, (*_COLUMNS, *facts), metrics, split, sweep=sweep, where=of_dataset)
    is_running = "running" in columns["state"] or any(columns["retraining"])
    stale = stale_keys(connection) if is_running else set()
    columns["stale"] = [key in stale for key in columns["run_key"]]
    table = _table(columns)
    if states is not None or where is not None:
        from idwbench.results.filters import in_states, matching

        table = table if states is None else in_states(table, states)
        table = table if where is None else table.loc[matching(with_settings(table), where).index]
    return table.reset_index(drop=True)


def runs_frame(stored: Iterable[StoredRun]) -> pandas.DataFrame:
    """Return the table of some runs, with the columns of `run_table`; a run that is given twice has one row."""
    found = [*{run.run_key: run for run in stored}.values()]
    columns: dict[Any, Sequence[Any]] = {name: [getattr(run, name) for run in found] for name in (*_COLUMNS, *FACTS)}
    places: dict[str, int] = {}
    columns["setting"] = [places.setdefault(run.config.setting_key, len(places)) for run in found]
    configs: dict[int, RunConfig] = {}
    columns["config"] = [configs.setdefault(code, r.config) for code, r in zip(columns["setting"], found, strict=True)]
    for pair in dict.fromkeys(pair for run in found for pair in run.metrics):
        columns[pair] = [run.metrics.get(pair) for run in found]
    return _table(columns | {"stale": [False] * len(found)})


def records(table: pandas.DataFrame) -> list[StoredRun]:
    """Return the runs of a table with their settings and metrics, without how they were trained."""
    pairs = [name for name in table.columns if isinstance(name, tuple)]
    names = ("run_key", "dataset", "state", "config", "seed", *pairs)
    return stored_runs({name: table[name].tolist() for name in names})


def _table(columns: Mapping[Any, Sequence[Any]]) -> pandas.DataFrame:
    """Return a table of columns; one of times is in UTC, even if it is empty."""
    import pandas

    typed: dict[Any, Any] = {}
    for name, values in columns.items():
        if isinstance(name, tuple):
            typed[name] = pandas.Series(values, dtype=float)
        elif name.endswith("_at"):
            typed[name] = pandas.to_datetime(pandas.Series(values, dtype=object), utc=True)
        else:
            typed[name] = pandas.Series(values, dtype=object) if name == "config" else values
    return pandas.DataFrame(typed)


def with_settings(table: pandas.DataFrame, *, objects: bool = False) -> pandas.DataFrame:
    """Return a table of runs with the columns of `idwbench.results.store.Results.to_frame`, settings as `objects`."""
    import pandas

    first = table.drop_duplicates("setting")
    configs = dict(zip(first["setting"], first["config"], strict=True))
    by_setting = [_settings(config) for config in configs.values()]
    columns = None if configs else ["setting", "model", "label"]
    settings = pandas.DataFrame(by_setting, columns=columns, dtype=object if objects else None)
    places = {code: place for place, code in enumerate(configs)}
    measured = table[sorted((name for name in table.columns if isinstance(name, tuple)), key=metric_order)]
    parts = (
        table[["run_key", "dataset"]],
        settings.take(table["setting"].map(places)).set_axis(table.index),
        table[["seed", "state", "retraining", "stale"]],
        measured.set_axis(map("_".join, measured.columns), axis="columns"),
        table[[name for name in FACTS if name in table.columns]],
    )
    return pandas.concat(parts, axis="columns")


def _settings(config: RunConfig) -> dict[str, Any]:
    """Return the settings of a run without its seed, with the label of its model after its kind."""
    row: dict[str, Any] = {"setting": hashlib.sha256(config.setting_key.encode()).hexdigest()[:_SHORT]}
    for name, value in config.named_settings().items():
        row |= {name: value} | ({"label": config.model.label} if name == "model" else {})
    del row["seed"]
    return row
