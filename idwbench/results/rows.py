"""Conversion of a `RunConfig` to columns, and of a row to a `StoredRun`."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import fields
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

__all__ = ["STORED_RUN_COLUMNS", "chunks", "package_versions", "planned_row", "stored_run"]

_Key = TypeVar("_Key")
_CHUNK = 900  # SQLite may be limited to 999 parameters in one statement

STORED_RUN_COLUMNS = tuple(field.name for field in fields(StoredRun) if field.name != "metrics")
# Settings of the protocol with a column of their own.
_PROTOCOL_COLUMNS = ("epochs", "batch_size", "learning_rate", "optimizer", "schedule")


def chunks(keys: Sequence[_Key]) -> Iterator[Sequence[_Key]]:
    """Yield `keys` in parts that are short enough for one statement."""
    for start in range(0, len(keys), _CHUNK):
        yield keys[start : start + _CHUNK]


def planned_row(config: RunConfig, now: datetime) -> dict[str, Any]:
    """Return the row of a planned run."""
    content = config.model_dump(mode="json")
    return {
        "run_key": config.run_key,
        "dataset": config.dataset_label,
        "dataset_name": config.dataset.name,
        "dataset_parameters": {k: v for k, v in content["dataset"].items() if k not in ("name", "path")},
        **_model_columns(config.model),
        "protocol": content["protocol"],
        **{name: getattr(config.protocol, name) for name in _PROTOCOL_COLUMNS},
        "seed": config.seed,
        "config": content,
        "state": "planned",
        "attempt": 0,
        "created_at": now,
    }


def _model_columns(model: ModelConfig) -> dict[str, Any]:
    """Return the columns of a model; NULL for settings that it does not have."""
    content = model.model_dump(mode="json")
    parameters = content.get("parameters", {})
    return {
        "model": model.kind,
        "parameters": parameters,
        **{name: content.get(name) for name in ("method", "prototypes", "plugin_sha256")},
        **{name: parameters.get(name) for name in ("power", "epsilon")},
    }


def stored_run(row: Sequence[Any], metrics: Metrics) -> StoredRun:
    """Return the run of a row of `STORED_RUN_COLUMNS`, with the configuration as JSON text.

    Raises:
        ResultsError: the configuration is not valid.
    """
    values = dict(zip(STORED_RUN_COLUMNS, row, strict=True))
    try:
        config = RunConfig.model_validate_json(values.pop("config"))
    except (ValidationError, ConfigError) as error:
        run = f"run {values['run_key'][:12]}"
        raise ResultsError(f"{run}: its stored configuration cannot be read: {_reason(error)}") from None
    return StoredRun(config=config, metrics=metrics, **values)


def _reason(error: ValidationError | ConfigError) -> str:
    if isinstance(error, ConfigError):
        return str(error)
    first = error.errors(include_url=False)[0]
    return ": ".join([*filter(None, [".".join(map(str, first["loc"]))]), first["msg"]])


@cache
def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on, without importing them."""
    from importlib.metadata import PackageNotFoundError, version

    versions = {"idwbench": __version__, "python": platform.python_version()}
    for name in ("numpy", "torch", "numba", "scikit-learn"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
