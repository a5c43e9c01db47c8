"""The columns that filters compare: SQL for columns and metrics, and Python for settings that are stored as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import JSON, ColumnElement, Connection, Text, and_, case, cast, or_, select
from sqlalchemy import type_coerce as coerced
from sqlalchemy.types import TypeDecorator

from idwbench.errors import ConfigError, did_you_mean
from idwbench.results.filters import OPERATORS, Condition
from idwbench.results.records import RESULT_STATES, RUN_STATES
from idwbench.results.tables import metrics, runs
from idwbench.runs.metrics import METRICS, SPLITS

__all__ = ["Filter", "SettingTest", "compiled_filter", "state_of_result"]

# The state of the result: while a run with a result is trained again, that result still counts.
state_of_result: ColumnElement[str] = case(
    (and_(runs.c.state == "running", runs.c.previous_state.in_(RESULT_STATES)), runs.c.previous_state),
    else_=runs.c.state,
)
_COLUMNS: dict[str, ColumnElement[Any]] = {
    **{
        name: runs.c[name]
        for name in (
            *("run_key", "dataset", "dataset_name", "model", "method", "prototypes", "plugin_sha256", "seed"),
            *("epochs", "batch_size", "learning_rate", "optimizer", "schedule", "n_parameters", "diverged_epoch"),
            *("error", "seconds", "engine", "device", "threads", "host", "attempt", "started_at", "finished_at"),
        )
    },
    "state": state_of_result,
}
# Settings of a kind of run that are parameters of another: the kernel of a support vector machine.
_ALSO_PARAMETERS = ("kernel",)
# Columns with few distinct texts, of which a wrong one gets the nearest.
_WORDS = ("dataset", "dataset_name", "model", "method", "optimizer", "schedule", "state", "engine", "device", "host")


@dataclass
class SettingTest:
    """A condition on a setting that is stored as JSON.

    Attributes:
        condition: What must hold.
        paths: The JSON text of the places where a setting may be; the first that is not null counts.
        defaults: The value where it is not stored, by kind of model or name of data set.
        by: ``model`` or ``dataset_name``, the column that selects the default.
        seen: Whether the condition holds, by the texts of a row.
        values: The distinct values.
    """

    condition: Condition
    paths: list[ColumnElement[str]]
    defaults: Mapping[str, Any]
    by: str
    seen: dict[tuple[str | None, ...], bool] = field(default_factory=dict)
    values: set[str] = field(default_factory=set)

    def holds(self, kind: str, texts: Sequence[str | None]) -> bool:
        """Return whether the condition holds for a run."""
        key = (kind, *texts)
        if key not in self.seen:
            stored = next((text for text in texts if text is not None and text != "null"), None)
            default = self.defaults.get(kind)
            value = default if stored is None else json.loads(stored)
            if isinstance(default, bool) and value in (0, 1):
                value = bool(value)  # SQLite has no truth values
            self.seen[key] = self.condition.holds(value)
            if isinstance(value, str):
                self.values.add(value)
        return self.seen[key]


@dataclass
class Filter:
    """Conditions as SQL, and those that need the JSON of a run."""

    sql: list[ColumnElement[bool]] = field(default_factory=list)
    tests: list[SettingTest] = field(default_factory=list)

    @property
    def columns(self) -> list[ColumnElement[Any]]:
        """The columns that `holds` needs."""
        paths = [path for test in self.tests for path in test.paths]
        return [runs.c.model, runs.c.dataset_name, *paths] if paths else []

    def holds(self, values: Sequence[Any]) -> bool:
        """Return whether the settings meet all conditions; `values` are those of `columns`."""
        if not self.tests:
            return True
        kinds = {"model": values[0], "dataset_name": values[1], "": ""}
        start = 2
        for test in self.tests:
            end = start + len(test.paths)
            if not test.holds(kinds[test.by], values[start:end]):
                return False
            start = end
        return True

    def check_words(self, connection: Connection, conditions: Sequence[Condition]) -> None:
        """Check, when no run was found, that the words of the conditions exist.

        Raises:
            ConfigError: no run has such a value; the hint is the nearest word.
        """
        tested = {id(test.condition): test.values for test in self.tests if test.values}
        for condition in conditions:
            if condition.operator != "=":
                continue
            if condition.name in _WORDS:
                column = _COLUMNS[condition.name]
                valid = {word for word in connection.execute(select(column).distinct()).scalars() if word}
                valid.update(_known_words(condition.name))
            elif id(condition) in tested:
                valid = tested[id(condition)]
            else:
                continue
            words = condition.words()
            if words and not set(words) & valid:
                problem = f"no run has the {condition.name} '{condition.value}'"
                raise ConfigError(problem, location=("where",), hint=did_you_mean(condition.value, valid))


def compiled_filter(connection: Connection, conditions: Sequence[Condition]) -> Filter:
    """Return conditions as SQL and tests of settings.

    Raises:
        ConfigError: a name is not that of a column, or a value is not of its type.
    """
    found = Filter()
    for condition in conditions:
        name, split, metric = condition.name, *_split_and_metric(condition.name)
        if name in ("power", "epsilon") and _is_numeric(condition):
            found.sql.append(_compared(runs.c[name], condition))
        elif name in _COLUMNS:
            found.sql.append(_compared(_COLUMNS[name], condition))
        elif metric in METRICS:
            found.sql.append(_compared(_metric(split, metric), condition))
        elif (test := _setting_test(condition)) is not None:
            found.tests.append(test)
        elif name in (stored := _stored_names(connection)):
            if stored[name]:
                found.sql.append(_compared(_metric(split, metric), condition))
            else:
                found.tests.append(_parameter_test(condition))
        else:
            hint = did_you_mean(name, {*_COLUMNS, *_setting_names(), *stored})
            short = hint if hint.startswith("did you mean") else "names are those of the columns of a table of runs"
            raise ConfigError(f"no column is called '{name}'", location=("where",), hint=short)
    return found


def _compared(column: ColumnElement[Any], condition: Condition) -> ColumnElement[bool]:
    """Return the comparison of an SQL column; a missing value equals only ``none``."""
    values: Sequence[float | str | datetime]
    kind = column.type.impl if isinstance(column.type, TypeDecorator) else column.type
    if kind.python_type in (int, float):
        values = condition.numbers()
    elif kind.python_type is datetime:
        values = condition.moments()
    else:
        values = condition.words()
    if not condition.is_equality:
        return and_(*(OPERATORS[condition.operator](column, value) for value in values))
    equal = column.in_(values)
    if condition.operator == "=":
        return or_(equal, column.is_(None)) if condition.accepts_nothing else equal
    differs = column.not_in(values)
    return and_(differs, column.is_not(None)) if condition.accepts_nothing else or_(differs, column.is_(None))


def _is_numeric(condition: Condition) -> bool:
    try:
        return bool(condition.numbers()) and not condition.accepts_nothing
    except ConfigError:
        return False


def _metric(split: str, name: str) -> ColumnElement[float]:
    own = metrics.alias()
    query = select(own.c.value).where(own.c.run_id == runs.c.id, own.c.split == split, own.c.name == name)
    return query.correlate(runs).scalar_subquery()


def _split_and_metric(name: str) -> tuple[str, str]:
    split, _, metric = name.partition("_")
    return (split, metric) if split in (*SPLITS, "cases") else ("", "")


def _json_text(column: ColumnElement[Any], *path: str) -> ColumnElement[str]:
    """Return the text of a place in a JSON document."""
    found: Any = coerced(column, JSON)
    return cast(found[path], Text)


def _setting_test(condition: Condition) -> SettingTest | None:
    """Return the test of a setting of the data set, the protocol or the model, or None if no setting has the name."""
    datasets, protocol, models, parameters = _setting_defaults()
    name = condition.name
    if (setting := name.removeprefix("dataset_")) != name and setting in datasets:
        return SettingTest(
            condition, [_json_text(runs.c.config, "dataset", setting)], datasets[setting], "dataset_name"
        )
    if name in protocol:
        return SettingTest(condition, [_json_text(runs.c.protocol, name)], {"": protocol[name]}, "")
    if name in models:
        paths = [_json_text(runs.c.config, name), _json_text(runs.c.config, "model", name)]
        if name in _ALSO_PARAMETERS:
            paths.append(_json_text(runs.c.parameters, name))
        return SettingTest(condition, paths, models[name], "model")
    return _parameter_test(condition) if name in parameters else None


def _parameter_test(condition: Condition) -> SettingTest:
    """Return the test of a parameter of a method, or of the head or the attention of a network."""
    name = condition.name
    paths = [_json_text(runs.c.parameters, name), _json_text(runs.c.config, "model", "head_parameters", name)]
    if (of_attention := name.removeprefix("attention_")) != name:
        paths.append(_json_text(runs.c.config, "model", "attention_parameters", of_attention))
    return SettingTest(condition, paths, {}, "model")


@cache
def _setting_defaults() -> tuple[dict[str, dict[str, Any]], dict[str, Any], dict[str, dict[str, Any]], set[str]]:
    """Return the defaults of settings of data sets and models by name and kind, of protocols, and parameter names."""
    from pydantic_core import PydanticUndefined

    from idwbench.runs.datasets import DATASETS
    from idwbench.runs.kinds.models import MODELS, model_setting_names
    from idwbench.runs.protocol import Protocol

    def default(info: Any) -> Any:
        return None if info.default is PydanticUndefined else info.default

    datasets: dict[str, dict[str, Any]] = {}
    for kind, settings in DATASETS.items():
        for name, info in settings.model_fields.items():
            datasets.setdefault(name, {})[kind] = default(info)
    models: dict[str, dict[str, Any]] = {}
    for kind, model in MODELS.items():
        for name, info in model.model_fields.items():
            models.setdefault(name, {})[kind] = default(info)
    del models["parameters"], models["kind"]
    protocol = {name: default(info) for name, info in Protocol.model_fields.items()}
    return datasets, protocol, models, {*model_setting_names()} - {*models, "kind"}


def _setting_names() -> set[str]:
    datasets, protocol, models, parameters = _setting_defaults()
    of_metrics = {f"{split}_{name}" for split in SPLITS for name in METRICS}
    return {*(f"dataset_{name}" for name in datasets), *protocol, *models, *parameters, *of_metrics}


def _stored_names(connection: Connection) -> dict[str, bool]:
    """Return the names of stored metrics (True), and of parameters, such as those of plugins (False)."""
    found: dict[str, bool] = {}
    for text in connection.execute(select(cast(runs.c.parameters, Text)).distinct()).scalars():
        content = json.loads(text)
        found.update(dict.fromkeys(content if isinstance(content, dict) else (), False))
    for split, name in connection.execute(select(metrics.c.split, metrics.c.name).distinct()):
        found[f"{split}_{name}"] = True
    return found


def _known_words(name: str) -> Sequence[str]:
    """Return words that may have no run yet."""
    if name == "state":
        return RUN_STATES
    if name == "model":
        from idwbench.runs.kinds.models import MODELS

        return tuple(MODELS)
    if name == "method":
        from idwbench.attention.scores import METHODS

        return tuple(METHODS)
    return ()
