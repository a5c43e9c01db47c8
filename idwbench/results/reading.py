"""Reading of stored runs as columns, of which tables and records are made.

What cannot be read is a `ResultsError` that names the run and the column.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Annotated, Any, get_args

import pydantic
from pydantic import AfterValidator, ConfigDict, TypeAdapter, ValidationError
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
from sqlalchemy.types import Float, Integer, NullType, TypeEngine

from idwbench.errors import ConfigError, ResultsError, did_you_mean
from idwbench.results.records import RESULT_STATES, RunState, StoredRun
from idwbench.results.tables import Json, UtcDateTime, check_known, chunks, metrics, runs, sweep_runs, sweeps
from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import DATASETS
from idwbench.runs.metrics import METRICS, SPLITS

__all__ = [
    "check_text",
    "converted",
    "converted_column",
    "find_run",
    "find_runs",
    "load_runs",
    "metric_order",
    "names",
    "read_columns",
    "shortened",
    "stored_id",
    "stored_runs",
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


def shortened(text: str) -> str:
    """Return the beginning of a text, for messages."""
    return text if len(text) <= 40 else f"{text[:40]}…"


_Moment = Annotated[
    datetime,  # SQLite stores it as text without a zone
    AfterValidator(lambda moment: moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)),
]
_STRICT, _NONE = ConfigDict(strict=True), type(None)
# By the type of a column: how its values are converted, as the driver gives them, JSON as text; and the types of those
# that stay as they are. SQLite stores values of any type in any column.
_CONVERSIONS: tuple[tuple[type | tuple[type, ...], TypeAdapter[Any], set[type]], ...] = (
    (Json, TypeAdapter(pydantic.Json[dict[str, str | float | bool | None] | None] | None), {_NONE}),
    (UtcDateTime, TypeAdapter(_Moment | None), {_NONE}),
    ((Integer, Float), TypeAdapter(float | None, config=_STRICT), {bool, int, float, _NONE}),
    (String, TypeAdapter(str | None, config=_STRICT), {str, _NONE}),
)
_FLOAT, _TYPES = Float(), {column.name: column.type for column in runs.columns}
_DURATIONS: TypeAdapter[Any] = TypeAdapter(pydantic.Json[dict[str, float] | None] | None)
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
# PostgreSQL's JSON has its own order and spaces.
_CONFIG_TEXTS = {
    "sqlite": cast(runs.c.config, Text),
    "postgresql": cast(func.jsonb_set(runs.c.config, literal_column("'{seed}'"), literal_column("'0'::jsonb")), Text),
}
_VALUES |= {"state": _STATE, "retraining": case((_IS_AGAIN, true()), else_=false())}


def converted(run_key: str, column: str, convert: Callable[..., Any], *values: Any) -> Any:
    """Return the converted value of a column of a run; raises `ResultsError` if it is damaged."""
    try:
        return convert(*values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        reason = ": ".join([*filter(None, [".".join(map(str, first["loc"]))]), first["msg"]])
        reason += f", got {shortened(str(first['input']))!r}" if isinstance(first["input"], str | bytes) else ""
    except (ConfigError, ValueError) as error:
        reason = str(error)
    raise unreadable(run_key, column, reason)


def converted_column(run_keys: Sequence[str], column: str, kind: TypeEngine[Any], values: list[Any]) -> list[Any]:
    """Return the values of a column of some runs, as `converted`; what many of them share is converted once."""
    adapter, right = next((adapter, right) for types, adapter, right in _CONVERSIONS if isinstance(kind, types))
    if {*map(type, values)} <= right:
        return values
    convert = (_DURATIONS if column == "durations" else adapter).validate_python
    distinct = dict(zip(values, run_keys, strict=True))
    known = {value: converted(key, column, convert, value) for value, key in distinct.items()}
    return [known[value] for value in values]


def read_columns(
    connection: Connection,
    names: Sequence[str],
    metric_names: Collection[str] | None = None,
    split: str | None = None,
    *,
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
        sweep: Name of a sweep, or None.
        where: Conditions.

    Returns:
        Also ``(split, metric)`` for each metric, with None where a run lacks it; ``config``, a configuration with
        seed 0, which is one object for all runs of a setting; and ``setting``, the number of this object.

    Raises:
        ResultsError: no sweep has that name, or a value is damaged: names the run and the column.
    """
    query = select(runs.c.id).where(*where)
    if sweep is not None:
        query = query.join(sweep_runs, sweep_runs.c.run_id == runs.c.id).join(sweeps).where(sweeps.c.name == sweep)
    query = query.order_by(runs.c.id if sweep is None else sweep_runs.c.position)
    pairs = _metric_pairs(connection, query, metric_names, split)
    value = select(metrics.c.value).where(metrics.c.run_id == runs.c.id)
    measures = [value.where(metrics.c.split == split, metrics.c.name == name) for split, name in pairs]
    values = (*(_VALUES[name] for name in names), *(measure.scalar_subquery() for measure in measures))
    read = (_CONFIG_TEXTS[connection.dialect.name], runs.c.run_key, *values)
    query = query.with_only_columns(*read, maintain_column_froms=True)
    columns: dict[Any, list[Any]] = {name: [] for name in (*names, *pairs)}
    places: dict[str, int] = {}  # of the JSON without the seed, which runs of one setting share
    codes: list[int] = []
    first: list[tuple[str, str]] = []
    for part in connection.execute(query).partitions(_AT_ONCE):  # not kept as rows, of which there may be many
        texts, own_keys, *parts = zip(*part, strict=True)
        for text, key in zip(texts, own_keys, strict=True):
            setting, _, seed = text.rpartition(_SEED)
            codes.append(places.setdefault(setting if seed[:-1].isdecimal() else text, len(places)))
            if len(first) < len(places):
                first.append((text, key))
        for column, new in zip(columns.values(), parts, strict=True):
            column += new
    keys = columns["run_key"]
    if sweep is not None and not keys:
        sweep_id(connection, sweep)
    for name, column in columns.items():
        label = name if isinstance(name, str) else f"metric {'_'.join(name)}"
        columns[name] = converted_column(keys, label, _TYPES.get(name, _FLOAT), column)
    configs = [converted(key, "config", RunConfig.stored, text, key) for text, key in first]
    return columns | {"config": [configs[code] for code in codes], "setting": codes}


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
    conditions = ((runs.c.dataset, dataset and [dataset]), (_STATE, states), (runs.c.method, methods))
    where = [column.in_(values) for column, values in conditions if values is not None]
    return _records(connection, metrics, sweep=sweep, where=where)


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
    return stored_runs(read_columns(connection, (*_COLUMNS, "seed"), names, **conditions))


def stored_runs(columns: Mapping[Any, Sequence[Any]]) -> list[StoredRun]:
    """Return runs from their columns, as `read_columns` returns them; a metric that is None or NaN is missing."""
    pairs = [name for name in columns if isinstance(name, tuple)]
    metrics = [
        {pair: value for pair, value in zip(pairs, values, strict=True) if value is not None and value == value}
        for values in zip(*(columns[pair] for pair in pairs), strict=True)
    ]
    names = [name for name in _COLUMNS if name in columns]
    return [
        StoredRun(config=config.with_seed(seed), metrics=own, **dict(zip(names, facts, strict=True)))
        for config, seed, own, *facts in zip(
            *(columns["config"], columns["seed"], metrics or [{} for _ in columns["seed"]]),
            *(columns[name] for name in names),
            strict=True,
        )
    ]


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
