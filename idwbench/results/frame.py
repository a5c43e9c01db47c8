"""The tidy table of runs that reports, figures and filters stand on: a row for each run, a column for each quantity."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import pandas
from sqlalchemy import Connection, Select, and_, case, func, select

from idwbench.results.comparison import run_settings
from idwbench.results.progress import stale_keys
from idwbench.results.reading import check_numbers, read_columns
from idwbench.results.records import RESULT_STATES, StoredRun
from idwbench.results.tables import metrics
from idwbench.runs.config import RunConfig
from idwbench.runs.metrics import METRICS, SPLITS

__all__ = ["RunTable", "run_table", "runs_frame"]

_FACTS = (
    *("n_parameters", "diverged_epoch", "error", "tags", "note", "seconds", "engine", "device", "threads", "host"),
    *("attempt", "created_at", "started_at", "finished_at"),
)
_COLUMNS = ("run_key", "dataset", "seed", "state", "previous_state", *_FACTS)
_FIRST = ["run_key", "dataset"]
_AFTER_SETTINGS = ["seed", "state", "retraining", "stale"]
_SHORT = 12


class RunTable(NamedTuple):
    """Runs as a table, and what a table cannot hold.

    Attributes:
        frame: One row for each run, with the columns of `idwbench.results.store.Results.to_frame`.
        settings: A configuration for each value of the column ``setting``; its seed is that of one of the runs.
    """

    frame: pandas.DataFrame
    settings: Mapping[str, RunConfig]


def run_table(
    connection: Connection, dataset: str | None, sweep: str | None, names: Collection[str] | None = None
) -> RunTable:
    """Return the runs of a data set or a sweep, in the order of the sweep or of planning.

    Args:
        connection: Within a transaction.
        dataset: Label of a data set, or None for all.
        sweep: Name of a sweep, or None.
        names: Names of the metrics that become columns; None for all.

    Raises:
        ResultsError: no sweep has that name, or a row cannot be read.
    """
    columns = read_columns(connection, _COLUMNS, dataset=dataset, sweep=sweep)
    settings = {id(setting): setting for setting in columns["setting"]}
    places = {setting: place for place, setting in enumerate(settings)}
    measured = _metrics(connection, columns["run_key"], columns["id"], names)
    by_run = {name: columns[name] for name in ("run_key", "dataset", "seed")} | _states(connection, columns)
    by_run |= {name: columns[name] for name in _FACTS}
    return _joined(by_run, [places[id(setting)] for setting in columns["setting"]], [*settings.values()], measured)


def runs_frame(stored: Sequence[StoredRun]) -> pandas.DataFrame:
    """Return the table of some runs, with the columns of `idwbench.results.store.Results.to_frame`."""
    columns: dict[str, Any] = {
        name: [getattr(run, name) for run in stored]
        for name in ("run_key", "dataset", "seed", "state", "retraining", *_FACTS)
    }
    columns["stale"] = [False] * len(stored)
    codes, distinct = pandas.factorize(pandas.Series([run.config.setting_key for run in stored], dtype=object))
    configs = {run.config.setting_key: run.config for run in reversed(stored)}
    names = sorted({pair for run in stored for pair in run.metrics}, key=_metric_order)
    measured = {"_".join(pair): [run.metrics.get(pair) for run in stored] for pair in names}
    return _joined(columns, codes, [configs[key] for key in distinct], pandas.DataFrame(measured, dtype=float)).frame


def _cursor(connection: Connection, query: Select[*tuple[Any, ...]]) -> Any:
    """Return the driver's cursor with the rows of a query: pandas converts whole columns, SQLAlchemy each value."""
    return connection.execute(query).cursor


def _metrics(
    connection: Connection, keys: Sequence[str], ids: Sequence[int], names: Collection[str] | None
) -> pandas.DataFrame:
    """Return a column for each split and metric, with the rows of the runs with these numbers."""
    wanted = [] if names is None else [metrics.c.name.in_(names)]
    pairs = connection.execute(select(metrics.c.split, metrics.c.name).where(*wanted).distinct()).all()
    ordered = sorted(((split, name) for split, name in pairs), key=_metric_order)
    values = [
        func.max(case((and_(metrics.c.split == split, metrics.c.name == name), metrics.c.value)))
        for split, name in ordered
    ]
    found = _cursor(connection, select(metrics.c.run_id, *values).where(*wanted).group_by(metrics.c.run_id))
    places = {run_id: place for place, run_id in enumerate(ids)}
    rows = [row for row in found if row[0] in places]
    own = [keys[places[row[0]]] for row in rows]
    by_name = zip(*(row[1:] for row in rows), strict=True) if rows else ((),) * len(ordered)
    columns = {}
    for pair, column in zip(map("_".join, ordered), by_name, strict=True):
        columns[pair] = check_numbers(own, f"metric {pair}", column)
    frame = pandas.DataFrame(columns, index=[places[row[0]] for row in rows], dtype=float)
    return frame.reindex(range(len(ids))).dropna(axis="columns", how="all")


def _metric_order(pair: tuple[str, str]) -> tuple[Any, ...]:
    split, name = pair
    splits, known = [*SPLITS], [*METRICS]
    place = known.index(name) if name in known else len(known)
    return (splits.index(split) if split in splits else len(splits), place, pair)


def _states(connection: Connection, columns: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """Return the state of the result of each run, and whether it is trained again or has lost its process."""
    stale = stale_keys(connection) if "running" in columns["state"] else set()
    pairs = [*zip(columns["state"], columns["previous_state"], strict=True)]
    again = [state == "running" and before in RESULT_STATES for state, before in pairs]
    return {
        "state": [before if is_again else state for (state, before), is_again in zip(pairs, again, strict=True)],
        "retraining": again,
        "stale": [key in stale for key in columns["run_key"]],
    }


def _joined(
    columns: Mapping[str, Any], codes: Any, configs: Sequence[RunConfig], measured: pandas.DataFrame
) -> RunTable:
    """Return the table of runs, whose `codes` are the places of their settings in `configs`."""
    keys = [hashlib.sha256(config.setting_key.encode()).hexdigest()[:_SHORT] for config in configs]
    by_setting = [{"setting": key, **_settings(config)} for key, config in zip(keys, configs, strict=True)]
    settings = pandas.DataFrame(by_setting, columns=None if configs else ["setting", "model", "label"])
    by_run = pandas.DataFrame({name: _column(name, values) for name, values in columns.items()})
    facts = [name for name in by_run.columns if name not in (*_FIRST, *_AFTER_SETTINGS)]
    parts = (
        by_run[_FIRST],
        settings.take(codes).reset_index(drop=True),
        by_run[_AFTER_SETTINGS],
        measured,
        by_run[facts],
    )
    return RunTable(pandas.concat(parts, axis=1), dict(zip(keys, configs, strict=True)))


def _settings(config: RunConfig) -> dict[str, Any]:
    """Return the settings of a run without its seed, with the label of its model after its kind."""
    found: dict[str, Any] = {}
    for name, value in run_settings(config).items():
        found |= {name: value} | ({"label": config.model.label} if name == "model" else {})
    del found["seed"]
    return found


def _column(name: str, values: Any) -> Any:
    """Return a column; one of times is in UTC, even if it is empty."""
    if not name.endswith("_at"):
        return values
    return pandas.to_datetime(pandas.Series(values, dtype=object), utc=True)
