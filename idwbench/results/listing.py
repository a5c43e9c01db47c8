"""Light rows of runs, read without their configurations, curves and arrays."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal, NamedTuple, get_args

from sqlalchemy import JSON, ColumnElement, Connection, Select, Text, and_, case, cast, or_, select, type_coerce
from sqlalchemy.types import NullType

from idwbench.errors import ConfigError, ResultsError, did_you_mean, last_line
from idwbench.results.filter_columns import Filter, compiled_filter
from idwbench.results.filters import Condition
from idwbench.results.processes import Owner
from idwbench.results.processes import is_stale as has_lost_process
from idwbench.results.queries import plain_rows, sweep_id
from idwbench.results.records import RESULT_STATES, RunState
from idwbench.results.tables import arrays, metrics, runs, sweep_runs, sweeps
from idwbench.runs.datasets import DATASETS, FileConfig, Task
from idwbench.runs.kinds.models import MODELS
from idwbench.runs.kinds.prototypes import PrototypesConfig
from idwbench.runs.metrics import headline_metric

__all__ = ["LISTED_STATES", "ArrayFacts", "ListedState", "RunRow", "array_facts", "list_runs", "sweeps_of"]

ListedState = Literal["planned", "running", "stale", "retraining", "complete", "diverged", "failed"]
LISTED_STATES: tuple[ListedState, ...] = get_args(ListedState)

# Settings of a prototype network in its label that have no column: rows with them are read from the configuration.
_IN_CONFIG = sorted({*PrototypesConfig.model_fields} - {"kind", "method", "parameters", "prototypes", "plugin_sha256"})
_TEXT = cast(runs.c.config, Text)
_MODEL = cast(type_coerce(runs.c.config, JSON)["model"], Text)
_IS_PLAIN = and_(runs.c.model == "prototypes", *(_TEXT.not_like(f'%"{name}"%') for name in _IN_CONFIG))


def _unchecked(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return a column of numbers that are not checked one by one: `_rows` checks them in one sum."""
    return type_coerce(column, NullType())


_COLUMNS: tuple[ColumnElement[Any], ...] = (
    *(runs.c.run_key, runs.c.dataset, runs.c.model, runs.c.method, _unchecked(runs.c.prototypes)),
    cast(runs.c.parameters, Text),
    runs.c.plugin_sha256,
    case((_IS_PLAIN, None), (runs.c.model == "prototypes", _TEXT), else_=_MODEL),
    *(_unchecked(runs.c.seed), runs.c.state, runs.c.previous_state, _unchecked(runs.c.seconds)),
    *(_unchecked(runs.c.attempt), runs.c.error, metrics.c.name, _unchecked(metrics.c.value)),
)


class RunRow(NamedTuple):
    """A run in a list.

    Attributes:
        run_key: Its key.
        dataset: Label of the data set.
        model: Kind of the run.
        label: Label of the model, such as ``idw · 16 prototypes · p=2, ε=0.001``.
        method: The method, or None.
        prototypes: Number of prototypes, or None.
        seed: Its seed.
        state: The state of its result: a run that is trained again keeps ``complete`` or ``diverged`` until it ends.
        retraining: Whether a run with a result is being trained again.
        stale: Whether the process that trained it has ended without a result.
        metric: Name of its main metric on the test split, or None.
        value: The metric; accuracies are fractions.
        seconds: Training time, or None.
        attempts: Number of times the run was started.
        error: The last line of the error, or None.
    """

    run_key: str
    dataset: str
    model: str
    label: str
    method: str | None
    prototypes: int | None
    seed: int
    state: RunState
    retraining: bool
    stale: bool
    metric: str | None
    value: float | None
    seconds: float | None
    attempts: int
    error: str | None

    @property
    def states(self) -> tuple[ListedState, ...]:
        """The words by which the run can be selected; the last says most."""
        if self.stale:
            return ("stale",) if self.state == "running" else (self.state, "stale")
        return (self.state, "running", "retraining") if self.retraining else (self.state,)


class ArrayFacts(NamedTuple):
    """Type and shape of a stored array."""

    dtype: str
    shape: tuple[int, ...]


def list_runs(
    connection: Connection,
    where: Sequence[Condition],
    sweep: str | None,
    states: Collection[str] | None,
    limit: int | None,
) -> list[RunRow]:
    """Return the first `limit` runs that meet all conditions, in the order of the sweep or of planning."""
    for state in states or ():
        if state not in LISTED_STATES:
            hint = did_you_mean(state, LISTED_STATES)
            raise ConfigError(f"no state is called '{state}'", location=("state",), hint=hint)
    chosen = compiled_filter(connection, where)
    query = _query(connection, chosen, sweep, states)
    if limit is not None and not chosen.tests and not {"running", "stale", "retraining"} & {*(states or ())}:
        query = query.limit(limit)
    found = list(islice(_rows(connection, query, chosen, states), limit))
    if not found:
        chosen.check_words(connection, where)
    return found


def _query(
    connection: Connection, chosen: Filter, sweep: str | None, states: Collection[str] | None
) -> Select[*tuple[Any, ...]]:
    main = and_(metrics.c.run_id == runs.c.id, metrics.c.split == "test", metrics.c.name == _headline())
    source = runs.outerjoin(metrics, main)
    order: ColumnElement[int] = runs.c.id
    conditions = [*chosen.sql, *([] if states is None else [_may_be(states)])]
    if sweep is not None:
        source = source.join(sweep_runs, sweep_runs.c.run_id == runs.c.id)
        conditions.append(sweep_runs.c.sweep_id == sweep_id(connection, sweep))
        order = sweep_runs.c.position
    return select(*_COLUMNS, *chosen.columns).select_from(source).where(*conditions).order_by(order)


