"""Conversion of a `RunConfig` and of arrays to columns, and of a row to a `StoredRun`."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import fields
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from idwbench import __version__
from idwbench.errors import ConfigError, ResultsError
from idwbench.results.records import StoredRun
from idwbench.runs.config import RunConfig
from idwbench.runs.metrics import Metrics
from idwbench.runs.models import ModelConfig

__all__ = [
    "STORED_RUN_COLUMNS",
    "chunks",
    "dataset_columns",
    "pack_array",
    "package_versions",
    "planned_row",
    "stored_run",
    "unpack_array",
]

_Key = TypeVar("_Key")
_CHUNK = 900  # SQLite may be limited to 999 parameters in one statement

STORED_RUN_COLUMNS = tuple(field.name for field in fields(StoredRun) if field.name != "metrics")
# Settings of the protocol with a column of their own.
_PROTOCOL_COLUMNS = ("epochs", "batch_size", "learning_rate", "optimizer", "schedule")


def chunks(keys: Sequence[_Key]) -> Iterator[Sequence[_Key]]:
    """Yield `keys` in parts that are short enough for one statement."""
    for start in range(0, len(keys), _CHUNK):
        yield keys[start : start + _CHUNK]


def planned_row(run_key: str, config: RunConfig, now: datetime) -> dict[str, Any]:
    """Return the row of a planned run."""
    content = config.model_dump(mode="json")
    return {
        "run_key": run_key,
        **dataset_columns(config),
        **_model_columns(config.model),
        "protocol": content["protocol"],
        **{name: getattr(config.protocol, name) for name in _PROTOCOL_COLUMNS},
        "seed": config.seed,
        "config": content,
        "state": "planned",
        "attempt": 0,
        "created_at": now,
    }


def dataset_columns(config: RunConfig) -> dict[str, Any]:
    """Return the columns of the data set; its parameters are without the path of a file."""
    return {
        "dataset": config.dataset_label,
        "dataset_name": config.dataset.name,
        "dataset_parameters": config.dataset.model_dump(mode="json", exclude={"name", "path"}),
    }


def _model_columns(model: ModelConfig) -> dict[str, Any]:
    """Return the columns of a model; NULL for settings that it does not have, or that a rule chooses."""
    content = model.model_dump(mode="json")
    parameters = content.get("parameters", {})
    numbers = {name: value for name, value in parameters.items() if not isinstance(value, str)}
    return {
        "model": model.kind,
        "parameters": parameters,
        "method": model.method,
        **{name: content.get(name) for name in ("prototypes", "plugin_sha256")},
        **{name: numbers.get(name) for name in ("power", "epsilon")},
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


def pack_array(name: str, array: NDArray[np.generic]) -> bytes:
    """Return `array` as the bytes of a safetensors file with this one array."""
    from safetensors.numpy import save

    return save({name: np.ascontiguousarray(array)})


def unpack_array(name: str, data: bytes) -> NDArray[np.generic]:
    """Return the array that `pack_array` wrote.

    Raises:
        ResultsError: the bytes are not a safetensors file with an array of that name.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return load(data)[name]
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ResultsError(f"the stored array '{name}' cannot be read: {error}") from None
