"""Reading of stored runs as columns, of which tables and records are made.

What cannot be read is a `ResultsError` that names the run and the column.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import pydantic
import sqlalchemy as sa
from pydantic import AfterValidator, ConfigDict, TypeAdapter, ValidationError

from idwbench.errors import ConfigError, ResultsError, did_you_mean, shortened
from idwbench.results.records import RESULT_STATES, RunState, StoredRun
from idwbench.results.tables import (
    Json,
    UtcDateTime,
    arrays,
    chunks,
    curves,
    in_utc,
    metrics,
    rows_by_key,
    runs,
    sweep_runs,
    sweeps,
)
from idwbench.runs.config import RunConfig
from idwbench.runs.kinds.models import MODELS
from idwbench.runs.metrics import metric_order
from idwbench.runs.results import CurvePoint

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "array_facts",
    "check_text",
    "find_run",
    "find_runs",
    "is_search",
    "load_arrays",
    "load_curve",
    "load_runs",
    "names",
    "read_columns",
    "stored_runs",
    "sweep_id",
    "sweeps_of",
]

_SHORT, _MOST = 12, 60  # characters of a key, and of a value in a message
_UNDECODABLE = "Could not decode to UTF-8"  # of the driver of SQLite, which names the column and not the run


def _unreadable(run_key: str, column: str, problem: str) -> ResultsError:
    """Return the error of a damaged value of a run."""
    return ResultsError(f"run {run_key[:_SHORT]}: its {column} cannot be read: {problem}")


def check_text(connection: sa.Connection, label: str, error: BaseException) -> None:
    """Find the run whose text an SQLite database could not decode; other errors pass.

    Raises:
        ResultsError: names the run and the column.
    """
    if _UNDECODABLE not in str(error):
        return
    texts = [column for column in runs.columns if isinstance(column.type, sa.String | Json)]
    for key, *values in connection.execute(
        sa.select(*(sa.cast(column, sa.LargeBinary) for column in (runs.c.run_key, *texts)))
    ):
        for column, value in zip(texts, values, strict=True):
            try:
                (value or b"").decode()
            except UnicodeDecodeError as reason:
                run_key = key.decode("utf-8", "backslashreplace")
                raise ResultsError(str(_unreadable(run_key, column.name, f"{reason}")), file=label) from None


_STRICT, _NONE = ConfigDict(strict=True), type(None)
# How the values of a column are converted, as the driver gives them, JSON as text; and the types of those that stay as
# they are. SQLite stores values of any type in any column.
_Conversion = tuple[Callable[[Any], Any], set[type]]
_NUMBERS: _Conversion = (TypeAdapter(float | None, config=_STRICT).validate_python, {bool, int, float, _NONE})
_BY_TYPE: tuple[tuple[type | tuple[type, ...], _Conversion], ...] = (
    (Json, (TypeAdapter(pydantic.Json[dict[str, str | float | bool | None] | None] | None).validate_python, {_NONE})),
    (UtcDateTime, (TypeAdapter(Annotated[datetime, AfterValidator(in_utc)] | None).validate_python, {_NONE})),
    ((sa.Integer, sa.Float), _NUMBERS),
    (sa.String, (TypeAdapter(str | None, config=_STRICT).validate_python, {str, _NONE})),
)
_CONVERSIONS: dict[Any, _Conversion] = {
    **{one.name: next(own for types, own in _BY_TYPE if isinstance(one.type, types)) for one in runs.columns},
    "durations": (TypeAdapter(pydantic.Json[dict[str, float] | None] | None).validate_python, {_NONE}),
    "config": (RunConfig.model_validate_json, set()),
}
_SHAPES: _Conversion = (TypeAdapter(tuple[int, ...]).validate_json, set())
_COLUMNS = tuple(f.name for f in fields(StoredRun) if f.name not in ("config", "metrics"))
# The end of canonical JSON: no name of a part or a setting comes after the seed.
_SEED = re.compile(r',"seed":[0-9]+}\Z')
# Columns with the values of the driver, JSON as text: they are checked when their run is known. A run that is trained
# again keeps its result until a new one replaces it.
_IS_AGAIN = sa.and_(runs.c.state == "running", runs.c.previous_state.in_(RESULT_STATES))
_STATE = sa.case((_IS_AGAIN, runs.c.previous_state), else_=runs.c.state)
_VALUES: dict[str, sa.ColumnElement[Any]] = {
    column.name: sa.cast(column, sa.Text)
    if isinstance(column.type, Json)
    else sa.type_coerce(column, sa.types.NullType())
    for column in runs.columns
}
# PostgreSQL's JSON has its own order and spaces.
_CONFIG_TEXTS = {
    "sqlite": sa.cast(runs.c.config, sa.Text),
    "postgresql": sa.cast(
        sa.func.jsonb_set(runs.c.config, sa.literal_column("'{seed}'"), sa.literal_column("'0'::jsonb")), sa.Text
    ),
}
_VALUES |= {"state": _STATE, "retraining": sa.case((_IS_AGAIN, sa.true()), else_=sa.false())}


def _converted(run_keys: Sequence[str], column: str, conversion: _Conversion, values: Sequence[Any]) -> Sequence[Any]:
    """Return the values of a column of some runs, converted; what many of them share is converted once.

    Raises:
        ResultsError: one is damaged.
    """
    convert, right = conversion
    if {*map(type, values)} <= right:
        return values
    known: dict[Any, Any] = {}
    for value, key in dict(zip(values, run_keys, strict=True)).items():
        try:
            known[value] = convert(value)
            continue
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            reason = ": ".join([*filter(None, [".".join(map(str, first["loc"]))]), first["msg"]])
            is_text = isinstance(first["input"], str | bytes)
            reason += f", got {shortened(str(first['input']), _MOST)!r}" if is_text else ""
        except (ConfigError, ValueError) as error:
            reason = str(error)
        raise _unreadable(key, column, reason)
    return [known[value] for value in values]


def read_columns(
    connection: sa.Connection,
    names: Sequence[str],
    metric_names: Collection[str] | None = None,
    split: str | None = None,
    *,
    sweep: str | None = None,
    where: Iterable[sa.ColumnElement[bool]] = (),
) -> dict[Any, Sequence[Any]]:
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
    query = sa.select(runs.c.id).where(*where)
    if sweep is not None:
        query = query.join(sweep_runs, sweep_runs.c.run_id == runs.c.id).join(sweeps).where(sweeps.c.name == sweep)
    measured = sa.select(metrics.c.split, metrics.c.name).where(metrics.c.run_id.in_(query)).distinct()
    measured = measured if metric_names is None else measured.where(metrics.c.name.in_(metric_names))
    measured = measured if split is None else measured.where(metrics.c.split == split)
    pairs = sorted((own, name) for own, name in connection.execute(measured))
    query = query.order_by(runs.c.id if sweep is None else sweep_runs.c.position)
    value = sa.select(metrics.c.value).where(metrics.c.run_id == runs.c.id)
    measures = [value.where(metrics.c.split == split, metrics.c.name == name) for split, name in pairs]
    read = [_CONFIG_TEXTS[connection.dialect.name], runs.c.run_key, *(_VALUES[name] for name in names)]
    read += [measure.scalar_subquery() for measure in measures]
    query = query.with_only_columns(*read, maintain_column_froms=True)
    rows = connection.execute(query).all()
    if sweep is not None and not rows:
        sweep_id(connection, sweep)
    texts, keys, *values = zip(*rows, strict=True) if rows else [()] * len(read)
    del rows  # there may be many
    columns: dict[Any, Sequence[Any]] = {}
    for name, column in zip((*names, *pairs), values, strict=True):
        label = name if isinstance(name, str) else f"metric {'_'.join(name)}"
        columns[name] = _converted(keys, label, _CONVERSIONS.get(name, _NUMBERS), column)
    places: dict[str, int] = {}  # of the JSON with seed 0, which runs of one setting share
    codes = [places.setdefault(_SEED.sub(',"seed":0}', text), len(places)) for text in texts]
    firsts = dict(zip(reversed(codes), reversed(keys), strict=True))
    configs = _converted([firsts[code] for code in places.values()], "config", _CONVERSIONS["config"], [*places])
    return columns | {"config": [configs[code] for code in codes], "setting": codes}


def names(connection: sa.Connection) -> tuple[list[str], list[str]]:
    """Return the names of all sweeps and the labels of the data sets of all runs, sorted."""
    queries = (
        sa.select(sweeps.c.name).order_by(sweeps.c.name),
        sa.select(runs.c.dataset).distinct().order_by(runs.c.dataset),
    )
    stored, datasets = ([*connection.execute(query).scalars()] for query in queries)
    return stored, datasets


def is_search(connection: sa.Connection, sweep: str | None) -> bool | None:
    """Return whether a sampler chooses the runs of a sweep; None for a name that no sweep has."""
    spec = connection.execute(sa.select(sweeps.c.spec).where(sweeps.c.name == sweep)).scalar_one_or_none()
    return None if spec is None else bool(re.search(r"^sampler\s*:", spec, flags=re.MULTILINE))


def sweep_id(connection: sa.Connection, name: str) -> int:
    """Return the number of a sweep; raises `ResultsError` if none has that name."""
    ids = {stored: number for number, stored in connection.execute(sa.select(sweeps.c.id, sweeps.c.name))}
    if name not in ids:
        raise ResultsError(f"no sweep '{name}' is stored", hint=did_you_mean(name, ids))
    return int(ids[name])


def find_runs(
    connection: sa.Connection,
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


def find_run(connection: sa.Connection, run_key: str) -> StoredRun:
    """Return the run whose key starts with `run_key`.

    Raises:
        ResultsError: no such run, or several.
    """
    beginning = run_key.strip().lower()
    begins_so = runs.c.run_key.startswith(beginning, autoescape=True)
    query = sa.select(runs.c.id, runs.c.run_key).where(begins_so).order_by(runs.c.run_key).limit(3)
    rows = connection.execute(query).all() if beginning else []
    if not rows:
        raise ResultsError(f"no run has a key that begins with '{shortened(run_key, _MOST)}'")
    if len(rows) > 1:
        some = ", ".join(row.run_key[:_SHORT] for row in rows)
        problem = f"several runs have a key that begins with '{run_key}' ({some}, …)"
        raise ResultsError(problem, hint="give more of the key")
    return _records(connection, where=[runs.c.id == rows[0].id])[0]


def load_runs(connection: sa.Connection, run_keys: Sequence[str]) -> list[StoredRun]:
    """Return the runs with these keys, in their order.

    Raises:
        ResultsError: no run has one of the keys.
    """
    rows_by_key(connection, run_keys, known=True)
    found = [run for part in chunks(run_keys) for run in _records(connection, where=[runs.c.run_key.in_(part)])]
    by_key = {run.run_key: run for run in found}
    return [by_key[key] for key in run_keys]


def _records(connection: sa.Connection, names: Collection[str] | None = None, **conditions: Any) -> list[StoredRun]:
    """Return the runs that meet the conditions of `read_columns`, with the metrics of these names."""
    return stored_runs(read_columns(connection, (*_COLUMNS, "seed"), names, **conditions))


def stored_runs(columns: Mapping[Any, Sequence[Any]]) -> list[StoredRun]:
    """Return runs from their columns, as `read_columns` returns them; a metric that is None or NaN is missing."""
    pairs = sorted((name for name in columns if isinstance(name, tuple)), key=metric_order)
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


def _stored_id(connection: sa.Connection, run_key: str) -> int:
    """Return the number of the run with that key; raises `ResultsError` if there is none."""
    return int(rows_by_key(connection, [run_key], known=True)[run_key].id)


def sweeps_of(connection: sa.Connection, run_key: str) -> list[str]:
    """Return the names of the sweeps whose plan has a run.

    Raises:
        ResultsError: no run has that key.
    """
    query = sa.select(sweeps.c.name).join(sweep_runs, sweep_runs.c.sweep_id == sweeps.c.id)
    query = query.where(sweep_runs.c.run_id == _stored_id(connection, run_key))
    return list(connection.execute(query.order_by(sweeps.c.name)).scalars())


def load_curve(connection: sa.Connection, run_key: str) -> list[CurvePoint]:
    """Return the learning curve of a run, which may be empty; values that were not finite are NaN.

    Raises:
        ResultsError: no run has that key, or a value is damaged.
    """
    query = sa.select(curves.c.epoch, curves.c.split, curves.c.name, curves.c.value)
    query = query.where(curves.c.run_id == _stored_id(connection, run_key))
    rows = connection.execute(query.order_by(curves.c.epoch, curves.c.split, curves.c.name)).all()
    points: dict[int, dict[tuple[str, str], float]] = {}
    for epoch, split, name, value in rows:
        number, measured = _converted([run_key] * 2, "curve", _NUMBERS, [epoch, value])
        points.setdefault(number, {})[split, name] = math.nan if measured is None else measured
    return [CurvePoint(epoch, values) for epoch, values in points.items()]


def load_arrays(connection: sa.Connection, run_key: str) -> dict[str, NDArray[np.generic]]:
    """Return the arrays of a run by name, such as ``keys`` (prototypes, features) and ``values``.

    Raises:
        ResultsError: no run has that key, or an array is missing or cannot be read.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    run_id = _stored_id(connection, run_key)
    query = sa.select(arrays.c.name, arrays.c.data).where(arrays.c.run_id == run_id).order_by(arrays.c.name)
    by_name = {}
    for name, data in connection.execute(query):
        try:
            by_name[name] = load(data)[name]
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            raise ResultsError(f"run {run_key[:_SHORT]}: the stored array '{name}' cannot be read: {error}") from None
    state, model = connection.execute(sa.select(runs.c.state, runs.c.model).where(runs.c.id == run_id)).one()
    required: Sequence[str] = MODELS[model].array_names if model in MODELS else ()
    missing = [name for name in required if name not in by_name]
    if state == "complete" and missing:
        problem = f"run {run_key[:_SHORT]} is complete, but the database lacks its {' and '.join(missing)}"
        raise ResultsError(problem, hint="train it again")
    return by_name


def array_facts(connection: sa.Connection, run_key: str) -> dict[str, dict[str, Any]]:
    """Return ``dtype`` and ``shape`` of the arrays of a run by name, without reading them.

    Raises:
        ResultsError: no run has that key.
    """
    of_run = arrays.c.run_id == _stored_id(connection, run_key)
    query = (
        sa.select(arrays.c.name, arrays.c.dtype, sa.cast(arrays.c.shape, sa.Text)).where(of_run).order_by(arrays.c.name)
    )
    return {
        name: {"dtype": dtype, "shape": _converted([run_key], f"array {name}", _SHAPES, [shape])[0]}
        for name, dtype, shape in connection.execute(query)
    }
