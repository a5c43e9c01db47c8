"""Between rows and frozen values: a configuration as columns, and a row as a `StoredRun`."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Row

from idwbench import __version__
from idwbench.config import RunConfig
from idwbench.errors import ResultsError
from idwbench.results.records import StoredRun

__all__ = ["STORED_RUN_COLUMNS", "chunks", "package_versions", "planned_row", "stored_run"]

# Well below the number of parameters that any SQLite takes in one statement.
_CHUNK = 900

STORED_RUN_COLUMNS = (
    "run_key",
    "config",
    "dataset",
    "state",
    "train_accuracy",
    "test_accuracy",
    "holdout_accuracy",
    "n_features",
    "n_classes",
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
)


def chunks(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    """Cut `keys` into parts that one statement can take."""
    for start in range(0, len(keys), _CHUNK):
        yield keys[start : start + _CHUNK]


def planned_row(config: RunConfig, now: datetime) -> dict[str, Any]:
    """Return the row of a run that waits for its first start."""
    content = config.model_dump(mode="json")
    dataset = {name: value for name, value in content["dataset"].items() if name not in ("name", "path")}
    return {
        "run_key": config.run_key,
        "dataset": config.dataset_label,
        "dataset_name": config.dataset.name,
        "dataset_parameters": dataset,
        "method": config.method,
        "prototypes": config.prototypes,
        "power": config.parameters.get("power"),
        "epsilon": config.parameters.get("epsilon"),
        "parameters": content["parameters"],
        "plugin_sha256": config.plugin_sha256,
        **content["protocol"],
        "seed": config.seed,
        "config": content,
        "state": "planned",
        "attempt": 0,
        "created_at": now,
    }


def stored_run(row: Row[*tuple[Any, ...]]) -> StoredRun:
    """Return the run that a row of `STORED_RUN_COLUMNS` holds, its configuration as JSON text.

    Raises:
        ResultsError: the configuration is no JSON, or not one of a run.
    """
    values = dict(zip(STORED_RUN_COLUMNS, row, strict=True))
    try:
        values["config"] = RunConfig.model_validate_json(values["config"])
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(word) for word in first["loc"])
        raise ResultsError(
            f"run {values['run_key'][:12]}: its stored configuration cannot be read ({place + ': ' if place else ''}"
            f"{first['msg']})"
        ) from None
    return StoredRun(**values)


@cache
def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that numbers depend on, without importing them."""
    versions = {"idwbench": __version__, "python": platform.python_version()}
    for name in ("numpy", "torch", "numba", "scikit-learn"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
