"""Conversion of a `RunConfig` to the columns of a planned run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Dialect

from idwbench.results.engines import to_json
from idwbench.results.statements import converted
from idwbench.results.tables import runs
from idwbench.runs.config import RunConfig
from idwbench.runs.kinds.models import ModelConfig

__all__ = ["PLANNED_COLUMNS", "dataset_columns", "planned_rows"]

# Settings of the protocol with a column of their own.
_PROTOCOL_COLUMNS = ("epochs", "batch_size", "learning_rate", "optimizer", "schedule")
# Those that runs of one setting share, and those of one run.
_SHARED_COLUMNS = (
    *("dataset", "dataset_name", "dataset_parameters", "model", "parameters", "method", "prototypes", "plugin_sha256"),
    *("power", "epsilon", "protocol", *_PROTOCOL_COLUMNS, "state", "attempt", "created_at"),
)
PLANNED_COLUMNS = (*_SHARED_COLUMNS, "run_key", "seed", "config")


def planned_rows(configs: Mapping[str, RunConfig], now: datetime, dialect: Dialect) -> list[tuple[Any, ...]]:
    """Return the rows of planned runs, by their keys, as the driver takes them, with `PLANNED_COLUMNS`.

    What runs of one setting share is computed once: conversions by SQLAlchemy and JSON take longer than the insert.
    """
    settings: dict[str, tuple[tuple[Any, ...], str, str]] = {}
    rows = []
    for run_key, config in configs.items():
        setting = config.setting_key
        if setting not in settings:
            settings[setting] = (_shared_values(config, now, dialect), *_json_around_seed(config))
        shared, before, after = settings[setting]
        rows.append((*shared, run_key, config.seed, f"{before}{config.seed}{after}"))
    return rows


def _shared_values(config: RunConfig, now: datetime, dialect: Dialect) -> tuple[Any, ...]:
    columns = {
        **dataset_columns(config),
        **_model_columns(config.model),
        "protocol": config.protocol.model_dump(mode="json"),
        **{name: getattr(config.protocol, name) for name in _PROTOCOL_COLUMNS},
        "state": "planned",
        "attempt": 0,
        "created_at": now,
    }
    return tuple(converted(runs.c[name], columns[name], dialect) for name in _SHARED_COLUMNS)


def _json_around_seed(config: RunConfig) -> tuple[str, str]:
    """Return the JSON of a run, with sorted keys, before and after its seed."""
    content = config.model_dump(mode="json")
    before = to_json({name: value for name, value in content.items() if name < "seed"})
    after = to_json({name: value for name, value in content.items() if name > "seed"})
    return f'{before[:-1]},"seed":', f",{after[1:]}" if after != "{}" else "}"


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