def _headline() -> ColumnElement[str]:
    """Return the name of the main metric of a run, which follows from the task of its data set."""
    tasks: dict[Task, list[str]] = {}
    for name, settings in DATASETS.items():
        tasks.setdefault(settings.model_fields["task"].default, []).append(name)
    # Only files have a task that is a setting; JSON omits it for a classification.
    files = [name for name, settings in DATASETS.items() if issubclass(settings, FileConfig)]
    is_regression = and_(runs.c.dataset_name.in_(files), cast(runs.c.dataset_parameters, Text).like('%"regression"%'))
    others = [
        (runs.c.dataset_name.in_(names), headline_metric(task).name)
        for task, names in tasks.items()
        if task != "classification"
    ]
    return case(
        (is_regression, headline_metric("regression").name), *others, else_=headline_metric("classification").name
    )


def _may_be(states: Collection[str]) -> ColumnElement[bool]:
    """Return a condition that all runs with one of these words meet."""
    in_work = runs.c.state == "running"
    if not {"running", "stale", "retraining"}.isdisjoint(states):
        return or_(runs.c.state.in_(states), in_work)
    return or_(runs.c.state.in_(states), and_(in_work, runs.c.previous_state.in_(states)))


def _rows(
    connection: Connection, query: Select[*tuple[Any, ...]], chosen: Filter, states: Collection[str] | None
) -> Iterator[RunRow]:
    stale = _stale_runs(connection)
    wanted = None if states is None else {*states}
    labels: dict[tuple[Any, ...], str] = {}
    make, results = RunRow._make, frozenset(RESULT_STATES)
    # Of 100,000 rows: no call that is not needed. Columns of a filter have types that SQLAlchemy converts.
    selected: Iterable[Any] = connection.execute(query) if chosen.columns else plain_rows(connection, query)
    for (
        key, dataset, kind, method, size, parameters, plugin, config, seed, state, before, seconds, attempts, error,
        metric, value, *settings
    ) in selected:  # fmt: skip
        if settings and not chosen.holds(settings):
            continue
        about = (kind, method, size, parameters, plugin, config)
        label = labels.get(about)
        if label is None:
            label = labels[about] = _label(*about)
        try:
            seed + attempts + (size or 0) + (seconds or 0) + (value or 0)
        except TypeError:
            raise ValueError(f"text in a column of numbers of run {key[:12]}") from None
        is_stale = retraining = False
        if state == "running":
            is_stale = key in stale
            if before in results:
                state, retraining = before, not is_stale
        if error is not None:
            error = last_line(error)
        found = make(
            (key, dataset, kind, label, method, size, seed, state, retraining, is_stale,
             metric, value, seconds, attempts, error)
        )  # fmt: skip
        if wanted is None or not wanted.isdisjoint(found.states):
            yield found


def _stale_runs(connection: Connection) -> set[str]:
    query = select(runs.c.run_key, runs.c.host, runs.c.pid, runs.c.heartbeat_at).where(runs.c.state == "running")
    found = connection.execute(query).all()
    if not found:
        return set()
    observer, now = Owner.current(), datetime.now(UTC)
    return {key for key, host, pid, seen in found if has_lost_process(host, pid, seen, observer=observer, now=now)}


def _label(
    kind: str, method: str | None, prototypes: int | None, parameters: str, plugin: str | None, config: str | None
) -> str:
    """Return the label of a model from its columns, or from the configuration if it has other settings."""
    settings: dict[str, Any] = {"kind": kind, "method": method, "prototypes": prototypes, "plugin_sha256": plugin}
    try:
        settings["parameters"] = json.loads(parameters)
        if config is not None:
            settings = {**json.loads(config), "kind": kind}
        settings = {name: value for name, value in settings.items() if name in MODELS[kind].model_fields}
        return MODELS[kind].model_construct(**settings).label
    except (AttributeError, KeyError, TypeError, ValueError):  # of a plugin that is not loaded, or not readable
        return " · ".join(filter(None, (kind, method)))


def array_facts(connection: Connection, run_key: str) -> dict[str, ArrayFacts]:
    """Return type and shape of the arrays of a run by name."""
    query = select(arrays.c.name, arrays.c.dtype, arrays.c.shape).where(arrays.c.run_id == _run_id(connection, run_key))
    found = connection.execute(query.order_by(arrays.c.name))
    return {name: ArrayFacts(dtype, tuple(shape)) for name, dtype, shape in found}


def sweeps_of(connection: Connection, run_key: str) -> list[str]:
    """Return the names of the sweeps whose plan has a run."""
    query = select(sweeps.c.name).join(sweep_runs, sweep_runs.c.sweep_id == sweeps.c.id)
    query = query.where(sweep_runs.c.run_id == _run_id(connection, run_key))
    return list(connection.execute(query.order_by(sweeps.c.name)).scalars())


def _run_id(connection: Connection, run_key: str) -> int:
    found = connection.execute(select(runs.c.id).where(runs.c.run_key == run_key)).scalar_one_or_none()
    if found is None:
        raise ResultsError(f"no run has the key '{run_key}'")
    return int(found)
