"""Reading of stored runs as columns, of which tables and records are made.

What cannot be read is a `ResultsError` that names the run and the column.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, get_args

from pydantic import ValidationError
from sqlalchemy import (
    ColumnElement,
    Connection,
    LargeBinary,
    Select,
    String,
    Text,
    and_,
    case,
    cast,
    false,
    func,
    literal_column,
    select,
    true,
)
from sqlalchemy import type_coerce as coerced
from sqlalchemy.types import Float, Integer, NullType

from idwbench.errors import ConfigError, ResultsError, did_you_mean
from idwbench.results.records import RESULT_STATES, RunState, StoredRun
from idwbench.results.tables import Json, UtcDateTime, check_known, chunks, metrics, runs, sweep_runs, sweeps
from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import DATASETS
from idwbench.runs.metrics import METRICS, SPLITS

__all__ = [
    "check_text",
    "converted",
    "find_run",
    "find_runs",
    "load_runs",
    "metric_order",
    "names",
    "number",
    "read_columns",
    "shortened",
    "stored_id",
    "sweep_id",
    "sweeps_of",
    "unreadable",
]

_SHORT = 12
_UNDECODABLE = "Could not decode to UTF-8"  # of the driver of SQLite, which names the column and not the run


def unreadable(run_key: str, column: str, problem: str) -> ResultsError:
    """Return the error of a damaged value of a run."""
    return ResultsError(f"run {run_key[:_SHORT]}: its {column} cannot be read: {problem}")


def check_text(connection: Connection, label: str, error: BaseException) -> None:
    """Find the run whose text an SQLite database could not decode; other errors pass.

    Raises:
        ResultsError: names the run and the column.
    """
    if _UNDECODABLE not in str(error):
        return
    texts = [column for column in runs.columns if isinstance(column.type, String | Json)]
    for key, *values in connection.execute(select(*(cast(column, LargeBinary) for column in (runs.c.run_key, *texts)))):
        for column, value in zip(texts, values, strict=True):
            try:
                (value or b"").decode()
            except UnicodeDecodeError as reason:
                run_key = key.decode("utf-8", "backslashreplace")
                raise ResultsError(str(unreadable(run_key, column.name, f"{reason}")), file=label) from None


# Conversions of the values of a column, as the driver gives them; they raise `ValueError` for a value that is damaged.


def number(value: Any) -> Any:
    """Return a number or None; raises `ValueError` for text, which SQLite stores in a column of numbers, too."""
    if value is None or isinstance(value, int | float):
        return value
    raise ValueError(f"expected a number, got {value!r}")


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise ValueError(f"expected text, got {value!r}")


def _moment(value: Any) -> datetime | None:
    """Return a time in UTC, which SQLite stores as text without a zone."""
    if value is None:
        return None
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _mapping(text: Any) -> Any:
    """Return the mapping of a JSON object, whose values are texts, numbers, truth values or null."""
    content = None if text is None else json.loads(text)
    if content is None:
        return None
    if not isinstance(content, dict) or not all(
        isinstance(value, str | int | float | None) for value in content.values()
    ):
        raise ValueError(f"expected names with texts or numbers, got {shortened(text)}")
    return content


def _durations(text: Any) -> Any:
    content = _mapping(text)
    for value in (content or {}).values():
        number(value)
    return content


def shortened(text: str) -> str:
    """Return the beginning of a text, for messages."""
    return text if len(text) <= 40 else f"{text[:40]}…"


_COLUMNS = tuple(f.name for f in fields(StoredRun) if f.name not in ("config", "metrics"))
_AT_ONCE = 10_000
_SEED = ',"seed":'  # followed by the end of canonical JSON: no name of a part or a setting comes after it
# Columns with the values of the driver, JSON as text: they are checked when their run is known. A run that is trained
# again keeps its result until a new one replaces it.
_IS_AGAIN = and_(runs.c.state == "running", runs.c.previous_state.in_(RESULT_STATES))
_STATE = case((_IS_AGAIN, runs.c.previous_state), else_=runs.c.state)
_VALUES: dict[str, ColumnElement[Any]] = {
    column.name: cast(column, Text) if isinstance(column.type, Json) else coerced(column, NullType())
    for column in runs.columns
}
_VALUES |= {"state": _STATE, "retraining": case((_IS_AGAIN, true()), else_=false())}


def converted(run_key: str, column: str, convert: Callable[..., Any], *values: Any) -> Any:
    """Return the converted value of a column of a run; raises `ResultsError` if it is damaged."""
    try:
        return convert(*values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        reason = ": ".join([*filter(None, [".".join(map(str, first["loc"]))]), first["msg"]])
    except (ConfigError, ValueError) as error:
        reason = str(error)
    raise unreadable(run_key, column, reason)


def read_columns(
    connection: Connection,
    names: Sequence[str],
    metric_names: Collection[str] | None = None,
    split: str | None = None,
    *,
    dataset: str | None = None,
    sweep: str | None = None,
    where: Iterable[ColumnElement[bool]] = (),
) -> dict[Any, list[Any]]:
    """Return columns of the runs that meet all conditions, each value checked and converted.

    They are in the order of the sweep or of planning. ``state`` is that of the result, which a run that is trained
    again keeps; ``retraining`` is whether it is.

    Args:
        connection: Within a transaction.
        names: Columns of ``runs``, with ``run_key`` and ``seed``, and ``retraining``.
        metric_names: Names of metrics; all if None.
        split: That of the metrics; all if None.
        dataset: Label of a data set, or None for all.
        sweep: Name of a sweep, or None.
        where: Further conditions.

    Returns:
        Also ``(split, metric)`` for each metric, with None where a run lacks it; ``config``, a configuration with
        seed 0, which is one object for all runs of a setting; and ``setting``, the number of this object.

    Raises:
        ResultsError: no sweep has that name, or a value is damaged: names the run and the column.
    """
    query = _selected(dataset, sweep, where)
    pairs = _metric_pairs(connection, query, metric_names, split)
    value = select(metrics.c.value).where(metrics.c.run_id == runs.c.id)
    measures = [value.where(metrics.c.split == split, metrics.c.name == name) for split, name in pairs]
    values = (*(_VALUES[name] for name in names), *(measure.scalar_subquery() for measure in measures))
    query = query.with_only_columns(_config_text(connection), *values, maintain_column_froms=True)
    columns: dict[Any, list[Any]] = {name: [] for name in (*names, *pairs)}
    places: dict[str, int] = {}  # of the JSON without the seed, which runs of one setting share
    codes: list[int] = []
    first: list[str] = []
    for part in connection.execute(query).partitions(_AT_ONCE):  # not kept as rows, of which there may be many
        texts, *parts = zip(*part, strict=True)
        for text in texts:
            setting, _, seed = text.rpartition(_SEED)
            codes.append(places.setdefault(setting if seed[:-1].isdecimal() else text, len(places)))
            if len(first) < len(places):
                first.append(text)
        for column, new in zip(columns.values(), parts, strict=True):
            column += new
    keys = columns["run_key"]
    if sweep is not None and not keys:
        sweep_id(connection, sweep)
    for name, column in columns.items():
        columns[name] = _converted_column(keys, name, column)
    first_keys = dict(zip(reversed(codes), reversed(keys), strict=True))
    run_keys = [first_keys[code] for code in range(len(first))]
    configs = [converted(key, "config", RunConfig.stored, text, key) for key, text in zip(run_keys, first, strict=True)]
    return columns | {"config": [configs[code] for code in codes], "setting": codes}


def _config_text(connection: Connection) -> ColumnElement[str]:
    """Return the JSON of configurations, on PostgreSQL, whose JSON has its own order and spaces, with seed 0."""
    if connection.dialect.name != "postgresql":
        return cast(runs.c.config, Text)
    return cast(func.jsonb_set(runs.c.config, literal_column("'{seed}'"), literal_column("'0'::jsonb")), Text)


def _metric_pairs(
    connection: Connection, query: Select[tuple[Any]], names: Collection[str] | None, split: str | None
) -> list[tuple[str, str]]:
    """Return the splits and names of the metrics that runs have; on one split those that their data sets may have."""
    if split is not None and names is not None:  # to search all metrics would take longer
        labels = connection.execute(select(runs.c.dataset_name).distinct()).scalars()
        kinds: list[Any] = [DATASETS[label].model_fields["task"].annotation for label in labels if label in DATASETS]
        tasks = {None, *(task for kind in kinds for task in get_args(kind))}
        return [(split, name) for name in names if name not in METRICS or METRICS[name].task in tasks]
    measured = select(metrics.c.split, metrics.c.name).where(metrics.c.run_id.in_(query.order_by(None))).distinct()
    measured = measured if names is None else measured.where(metrics.c.name.in_(names))
    return sorted(((own, name) for own, name in connection.execute(measured)), key=metric_order)


def metric_order(pair: tuple[str, str]) -> tuple[Any, ...]:
    """Return a key that sorts splits and names of metrics as in tables, and unknown ones after these."""
    split, name = pair
    place = [*METRICS].index(name) if name in METRICS else len(METRICS)
    return (SPLITS.index(split) if split in SPLITS else len(SPLITS), place, pair)


def _converted_column(run_keys: Sequence[str], name: Any, values: list[Any]) -> list[Any]:
    """Return the values of a column; what many runs share is converted once."""
    is_number = isinstance(name, tuple) or name == "retraining"
    kind = Float() if is_number else runs.c[name].type
    convert: Callable[[Any], Any]
    types: set[type]
    if isinstance(kind, Json):
        convert, types = (_durations if name == "durations" else _mapping), {type(None)}
    elif isinstance(kind, UtcDateTime):
        convert, types = _moment, {type(None)}
    elif isinstance(kind, Integer | Float):
        convert, types = number, {bool, int, float, type(None)}
    else:
        convert, types = _text, {str, type(None)}
    if {*map(type, values)} <= types:
        return values
    label = f"metric {'_'.join(name)}" if isinstance(name, tuple) else name
    distinct = dict(zip(values, run_keys, strict=True))
    known = {value: converted(key, label, convert, value) for value, key in distinct.items()}
    return [known[value] for value in values]


def names(connection: Connection) -> tuple[list[str], list[str]]:
    """Return the names of all sweeps and the labels of the data sets of all runs, sorted."""
    queries = select(sweeps.c.name).order_by(sweeps.c.name), select(runs.c.dataset).distinct().order_by(runs.c.dataset)
    stored, datasets = ([*connection.execute(query).scalars()] for query in queries)
    return stored, datasets


def sweep_id(connection: Connection, name: str) -> int:
    """Return the number of a sweep; raises `ResultsError` if none has that name."""
    ids = {stored: number for number, stored in connection.execute(select(sweeps.c.id, sweeps.c.name))}
    if name not in ids:
        raise ResultsError(f"no sweep '{name}' is stored", hint=did_you_mean(name, ids))
    return int(ids[name])


def _selected(dataset: str | None, sweep: str | None, where: Iterable[ColumnElement[bool]]) -> Select[*tuple[Any, ...]]:
    """Return a query of the runs that meet all conditions, in the order of the sweep or of planning."""
    query = select(runs.c.id).where(*where, *([] if dataset is None else [runs.c.dataset == dataset]))
    if sweep is None:
        return query.order_by(runs.c.id)
    query = query.join(sweep_runs, sweep_runs.c.run_id == runs.c.id).join(sweeps, sweeps.c.id == sweep_runs.c.sweep_id)
    return query.where(sweeps.c.name == sweep).order_by(sweep_runs.c.position)


def find_runs(
    connection: Connection,
    *,
    dataset: str | None = None,
    sweep: str | None = None,
    states: Collection[RunState] | None = None,
    methods: Collection[str] | None = None,
    metrics: Collection[str] | None = None,
) -> list[StoredRun]:
    """Return the runs that meet all conditions, in the order of the sweep or of planning.

    They have the metrics of the names in `metrics`, or all.

    Raises:
        ResultsError: no sweep has that name.
    """
    where = [column.in_(v) for column, v in ((_STATE, states), (runs.c.method, methods)) if v is not None]
    return _records(connection, metrics, dataset=dataset, sweep=sweep, where=where)


def find_run(connection: Connection, run_key: str) -> StoredRun:
    """Return the run whose key starts with `run_key`.

    Raises:
        ResultsError: no such run, or several.
    """
    beginning = run_key.strip().lower()
    begins_so = runs.c.run_key.startswith(beginning, autoescape=True)
    query = select(runs.c.id, runs.c.run_key).where(begins_so).order_by(runs.c.run_key).limit(3)
    rows = connection.execute(query).all() if beginning else []
    if not rows:
        raise ResultsError(f"no run has a key that begins with '{shortened(run_key)}'")
    if len(rows) > 1:
        some = ", ".join(row.run_key[:_SHORT] for row in rows)
        problem = f"several runs have a key that begins with '{run_key}' ({some}, …)"
        raise ResultsError(problem, hint="give more of the key")
    return _records(connection, where=[runs.c.id == rows[0].id])[0]


def load_runs(connection: Connection, run_keys: Sequence[str]) -> list[StoredRun]:
    """Return the runs with these keys, in their order.

    Raises:
        ResultsError: no run has one of the keys.
    """
    by_key: dict[str, StoredRun] = {}
    for part in chunks(run_keys):
        by_key.update((run.run_key, run) for run in _records(connection, where=[runs.c.run_key.in_(part)]))
    check_known(run_keys, by_key)
    return [by_key[key] for key in run_keys]


def _records(connection: Connection, names: Collection[str] | None = None, **conditions: Any) -> list[StoredRun]:
    """Return the runs that meet the conditions of `read_columns`, with the metrics of these names."""
    columns = read_columns(connection, (*_COLUMNS, "seed"), names, **conditions)
    columns["config"] = [
        config.with_seed(seed) if seed != config.seed else config
        for config, seed in zip(columns["config"], columns["seed"], strict=True)
    ]
    pairs = [name for name in columns if isinstance(name, tuple)]
    columns["metrics"] = [
        {pair: value for pair, value in zip(pairs, values, strict=True) if value is not None}
        for values in (zip(*(columns[pair] for pair in pairs), strict=True) if pairs else [()] * len(columns["seed"]))
    ]
    names_of_fields = [f.name for f in fields(StoredRun)]
    rows = zip(*(columns[name] for name in names_of_fields), strict=True)
    return [StoredRun(**dict(zip(names_of_fields, row, strict=True))) for row in rows]


def stored_id(connection: Connection, run_key: str) -> int:
    """Return the number of the run with that key; raises `ResultsError` if there is none."""
    number = connection.execute(select(runs.c.id).where(runs.c.run_key == run_key)).scalar_one_or_none()
    if number is None:
        raise ResultsError(f"no run has the key '{run_key}'")
    return int(number)


def sweeps_of(connection: Connection, run_key: str) -> list[str]:
    """Return the names of the sweeps whose plan has a run.

    Raises:
        ResultsError: no run has that key.
    """
    query = select(sweeps.c.name).join(sweep_runs, sweep_runs.c.sweep_id == sweeps.c.id)
    query = query.where(sweep_runs.c.run_id == stored_id(connection, run_key))
    return list(connection.execute(query.order_by(sweeps.c.name)).scalars())
