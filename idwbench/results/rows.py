"""Conversion of rows: a configuration to columns, and a row to a `StoredRun`."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

from pydantic import ValidationError

from idwbench import __version__
from idwbench.errors import ConfigError, ResultsError
from idwbench.results.records import StoredRun
from idwbench.runs.config import RunConfig
from idwbench.runs.metrics import Metrics
from idwbench.runs.models import ModelConfig
from idwbench.runs.protocol import Protocol

__all__ = ["STORED_RUN_COLUMNS", "chunks", "package_versions", "planned_row", "stored_run"]

_Key = TypeVar("_Key")
# Fewer than the parameters that every SQLite accepts in one statement.
_CHUNK = 900

STORED_RUN_COLUMNS = (
    "run_key",
    "config",
    "dataset",
    "state",
    "n_parameters",
    "diverged_epoch",
    "error",
    "engine",
    "device",
    "threads",
    "host",
    "seconds",
    "started_at",
    "finished_at",
    "attempt",
    "data_sha256",
    "versions",
    "git",
    "cpu",
)
# The settings of the protocol that have a column of their own; `protocol` holds all of them.
_PROTOCOL_COLUMNS = ("epochs", "batch_size", "learning_rate", "optimizer", "schedule")


def chunks(keys: Sequence[_Key]) -> Iterator[Sequence[_Key]]:
    """Yield `keys` in parts that one statement accepts."""
    for start in range(0, len(keys), _CHUNK):
        yield keys[start : start + _CHUNK]


def planned_row(config: RunConfig, now: datetime) -> dict[str, Any]:
    """Return the row of a run that waits for its first start."""
    content = config.model_dump(mode="json")
    return {
        "run_key": config.run_key,
        "dataset": config.dataset_label,
        "dataset_name": config.dataset.name,
        "dataset_parameters": {k: v for k, v in content["dataset"].items() if k not in ("name", "path")},
        **_model_columns(config.model),
        **_protocol_columns(config.protocol, content["protocol"]),
        "seed": config.seed,
        "config": content,
        "state": "planned",
        "attempt": 0,
        "created_at": now,
    }


def _model_columns(model: ModelConfig) -> dict[str, Any]:
    """Return the columns of a model; NULL where its kind has no such setting."""
    content = model.model_dump(mode="json")
    parameters = content.get("parameters", {})
    return {
        "model": model.kind,
        "parameters": parameters,
        **{name: content.get(name) for name in ("method", "prototypes", "plugin_sha256")},
        **{name: parameters.get(name) for name in ("power", "epsilon")},
    }


def _protocol_columns(protocol: Protocol, content: dict[str, Any]) -> dict[str, Any]:
    return {"protocol": content, **{name: getattr(protocol, name) for name in _PROTOCOL_COLUMNS}}


def stored_run(row: Sequence[Any], metrics: Metrics) -> StoredRun:
    """Return the run of a row of `STORED_RUN_COLUMNS`, which has its configuration as JSON text.

    Raises:
        ResultsError: the configuration is not JSON, or not that of a run.
    """
    values = dict(zip(STORED_RUN_COLUMNS, row, strict=True))
    try:
        config = RunConfig.model_validate_json(values.pop("config"))
    except (ValidationError, ConfigError) as error:
        raise ResultsError(
            f"run {values['run_key'][:12]}: its stored configuration cannot be read: {_reason(error)}"
        ) from None
    return StoredRun(config=config, metrics=metrics, **values)


def _reason(error: ValidationError | ConfigError) -> str:
    if isinstance(error, ConfigError):
        return str(error)
    first = error.errors(include_url=False)[0]
    return ": ".join([*filter(None, [".".join(map(str, first["loc"]))]), first["msg"]])


@cache
def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that numbers depend on, without importing them."""
    from importlib.metadata import PackageNotFoundError, version

    versions = {"idwbench": __version__, "python": platform.python_version()}
    for name in ("numpy", "torch", "numba", "scikit-learn"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
