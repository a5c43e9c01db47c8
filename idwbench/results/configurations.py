"""Stored configurations, of which one is parsed for all runs that differ only in the seed."""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError

from idwbench.errors import ConfigError, ResultsError
from idwbench.runs.config import RunConfig

__all__ = ["Configurations"]


class Configurations:
    """Reads configurations from JSON text; what runs share is parsed once and is one object."""

    def __init__(self) -> None:
        self._settings: dict[str, RunConfig] = {}
        self._parts: dict[str, Any] = {}

    def read(self, run_key: str, text: str, seed: int) -> RunConfig:
        """Return the configuration of a run; see `setting`."""
        setting = self.setting(run_key, text, seed)
        return setting if setting.seed == seed else setting.with_seed(seed)

    def setting(self, run_key: str, text: str, seed: int) -> RunConfig:
        """Return the configuration of a run, or that of one that differs only in the seed.

        Args:
            run_key: The key, for messages.
            text: The stored JSON.
            seed: The stored seed.

        Raises:
            ResultsError: the configuration is not valid.
        """
        setting = _without_seed(text, seed)
        config = self._settings.get(setting)
        if config is None:
            config = self._settings[setting] = self._joined(run_key, text, seed)
        return config

    def _joined(self, run_key: str, text: str, seed: int) -> RunConfig:
        """Return a configuration, with the data set, model and protocol of earlier ones if their JSON is equal."""
        names = _part_names(text)
        if names is not None and all(name in self._parts for name in names.values()):
            parts = {part: self._parts[name] for part, name in names.items()}
            return RunConfig.model_construct(**parts, seed=seed)
        config = _parse(run_key, text)
        for part, name in (names or {}).items():
            config.__dict__[part] = self._parts.setdefault(name, getattr(config, part))
        return config


def _part_names(text: str) -> dict[str, str] | None:
    """Return a text for the data set, the model and the protocol, which equal ones share; None for JSON of no run."""
    try:
        content = json.loads(text)
        dataset, protocol, _ = (content.pop(name) for name in ("dataset", "protocol", "seed"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return {"dataset": f"dataset {dataset}", "model": f"model {content}", "protocol": f"protocol {protocol}"}


def _without_seed(text: str, seed: int) -> str:
    """Return the JSON of a run without its seed, or unchanged if the seed is not where the database writes it.

    SQLite has the names in alphabetical order, and PostgreSQL the shortest first.
    """
    if text.endswith(end := f'"seed":{seed}}}'):
        return text[: -len(end)]
    if text.startswith(start := f'{{"seed": {seed}, '):
        return text[len(start) :]
    return text


def _parse(run_key: str, text: str) -> RunConfig:
    try:
        return RunConfig.model_validate_json(text)
    except (ValidationError, ConfigError) as error:
        run = f"run {run_key[:12]}"
        raise ResultsError(f"{run}: its stored configuration cannot be read: {_reason(error)}") from None


def _reason(error: ValidationError | ConfigError) -> str:
    if isinstance(error, ConfigError):
        return str(error)
    first = error.errors(include_url=False)[0]
    return ": ".join([*filter(None, [".".join(map(str, first["loc"]))]), first["msg"]])
